"""Record a store for `tests/runtime/test_recorded_store.py`: `python -m scripts.record_store OUT.tar.gz`.

Only public names of `ebbtide` are used, so any version can write such a store: start the script with the Python that
has that version. Two runs differ only in file times in the index. The session has two compactions with a summary (the
second is undone), batches of cleared results (one is undone and redone), a pinned message, bills, and a log of over
4 MB with the checkpoint (`.resume`) that such a log gets.

The archive holds `store/`, `request.json` (the newest request), `sent.json` (what a new process sends for it), and
`sent_after_redo.json` (what it sends once the second compaction is redone).
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import ebbtide

STORE = "/proc/self/cwd/store"
"""The log names its own folder. This text is the same wherever the script runs."""
MODEL = "claude-opus-4-5"
WINDOW = 100_000
STEPS = 140
START = 1_000_000.0
REOPENED = START + 10_000.0


class Clock:
    now = START

    def __call__(self) -> float:
        return self.now


def summarize(_: object) -> str:
    return "The agent read the gauges of the stations one after another and found nothing wrong so far."


def open_context(clock: Clock, store: str = STORE) -> ebbtide.Context:
    return ebbtide.Context(
        model=MODEL,
        window=WINDOW,
        store=store,
        session="recorded",
        recall="tool",
        marks=True,
        summarizer=summarize,
        clock=clock,
    )


def messages() -> list[dict[str, Any]]:
    """Return the messages of an agent that reads large files and gets a new task after every 20 steps."""
    said: list[dict[str, Any]] = []
    for step in range(STEPS):
        if step % 20 == 0:
            said.append({"role": "user", "content": f"Task {step // 20}: check the gauge of station {step}."})
        path = f"src/station{step}/gauge.py"
        text = {"type": "text", "text": f"I read {path} next."}
        call = {"type": "tool_use", "id": f"call{step}", "name": "Read", "input": {"file_path": path}}
        said.append({"role": "assistant", "content": [text, call]})
        lines = f"reading = level - datum  # of station {step}\n" * 720
        result = {"type": "tool_result", "tool_use_id": f"call{step}", "content": lines}
        said.append({"role": "user", "content": [result]})
        if step % 20 == 19:
            said.append({"role": "assistant", "content": [{"type": "text", "text": f"Station {step} is done."}]})
    return said


def body(said: list[dict[str, Any]]) -> dict[str, Any]:
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    return {"model": MODEL, "max_tokens": 1000, "system": "You check gauges.", "tools": tools, "messages": said}


def play() -> dict[str, Any]:
    """Run the session. Return the files of the archive, without the store."""
    clock = Clock()
    context = open_context(clock)
    said = messages()
    for number, message in enumerate(said):
        if message["role"] != "assistant":
            continue
        clock.now += 20.0
        ready = context.prepare(body(said[:number]))
        size = len(json.dumps(ready.body)) // 4
        usage = {"input_tokens": 5, "cache_read_input_tokens": size - size // 5, "output_tokens": 40}
        usage["cache_creation_input_tokens"] = size // 5
        ready.record({"role": "assistant", "content": message["content"], "usage": usage})
        if number == len(said) // 2 // 2 * 2 + 1:
            context.compact(body(said[:number]))
        if number == 3 * len(said) // 4 // 2 * 2 + 1:
            context.undo()
            context.redo()
            context.pin(context.recall("Task 0")[0].handle)
    last = body([*said, {"role": "user", "content": "Which station was wrong?"}])
    clock.now += 20.0
    context.compact(last)
    context.prepare(last)
    context.undo()
    clock.now += 20.0
    context.prepare(last)
    return {"request": last, **reopen(last)}


def reopen(request: dict[str, Any]) -> dict[str, Any]:
    """Return what a new process sends for the request, before and after a redo. It works on a copy of the store."""
    shutil.copytree("store", "copy")
    clock = Clock()
    clock.now = REOPENED
    context = open_context(clock, "copy")
    sent = context.prepare(request).body
    context.redo()
    redone = context.prepare(request).body
    shutil.rmtree("copy")
    return {"sent": sent, "sent_after_redo": redone}


def write_archive(target: Path, files: dict[str, Any]) -> None:
    for name, value in files.items():
        Path(f"{name}.json").write_text(json.dumps(value), "utf-8")
    paths = sorted(path for path in Path().rglob("*") if path.suffix != ".lock")
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in paths:
            entry = archive.gettarinfo(path)
            entry.mtime = entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            with path.open("rb") if path.is_file() else open(os.devnull, "rb") as content:
                archive.addfile(entry, content)


def main() -> None:
    target = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        write_archive(target, play())
        os.chdir("/")


if __name__ == "__main__":
    main()
