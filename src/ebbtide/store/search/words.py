"""Splits texts and queries into words, both in the same way.

An identifier is a sequence of small words: `parseHTTPHeader`, `parse_http_header` and `parse/http.header` are all
`parse http header`. So a part finds it, and the whole is found as these words side by side. Chinese, Japanese and
Korean are written without blanks: there every two neighbouring characters are a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

_CJK = "\u2e80-\u2fff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_PIECE = re.compile(
    rf"(?P<cjk>[{_CJK}]+)"
    r"|[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9a-z]*|[0-9][0-9a-zA-Z]*"  # a hash or number is one word
    rf"|[^\W_{_CJK}]+"
)
_WRITTEN = re.compile(r'"([^"]+)"|(\S+)')
_EDGES = "\"'`.,;:!?()[]{}<>*|。，、；：！？（）「」『』“”‘’《》…"
_MAX_QUERY = 4_000
"""Characters of a query that are used, half from each end: a query may be a complete request."""
_MAX_TERMS = 400
_SENTENCE = 4
"""Words; two neighbouring characters of Chinese are one."""
_GRAM = 3  # characters, as SQLite's trigram tokenizer has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One word or phrase of a query."""

    written: str
    words: tuple[str, ...]
    """In this order, side by side."""
    is_prefix: bool = False
    """A single Chinese character: it matches any word that begins with it."""

    @property
    def pattern(self) -> str:
        """A regular expression that finds it in a text in any spelling."""
        if self.is_prefix:
            return re.escape(self.words[0])
        if _is_cjk(self.words[0]):
            return re.escape(self.written)
        # Three separators at most: `a :: b` is still one name, two sentences are not.
        return r"[\W_]{0,3}".join(map(re.escape, self.words))


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    text: str
    terms: tuple[Term, ...]
    """Words, and phrases in quotes."""

    @property
    def is_sentence(self) -> bool:
        """Whether it has many words, also if they are in quotes. Otherwise it is a name, or two."""
        counts = (len(term.words) if _is_cjk(term.words[0]) else len(term.written.split()) for term in self.terms)
        return sum(counts) >= _SENTENCE

    @property
    def loose_terms(self) -> tuple[Term, ...]:
        """What to look for if any of it is enough: of a sentence also each word of its names; of Chinese, pairs."""
        terms, is_sentence = dict[Term, None](), self.is_sentence
        for term in self.terms:
            words = [term] if len(term.words) == 1 else [Term(written=word, words=(word,)) for word in term.words]
            if not _is_cjk(term.words[0]):
                words = [term, *words] if is_sentence else [term]
            terms |= dict.fromkeys(words)
        return tuple(terms)


def split_words(text: str) -> str:
    """Split a text into words, in order, joined by blanks."""
    words: list[str] = []
    for match in _PIECE.finditer(text):
        if match.lastgroup:
            run = match[0]
            # The last character alone ends the run: pairs on both sides of a blank are not neighbours.
            words += [run[n : n + 2] for n in range(len(run))]
        else:
            words.append(match[0])
    return " ".join(words).lower()


def parse_query(text: str) -> Query:
    clipped = text if len(text) <= _MAX_QUERY else f"{text[: _MAX_QUERY // 2]} {text[-_MAX_QUERY // 2 :]}"
    terms: dict[Term, None] = {}
    for match in _WRITTEN.finditer(clipped):
        written = (match[1] or match[2]).strip(_EDGES + " ")
        terms |= dict.fromkeys(_terms(written))
        if len(terms) >= _MAX_TERMS:
            break
    return Query(text=text.strip(), terms=tuple(terms))


def trigrams(text: str) -> tuple[str, ...]:
    """Every three neighbouring characters: a text that has all of them may have the text."""
    lower = text.lower()
    return tuple(dict.fromkeys(lower[n : n + _GRAM] for n in range(len(lower) - _GRAM + 1)))


def _terms(written: str) -> Iterable[Term]:
    """One term for each part in one script: `用户user_id` gives two."""
    for is_cjk, group in groupby(_PIECE.finditer(written), key=lambda match: bool(match.lastgroup)):
        matches = list(group)
        if not is_cjk:
            part = written[matches[0].start() : matches[-1].end()]
            yield Term(written=part, words=tuple(match[0].lower() for match in matches))
            continue
        for run in (match[0] for match in matches):
            pairs = tuple(run[n : n + 2] for n in range(len(run) - 1))
            yield Term(written=run, words=pairs or (run,), is_prefix=not pairs)


def _is_cjk(word: str) -> bool:
    match = _PIECE.match(word)
    return bool(match and match.lastgroup)
