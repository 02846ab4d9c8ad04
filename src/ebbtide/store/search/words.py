"""How a text becomes words, and a query words to look for. Both go through the same door, or nothing would be found.

An identifier is a run of small words: `parseHTTPHeader`, `parse_http_header` and `parse/http.header` are all
`parse http header`, so a part of it finds it, and looking for all of it is looking for the words side by side. Chinese,
Japanese and Korean have no blanks: every two neighbouring characters are a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

_CJK = "\u2e80-\u2fff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_PIECE = re.compile(
    rf"(?P<cjk>[{_CJK}]+)"
    r"|[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9a-z]*|[0-9][0-9a-zA-Z]*"  # a hash or number stays whole
    rf"|[^\W_{_CJK}]+"
)
_WRITTEN = re.compile(r'"([^"]+)"|(\S+)')
_EDGES = "\"'`.,;:!?()[]{}<>*|。，、；：！？（）「」『』“”‘’《》…"
_LONGEST = 4_000
"""Characters of a query that are looked at, half from each end: a whole request may be given as one."""
_TERMS = 400
_GRAM = 3  # characters, as SQLite's trigram tokenizer has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """What one word of a query asks for."""

    written: str
    words: tuple[str, ...]
    """In this order, side by side."""
    partial: bool = False
    """A single Chinese character: any word that begins with it will do."""

    @property
    def pattern(self) -> str:
        """A regular expression for where it stands in a text, however it is spelt there."""
        if self.partial:
            return re.escape(self.words[0])
        if _is_cjk(self.words[0]):
            return re.escape(self.written)
        # Three separators at most: `a :: b` is still one name, two sentences are not.
        return r"[\W_]{0,3}".join(map(re.escape, self.words))


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    text: str
    terms: tuple[Term, ...]
    """As written: words, and phrases in quotes."""

    @property
    def loose(self) -> tuple[Term, ...]:
        """For a query that is a sentence: identifiers whole, Chinese in pairs of characters."""
        found: dict[Term, None] = {}
        for term in self.terms:
            pairs = not term.partial and _is_cjk(term.words[0])
            found |= dict.fromkeys([Term(written=word, words=(word,)) for word in term.words] if pairs else [term])
        return tuple(found)


def split_words(text: str) -> str:
    """The words of a text in order, between blanks."""
    out: list[str] = []
    for found in _PIECE.finditer(text):
        if found.lastgroup:
            run = found[0]
            # The last character alone closes the run: pairs on both sides of a blank are no neighbours.
            out += [run[n : n + 2] for n in range(len(run))]
        else:
            out.append(found[0])
    return " ".join(out).lower()


def parse_query(text: str) -> Query:
    clipped = text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} {text[-_LONGEST // 2 :]}"
    terms: dict[Term, None] = {}
    for found in _WRITTEN.finditer(clipped):
        written = (found[1] or found[2]).strip(_EDGES + " ")
        terms |= dict.fromkeys(_terms(written))
        if len(terms) >= _TERMS:
            break
    return Query(text=text.strip(), terms=tuple(terms))


def trigrams(text: str) -> tuple[str, ...]:
    """Every three neighbouring characters: a text that holds all of them may hold the whole."""
    low = text.lower()
    return tuple(dict.fromkeys(low[n : n + _GRAM] for n in range(len(low) - _GRAM + 1)))


def _terms(written: str) -> Iterable[Term]:
    """One for each stretch of one script: `用户user_id` is two."""
    pieces = [(found[0], bool(found.lastgroup), found.span()) for found in _PIECE.finditer(written)]
    for cjk, group in groupby(pieces, key=lambda piece: piece[1]):
        part = list(group)
        if not cjk:
            stretch = written[part[0][2][0] : part[-1][2][1]]
            yield Term(written=stretch, words=tuple(piece.lower() for piece, _, _ in part))
            continue
        for run, _, _ in part:
            pairs = tuple(run[n : n + 2] for n in range(len(run) - 1))
            yield Term(written=run, words=pairs or (run,), partial=not pairs)


def _is_cjk(word: str) -> bool:
    found = _PIECE.match(word)
    return bool(found and found.lastgroup)
