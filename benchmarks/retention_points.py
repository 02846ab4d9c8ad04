"""The recorded compaction points: the history before, the client's own summary, and what was needed next.

`ebbtide.replay.touched_files` says which files were changed or read, from the recorded calls alone.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.tool_calls import argument_strings
from ebbtide.core.types import Item
from ebbtide.formats import Recording, load
from ebbtide.formats.steps import RecordedCall
from ebbtide.replay.message_index import IDENTIFIER
from ebbtide.replay.touched_files import find_touched_files
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader

NEXT = 30
"""Number of calls after the point whose output counts."""

_WORD = re.compile(r"[A-Za-z][a-z]*(?:-[a-z]+)*[-./]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A place where the client compacted."""

    session: str
    format: str
    half: str
    """`fit` if the manifest's sha256 is even, else `report`."""
    request: Mapping[str, object]
    """The request that the client would have sent without compacting."""
    wire: str
    items: tuple[Item, ...]
    """The same, read."""
    left: str
    """The summary of the client's own compaction."""
    changed: frozenset[str]
    read: frozenset[str]
    """Only read, not changed."""
    needed: frozenset[str]
    """Identifiers seen before and written by the agent in its next calls."""

    @property
    def specific(self) -> frozenset[str]:
        """Names that are not just a word of prose."""
        return frozenset(name for name in self.needed if not _WORD.fullmatch(name))


def points(data: Path) -> Iterator[Point]:
    """Yield all recorded points of all sessions in the manifest."""
    with (data / "MANIFEST.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["compactions"] not in ("", "0")]
    for row in rows:
        half = "report" if int(row["sha256"], 16) % 2 else "fit"
        yield from _of(load(data / row["file"]), row["file"], half)


def _of(recording: Recording, name: str, half: str) -> Iterator[Point]:
    whole = {(call.episode, call.row): call for call in recording.uncompacted()}
    calls = list(recording.requests())
    for n, call in enumerate(calls):
        before = whole.get((call.episode, call.row))
        if not call.compacted or before is None:
            continue
        following = [one for one in calls[n:] if one.episode == call.episode][:NEXT]
        yield _point(recording, name, half, call, before, following)


def _point(
    recording: Recording, name: str, half: str, call: RecordedCall, before: RecordedCall, following: list[RecordedCall]
) -> Point:
    items = _read(recording, before)
    seen = set(IDENTIFIER.findall("\n".join(map(words, items))))
    spoken = "\n".join(text for one in following for text in _spoken(recording, one))
    changed, read = find_touched_files(items)
    return Point(
        session=name,
        format=recording.format,
        half=half,
        request=before.request,
        wire=recording.wire,
        items=items,
        left=_read(recording, call)[0].text,
        changed=changed,
        read=read,
        needed=frozenset(seen.intersection(IDENTIFIER.findall(spoken))),
    )


def _read(recording: Recording, call: RecordedCall) -> tuple[Item, ...]:
    return Reader(estimator=DEFAULT, wire=WIRES[recording.wire]).read(call.request).items


def _spoken(recording: Recording, call: RecordedCall) -> Iterator[str]:
    """Return what the agent wrote: text and arguments."""
    if call.response is None:
        return
    wire = WIRES[recording.wire]
    answered = call.response.get("output") if recording.wire == "openai_responses" else [_message(call.response)]
    body = {"model": call.model, "max_tokens": 1, wire.list_key: answered}
    for item in Reader(estimator=DEFAULT, wire=wire).read(body).items:
        if item.kind in ("text", "call"):
            yield words(item)


def _message(response: Mapping[str, object]) -> dict[str, object]:
    kept = {key: response[key] for key in ("content", "tool_calls") if key in response}
    return {"role": "assistant", **kept}


def words(item: Item) -> str:
    """Return an item's text; for a call, the strings in its arguments, so that escapes are not part of names."""
    return "\n".join(argument_strings(item.text)) if item.kind == "call" else item.text
