"""Finds the names in a summary that can be looked up: a path, identifier, hash or number not in the source is invented.

Words are the summarizer's own. A slash between two words, or a year in prose, makes no path and no figure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ebbtide.summary.sanitize import to_plain_letters

_EXTENSION = (
    r"(?:pyi?|ipynb|tsx?|jsx?|mjs|cjs|vue|svelte|rs|go|java|kts?|swift|c|cc|cpp|cxx|h|hpp|cs|rb|php|pl|lua|sh|bash|zsh"
    r"|ps1|bat|sql|html?|s?css|less|xml|ya?ml|toml|ini|cfg|conf|env|json[lc5]?|md|rst|txt|csv|tsv|lock|log|proto|graphql"
    r"|tf|gradle|cmake|mk|png|jpe?g|gif|svg|webp|pdf|zip|gz|tar|whl|db|sqlite|parquet|dockerfile)"
)
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b[a-z][a-z0-9+.-]{0,30}://[^\s<>\"'`）)\]}，。；、]+",
        # From a root, a home or a dot; with two slashes or more; or with one and an extension.
        r"(?<![\w/.~-])(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)+/?",
        r"(?<![\w/.~:@+\\-])[\w.@+-]+(?:/[\w.@+-]+){2,}/?",
        rf"(?<![\w/.~:@+\\-])[\w.@+-]+/[\w@+-]+(?:\.[\w+-]+)*\.{_EXTENSION}\b",
        rf"(?<![\w/.~:@+\\-])[\w@+-]+(?:\.[\w+-]+)*\.{_EXTENSION}\b(?![/(])",
        r"\b[A-Za-z]:\\[\w.\\@+-]+\w",
        r"\b(?=[0-9]*[A-Za-z])[A-Za-z0-9]+(?:_+[A-Za-z0-9]+)+\b",
        r"(?<![\w.])_{1,2}[A-Za-z]\w+",
        r"\b[a-z][a-z0-9]*(?:[A-Z][a-z0-9]+)+[A-Z]?\b",
        r"\b(?:[A-Z][a-z0-9]+){2,}\b",
        r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b",
        r"(?<![\w.,])\d[\d,_]*(?:\.\d+)?(?![\w])",
        r"(?<=`)[\w.-]{3,}(?=`|\()",
    )
)  # fmt: skip
_BRANDS = frozenset(
    (
        *("javascript", "typescript", "github", "gitlab", "openai", "chatgpt", "postgresql", "mysql", "graphql"),
        *("fastapi", "pytorch", "tensorflow", "numpy", "devops", "macos", "ios", "iphone", "youtube", "linkedin"),
        *("stackoverflow", "langchain", "powershell", "wordpress", "mongodb", "websocket", "websockets", "openapi"),
        *("readme", "todo", "webassembly", "intellij", "jetbrains", "deepseek", "bytedance"),
    )
)
"""Well-known words with a capital inside: naming one invents nothing."""
_ENDLESS = re.compile(r"[\w./@+~\\-]{300,}")
"""No name is so long, and the patterns would take very long on it."""
_EDGE = "`'\".,:;!?*_()[]{}<>，。；：、！？（）“”‘’"
_IS_FILE = re.compile(rf"\.{_EXTENSION}$")
_ESCAPES = re.compile(r"\\([\\/_*`\[\]\"])")


def find_claims(text: str) -> Iterator[str]:
    """Every name in the text that can be looked up, once, without punctuation around it."""
    seen_names: set[str] = set()
    text = _ENDLESS.sub(" ", text)
    for pattern in _PATTERNS:
        for match in pattern.findall(text):
            name = re.sub(r"(?::\d+){1,8}(?:-\d+)?$|#L\d+(?:-L?\d+)?$", "", match).strip(_EDGE)
            if name not in seen_names and _is_checkable(name):
                seen_names.add(name)
                yield name


def _is_checkable(name: str) -> bool:
    if re.fullmatch(r"[\d,_.]+", name):
        # A shorter number is a count or a date that a summarizer may work out.
        return sum(char.isdigit() for char in name) >= 4
    return len(name) >= 3 and name.lower() not in _BRANDS


def _normalize(text: str) -> str:
    """One spelling for a name, whatever its case, JSON's and Markdown's backslashes, and Windows' slashes."""
    return _ESCAPES.sub(r"\1", to_plain_letters(text)).replace("\\", "/").casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownText:
    """The summarized text, prepared for looking up names."""

    text: str
    figures: frozenset[str]
    """Numbers of several digits, without separators."""

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> KnownText:
        text = _normalize("\n".join(texts))
        figures = re.findall(r"\d[\d,_ ]*\d(?:\.\d+)?", text)
        return cls(text=text, figures=frozenset(re.sub("[,_ ]", "", figure) for figure in figures))

    def contains(self, claim: str) -> bool:
        name = _normalize(claim).removeprefix("./").rstrip("/")
        if name in self.text or re.sub("[,_]", "", name) in self.figures:
            return True
        # `Session.id` is fair if both parts occur; `session.py` is a file that occurs or does not.
        parts = name.split(".")
        is_dotted = len(parts) > 1 and "/" not in name and not _IS_FILE.search(name) and all(parts)
        return is_dotted and not name[0].isdigit() and all(part in self.text for part in parts)
