"""Hits and pages with secrets masked.

The whole text is masked before it is cut: a cut could split a secret so that the mask misses it.
"""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.text.redact import redact
from ebbtide.recall.search import Hit, Page, RecallSearch
from ebbtide.store.search.hits import build_excerpt
from ebbtide.store.search.words import parse_query


def search_masked(search: RecallSearch, words: str, *, limit: int, across: bool) -> list[Hit]:
    return [_mask(hit, search, words) for hit in search.search(words, limit=limit, across=across)]


def _mask(hit: Hit, search: RecallSearch, words: str) -> Hit:
    text, masked = redact(search.read(hit.handle, 0, hit.total, session=hit.session).text)
    if not masked:
        return hit
    query = parse_query(words)
    excerpt = build_excerpt(text, query, query.terms)
    return replace(
        hit, line=excerpt.line, start=excerpt.start, snippet=excerpt.snippet, spans=excerpt.spans, total=len(text)
    )


def mask_page(page: Page, search: RecallSearch, *, start: int, end: int) -> tuple[Page, int]:
    """The characters from `start` to `end` of the page's text, masked, and how many secrets the text has."""
    text, masked = redact(search.read(page.handle, 0, page.total, session=page.session).text)
    end = min(len(text), end)
    next_start = end if end < len(text) else None
    masked_page = replace(page, text=text[start:end], start=start, end=end, total=len(text), next=next_start)
    return masked_page, masked.total()
