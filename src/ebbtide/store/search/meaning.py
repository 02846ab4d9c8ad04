"""The last resort of a search: texts that mean what was asked though they share no word with it.

Only where words found too little: measured on recorded sessions, mixing meaning into what words find makes it worse.
Vectors are kept in the index beside the name of the model that made them, and made when first needed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from ebbtide.store.search.tables import Scope

_HEAD = 2_000
"""Characters of a text that its vector is made of: a mean over more words means nothing."""
_NEAREST = 20
_LOOKED_AT = 20_000  # entries, the newest: vectors of more would not fit beside a conversation in memory


class Embeddings(Protocol):
    """Turns texts into vectors, and compares them. What a vector is, only it knows."""

    @property
    def model(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> list[bytes]: ...

    def similarities(self, query: str, vectors: Sequence[bytes]) -> list[float]:
        """How near each is to the query, from -1 to 1; what is not near at all is at most 0."""
        ...


def nearest(db: sqlite3.Connection, meaning: Embeddings, query: str, scope: Scope) -> list[tuple[int, float]]:
    """Ids of entries and how near they are, the nearest first."""
    rows = db.execute(
        "SELECT e.id, v.data FROM entry e JOIN session s ON s.id = e.session LEFT JOIN vector v ON v.id = e.id AND "
        "v.model = ? WHERE s.id = ? OR s.project = ? ORDER BY e.id DESC LIMIT ?",
        (meaning.model, scope.session, scope.project, _LOOKED_AT),
    ).fetchall()
    rows = [row for row in rows if scope.has(row[0])]
    known: dict[int, bytes] = {id: data for id, data in rows if data is not None}
    known |= _made(db, meaning, [id for id, data in rows if data is None])
    if not known:
        return []
    scores = meaning.similarities(query[:_HEAD], list(known.values()))
    found = [(id, score) for id, score in zip(known, scores, strict=True) if score > 0]
    return sorted(found, key=lambda pair: -pair[1])[:_NEAREST]


def _made(db: sqlite3.Connection, meaning: Embeddings, ids: Sequence[int]) -> dict[int, bytes]:
    texts = [_head(db, id) for id in ids]
    made = dict(zip(ids, meaning.embed(texts), strict=True)) if ids else {}
    # Where another process writes they are made again the next time.
    with suppress(sqlite3.OperationalError):
        db.executemany(
            "INSERT OR REPLACE INTO vector (id, model, data) VALUES (?, ?, ?)",
            [(id, meaning.model, data) for id, data in made.items()],
        )
    return made


def _head(db: sqlite3.Connection, id: int) -> str:
    name, path, text = db.execute(
        "SELECT name, path, substr(text, 1, ?) FROM entry WHERE id = ?", (4 * _HEAD, id)
    ).fetchone()
    return f"{name} {path} {text.decode('utf-8', 'ignore')[:_HEAD]}".strip()
