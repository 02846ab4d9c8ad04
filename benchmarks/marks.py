"""What does an agent's loop cost with a client's cache breakpoints, with ours, and without any?

A loop of 100 tool calls (`conversation.py`), ten seconds apart, billed as `ebb replay` bills: as a client sends it that
marks its system prompt and the end of each request; by a program that marks nothing, with `Context(marks=True)`, the
default; and with `marks=False`. In a window that is never reached, and in one that is.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path
from typing import Any

from conversation import TASK, anthropic, request, steps

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import FIVE_MINUTES
from ebbtide.replay.contenders import EngineContender, RawContender
from ebbtide.replay.message_index import MessageIndex
from ebbtide.replay.score import Scorer
from ebbtide.replay.session import ReplayCall, ReplaySession
from ebbtide.wire import WIRES

CALLS, SECONDS = 100, 10.0
WINDOWS = {"endless": 10**9, "48,000": 48_000}


def loop() -> ReplaySession:
    wire = WIRES["anthropic"]
    messages: list[dict[str, object]] = [{"role": "user", "content": TASK}]
    calls = []
    for n, step in enumerate(islice(steps(), CALLS)):
        said, result = anthropic(step)
        unmarked = request(list(messages))
        # As long as a coding agent's, so that it is worth caching.
        unmarked["system"] = [{"type": "text", "text": "You are a careful engineer. " * 2_000}]
        model = str(unmarked["model"])
        marks = dict(wire.cache.client_fields(model, FIVE_MINUTES))
        marked: dict[str, Any] = {**unmarked, "system": [{**unmarked["system"][0], **marks}], **marks}  # type: ignore[index]
        call = ReplayCall(
            raw=marked,
            unmarked=unmarked,
            recorded=marked,
            response={"content": said["content"]},
            at=SECONDS * n,
            model=model,
            usage=None,
            is_compacted=False,
        )
        calls.append(call)
        messages += [said, result]
    system, tools = wire.messages.system_and_tools(calls[0].raw)
    overhead = DEFAULT.text(system[0]["text"]) + DEFAULT.text(json.dumps(tools))
    index = MessageIndex(wire=wire, estimator=DEFAULT, overhead=overhead)
    return ReplaySession(name="loop", format="loop", wire=wire, calls=tuple(calls), messages=index)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    session, figures = loop(), dict[str, dict[str, float]]()
    for title, window in WINDOWS.items():
        subjects = {
            "client marks, nothing removed": RawContender(session),
            "client marks": EngineContender(session, "default", window),
            "our marks": EngineContender(session, "default", window, is_library=True),
            "no marks": EngineContender(session, "default", window, is_library=True, marks=False),
        }
        bills = {
            name: Scorer(session, subject, window, FIVE_MINUTES, [frozenset()] * CALLS, has_recall=False).run().bill
            for name, subject in subjects.items()
        }
        figures[title] = {name: round(bill / bills["client marks"], 4) for name, bill in bills.items()}
        print(title, figures[title])
    if given.json:
        given.json.write_text(json.dumps({"calls": CALLS, "of_client_marks": figures}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
