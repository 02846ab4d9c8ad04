"""How a query is looked for: as it stands first, then ever more loosely, until there are enough hits.

Words side by side as the query has them; the same in the call that a result answers; the query as a part of longer
words, by trigrams; any of its words, the rarest ones. A hit of an earlier stage comes before one of a later.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Sequence
from itertools import islice
from typing import NamedTuple

from ebbtide.store.search.meaning import Embeddings, nearest
from ebbtide.store.search.ranking import Candidate, ranked
from ebbtide.store.search.tables import SELECT, IndexHit, Scope, entry_of, plain
from ebbtide.store.search.words import Query, Term, trigrams

_CANDIDATES = 20  # of each stage, whose texts are looked at: four for each of the five that are shown
_LITERAL = 10  # more of them that have the query letter by letter, if the words alone are everywhere
_LOOKED_AT = 2_000  # texts, for those: a word in more of them finds itself among the first
_STRICT_TERMS = 24  # a query of more words is a sentence, and no other text holds all of it
_GRAMS = 48  # enough to leave few texts, in which the whole is then looked for
_LOOSE_TERMS = 32  # the rarest words of a long query say what it is about; more of them only cost time
_COMMON, _FEW = 8, 6
"""A word in more than an eighth of all texts says nothing, unless there are hardly any others."""
_ANY, _MEANT = 3, 4
"""The last stages."""
Places = list[tuple[int, float]]
"""Ids of entries, and how much each is about the query: the higher the more."""
_ROW = "SELECT e.id, e.place, e.kind, e.digest, e.path, e.text FROM entry e WHERE e.id = ?"


class _Wanted(NamedTuple):
    """What one stage looks for."""

    text: str
    terms: Sequence[Term]
    scope: Scope
    seen: Container[int]
    """Entries that an earlier stage found."""


def search(
    db: sqlite3.Connection, query: Query, scope: Scope, limit: int, meaning: Embeddings | None = None
) -> list[IndexHit]:
    """The best first. With `meaning`, what words do not find may be found by what it means."""
    seen: dict[int, Candidate] = {}
    groups: list[list[Candidate]] = []
    for stage, look in enumerate((_side_by_side, _as_asked, _as_parts, _any_of)):
        terms = query.terms if stage < _ANY else _rarest(db, query)
        found = look(db, _Wanted(query.text, terms, scope, seen)) if terms else []
        loose = terms if stage == _ANY else ()
        seen |= {id: _candidate(db, id, score, stage, loose) for id, score in found if id not in seen}
        groups = ranked(seen.values(), query)
        if len(groups) >= limit:
            break
    if meaning is not None and len(groups) < limit:
        near = nearest(db, meaning, query.text, scope)
        seen |= {id: _candidate(db, id, score, _MEANT, ()) for id, score in near if id not in seen}
        groups = ranked(seen.values(), query)
    return [_told(db, group, group[0].terms or query.terms) for group in groups[:limit]]


def _candidate(db: sqlite3.Connection, id: int, score: float, stage: int, terms: Sequence[Term]) -> Candidate:
    _, place, kind, digest, path, text = db.execute(_ROW, (id,)).fetchone()
    return Candidate(
        id=id, place=place, kind=kind, digest=digest, path=path, text=text.decode("utf-8", "surrogatepass"),
        score=score, stage=stage, terms=terms,
    )  # fmt: skip


def _told(db: sqlite3.Connection, group: Sequence[Candidate], terms: Sequence[Term]) -> IndexHit:
    row = db.execute(SELECT + "WHERE e.id = ?", (group[0].id,)).fetchone()
    return IndexHit(
        session=str(row[0]), entry=entry_of(row[1:]), stage=group[0].stage, terms=tuple(terms), copies=len(group)
    )


def _side_by_side(db: sqlite3.Connection, wanted: _Wanted) -> Places:
    return _all_of(db, wanted, "{head body}")


def _as_asked(db: sqlite3.Connection, wanted: _Wanted) -> Places:
    return _all_of(db, wanted, "{head about body}")


def _all_of(db: sqlite3.Connection, wanted: _Wanted, columns: str) -> Places:
    if len(wanted.terms) > _STRICT_TERMS:
        return []
    phrases = " AND ".join(map(_phrase, wanted.terms))
    found = _matching(db, wanted.scope, f"{columns} : ({phrases})")
    return [*found[:_CANDIDATES], *_literally(db, wanted.text, found[_CANDIDATES:_LOOKED_AT])]


def _literally(db: sqlite3.Connection, text: str, places: Places) -> Places:
    """Those that hold the query as it stands, case and signs and all."""
    found: Places = []
    octets = text.encode("utf-8", "surrogatepass")
    for id, score in places:
        if db.execute("SELECT instr(text, ?) FROM entry WHERE id = ?", (octets, id)).fetchone()[0]:
            found.append((id, score))
        if len(found) == _LITERAL:
            break
    return found


def _as_parts(db: sqlite3.Connection, wanted: _Wanted) -> Places:
    """Texts that hold every term as it is written, within longer words or cut off anywhere."""
    parts = [term.written.lower() for term in wanted.terms]
    if len(parts) > _STRICT_TERMS or any(len(part) < 3 for part in parts):
        return []
    grams = list(dict.fromkeys(gram for part in parts for gram in trigrams(part)))
    grams = grams[:: 1 + len(grams) // _GRAMS]
    scope = wanted.scope
    rows = db.execute(
        "SELECT e.id FROM grams JOIN entry e ON e.id = grams.rowid JOIN session s ON s.id = e.session "
        "WHERE grams MATCH ? AND (s.id = ? OR s.project = ?) ORDER BY e.id DESC",
        (" AND ".join(map(_quoted, grams)), scope.session, scope.project),
    )
    found: Places = []
    for id in islice((id for (id,) in rows if scope.has(id) and id not in wanted.seen), _LOOKED_AT):
        text = _candidate(db, id, 0.0, 0, ()).text.lower()
        if all(part in text for part in parts):
            # No measure of how much it is about the query: the shorter the text, the more.
            found.append((id, 1 / (1 + len(text) / 1000)))
        if len(found) == _CANDIDATES:
            break
    return found


def _any_of(db: sqlite3.Connection, wanted: _Wanted) -> Places:
    phrases = " OR ".join(map(_phrase, wanted.terms))
    return _matching(db, wanted.scope, f"{{head about body}} : ({phrases})")[:_CANDIDATES]


def _matching(db: sqlite3.Connection, scope: Scope, wanted: str) -> Places:
    rows = db.execute(
        # What a text is about counts half as much again as what stands in it; what was asked for, half as much.
        "SELECT rowid, -bm25(words, 0.0, 1.5, 0.5, 1.0) AS score FROM words WHERE words MATCH ? ORDER BY score DESC",
        (f"scope : {scope.word} AND {wanted}",),
    )
    return [(int(id), float(score)) for id, score in rows.fetchall() if scope.has(id)]


def _rarest(db: sqlite3.Connection, query: Query) -> tuple[Term, ...]:
    known = sorted((found, n, term) for n, term in enumerate(query.loose) if (found := _documents(db, term)))
    (entries,) = db.execute("SELECT coalesce(max(id), 0) FROM entry").fetchone()
    telling = [term for found, _, term in known if found <= entries // _COMMON]
    few = [term for _, _, term in known[:_FEW]]
    return tuple(telling[:_LOOSE_TERMS] if len(telling) >= _FEW else few)


def _documents(db: sqlite3.Connection, term: Term) -> int:
    """How many texts have its rarest word; 0 where one of its words is in none."""
    fewest = 0
    for word in term.words:
        row = db.execute("SELECT doc FROM vocabulary WHERE term = ?", (word,)).fetchone()
        if row is None:
            return 0
        fewest = min(fewest or row[0], row[0])
    return fewest


def _phrase(term: Term) -> str:
    return _quoted(" ".join(term.words)) + (" *" if term.partial else "")


def _quoted(text: str) -> str:
    return '"' + plain(text).replace('"', '""') + '"'
