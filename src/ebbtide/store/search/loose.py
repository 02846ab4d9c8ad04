"""Finds the texts that share some of a query's words: the stage for questions and sentences.

Two kinds of sessions need two measures. In a conversation the answer to a question rarely repeats its words, and is
often the turn beside the one that does: words are compared by their stems, and a rare word counts for its neighbours
too. In a session of tool calls a text is long and its words are names: they are compared as they are, what the agent
wrote and what is recent counts more, and a file is one hit, however often it was read.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ebbtide.store.search.tables import Scope, storable
from ebbtide.store.search.words import Query, Term

Scores = list[tuple[int, float]]
"""Ids of entries, each with how well it matches: higher is better."""

_MAX_ENTRIES = 20_000  # the newest: more would take longer than a turn may

# --- a session of tool calls: measured by the visible request, on the half of the recordings for choices --------------
_WORK_TERMS = 48
"""The rarest words of a request say what it is about. More of them cost time and find nothing else."""
_COMMON, _FEW = 8, 6
"""A word in more than an eighth of all texts is ignored, unless there are hardly any others."""
_LENGTH_POWER = 0.2
"""SQLite's bm25 prefers short texts, but a file is long because it holds much. So found texts are as long as before."""
_CALL_WEIGHT = 1.5
"""What an agent wrote into a call it will write again."""
_RECENT = 50
"""Entries: the newest counts double, one that is so much older 1.4 times."""
_BESIDE_WORK = (0.2, 0.1)
"""What a match counts for the next entries on each side: a call for its result, a remark for its call."""

# --- a conversation: measured on questions about three collections of conversations -----------------------------------
_PROSE_TERMS, _MAX_LOOKUPS = 32, 64
"""The rarest words by stem; so many are looked up, because a stem's count is known only then."""
_K1, _B = 0.9, 0.4
"""Of BM25, on the length in bytes. A word counts once for each text: turns are short."""
_SPREAD_SHARE = 0.15
"""A word in more of the entries says nothing about the turns beside it."""
_BESIDE_PROSE = (0.5, 0.3, 0.2, 0.1)
"""What a rare word counts for the turns on each side."""
_NEWEST_TURN = 0.05
"""How much more the newest turn counts than the oldest: a question is as often about the beginning."""

_FUNCTION_WORDS = """
a about above after again against all also always am an and any anyone anything are as at be because been before being
below between but by can could currently did do does doing done down during each ever everything few first for from
further get got had has have having he her here hers herself him himself his how i if in into is it its itself just let
may me might more most must my myself never no nor not nothing now of off on once one only or other our ourselves out
over own please s same shall she should so some someone something such t than that the their them themselves then there
these they this those through to too under until up us very was we were what when where whether which while who whom
whose why will with would yet you your yours yourself
"""
_STOP_WORDS = frozenset(_FUNCTION_WORDS.split())


class _Row(NamedTuple):
    """An entry of the scope, without its text."""

    id: int
    session: int
    kind: str
    path: str
    size: int


def find_any(db: sqlite3.Connection, query: Query, scope: Scope) -> tuple[Scores, tuple[Term, ...]]:
    """Return the entries that share words with the query, best first, and the words, the rarest first."""
    if _is_conversation(db, scope):
        return _search_prose(db, query, _read_rows(db, scope))
    # The stages before have looked for a single term.
    terms = _rarest_terms(db, query) if len(query.loose_terms) > 1 else ()
    return _search_work(db, query, terms, scope) if terms else [], terms


def _is_conversation(db: sqlite3.Connection, scope: Scope) -> bool:
    """Whether at most half of the entries are calls and results."""
    (tools,) = db.execute(
        "SELECT avg(kind IN ('call', 'result', 'blob')) FROM entry "
        "WHERE session IN (SELECT id FROM session WHERE id = ? OR project = ?)",
        (scope.session, scope.project),
    ).fetchone()
    return tools is not None and tools <= 0.5


def _read_rows(db: sqlite3.Connection, scope: Scope) -> list[_Row]:
    """Return the scope's entries, the oldest first."""
    rows = db.execute(
        "SELECT id, session, kind, path, size FROM entry "
        "WHERE session IN (SELECT id FROM session WHERE id = ? OR project = ?) ORDER BY place DESC LIMIT ?",
        (scope.session, scope.project, _MAX_ENTRIES),
    ).fetchall()
    return [_Row(*row) for row in reversed(rows) if row[0] in scope]


# --- tool calls -------------------------------------------------------------------------------------------------------


def _search_work(db: sqlite3.Connection, query: Query, terms: Sequence[Term], scope: Scope) -> Scores:
    rows = _read_rows(db, scope)
    expression = f"scope : {scope.word} AND {{head about body}} : ({' OR '.join(map(phrase, terms))})"
    # A match in the name or path counts 1.5, in the text 1, in the call's arguments 0.5.
    sql = "SELECT rowid, -bm25(words, 0.0, 1.5, 0.5, 1.0) FROM words WHERE words MATCH ?"
    relevance: dict[int, float] = dict(db.execute(sql, (expression,)).fetchall())
    mean = sum(row.size for row in rows) / max(1, len(rows))
    shares = _BESIDE_WORK if query.is_sentence else ()
    scores = dict[int, float]()
    for n, row in enumerate(rows):
        if own := relevance.get(row.id, 0.0) * (row.size / mean) ** _LENGTH_POWER:
            scores[n] = scores.get(n, 0.0) + own
            for m, share in _neighbours(rows, n, shares):
                scores[m] = scores.get(m, 0.0) + share * own
    weighted = [
        (rows[n].id, score * (_CALL_WEIGHT if rows[n].kind == "call" else 1.0) * _recency(len(rows) - 1 - n))
        for n, score in scores.items()
    ]
    return _one_for_each_file(_best_first(weighted), {row.id: row.path for row in rows})


def _recency(age: int) -> float:
    return 1 + math.exp(-age / _RECENT)


def _one_for_each_file(scores: Scores, paths: Mapping[int, str]) -> Scores:
    """Put all but the best entry of each file last."""
    files: set[str] = set()
    first: Scores = []
    last: Scores = []
    for id, score in scores:
        path = paths[id]
        (last if path in files else first).append((id, score))
        files |= {path} if path else set()
    lowest = min((score for _, score in first), default=0.0)
    return first + [(id, min(score, lowest)) for id, score in last]


def _rarest_terms(db: sqlite3.Connection, query: Query) -> tuple[Term, ...]:
    counts = sorted((count, n, term) for n, term in enumerate(query.loose_terms) if (count := _count_texts(db, term)))
    counts = [row for row in counts if not _is_common(row[2])] or counts
    (entries,) = db.execute("SELECT coalesce(max(id), 0) FROM entry").fetchone()
    rare = [term for count, _, term in counts if count <= entries // _COMMON]
    return tuple(rare[:_WORK_TERMS] if len(rare) >= _FEW else [term for _, _, term in counts[:_FEW]])


def _count_texts(db: sqlite3.Connection, term: Term) -> int:
    """Count the texts with the term's rarest word; 0 if no text has one of its words."""
    counts = []
    for word in term.words:
        row = db.execute("SELECT doc FROM vocabulary WHERE term = ?", (word,)).fetchone()
        if row is None:
            return 0
        counts.append(int(row[0]))
    return min(counts, default=0)


# --- conversations ----------------------------------------------------------------------------------------------------


def _search_prose(db: sqlite3.Connection, query: Query, rows: Sequence[_Row]) -> tuple[Scores, tuple[Term, ...]]:
    places = {row.id: n for n, row in enumerate(rows)}
    mean = sum(row.size for row in rows) / max(1, len(rows))
    norms = [(_K1 + 1) / (1 + _K1 * (1 - _B + _B * row.size / mean)) for row in rows]
    found = _find_stems(db, query, places) if places else []
    most = max(1, _SPREAD_SHARE * len(rows)) if query.is_sentence else 0
    scores = Counter[int]()
    for _, matches in found:
        rarity = math.log(1 + (len(rows) - len(matches) + 0.5) / (len(matches) + 0.5))
        counts = {n: rarity * norms[n] for n in matches}
        if len(matches) <= most:
            for n in matches:
                for m, share in _neighbours(rows, n, _BESIDE_PROSE):
                    counts[m] = counts.get(m, 0.0) + share * rarity * norms[n]
        scores.update(counts)
    newest = max(1, len(rows) - 1)
    weighted = [(rows[n].id, score * (1 + _NEWEST_TURN * n / newest)) for n, score in scores.items()]
    return _best_first(weighted), tuple(term for term, _ in found)


def _find_stems(db: sqlite3.Connection, query: Query, places: Mapping[int, int]) -> list[tuple[Term, list[int]]]:
    """Return the query's words, the rarest first, each with the places of the entries that have its stem."""
    words = dict.fromkeys(
        Term(written=word, words=(word,), is_prefix=term.is_prefix) for term in query.loose_terms for word in term.words
    )
    lookups = sorted(words, key=lambda word: (_is_common(word), _count_texts(db, word)))[:_MAX_LOOKUPS]
    found = []
    for word in lookups:
        ids = db.execute(
            "SELECT rowid FROM prose WHERE prose MATCH ? AND rowid BETWEEN ? AND ?",
            (phrase(word), min(places), max(places)),
        )
        if matches := [places[id] for (id,) in ids if id in places]:
            found.append((word, matches))
    found = [pair for pair in found if not _is_common(pair[0])] or found
    return sorted(found, key=lambda pair: len(pair[1]))[:_PROSE_TERMS]


# --- both -------------------------------------------------------------------------------------------------------------


def _is_common(term: Term) -> bool:
    return len(term.words) == 1 and term.words[0] in _STOP_WORDS


def _neighbours(rows: Sequence[_Row], place: int, shares: Sequence[float]) -> list[tuple[int, float]]:
    """Return the entries on both sides that belong to the same session, each with its share."""
    session = rows[place].session
    places = ((place + side * distance, share) for distance, share in enumerate(shares, 1) for side in (-1, 1))
    return [(n, share) for n, share in places if 0 <= n < len(rows) and rows[n].session == session]


def _best_first(scores: Scores) -> Scores:
    return sorted((pair for pair in scores if pair[1] > 0), key=lambda pair: (-pair[1], -pair[0]))


def phrase(term: Term) -> str:
    """Write a term in SQLite's query language."""
    return quote(" ".join(term.words)) + (" *" if term.is_prefix else "")


def quote(text: str) -> str:
    return '"' + storable(text).replace('"', '""') + '"'
