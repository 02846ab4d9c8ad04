"""The last good projection: recorded edits on a body, and nothing else. No lock, no log, no plan, no memory.

For requests that must not change a session (a count, a client's own compaction), and for when something of ours broke.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ebbtide.core.types import Edit
from ebbtide.core.view import View
from ebbtide.policy import Policy
from ebbtide.runtime.outgoing import add_breakpoints, write_outgoing
from ebbtide.wire import WIRES, detect
from ebbtide.wire.body import read_body
from ebbtide.wire.echoes import EchoedEdits
from ebbtide.wire.reader import Reader


class ReappliedRequest(NamedTuple):
    body: Any
    """In the form it came in; the very same object where no edit holds."""
    tokens: int
    """As the policy's estimator counts, no ratio applied."""
    tokens_untouched: int
    edited: bool


def reapply_edits(
    body: Mapping[str, Any] | bytes | str, edits: Sequence[Edit], *, policy: Policy, wire: str | None = None
) -> ReappliedRequest:
    """What `prepare` would send if it had nothing to add to these edits."""
    read = read_body(body, None)
    found = WIRES[wire] if wire else detect(read.tree)
    request = Reader(policy.estimator, wire=found, echoes=EchoedEdits().learn(found, edits).by_fingerprint).read(read)
    if request.partial_history_reason:
        return ReappliedRequest(body, 0, 0, False)
    view = View.of(request.items, edits)
    made = write_outgoing(request, view, None)
    tree = made.tree
    if policy.marks is not None and view.has_edits:
        tree, _ = add_breakpoints(request, made, policy.marks)
    around = sum(request.overhead)
    whole = sum(item.tokens for item in view.originals)
    return ReappliedRequest(request.body.emit(tree), view.tokens + around, whole + around, view.has_edits)
