"""One record, one line, and a chain through all of them.

A line that we write ends in `"ebbsum":"<sum before><mark><own sum>"`. The own sum covers the sum before, the mark and
all bytes of the line up to the key, so a line proves itself, and its link proves its place. The mark is `.` on the last
line of a commit and `+` on the others: a commit counts whole or not at all. Lines without a sum (another program's)
are read, counted as unchecked, and their bytes enter the chain.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ebbtide.core.errors import StoreError
from ebbtide.core.text.pluralize import pluralize

Record = dict[str, object]
"""One JSON object, one line."""

SUM = "ebbsum"
"""The store's own key, last in a line. It is added on writing and taken off on reading."""

STORE = "store"
"""The key that marks the store's own records (`type: "ebb"`): the header, blob sums, forks, ends that were cut off."""

_KEY = f'"{SUM}":"'.encode()
# 16 hexadecimal digits, 64 bits: against damage, not against a forger, who could recompute any unkeyed chain.
_TRAILER = re.compile(rb'"ebbsum":"([0-9a-f]{16})([.+])([0-9a-f]{16})"\}')
_TRAILER_BYTES = len(_KEY) + 16 + 1 + 16 + 2
TAIL = _TRAILER_BYTES + 1
_MOST_DIGITS = 4300  # where Python's int() refuses a decimal literal

Kind = Literal["torn", "altered", "unreadable", "gap", "unfinished"]
"""`torn`: the last write was cut short. `altered`: the checksum is wrong. `unreadable`: not a JSON object. `gap`:
whole, but not after the line it was written after. `unfinished`: whole, but its commit is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place between two commits."""

    offset: int = 0
    """Bytes before it."""
    lines: int = 0
    sum: str = "0" * 16
    """The chain up to here; a text position alone would not notice that the file was exchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    kind: Kind
    line: int
    """Counted from 1."""
    offset: int
    reason: str
    raw: bytes = field(repr=False)
    """The bytes as found. Nothing is thrown away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """What a log holds, or what was added to it. Damaged lines are left out of `records` and listed in `damage`."""

    records: list[Record] = field(default_factory=list)
    position: Position = field(default_factory=Position)
    damage: tuple[Damage, ...] = ()
    header: Record | None = None
    """Our own first line: session, project, time. None in another program's file."""
    blob_sums: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 by blob name, as recorded when it was put."""
    unchecked_lines: int = 0
    """Lines without a sum."""
    lost_ends: tuple[Record, ...] = ()
    """Records of ends that were once cut off, and what they went on from."""


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_commit(records: Sequence[Record], start: Position) -> tuple[bytes, Position]:
    """The bytes of one commit, and where the log then ends."""
    chain, lines = start.sum.encode(), []
    bodies = [_body(record) for record in records]
    for left, body in zip(range(len(bodies) - 1, -1, -1), bodies, strict=True):
        mark = b"+" if left else b"."
        stem = body[:-1] + (b"," if len(body) > len("{}") else b"")
        own = _sum(chain, mark, stem)
        lines.append(stem + _KEY + chain + mark + own + b'"}\n')
        chain = own
    data = b"".join(lines)
    end = Position(offset=start.offset + len(data), lines=start.lines + len(lines), sum=chain.decode())
    return data, end


LogSink = Callable[[list[Record]], None]
"""Is given the records of a log some at a time, in order, and may keep what it needs of them."""
_HANDFUL = 256
"""Records that a `Take` is given at once: some hundred kilobytes."""


def scan(chunks: Iterable[bytes], start: Position) -> ReadResult:
    """Read on from a position. It stops before a commit that is not whole, which it reports as torn."""
    state = _Scan(start, _parse)
    for raw, whole in _lines(chunks):
        if whole:
            state.line(raw)
        else:
            state.finish(raw)
    return state.reading()


def scan_for_resume(chunks: Iterable[bytes], start: Position, take: LogSink) -> ReadResult:
    """As `scan`, with the same checks, for one who goes on with a session: bounded in memory, whatever was said.

    Of a message of ours only its place in the tree is told (`parentUuid`, `uuid`, `ebbids`), not its words. `take` gets
    the records, and the reading that is returned has none.
    """
    state = _Scan(start, _place)
    for raw, whole in _lines(chunks):
        if whole:
            state.line(raw)
        else:
            state.finish(raw)
        if not whole or len(state.records) >= _HANDFUL:
            take(state.records)
            state.records = []
    return state.reading()


def read_header(start: bytes) -> Record | None:
    """Our header, if that is what the first line is."""
    line, _, _ = start.partition(b"\n")
    record = _parse(line)
    return record if record and record.get("type") == "ebb" and record.get(STORE) == "session" else None


def ends_whole(tail: bytes) -> bool:
    """Whether the last `TAIL` bytes of a log end a commit or another program's line. A glance, not a check."""
    found = _TRAILER.fullmatch(tail[:-1][-_TRAILER_BYTES:])
    return tail[-1:] == b"\n" and not (found and found[2] == b"+")


def sum_at_end(tail: bytes) -> str:
    """The own sum of the line that these bytes end with, if it is one of ours and ends a commit; else empty."""
    found = _TRAILER.fullmatch(tail[:-1][-_TRAILER_BYTES:])
    return found[3].decode() if found and found[2] == b"." and tail[-1:] == b"\n" else ""


class _Scan:
    def __init__(self, start: Position, parse: Callable[[bytes], Record | None]) -> None:
        self.records: list[Record] = []
        self.damage: list[Damage] = []
        self.header: Record | None = None
        self.blobs: dict[str, str] = {}
        self.unchecked = 0
        self.lost: list[Record] = []
        self._parse = parse
        self._settled = (start.offset, start.lines, start.sum.encode())
        self._offset, self._count, self._chain = start.offset, start.lines, start.sum.encode()
        self._sound = True
        """False after a damaged line: that the next one does not link to it is then no news."""
        self._group: list[tuple[_Line | None, Record | None]] = []
        """Lines of the commit being read, each with its place should it never end; None for another program's."""
        self._closed = False
        """The last line was too damaged to say whether it ended the commit; if a line of ours follows, it did."""
        self._doubted = False
        """An empty or foreign line stands within the commit. If the next of ours links to it, its writer saw that the
        commit had not ended; if not, it came in later."""

    def line(self, raw: bytes) -> None:
        found = _TRAILER.fullmatch(raw, max(0, len(raw) - _TRAILER_BYTES))
        if found:
            self._signed(raw, *found.groups())
        else:
            self._unsigned(raw)

    def reading(self) -> ReadResult:
        offset, lines, chain = self._settled
        return ReadResult(
            records=self.records,
            position=Position(offset=offset, lines=lines, sum=chain.decode()),
            damage=tuple(self.damage),
            header=self.header,
            blob_sums=self.blobs,
            unchecked_lines=self.unchecked,
            lost_ends=tuple(self.lost),
        )

    def finish(self, rest: bytes) -> None:
        self._decide(self._doubted)
        raw = b"".join(line[2] + b"\n" for line, _ in self._group if line) + rest
        if not raw:
            return
        offset, lines, _ = self._settled
        reason = f"the last write was cut short: {pluralize(len(raw), 'byte')} of no whole commit"
        self.damage.append(Damage(kind="torn", line=lines + 1, offset=offset, reason=reason, raw=raw))

    def _signed(self, raw: bytes, before: bytes, mark: bytes, own: bytes) -> None:
        intact = _sum(before, mark, raw[:-_TRAILER_BYTES]) == own
        if self._closed or self._doubted:
            self._decide(self._doubted and intact and before == self._chain)
        record = self._parse(raw) if intact else None
        if record is None or before != self._chain:
            self._suspect(raw, intact, record is not None)
        self._group.append(((self._count + 1, self._offset, raw), record))
        self._step(raw, own, sound=intact)
        self._closed = not intact  # the mark may be what was altered
        if mark == b".":
            self._flush()
            self._settled = (self._offset, self._count, self._chain)

    def _suspect(self, raw: bytes, intact: bool, readable: bool) -> None:
        """A line of ours that is altered, cannot be read, or does not link to the one before."""
        if not intact:
            self._report("altered", "the checksum does not match the line", raw)
        elif not readable:
            self._report("unreadable", "the line is not a JSON object that can be read", raw)
        elif self._sound:
            self._report("gap", "lines before this one are missing, changed or out of place", raw)

    def _unsigned(self, raw: bytes) -> None:
        record = None if _nearly_ours(raw) else _parse(raw)
        foreign = not raw.strip() or (record is not None and SUM not in record)
        if not foreign:
            kind: Kind = "unreadable" if record is None else "altered"
            self._report(kind, "the line is neither one that we wrote nor a JSON object", raw)
            self._closed = bool(self._group)
            if self._group:
                self._group.append(((self._count + 1, self._offset, raw), None))
        else:
            self.unchecked += 1
            self._doubted = bool(self._group)
            self._group.append((None, record))
            if not self._doubted:
                self._flush()
        self._step(raw, _sum(self._chain, b"?", raw), sound=foreign)
        if not self._group:
            self._settled = (self._offset, self._count, self._chain)

    def _decide(self, unfinished: bool) -> None:
        """Whether the lines of a commit that has no readable last line count."""
        if not self._closed and not self._doubted:
            return
        if unfinished:
            self.damage += [_unfinished(line) for line, record in self._group if line and record is not None]
            self._group = [(line, record) for line, record in self._group if line is None]
        self._flush()
        self._settled = (self._offset, self._count, self._chain)

    def _flush(self) -> None:
        for ours, record in self._group:
            if record is None:
                continue
            record.pop(SUM, None)
            if ours and record.get("type") == "ebb" and STORE in record:
                self._own(record)
            else:
                self.records.append(record)
        self._group, self._closed, self._doubted = [], False, False

    def _own(self, record: Record) -> None:
        if record[STORE] == "session" and self.header is None:
            self.header = record
        if record[STORE] == "blob":
            self.blobs[str(record.get("name"))] = str(record.get("sha256"))
        if record[STORE] == "lost":
            self.lost.append(record)

    def _step(self, raw: bytes, chain: bytes, *, sound: bool) -> None:
        self._offset, self._count = self._offset + len(raw) + 1, self._count + 1
        self._chain, self._sound = chain, sound

    def _report(self, kind: Kind, reason: str, raw: bytes) -> None:
        found = Damage(kind=kind, line=self._count + 1, offset=self._offset, reason=reason, raw=raw)
        self.damage.append(found)


_Line = tuple[int, int, bytes]
"""Its number, where it begins, and its bytes."""


def _unfinished(line: _Line) -> Damage:
    number, offset, raw = line
    reason = "the commit it belongs to was never finished"
    return Damage(kind="unfinished", line=number, offset=offset, reason=reason, raw=raw)


def _sum(before: bytes, mark: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(before + mark + body, digest_size=8).hexdigest().encode()


def _nearly_ours(raw: bytes) -> bool:
    """True for a sum whose own bytes are damaged: it must not pass for another program's line."""
    key = raw[-_TRAILER_BYTES : len(_KEY) - _TRAILER_BYTES]
    # Two of ten bytes: no key of another program's comes that close in that place by chance.
    return len(key) == len(_KEY) and sum(a != b for a, b in zip(key, _KEY, strict=True)) <= 2


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each line, then the rest after the last newline. Only the newline byte ends a line: U+2028 and others do not."""
    held: list[bytes] = []
    for chunk in chunks:
        first, *more = chunk.split(b"\n")
        held.append(first)
        for part in more:
            yield b"".join(held), True
            held = [part]
    yield b"".join(held), False


def _body(record: Record) -> bytes:
    bare = {key: value for key, value in record.items() if key != SUM} if SUM in record else record
    try:
        return _dump(bare)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"a record cannot be written as JSON: {error}") from error


def _dump(record: Record) -> bytes:
    """UTF-8; a record with a lone surrogate, which UTF-8 cannot hold, is escaped to ASCII."""
    try:
        text = _ENCODE(record)
    except ValueError:
        text = _dump_huge(record)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return re.sub(r"[\ud800-\udfff]", lambda lone: f"\\u{ord(lone[0]):04x}", text).encode()


def _dump_huge(record: Record) -> str:
    """Integers too long for `str` go in as tokens that no text can hold by chance, and are then replaced."""
    import decimal  # noqa: PLC0415 - for numbers that hardly anybody has

    tokens: dict[str, str] = {}

    def swap(value: object) -> object:
        if isinstance(value, dict):
            return {key: swap(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [swap(inner) for inner in value]
        if isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS:
            token = f'"{os.urandom(16).hex()}"'
            tokens[token] = format(decimal.Decimal(value), "f")
            return token[1:-1]
        return value

    text = _ENCODE(swap(record))
    for token, digits in tokens.items():
        text = text.replace(token, digits)
    return text


_DECODE = json.JSONDecoder().decode


def _parse(raw: bytes) -> Record | None:
    try:
        text = raw.decode()
        value = _DECODE(text)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        return None
    except ValueError:  # an integer over Python's limit for decimal literals
        value = json.loads(text, parse_int=_long_int)
    return value if isinstance(value, dict) else None


_FIRST = re.compile(rb'\{"parentUuid":(?:null|"([0-9a-f-]{36})"),')
_IDS = b',"ebbids":['
_LAST = re.compile(
    rb',"ebbids":\[((?:"[\w.-]+",?)*)\](?:,"ebbwire":"\w+")?,"uuid":"([0-9a-f-]{36})","timestamp":"[^"\\]*",'
)


def _place(raw: bytes) -> Record | None:
    """A message of ours without its words, which need not be read for that; any other record whole.

    The keys that we put last are read from the end. That they are the record's own follows from the grammar: no brace
    is between them and the record's last one, and no quote stands bare inside a string.
    """
    first = _FIRST.match(raw)
    last = _LAST.fullmatch(raw, raw.rfind(_IDS), len(raw) - _TRAILER_BYTES) if first else None
    if first is None or last is None or b'"microcompactMetadata"' in raw:
        return _parse(raw)
    ids = last[1].decode().replace('"', "").split(",") if last[1] else []
    return {"parentUuid": first[1].decode() if first[1] else None, "uuid": last[2].decode(), "ebbids": ids}


def _long_int(digits: str) -> int:
    import decimal  # noqa: PLC0415 - as above

    return int(digits) if len(digits) <= _MOST_DIGITS else int(decimal.Decimal(digits))
