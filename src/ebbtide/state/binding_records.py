"""Read and write the bindings of edits. A log has each item id once, in a table; an edit names ranges of that table.

Each record says which state of the table it continues. If that differs (a lost line, a record that was written late),
its edits have no binding and are active nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from ebbtide.core.records import Record, int_in, list_in, str_in, strings_in
from ebbtide.core.types import COMPACTION_PASSES, Binding, Edit


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTable:
    """The items that the edits of a log were made of, in the order of the log."""

    ids: tuple[str, ...] = ()
    calls: Mapping[str, str] = field(default_factory=dict)
    """From a tool result to its call."""
    digest: str = ""
    """Equal digests mean equal tables."""

    def extend(self, entries: Sequence[object]) -> ItemTable:
        """Return the table with more entries: an id, or for a result its id and the index of its call."""
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
    """Return a record's fields about the table, and those of each edit's binding."""
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
    """Return the table that this record's edits refer to; None if the record continues another table."""
    if record.get("items_on") != [len(table.ids), table.digest]:
        return None
    return table.extend(list_in(record, "items"))


def binding_from(record: Mapping[str, object], table: ItemTable | None) -> Binding | None:
    """Read the binding of an edit; None if it is missing or damaged."""
    parts = record.get("of")
    if table is None or not isinstance(parts, Mapping):
        return None
    try:
        hidden, movable, sources = (tuple(_ids(list_in(parts, name), table)) for name in ("hides", "moves", "from"))
    except (IndexError, TypeError):
        return None
    results = (id for id in (*hidden, *sources) if id in table.calls)
    return Binding(
        hidden=hidden,
        movable=frozenset(movable),
        notes=frozenset(strings_in(parts, "notes")),
        sources=sources,
        calls={id: table.calls[id] for id in results},
    )


def _runs(places: Iterable[int]) -> list[int]:
    """Write indexes as ranges: the first of each, and the one after its last."""
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
    """Adds bindings to a log of a version that had none, from the messages in the log.

    An edit covers what lay between its ends in its request. The text of a compaction may be made of all of it.
    An edit without enough information gets no binding and is active nowhere.
    """

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] | None = {}
        self._path: list[str] = []
        self._table = ItemTable()
        self._waiting: list[Record] = []

    def upgrade(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records with bindings. A plan waits for its request; `rest` yields plans without one."""
        for record in records:
            if self._ids is None:
                yield record
                continue
            uuid, ids = record.get("uuid"), record.get("ebbids")
            if isinstance(uuid, str) and isinstance(ids, list):
                self._ids[uuid] = ids
            kind = record.get("kind") if record.get("type") == "ebb" else ""
            if kind in ("plan", "insert") and "items_on" in record:
                self._ids = None  # from here on the log has bindings
                yield from self.rest()
                yield record
                continue
            if kind == "turn" or (kind == "plan" and "add" in record):
                self._path = [*self._path[: int_in(record, "base")], *strings_in(record, "add")]
            if kind == "insert" or (kind == "plan" and "add" in record):
                yield self._bind(record)
            elif kind == "plan" or self._waiting:
                self._waiting.append(record)
                if kind == "turn":
                    yield from self.rest()
            else:
                yield record

    def rest(self) -> Iterator[Record]:
        """Yield the records that still wait."""
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            yield self._bind(record) if record.get("kind") == "plan" and self._ids is not None else record

    def _bind(self, record: Record) -> Record:
        path = [id for uuid in self._path for id in (self._ids or {}).get(uuid, ())]
        index = {id: place for place, id in enumerate(path)}
        records = [edit for edit in list_in(record, "edits") if isinstance(edit, Mapping)]
        edits = [Edit(by=str_in(edit, "by"), binding=_old_binding(edit, path, index)) for edit in records]
        item_fields, bindings = bindings_to(self._table, edits)
        bound = [{**edit, **binding} for edit, binding in zip(records, bindings, strict=True)]
        upgraded = {**record, **item_fields, "edits": bound}
        self._table = table_after(self._table, upgraded) or self._table
        return upgraded


def _old_binding(record: Mapping[str, object], path: Sequence[str], index: Mapping[str, int]) -> Binding | None:
    if after := str_in(record, "after"):
        # It follows the reply, which is not part of the request.
        return Binding(sources=tuple(id for id in path if id != after)) if path else None
    first, last = index.get(str_in(record, "first")), index.get(str_in(record, "last"))
    if first is None or last is None or first > last:
        return None
    sources = (*path[:first], *path[last + 1 :]) if record.get("by") in COMPACTION_PASSES else ()
    return Binding(hidden=tuple(path[first : last + 1]), sources=sources)


def upgrade_log(records: Iterable[Record]) -> list[Record]:
    """Return the records of a log with bindings, whatever version wrote them."""
    old = OldLog()
    return [*old.upgrade(records), *old.rest()]
