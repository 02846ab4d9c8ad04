"""Searches the index in stages, each looser than the one before, until there are enough hits.

The stages: all words side by side as in the query; the same, also in the call that a result answers; the query within
longer words, by trigrams; any of its rarest words; and, if there are embeddings, texts of similar meaning. A hit of an
earlier stage ranks before one of a later stage.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, Protocol

from ebbtide.store.search.hits import Candidate, rank
from ebbtide.store.search.loose import Scores, find_any, phrase, quote
from ebbtide.store.search.tables import IndexHit, Scope, read_entry
from ebbtide.store.search.words import Query, Term, trigrams

_CANDIDATES = 20  # of each stage, whose texts are read: four for each of the five that are shown
_LITERAL = 10  # more that contain the query exactly, if its words are in many texts
_MAX_READ = 2_000  # texts, to look for these: a word in more texts is found among the first anyway
_STRICT_TERMS = 24  # a query with more words is a sentence: no other text holds all of it
_MAX_TRIGRAMS = 48  # enough to leave few texts, which are then searched for the terms
_ANY_STAGE, _MEANING_STAGE = 3, 4

_EMBEDDED_CHARS = 2_000  # of each text: an average over more words is too vague to compare
_NEAREST = 20
_MAX_EMBEDDED = 20_000  # entries, the newest: vectors of more do not fit into memory beside a conversation


class Embeddings(Protocol):
    """Turns texts into vectors and compares them. Only it knows what the bytes of a vector mean."""

    @property
    def model(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> list[bytes]: ...

    def similarities(self, query: str, vectors: Sequence[bytes]) -> list[float]:
        """Return how similar each is to the query, from -1 to 1; 0 or less means not at all."""
        ...


class _Search(NamedTuple):
    """What one stage looks for."""

    db: sqlite3.Connection
    text: str
    terms: Sequence[Term]
    scope: Scope
    seen: Container[int]
    """Entries that an earlier stage found."""


def search(
    db: sqlite3.Connection, query: Query, scope: Scope, limit: int, embeddings: Embeddings | None = None
) -> list[IndexHit]:
    """Return the best hits first. Embeddings are used only if the words find too little.

    Measured on recorded sessions: mixing meaning into what the words find makes it worse.
    """
    seen: dict[int, Candidate] = {}
    groups: list[list[Candidate]] = []
    for stage, find in enumerate((_side_by_side, _side_by_side_or_in_call, _within_words)):
        scores = find(_Search(db, query.text, query.terms, scope, seen))
        seen |= {id: _candidate(db, id, score, stage) for id, score in scores if id not in seen}
        groups = rank(seen.values(), query)
        if len(groups) >= limit:
            break
    if len(groups) < limit:
        scores, terms = find_any(db, query, scope)
        unseen = [(id, score) for id, score in scores if id not in seen][:_CANDIDATES]
        seen |= {id: _candidate(db, id, score, _ANY_STAGE, terms) for id, score in unseen}
        groups = rank(seen.values(), query)
    if embeddings is not None and len(groups) < limit:
        scores = _similar_meaning(db, embeddings, query.text, scope)
        seen |= {id: _candidate(db, id, score, _MEANING_STAGE) for id, score in scores if id not in seen}
        groups = rank(seen.values(), query)
    return [_hit(group, query) for group in groups[:limit]]


def _candidate(db: sqlite3.Connection, id: int, score: float, stage: int, terms: Sequence[Term] = ()) -> Candidate:
    row = read_entry(db, "e.id = ?", (id,))
    assert row is not None, "no entry is ever removed from an index"
    return Candidate(row=row, score=score, stage=stage, terms=terms)


def _hit(group: Sequence[Candidate], query: Query) -> IndexHit:
    best = group[0]
    terms = tuple(best.terms or query.terms)
    return IndexHit(session=best.row.session, entry=best.row.entry, stage=best.stage, terms=terms, copies=len(group))


def _side_by_side(search: _Search) -> Scores:
    return _all_terms(search, "{head body}")


def _side_by_side_or_in_call(search: _Search) -> Scores:
    return _all_terms(search, "{head about body}")


def _all_terms(search: _Search, columns: str) -> Scores:
    if len(search.terms) > _STRICT_TERMS:
        return []
    phrases = " AND ".join(map(phrase, search.terms))
    scores = _match(search, f"{columns} : ({phrases})")
    return [*scores[:_CANDIDATES], *_with_exact_text(search, scores[_CANDIDATES:_MAX_READ])]


def _with_exact_text(search: _Search, scores: Scores) -> Scores:
    """Keep the first entries that contain the query exactly, with case and punctuation."""
    exact: Scores = []
    query = search.text.encode("utf-8", "surrogatepass")
    for id, score in scores:
        if search.db.execute("SELECT instr(text, ?) FROM entry WHERE id = ?", (query, id)).fetchone()[0]:
            exact.append((id, score))
        if len(exact) == _LITERAL:
            break
    return exact


def _within_words(search: _Search) -> Scores:
    """Find texts that hold every term as it is written, also inside longer words."""
    parts = [term.written.lower() for term in search.terms]
    if len(parts) > _STRICT_TERMS or any(len(part) < 3 for part in parts):
        return []
    grams = list(dict.fromkeys(gram for part in parts for gram in trigrams(part)))
    grams = grams[:: 1 + len(grams) // _MAX_TRIGRAMS]
    rows = search.db.execute(
        "SELECT e.id FROM grams JOIN entry e ON e.id = grams.rowid JOIN session s ON s.id = e.session "
        "WHERE grams MATCH ? AND (s.id = ? OR s.project = ?) ORDER BY e.id DESC",
        (" AND ".join(map(quote, grams)), search.scope.session, search.scope.project),
    )
    scores: Scores = []
    for id in islice((id for (id,) in rows if id in search.scope and id not in search.seen), _MAX_READ):
        text = _candidate(search.db, id, 0.0, 0).row.entry.text.lower()
        if all(part in text for part in parts):
            # There is no measure of relevance here, so a shorter text counts more.
            scores.append((id, 1 / (1 + len(text) / 1000)))
        if len(scores) == _CANDIDATES:
            break
    return scores


def _match(search: _Search, expression: str) -> Scores:
    rows = search.db.execute(
        # A match in the name or path counts 1.5, in the text 1, in the call's arguments 0.5.
        "SELECT rowid, -bm25(words, 0.0, 1.5, 0.5, 1.0) AS score FROM words WHERE words MATCH ? ORDER BY score DESC",
        (f"scope : {search.scope.word} AND {expression}",),
    )
    return [(int(id), float(score)) for id, score in rows.fetchall() if id in search.scope]


def _similar_meaning(db: sqlite3.Connection, embeddings: Embeddings, query: str, scope: Scope) -> Scores:
    rows = db.execute(
        "SELECT e.id, v.data FROM entry e JOIN session s ON s.id = e.session LEFT JOIN vector v ON v.id = e.id AND "
        "v.model = ? WHERE s.id = ? OR s.project = ? ORDER BY e.id DESC LIMIT ?",
        (embeddings.model, scope.session, scope.project, _MAX_EMBEDDED),
    ).fetchall()
    rows = [row for row in rows if row[0] in scope]
    vectors: dict[int, bytes] = {id: data for id, data in rows if data is not None}
    vectors |= _embed_entries(db, embeddings, [id for id, data in rows if data is None])
    if not vectors:
        return []
    similarities = embeddings.similarities(query[:_EMBEDDED_CHARS], list(vectors.values()))
    scores = [(id, score) for id, score in zip(vectors, similarities, strict=True) if score > 0]
    return sorted(scores, key=lambda pair: -pair[1])[:_NEAREST]


def _embed_entries(db: sqlite3.Connection, embeddings: Embeddings, ids: Sequence[int]) -> dict[int, bytes]:
    if not ids:
        return {}
    vectors = dict(zip(ids, embeddings.embed([_text_to_embed(db, id) for id in ids]), strict=True))
    # If another process is writing, they are computed again next time.
    with suppress(sqlite3.OperationalError):
        db.executemany(
            "INSERT OR REPLACE INTO vector (id, model, data) VALUES (?, ?, ?)",
            [(id, embeddings.model, data) for id, data in vectors.items()],
        )
    return vectors


def _text_to_embed(db: sqlite3.Connection, id: int) -> str:
    name, path, text = db.execute(
        "SELECT name, path, substr(text, 1, ?) FROM entry WHERE id = ?", (4 * _EMBEDDED_CHARS, id)
    ).fetchone()
    return f"{name} {path} {text.decode('utf-8', 'ignore')[:_EMBEDDED_CHARS]}".strip()
