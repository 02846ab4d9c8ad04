"""Print the files of Ebbtide that an idle request and a compaction pass through."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import ebbtide

ROOT = Path(ebbtide.__file__).parent
FIRST = {"role": "user", "content": "Fix the failing test."}


def exchange(number: int) -> list[dict[str, Any]]:
    call = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": "Bash",
        "input": {"command": f"pytest tests/test_{number}.py"},
    }
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"tests/test_{number}.py failed\n" * 40}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def request(exchanges: int) -> dict[str, Any]:
    messages = [FIRST, *(message for number in range(exchanges) for message in exchange(number))]
    return {"model": "claude-sonnet-5", "max_tokens": 500, "messages": messages}


def files_used_by(work: Callable[[], object]) -> list[str]:
    """Return the files below the package in which a function was called."""
    files: set[str] = set()

    def trace(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
    return sorted(str(Path(name).relative_to(ROOT)) for name in files if name.startswith(str(ROOT)))


def main() -> None:
    idle = ebbtide.Context(window=200_000)
    messages = request(20)["messages"]
    for count in (20, 21, 22):
        messages += exchange(count)
        idle.prepare({**request(0), "messages": [*messages]})
    messages += exchange(23)
    report("An idle request", files_used_by(lambda: idle.prepare({**request(0), "messages": [*messages]})))
    full = ebbtide.Context(window=16_000)
    report("A compaction", files_used_by(lambda: full.prepare(request(120))))


def report(name: str, files: list[str]) -> None:
    print(f"{name} passes through {len(files)} files:")
    for file in files:
        print(f"  {file}")


if __name__ == "__main__":
    main()
