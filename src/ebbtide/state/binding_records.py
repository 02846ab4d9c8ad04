"""Bindings as records. Each item id is written once a log; an edit names runs of the table that they make up.

A table is only good for records that were written on top of it, so each record says which table it goes on from. Where
that is another one (a lost line, a record that was written late), its edits are not bound, and hold nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from ebbtide.core.record_fields import int_in, list_in, str_in, strings_in
from ebbtide.core.types import COMPACTION_PASSES, Binding, Edit

Record = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTable:
    """The items that the edits of a log were made of, in the order in which they were written down."""

    ids: tuple[str, ...] = ()
    calls: Mapping[str, str] = field(default_factory=dict)
    """From a tool result to its call."""
    digest: str = ""
    """Of all of it. Equal digests mean equal tables."""

    def extend(self, entries: Sequence[object]) -> ItemTable:
        """The table with more entries: an id, or for a result its id and the place of its call."""
        ids, calls = list(self.ids), dict(self.calls)
        digest = blake2b(self.digest.encode(), digest_size=6)
        for entry in entries:
            id, call = entry if isinstance(entry, list | tuple) and len(entry) == 2 else (entry, None)
            ids.append(str(id))
            if isinstance(call, int) and 0 <= call < len(ids):
                calls[str(id)] = ids[call]
            digest.update(f"{id}\0{call}\0".encode())
        return ItemTable(ids=tuple(ids), calls=calls, digest=digest.hexdigest()) if entries else self


def bindings_to(table: ItemTable, edits: Sequence[Edit]) -> tuple[Record, list[Record]]:
    """What a record says of the table, and what it says of each edit's binding."""
    places = {id: place for place, id in enumerate(table.ids)}
    added: list[object] = []

    def place_of(id: str, binding: Binding) -> int:
        if id not in places:
            call = binding.calls.get(id)
            entry: object = id if call is None else [id, place_of(call, binding)]
            places[id] = len(places)
            added.append(entry)
        return places[id]

    written: list[Record] = []
    for edit in edits:
        binding = edit.binding or Binding()
        parts = {"hides": binding.hidden, "moves": sorted(binding.movable), "from": binding.sources}
        runs: Record = {name: _runs(place_of(id, binding) for id in ids) for name, ids in parts.items() if ids}
        if binding.notes:
            runs["notes"] = sorted(binding.notes)
        written.append({"of": runs} if edit.binding is not None else {})
    return {"items": added, "items_on": [len(table.ids), table.digest]}, written


def table_after(table: ItemTable, record: Mapping[str, object]) -> ItemTable | None:
    """The table that this record's edits refer to; None where it was written on top of another one."""
    if record.get("items_on") != [len(table.ids), table.digest]:
        return None
    return table.extend(list_in(record, "items"))


def binding_from(record: Mapping[str, object], table: ItemTable | None) -> Binding | None:
    """The binding of one edit's record; None where there is none that can be relied on."""
    parts = record.get("of")
    if table is None or not isinstance(parts, Mapping):
        return None
    try:
        hidden, movable, sources = (tuple(_ids(list_in(parts, name), table)) for name in ("hides", "moves", "from"))
    except (IndexError, TypeError):
        return None
    named = (id for id in (*hidden, *sources) if id in table.calls)
    return Binding(
        hidden=hidden,
        movable=frozenset(movable),
        notes=frozenset(strings_in(parts, "notes")),
        sources=sources,
        calls={id: table.calls[id] for id in named},
    )


def _runs(places: Iterable[int]) -> list[int]:
    """Places as runs: where each begins, and where the one after it would go on."""
    runs: list[int] = []
    for place in places:
        if runs and runs[-1] == place:
            runs[-1] = place + 1
        else:
            runs += (place, place + 1)
    return runs


def _ids(runs: Sequence[object], table: ItemTable) -> Iterator[str]:
    if len(runs) % 2:
        raise IndexError("a run without an end")
    for first, end in zip(runs[::2], runs[1::2], strict=True):
        if not isinstance(first, int) or not isinstance(end, int) or not 0 <= first < end <= len(table.ids):
            raise IndexError("a run outside of the table")
        yield from table.ids[first:end]


class OldLog:
    """Binds the edits of a log that was written before edits were bound, from the messages that it has.

    An edit covers what lay between its ends in the request that it was made for. A fold's text may have been made of
    all of that request. What cannot be found out is left as it is, and does not hold.
    """

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] | None = {}
        self._path: list[str] = []
        self._table = ItemTable()
        self._waiting: list[Record] = []

    def upgrade(self, records: Iterable[Record]) -> Iterator[Record]:
        """These records, with bindings. A plan waits for its request to come; `rest` gives those that got none."""
        for record in records:
            if self._ids is None:
                yield record
                continue
            uuid, ids = record.get("uuid"), record.get("ebbids")
            if isinstance(uuid, str) and isinstance(ids, list):
                self._ids[uuid] = ids
            kind = record.get("kind") if record.get("type") == "ebb" else ""
            if kind in ("plan", "insert") and "items_on" in record:
                self._ids = None  # from here on the log says it itself
                yield from self.rest()
                yield record
                continue
            if kind == "turn" or (kind == "plan" and "add" in record):
                self._path = [*self._path[: int_in(record, "base")], *strings_in(record, "add")]
            if kind == "insert" or (kind == "plan" and "add" in record):
                yield self._bound(record)
            elif kind == "plan" or self._waiting:
                self._waiting.append(record)
                if kind == "turn":
                    yield from self.rest()
            else:
                yield record

    def rest(self) -> Iterator[Record]:
        """What was held back."""
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            yield self._bound(record) if record.get("kind") == "plan" and self._ids is not None else record

    def _bound(self, record: Record) -> Record:
        path = [id for uuid in self._path for id in (self._ids or {}).get(uuid, ())]
        index = {id: place for place, id in enumerate(path)}
        edits = [one for one in list_in(record, "edits") if isinstance(one, Mapping)]
        bound = [Edit(by=str_in(one, "by"), binding=_old_binding(one, path, index)) for one in edits]
        about, written = bindings_to(self._table, bound)
        upgraded = {**record, **about, "edits": [{**one, **more} for one, more in zip(edits, written, strict=True)]}
        self._table = table_after(self._table, upgraded) or self._table
        return upgraded


def _old_binding(record: Mapping[str, object], path: Sequence[str], index: Mapping[str, int]) -> Binding | None:
    if after := str_in(record, "after"):
        # It follows the reply to that request, which the request itself has not.
        return Binding(sources=tuple(id for id in path if id != after)) if path else None
    first, last = index.get(str_in(record, "first")), index.get(str_in(record, "last"))
    if first is None or last is None or first > last:
        return None
    sources = (*path[:first], *path[last + 1 :]) if record.get("by") in COMPACTION_PASSES else ()
    return Binding(hidden=tuple(path[first : last + 1]), sources=sources)


def upgrade_log(records: Iterable[Record]) -> list[Record]:
    """A whole log, its edits bound whatever version wrote it."""
    old = OldLog()
    return [*old.upgrade(records), *old.rest()]
