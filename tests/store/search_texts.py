"""Texts in an index, and what a query finds of them."""

from ebbtide.core.stub import digest
from ebbtide.store.log_lines import Position
from ebbtide.store.search.index import SearchIndex
from ebbtide.store.search.tables import IndexBatch, IndexEntry
from ebbtide.store.search.words import parse_query

NOISE = [f"line {n} of a build log about widgets and gadgets" for n in range(40)]


def entry(n, text, **more):
    return IndexEntry(
        handle=f"e1-{n:020x}", text=text, digest=digest(text), message=n, role="tool", kind="result", **more
    )


def at(lines):
    return Position(str(lines), lines * 10)


def build_index(*texts, index=None, session="s", project=""):
    """An index of these texts, in memory unless one is given."""
    index = index or SearchIndex()
    entries = [text if isinstance(text, IndexEntry) else entry(n, text) for n, text in enumerate(texts)]
    index.add(project, session, lambda start, _: IndexBatch(entries=entries, position=at(len(entries))))
    return index


def find_texts(index, query, *, session="s", project="", limit=5):
    return [hit.entry.text for hit in index.search(parse_query(query), project=project, session=session, limit=limit)]
