"""Read settings files of other programs: JSON with comments, TOML, and `.env`. What cannot be read counts as empty.

The program itself says what is wrong with its settings; here they only matter for the addresses in them.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_LARGEST = 4 << 20
"""Bytes. Larger files are no settings."""
_JSON_TOKEN = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)
_ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*)")


def read_text(path: Path) -> str:
    """Return the file's text; empty if there is none, or none that could be settings."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return ""
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return ""


def parse_json(text: str) -> dict[str, Any]:
    """Parse JSON that may have comments and trailing commas; empty if it is no object."""
    for candidate in (text, strip_comments(text)):
        try:
            value = json.loads(candidate or "{}")
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else {}
    return {}


def strip_comments(text: str) -> str:
    without = _JSON_TOKEN.sub(lambda match: match[1] or " ", text)
    return _TRAILING_COMMA.sub(lambda match: match[1] or "", without)


def read_json(path: Path) -> dict[str, Any]:
    return parse_json(read_text(path))


def read_toml(path: Path) -> dict[str, Any]:
    return parse_toml(read_text(path))


def parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def read_env(path: Path) -> dict[str, str]:
    """Return the variables of a `.env` file."""
    matches = filter(None, map(_ENV_LINE.match, read_text(path).splitlines()))
    return {match[1]: _unquote(match[2].strip()) for match in matches}


def _unquote(value: str) -> str:
    if value[:1] in ("'", '"'):
        return value[1:].partition(value[0])[0]
    return re.split(r"\s#", value, maxsplit=1)[0].rstrip()


def folders_up(folder: Path, home: Path) -> Iterator[Path]:
    """Yield a folder and its parents, up to the root; the home folder ends it, if it is among them."""
    for parent in (folder, *folder.parents):
        yield parent
        if parent == home:
            return


def merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables, and the tables in them; the second wins."""
    merged = dict(first)
    for key, value in second.items():
        before = merged.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        merged[key] = merge(before, value) if both else value  # type: ignore[arg-type]
    return merged


def table(parent: object, *keys: str) -> Mapping[str, Any]:
    """Return the table under these keys; empty if there is none."""
    for key in keys:
        parent = parent.get(key) if isinstance(parent, Mapping) else None
    return parent if isinstance(parent, Mapping) else {}


def text_at(parent: object, *keys: str) -> str:
    """Return the text under these keys; empty if there is none."""
    *path, last = keys
    value = table(parent, *path).get(last)
    return value if isinstance(value, str) else ""
