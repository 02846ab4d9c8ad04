"""How much memory a session of 10,000 messages keeps, compared with others.

    python benchmarks/memory.py [--messages 10000] [--json]

Each subject runs in its own process. The conversation belongs to the client and exists in any case. Counted are what a
library keeps besides it between two turns, and the most that one idle turn needs in addition. `tracemalloc` counts what
Python allocates, without the interpreter and imported modules.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import subprocess
import sys
import tracemalloc
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

from conversation import anthropic, steps
from peers import PEERS, Turns, installed
from per_turn import prepare, prepare_after, prepare_bytes

OURS = {"ebbtide": prepare, "ebbtide, edits held": prepare_after, "ebbtide, bytes": prepare_bytes}


def turns_of(name: str, messages: int) -> Turns:
    return OURS[name](messages) if name in OURS else PEERS[name][1](messages, False)


def measured(name: str, messages: int) -> dict[str, int]:
    """Return bytes between turns, including the conversation, and the most that a turn needs in addition."""
    next(turns_of(name, 20))()  # what it imports on first use is not part of a session
    tracemalloc.start()
    turns = turns_of(name, messages)
    act = next(turns)
    for _ in range(3):
        act = turns.send(act())
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    out = act()
    peak = tracemalloc.get_traced_memory()[1]
    del out
    return {"between_turns": kept, "one_turn": peak - kept}


def conversation(messages: int) -> int:
    """Return the bytes of the conversation alone, as dicts."""
    tracemalloc.start()
    talk = [one for step in islice(steps(), messages // 2) for one in anthropic(step)]
    assert talk
    return tracemalloc.get_traced_memory()[0]


def alone(name: str, messages: int) -> Any:
    command = [sys.executable, "-W", "ignore", str(Path(__file__)), "--one", name, "--messages", str(messages)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def table(found: dict[str, Any]) -> str:
    lines = [f"{'MB, ' + str(found['messages']) + ' messages':40}{'between turns':>16}{'one turn more':>16}"]
    lines.append(f"{'the conversation itself, as dicts':40}{found['conversation'] / 1e6:16.1f}")
    for name, one in found["subjects"].items():
        lines.append(f"{name:40}{one['between_turns'] / 1e6:16.1f}{one['one_turn'] / 1e6:16.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--one", help="measure this subject in this process (used internally)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if given.one:
        one = conversation(given.messages) if given.one == "-" else measured(given.one, given.messages)
        json.dump(one, sys.stdout)
        return
    there, versions = installed()
    # Whether usage is reported makes no difference to what is kept.
    peers = [name for name in there if "no usage" not in name]
    subjects = {name: alone(name, given.messages) for name in [*OURS, *peers]}
    found = {"messages": given.messages, "conversation": alone("-", given.messages), "subjects": subjects}
    if given.json:
        json.dump({"versions": versions, **found}, sys.stdout, indent=1)
        return
    print(table(found))


if __name__ == "__main__":
    main()
