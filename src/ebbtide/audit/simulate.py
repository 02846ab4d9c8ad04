"""What a policy would have done to a recorded conversation, call by call. Everything happens in memory.

The recorded usage is the truth only while nothing was taken out: after the first edit the provider would have billed
another request, so from there on tokens are estimated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

from ebbtide.audit.history import History, build_history
from ebbtide.core.errors import WontFit
from ebbtide.formats import RecordedCall
from ebbtide.policy import Policy
from ebbtide.runtime.driver import run
from ebbtide.runtime.session import SessionSettings, open_session, prepare_and_commit
from ebbtide.state.session_state import ebb_record
from ebbtide.store import Log, open_store
from ebbtide.wire import WIRES

_PACE = 10.0  # seconds between calls where the file has no times: within any cache's lifetime


def simulate(
    calls: Iterable[RecordedCall], *, name: str, wire: str, policy: Policy, window: int
) -> tuple[History, Log]:
    """The calls of one conversation, and the log that came of them: what left can be read back from it."""
    log = open_store(None).open(name, now=0.0)
    session = open_session(SessionSettings(policy=policy, window=window, wire=WIRES[wire]), log)
    refusals: list[str] = []
    now = 0.0
    for number, call in enumerate(calls, 1):
        now = max(now + 0.001, call.at if call.at is not None else now + _PACE)
        try:
            ready = run(prepare_and_commit(session, call.request, now=now), log)
        except WontFit as refused:
            refusals.append(f"call {number}: {refused}")
            continue
        if call.usage is None:
            continue
        if not ready.report.held:
            run(session.record_reply((), call.usage, ready, now=now), log)
        # For the books alone: it anchors nothing, being the bill of another request where an edit holds.
        run(session.append_record(ebb_record("recorded", turn=ready.turn, at=now, **asdict(call.usage)), now=now), log)
    history = build_history(log.read().records, session=name, name=name, stored=False)
    return replace(history, refusals=tuple(refusals)), log
