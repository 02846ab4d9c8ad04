"""A45, A48, A49 of the whole: at most four cache breakpoints, and never a longer one after a shorter one.

A breakpoint too many is dropped from the earliest message: the latest ones reach furthest, and those on tools and
system are what every request shares. (A46, A47 and A49 live in `content`, with the blocks.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.wire.anthropic.rules.blocks import Block, blocks, numbered, with_blocks, without
from ebbtide.wire.anthropic.rules.content import is_mark
from ebbtide.wire.findings import Finding, Json, Log

MOST = 4
_MALFORMED = "cache_control: Input should be 'ephemeral' with ttl '5m' or '1h'"


@dataclass(frozen=True, slots=True)
class _Mark:
    part: str
    """`tools`, `system` or `messages`, in the order the provider reads them."""
    at: int
    block: int
    ttl: str

    @property
    def path(self) -> str:
        inside = f".content.{self.block}" if self.part == "messages" else ""
        return f"{self.part}.{self.at}{inside}.cache_control"


def broken(body: Mapping[str, Json], since: int, accepted: int | None) -> Iterator[Finding]:
    if _automatic(body) and not is_mark(body["cache_control"]):
        yield Finding("A49", "cache_control", _MALFORMED)
    if accepted is not None and _harmless(list(_marks(body, since)), accepted + _automatic(body)):
        return
    breakpoints = list(_marks(body))
    count = len(breakpoints) + _automatic(body)
    if count > MOST:
        message = f"A maximum of 4 blocks with cache_control may be provided. Found {count}."
        yield Finding("A45", breakpoints[0].path, message)
    yield from (
        Finding("A48", f"{breakpoint.path}.ttl", "a ttl='1h' cache_control block must not come after a ttl='5m' block.")
        for breakpoint in _too_long(breakpoints)
    )


def _harmless(new: Sequence[_Mark], before: int) -> bool:
    """With so many in the accepted part, these exceed no number and, all of the shorter kind, no order."""
    return len(new) + before <= MOST and all(mark.ttl == "5m" for mark in new if mark.part == "messages")


def trimmed(body: Mapping[str, Json], log: Log) -> Mapping[str, Json]:
    if _automatic(body) and not is_mark(body["cache_control"]):
        log.note("A49", "cache_control", _MALFORMED, "mark dropped")
        body = {key: value for key, value in body.items() if key != "cache_control"}
    breakpoints = list(_marks(body))
    surplus = max(0, len(breakpoints) + _automatic(body) - MOST)
    surplus_breakpoints = sorted(breakpoints, key=lambda breakpoint: breakpoint.part != "messages")[:surplus]
    for mark in surplus_breakpoints:
        log.note("A45", mark.path, "A maximum of 4 blocks with cache_control may be provided.", "mark dropped")
        body = _edited(body, mark, without(_block(body, mark), "cache_control"))
    for mark in _too_long([mark for mark in breakpoints if mark not in surplus_breakpoints]):
        log.note("A48", f"{mark.path}.ttl", "a ttl='1h' block must not come after a ttl='5m' block", "shortened")
        block = _block(body, mark)
        body = _edited(body, mark, {**block, "cache_control": {**block["cache_control"], "ttl": "5m"}})
    return body


def _automatic(body: Mapping[str, Json]) -> int:
    """The top-level marker takes one of the four places."""
    return int(body.get("cache_control") is not None)


def _marks(body: Mapping[str, Json], since: int = 0) -> Iterator[_Mark]:
    for part in ("tools", "system"):
        blocks_here = body.get(part)
        for at, block in enumerate(blocks_here if isinstance(blocks_here, list) else ()):
            if isinstance(block, dict) and block.get("cache_control") is not None:
                yield _Mark(part, at, 0, _ttl(block))
    for at, message in numbered(body["messages"], since):
        for index, block in enumerate(blocks(message)):
            if block.get("cache_control") is not None:
                yield _Mark("messages", at, index, _ttl(block))


def _ttl(block: Block) -> str:
    mark = block["cache_control"]
    return "1h" if isinstance(mark, dict) and mark.get("ttl") == "1h" else "5m"


def _too_long(breakpoints: Sequence[_Mark]) -> list[_Mark]:
    """A48: whatever lasts an hour after the first that lasts five minutes."""
    first = next((index for index, breakpoint in enumerate(breakpoints) if breakpoint.ttl == "5m"), len(breakpoints))
    return [mark for mark in breakpoints[first:] if mark.ttl == "1h"]


def _block(body: Mapping[str, Json], mark: _Mark) -> Block:
    if mark.part == "messages":
        return blocks(body["messages"][mark.at])[mark.block]
    block: Block = body[mark.part][mark.at]
    return block


def _edited(body: Mapping[str, Json], mark: _Mark, block: Block) -> Mapping[str, Json]:
    part = list(body[mark.part])
    if mark.part == "messages":
        parts = blocks(part[mark.at])
        parts[mark.block] = block
        part[mark.at] = with_blocks(part[mark.at], parts)
    else:
        part[mark.at] = block
    return {**body, mark.part: part}
