"""The campaign's result as a file, and as the tables of a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "faults.json"
PAGE = ROOT / "docs" / "explanation" / "faults.md"
BEGIN, END = "<!-- the table: python -m benchmarks.faults -->", "<!-- end of the table -->"
RECORDED = "recorded-"
"""Prefix of classes that run on recorded sessions."""
TITLES = {
    "kill": "`kill -9` at a call, inside a write, or at any moment",
    "eio": "each I/O call fails once with EIO",
    "enospc": "each call that needs room fails with ENOSPC",
    "eintr": "each I/O call fails once with EINTR",
    "short": "each write is short",
    "torn": "the log's end is cut off or torn",
    "flips": "one bit of one file is flipped",
    "writers": "eight processes write one session",
    "clocks": "the clock jumps",
    "gc": "`ebb gc` beside live sessions and readers",
    "upstream": "the provider's stream breaks at an event or a byte",
    "two-proxies": "two proxies on one store, machine overloaded",
    "late": "the proxy's own work is always too late",
}

COLUMNS = ("fault", "points", "requests", "refused", "reported")
COLUMNS += ("lost", "unusable", "over", "invalid", "dangling", "silent", "cut or hung")


def as_dict(tally: Any, seconds: float, machine: dict[str, object]) -> dict[str, object]:
    told = {name: getattr(tally, name) for name in ("points", "requests", "refused", "reported", "bad", "examples")}
    return {**told, "note": tally.note, "seconds": round(seconds), "load": machine["load"]}


def merged(path: Path, name: str, told: dict[str, object]) -> None:
    """Write one class into the file and keep the results of other runs."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known["command"] = "python -m benchmarks.faults"
    known["result"] = {**known.get("result", {}), name: told}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def rows(result: dict[str, Any], prefix: str = "") -> list[str]:
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|" + "---:|" * (len(COLUMNS) - 1)]
    for name, title in TITLES.items():
        one = result.get(prefix + name)
        if one is None or one["note"]:
            continue
        bad = one["bad"]
        counts = [one["points"], one["requests"], one["refused"], one["reported"]]
        counts += [bad[kind] for kind in ("lost", "unusable", "over", "invalid", "dangling", "silent")]
        counts.append(bad["cut"] + bad["hung"])
        lines.append(f"| {title} | {' | '.join(f'{count:,}' for count in counts)} |")
    return lines


def table(result: dict[str, Any]) -> str:
    own, recorded = rows(result), rows(result, RECORDED)
    parts = ["\n".join(own)]
    if len(recorded) > 2:
        parts += ["Twenty recorded sessions under the same faults:", "\n".join(recorded)]
    return "\n\n".join(parts)


def write_page() -> None:
    page, result = PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))["result"]
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(result)}\n\n{END}{after}", encoding="utf-8")
