"""Compact one history twenty times, made of recorded sessions in a row: what is left of the user's messages?

    python benchmarks/folds.py [--data DIR] [--folds 20] [--window 100000] [--json]

After every compaction each user message must be in the request word for word, or one `read` away through a handle or a
file that the request names. From one compaction to the next the request must not grow, nor the freed space shrink.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from ebbtide import Context, load
from ebbtide.core.stub import parse
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import USER
from ebbtide.formats import Recording
from ebbtide.wire.reader import Reader

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
STEP = 24
"""Messages between two requests: a long turn of an agent. More of them only take longer."""


def histories(data: Path) -> Iterator[list[Any]]:
    """Return the messages in the last request of each recorded Claude Code session, with unique ids."""
    for n, path in enumerate(sorted(data.rglob("*.jsonl*"))):
        try:
            recording: Recording = load(path)
        except Exception:  # noqa: BLE001 - not a session
            continue
        if recording.format != "claude-code":
            continue
        longest: list[Any] = []
        for call in recording.requests():
            messages = call.request["messages"]
            longest = messages if len(messages) > len(longest) else longest
        if len(longest) > 20:
            yield json.loads(json.dumps(longest).replace('"toolu_', f'"s{n}_toolu_'))


def joined(data: Path) -> Iterator[list[Any]]:
    """Yield the growing history. A session begins with the user, so the previous one must end with the assistant."""
    history: list[Any] = []
    for messages in histories(data):
        while history and history[-1]["role"] == "user":
            history.pop()
        start = next((n for n, one in enumerate(messages) if one["role"] == "user"), 0)
        for n in range(start, len(messages), STEP):
            history = [*history, *messages[n : n + STEP]]
            yield history


def said(history: list[Any]) -> list[str]:
    items = Reader(DEFAULT).read({"model": "", "messages": history}).items
    return [item.text for item in items if item.role == "user" and item.kind == "text" and item.trust <= USER]


def within_reach(history: list[Any], body: Mapping[str, Any], context: Context) -> tuple[int, int, int]:
    """Count the user's messages: all, those in the request, and those that are one `read` away."""
    shown = [item.text for item in Reader(DEFAULT).read(dict(body)).items]
    whole = set(shown)
    stubs = [stub for text in shown for line in text.split("\n") if (stub := parse(line)) and stub.path]
    files = "\n".join(_whole(context, stub.path) for stub in stubs if stub.kind == "input")
    words = said(history)
    verbatim = [text in whole for text in words]
    away = sum(not here and text in files for here, text in zip(verbatim, words, strict=True))
    return len(words), sum(verbatim), away


def _whole(context: Context, handle: str) -> str:
    text, page = "", context.read(handle)
    text += page.text
    while page.next is not None:
        page = context.read(handle, page.next)
        text += page.text
    return text


def measured(data: Path, folds: int, window: int) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        context = Context(window=window, model="claude-sonnet-4-5", store=folder, session="long", durable=False)
        for history in joined(data):
            ready = context.prepare({"model": "claude-sonnet-4-5", "max_tokens": 8_000, "messages": history})
            if not any(edit.by == "summarize" for edit in ready.report.edits):
                continue
            words, verbatim, away = within_reach(history, ready.body, context)
            spoken = sum(DEFAULT.text(text) for text in said(history))
            before, after = ready.report.tokens_before, ready.report.tokens_after
            row = {"messages": len(history), "before": before, "after": after, "freed": before - after}
            rows.append({**row, "spoken": spoken, "words": words, "verbatim": verbatim, "away": away})
            if sys.stderr.isatty():
                print(f"\r{len(rows)} folds", end="", file=sys.stderr, flush=True)
            if len(rows) == folds:
                break
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--folds", type=int, default=20)
    parser.add_argument("--window", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    rows = measured(options.data, options.folds, options.window)
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    names = list(rows[0])
    print(" ".join(["fold", *(name.rjust(9) for name in names)]))
    for n, row in enumerate(rows, 1):
        print(" ".join([str(n).rjust(4), *(f"{row[name]:,}".rjust(9) for name in names)]))
    reached = sum(row["verbatim"] + row["away"] for row in rows) / sum(row["words"] for row in rows)
    half = len(rows) // 2
    early, late = rows[:half], rows[half:]
    print(f"user's messages within reach after every fold: {reached:.1%}")
    for told, of in (
        ("tokens after a fold", lambda row: row["after"]),
        ("but for the user's own words", lambda row: row["after"] - row["spoken"]),
        ("tokens freed by a fold", lambda row: row["freed"]),
    ):
        print(f"{told}, first half and second: {fmean(map(of, early)):,.0f}, {fmean(map(of, late)):,.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
