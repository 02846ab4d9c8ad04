"""What does an agent's loop cost with a client's cache breakpoints, with ours, and without any? With which lifetimes?

A loop of 100 tool calls (`conversation.py`), ten seconds apart, billed as `ebb replay` bills: as a client sends it that
marks its system prompt and the end of each request; by a program that marks nothing, with `Context(marks=True)`, the
default; and with `marks=False`. In a window that is never reached, and in one that is. Then the same loop with a pause
before each 25th call, with our breakpoints for five minutes, all for an hour, and as planned; and on OpenAI, where the
cache lasts minutes or, if asked, a day.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from conversation import TASK, anthropic, openai, request, steps

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import FIVE_MINUTES, HOUR
from ebbtide.policy import preset
from ebbtide.policy.adjust import with_ttl
from ebbtide.replay.contenders import Contender, EngineContender, RawContender
from ebbtide.replay.message_index import MessageIndex
from ebbtide.replay.score import Scorer
from ebbtide.replay.session import ReplayCall, ReplaySession
from ebbtide.wire import WIRES

CALLS, SECONDS = 100, 10.0
WINDOWS = {"endless": 10**9, "48,000": 48_000}
PAUSE_EVERY = 25
PAUSES = {"no pauses": (0, 0), "pauses of 5 to 15 minutes": (5, 15), "pauses of 15 to 60 minutes": (15, 60)}
DAY = 86_400.0
# As long as a coding agent's, so that it is worth caching.
SYSTEM = "You are a careful engineer. " * 2_000

Times = list[float]


def times(minutes: tuple[int, int]) -> Times:
    """When each call is made: ten seconds after the last, or after a pause of so many minutes."""
    dice, now, all_times = random.Random(5), 0.0, []
    for n in range(CALLS):
        is_pause = minutes[1] and n and n % PAUSE_EVERY == 0
        now += 60 * dice.uniform(*minutes) if is_pause else SECONDS
        all_times.append(now)
    return all_times


def loop(at: Times) -> ReplaySession:
    wire = WIRES["anthropic"]
    messages: list[dict[str, object]] = [{"role": "user", "content": TASK}]
    calls = []
    for now, step in zip(at, islice(steps(), CALLS), strict=True):
        said, result = anthropic(step)
        unmarked = {**request(list(messages)), "system": [{"type": "text", "text": SYSTEM}]}
        model = str(unmarked["model"])
        marks = dict(wire.cache.client_fields(model, FIVE_MINUTES))
        marked: dict[str, Any] = {**unmarked, "system": [{"type": "text", "text": SYSTEM, **marks}], **marks}
        calls.append(_call(marked, unmarked, {"content": said["content"]}, now, model))
        messages += [said, result]
    return _session("anthropic", calls, json.dumps(unmarked["tools"]))


def openai_loop(at: Times) -> ReplaySession:
    messages: list[dict[str, object]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    calls = []
    for now, step in zip(at, islice(steps(), CALLS), strict=True):
        said, result = openai(step)
        body = {"model": "gpt-5.1", "messages": list(messages)}
        calls.append(_call(body, body, said, now, "gpt-5.1"))
        messages += [said, result]
    return _session("openai_chat", calls, "")


def _call(
    marked: dict[str, object], unmarked: dict[str, object], response: Mapping[str, object], at: float, model: str
) -> ReplayCall:
    return ReplayCall(
        raw=marked, unmarked=unmarked, recorded=marked, response=response, at=at, model=model, usage=None,
        is_compacted=False,
    )  # fmt: skip


def _session(wire: str, calls: list[ReplayCall], tools: str) -> ReplaySession:
    overhead = DEFAULT.text(SYSTEM) + DEFAULT.text(tools) if wire == "anthropic" else 0
    index = MessageIndex(wire=WIRES[wire], estimator=DEFAULT, overhead=overhead)
    return ReplaySession(name="loop", format="loop", wire=WIRES[wire], calls=tuple(calls), messages=index)


def bills(
    session: ReplaySession, subjects: Mapping[str, Contender], window: int, ttl: float = FIVE_MINUTES
) -> dict[str, float]:
    names = [frozenset[str]()] * CALLS
    return {
        name: Scorer(session, subject, window, ttl, names, has_recall=False).run().bill
        for name, subject in subjects.items()
    }


def measure_marks(window: int) -> dict[str, float]:
    session = loop(times(PAUSES["no pauses"]))
    subjects = {
        "client marks, nothing removed": RawContender(session),
        "client marks": EngineContender(session, "default", window),
        "our marks": EngineContender(session, "default", window, is_library=True),
        "no marks": EngineContender(session, "default", window, is_library=True, marks=False),
    }
    return _relative(bills(session, subjects, window), "client marks")


def measure_lifetimes(window: int, minutes: tuple[int, int]) -> dict[str, float]:
    session = loop(times(minutes))
    policies = {
        "five minutes": with_ttl(preset("default"), FIVE_MINUTES),
        "all an hour": with_ttl(preset("default"), HOUR),
        "planned": preset("default"),
    }
    subjects = {name: EngineContender(session, policy, window, is_library=True) for name, policy in policies.items()}
    return _relative(bills(session, subjects, window), "five minutes")


def measure_retention(window: int, minutes: tuple[int, int]) -> dict[str, float]:
    session = openai_loop(times(minutes))
    figures = {
        name: bills(session, {name: EngineContender(session, "default", window)}, window, ttl)[name]
        for name, ttl in (("in memory", FIVE_MINUTES), ("a day", DAY))
    }
    return _relative(figures, "in memory")


def _relative(figures: Mapping[str, float], base: str) -> dict[str, float]:
    return {name: round(bill / figures[base], 4) for name, bill in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results: dict[str, object] = {"calls": CALLS, "of_client_marks": {n: measure_marks(w) for n, w in WINDOWS.items()}}
    for key, measure in (("lifetimes", measure_lifetimes), ("openai_retention", measure_retention)):
        results[key] = {
            title: {name: measure(window, minutes) for name, minutes in PAUSES.items()}
            for title, window in WINDOWS.items()
        }
    print(json.dumps(results, indent=1))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
