"""Which extras are installed, by what the package itself says they need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

_NEEDS = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[(?P<extras>[^\]]*)\])?[^;>=]*(?:>=(?P<least>[0-9.]+))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]")
_COMMANDS = {
    "chat": "ebb chat",
    "mcp": "ebb mcp",
    "proxy": "ebb proxy, ebb run",
    "replay": "ebb replay",
    "ui": "ebb ui",
}
_GIVES = {
    "embeddings": "ebb recall --meaning",
    "otel": "ebb proxy --otel",
    "ray": "ebb replay --ray",
    "tiktoken": "exact counts for OpenAI's models",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    name: str
    command: str
    """What does not run without it; empty where it only adds something."""
    gives: str
    missing: tuple[str, ...]

    @property
    def pip(self) -> str:
        return f"pip install 'ebbtide[{self.name}]'"


def extras(package: str = "ebbtide") -> tuple[Extra, ...]:
    """None where the package is not installed, but run from its sources."""
    needed = _needed(package)
    return tuple(
        Extra(
            name=name,
            command=_COMMANDS.get(name, ""),
            gives=_GIVES.get(name, name),
            missing=tuple(_missing(name, needed)),
        )
        for name in needed
        if name in _COMMANDS or name in _GIVES
    )


def _needed(package: str) -> dict[str, list[str]]:
    try:
        told = requires(package) or []
    except PackageNotFoundError:
        return {}
    found: dict[str, list[str]] = {}
    for requirement in told:
        if marked := _EXTRA.search(requirement):
            found.setdefault(marked["extra"], []).append(requirement)
    return dict(sorted(found.items()))


def _missing(name: str, needed: dict[str, list[str]]) -> list[str]:
    missing: list[str] = []
    for requirement in needed.get(name, ()):
        found = _NEEDS.match(requirement)
        if found is None:
            continue
        if found["extras"]:
            # An extra that is made of others.
            missing += [one for other in found["extras"].split(",") for one in _missing(other.strip(), needed)]
        elif not _there(found["name"], found["least"] or ""):
            missing.append(requirement.partition(";")[0].strip())
    return missing


def _there(package: str, least: str) -> bool:
    try:
        return _numbers(version(package)) >= _numbers(least)
    except PackageNotFoundError:
        return False


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])
