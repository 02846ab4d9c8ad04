"""A number and its noun, as people say them. Tokens are always many: where they are told, one is not a case."""

from __future__ import annotations


def pluralize(number: float, noun: str) -> str:
    """As in `1 edit`, `2 edits`, `1,200 edits`: of nouns that take an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
