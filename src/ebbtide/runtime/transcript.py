"""Messages into the log, each once. A message is known by its parent and the ids of its items, not by its bytes:
clients move cache marks every turn."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbtide.core.cache.prefix_hashes import PrefixHashes
from ebbtide.core.types import Item
from ebbtide.store import Record, message_record
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import Reader, Request

_WAITING = 256
"""Requests of one session that may be under way at once and have their replies recorded."""


@dataclass(slots=True)
class Transcript:
    """Which messages the log already has, and the path of the last request through them."""

    session: str
    project: str = ""
    known: dict[str, str] = field(default_factory=dict)
    """From parent and item ids to the record's uuid."""
    path: PrefixHashes = field(default_factory=PrefixHashes)
    _of: int = 0
    """The number of the request that the path is of."""
    ends: dict[int, str] = field(default_factory=dict)
    """From a turn to the uuid of its last message: replies may come in another order than requests went out."""

    def learn(self, records: Iterable[Mapping[str, object]]) -> None:
        """Learn what the log holds."""
        for record in records:
            ids = record.get("ebbids")
            if isinstance(ids, list) and record.get("uuid"):
                self.known[_key(record.get("parentUuid"), ids)] = str(record["uuid"])

    def as_record(self) -> Record:
        """All that it knows, for `recollect`."""
        return {"type": "ebb", "kind": "known", "uuids": self.known}

    def restore(self, record: Mapping[str, object]) -> None:
        uuids = record.get("uuids")
        if isinstance(uuids, dict):
            self.known |= uuids

    def records_for_request(self, request: Request, now: float, turn: int = 0) -> list[Record]:
        """Records for the messages of this request that the log does not have yet. `turn` is 0 for no turn."""
        # A request may have been read and not recorded: what it shares with that one says nothing about this path.
        same = min(request.body.unchanged, len(self.path)) if request.number == self._of + 1 else 0
        last = self.path[same - 1] if same else None
        path, records = list[str](), list[Record]()
        for n in range(same, len(request.messages)):
            after = request.first_items[n + 1] if n + 1 < len(request.first_items) else len(request.items)
            ids = [item.id for item in request.items[request.first_items[n] : after]]
            last = self._add(request.wire, request.messages[n], ids, last, now, records)
            path.append(last)
        self.path, self._of = self.path.extend_from(same, path), request.number
        if turn and self.path:
            self.ends[turn] = self.path[-1]
            self.ends.pop(turn - _WAITING, None)
        return records

    def records_for_reply(
        self, reader: Reader, messages: Sequence[Any], turn: int, items: Sequence[Item], now: float
    ) -> list[Record]:
        """Records for what came back for a turn, under the ids it will have when the client sends it as history.

        None for a turn that is too long ago: the next request carries its reply.
        """
        wire, records = reader.last_wire, list[Record]()
        last = self.ends.get(turn) if turn else self.path[-1] if self.path else None
        if wire is None or (turn and last is None):
            return records
        for message in messages:
            last = self._add(wire, message, reader.predict_ids(wire, message, items), last, now, records)
        return records

    def _add(
        self, wire: Wire, message: Any, ids: list[str], parent: str | None, now: float, records: list[Record]
    ) -> str:
        """The uuid of a message, whose record is added where the log has none."""
        key = _key(parent, ids)
        if key in self.known:
            return self.known[key]
        logged = wire.messages.for_log(message)
        is_native = logged is message
        record = message_record(
            logged,
            session=self.session,
            parent=parent,
            at=now,
            project=self.project,
            wire=None if is_native else message,
            extra={"ebbids": ids, **({} if is_native else {"ebbwire": wire.name})},
        )
        records.append(record)
        self.known[key] = str(record["uuid"])
        return self.known[key]


def _key(parent: object, ids: Sequence[object]) -> str:
    told = "\0".join([str(parent), *map(str, ids)])
    return hashlib.blake2b(told.encode(), digest_size=12).hexdigest()
