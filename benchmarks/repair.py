"""What does a missing name cost an agent? Measured from what recorded agents did after their own compactions.

For the 30 calls after each compaction, and for the 30 before it: how many names of the answers were missing, how often
did the agent make a call again that it had made before that stretch began (read the same file, search the same
pattern, fetch the same address), and how many tokens did these results have? The difference, divided by the difference
in missing names, is the price of a miss in `ebb replay` (`with_repair`). Shell commands are left out: agents repeat
`git status` whatever they know.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from recordings import add_data_arguments, choose_files

from ebbtide.core.errors import EbbtideError
from ebbtide.formats import load
from ebbtide.replay.request_tracker import RequestTracker, VisibleNames, answer_messages, request_messages
from ebbtide.replay.score import names_used_by_call
from ebbtide.replay.session import ReplaySession, sessions_in

STRETCH = 30
"""Calls before and after a compaction."""
ARGUMENTS = {
    "Read": "file_path", "read": "path", "Grep": "pattern", "grep": "pattern", "Glob": "pattern", "WebFetch": "url",
}  # fmt: skip

Question = tuple[str, str]
"""A tool and what it was asked for."""


def questions(session: ReplaySession) -> list[dict[str, Question]]:
    """For each call of the model, what its tool calls ask for, by their id."""
    wire = session.wire
    asked: list[dict[str, Question]] = []
    for call in session.calls:
        blocks = (
            block
            for message in answer_messages(wire, call.response)
            for block in wire.messages.split(message, wire.list_key)
            if block.kind == "call" and block.name in ARGUMENTS
        )
        asked.append({block.call_id: (block.name, _argument(block.name, block.text)) for block in blocks})
    return asked


def _argument(name: str, arguments: str) -> str:
    values = json.loads(arguments)
    return str(values.get(ARGUMENTS[name], "")) if isinstance(values, dict) else ""


def missing_names(session: ReplaySession) -> list[int]:
    """For each call, how many names of its answer the client's request did not have."""
    used, index = names_used_by_call(session), session.messages
    visible, tracker, raw = VisibleNames(index), RequestTracker(index), RequestTracker(index)
    missing: list[int] = []
    for n, call in enumerate(session.calls):
        visible.add_originals(raw.update(request_messages(session.wire, call.raw))[1])
        removed, added, _ = tracker.update(request_messages(session.wire, call.recorded))
        visible.update(removed, added)
        missing.append(sum(1 for name in used[n] if not visible.has_name(name)))
    return missing


def result_tokens(session: ReplaySession) -> dict[str, int]:
    wire, count = session.wire, session.messages.estimator.text
    blocks = (
        block
        for message in request_messages(wire, session.calls[-1].raw)
        for block in wire.messages.split(message, wire.list_key)
    )
    return {block.call_id: count(block.text) for block in blocks if block.kind == "result"}


def measure(session: ReplaySession, before: Counter[str], after: Counter[str]) -> None:
    """Add the stretches of one session."""
    compactions = [n for n, call in enumerate(session.calls) if call.is_compacted]
    if not compactions:
        return
    asked, missing, tokens = questions(session), missing_names(session), result_tokens(session)
    for previous, n, following in _with_neighbours(compactions, len(session.calls)):
        _add(after, range(n, min(n + STRETCH, following)), asked, missing, tokens)
        if n - STRETCH >= previous + STRETCH:
            _add(before, range(n - STRETCH, n), asked, missing, tokens)


def _with_neighbours(compactions: Sequence[int], end: int) -> Iterator[tuple[int, int, int]]:
    yield from zip([0, *compactions[:-1]], compactions, [*compactions[1:], end], strict=True)


def _add(
    sums: Counter[str],
    stretch: range,
    asked: Sequence[dict[str, Question]],
    missing: Sequence[int],
    tokens: dict[str, int],
) -> None:
    known = {question for one in asked[: stretch.start] for question in one.values()}
    for n in stretch:
        again = [call for call, question in asked[n].items() if question in known]
        sums["calls"] += 1
        sums["missing"] += missing[n]
        sums["again"] += len(again)
        sums["tokens"] += sum(tokens.get(call, 0) for call in again)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_data_arguments(parser, "all")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    before, after = Counter[str](), Counter[str]()
    for name, path in choose_files(given.data, given.half, given.every).items():
        try:
            recording = load(path)
        except EbbtideError:
            continue  # Not a session: some files hold other data.
        for session in sessions_in(recording, name):
            measure(session, before, after)
    rates = {
        title: {key: round(sums[key] / sums["calls"], 4) for key in ("missing", "again", "tokens")}
        for title, sums in (("before", before), ("after", after))
    }
    more = {key: rates["after"][key] - rates["before"][key] for key in ("missing", "again", "tokens")}
    result = {
        "calls": {"before": before["calls"], "after": after["calls"]},
        "per_call": rates,
        "per_missing_name": {key: round(more[key] / more["missing"], 3) for key in ("again", "tokens")},
    }
    print(json.dumps(result, indent=1))
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
