"""From a view to the body that goes out: written, hardened, marked. Only what is new is written again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.core.marks import Place, Strategy
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from ebbtide.wire.reading import Request, write
from ebbtide.wire.shape import grouped
from ebbtide.wire.validity import Repair, harden


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """What went out, kept to extend it next time."""

    edits: tuple[Edit, ...]
    entries: int
    written: list[Any]
    """Messages before hardening."""
    chain: tuple[str, ...]
    """Chained hash after each message."""
    tokens: tuple[int, ...]
    """Of each message."""
    calls: frozenset[str] | set[str]
    """Ids of calls so far, for the hardener."""
    tree: Mapping[str, Any]
    repairs: tuple[Repair, ...]
    marks: tuple[Place, ...] = ()


def project(request: Request, view: View, last: Projection | None) -> Projection:
    """Write and harden a view. Where it extends the last one, and that needed no repair, only the new part is."""
    grows = last is not None and last.edits is view.edits and not last.repairs and last.entries <= len(view.entries)
    if last is None or not grows or not _extends(request, view, last):
        last = _NOTHING
    new = view.entries[last.entries :]
    written = last.written + write(request, view, since=last.entries)
    chain, tokens = _chained(last.chain[-1] if last.chain else "", new)
    tree: Mapping[str, Any] = request.body.tree
    if view.owner:
        tree = {**tree, request.wire.key: written}
    since = max(0, len(last.written) - 1)
    tree, repairs = harden(_name(request), tree, since=since, taken=last.calls)
    calls = set(last.calls)
    calls.update(entry.call_id for entry in new if entry.kind == "call")
    return Projection(
        edits=view.edits,
        entries=len(view.entries),
        written=written,
        chain=last.chain + chain,
        tokens=last.tokens + tokens,
        calls=calls,
        tree=tree,
        repairs=repairs,
    )


_NOTHING = Projection(
    edits=(), entries=0, written=[], chain=(), tokens=(), calls=frozenset(), tree={}, repairs=()
)  # fmt: skip


def _extends(request: Request, view: View, last: Projection) -> bool:
    """The last entry that went out still stands there, so all before it do: the reader kept the items it knew."""
    if last.entries == 0:
        return True
    return request.same >= len(view.items) - (len(view.entries) - last.entries)


def _name(request: Request) -> Any:
    return request.wire.name


def _chained(link: str, entries: Sequence[Item]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """An entry's id says all of its content, so the ids of a message chain instead of its bytes."""
    chain, tokens = [], []
    for _, group in grouped(entries):
        told = "\0".join([link, *(entry.id for entry in group)])
        link = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
        chain.append(link)
        tokens.append(sum(entry.tokens for entry in group))
    return tuple(chain), tuple(tokens)


def marked(request: Request, made: Projection, strategy: Strategy) -> tuple[Mapping[str, Any], tuple[Place, ...]]:
    """The body with breakpoints where the strategy wants them, beside the client's own."""
    messages = made.tree[request.wire.key]
    if len(messages) != len(made.tokens):
        # Hardening merged or added messages: spread evenly, since only sums and order matter here.
        share = sum(made.tokens) // max(1, len(messages))
        tokens: Sequence[int] = [share] * len(messages)
    else:
        tokens = made.tokens
    system, tools = request.overhead
    places = request.wire.places(made.tree, tokens, (tools, system))
    chosen = strategy(places, model=request.model)
    return (request.wire.mark(made.tree, chosen), chosen) if chosen else (made.tree, ())
