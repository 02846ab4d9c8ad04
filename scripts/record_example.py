"""Record the example session that ships with the package: `python -m scripts.record_example`.

A scripted agent does real work: its messages are in `example/story.py`, its tools run in a temporary workspace, and the
session records what they print. Only paths and timings are normalized, so that every run on every machine gives the
same session. No model ran, so it has no usage.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from scripts.example.story import TURNS, Step, Turn

from ebbtide.store import Record, message_record

HERE = Path(__file__).resolve().parent / "example"
TARGET = HERE.parents[1] / "src" / "ebbtide" / "example" / "session.jsonl.gz"
HOME = "/home/ada/tidegauge"
"""The working directory that the session names."""
SESSION = "7d1de9a0-0000-4000-8000-000000000001"
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC).timestamp()
MODEL = "claude-sonnet-4-6"
"""A real one, so that every command shows the same tokens and the same price."""
_TIMING = re.compile(r"(?<= in )\d+\.\d+s")

Content = str | list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Tools:
    """Those of Claude Code's tools that the story needs. Each returns what the model would see."""

    root: Path

    def run(self, name: str, given: dict[str, str]) -> tuple[Content, bool]:
        """Return the result, and whether it is an error."""
        try:
            return getattr(self, name.lower())(**given)  # type: ignore[no-any-return]
        except OSError as wrong:
            return f"{wrong.strerror}: {given.get('file_path', '')}", True

    def read(self, file_path: str) -> tuple[Content, bool]:
        path = self._path(file_path)
        if path.suffix == ".png":
            return [image(path.read_bytes())], False
        lines = path.read_text(encoding="utf-8").splitlines()
        return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1)), False

    def write(self, file_path: str, content: str) -> tuple[Content, bool]:
        path = self._path(file_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return f"File created successfully at: {file_path}", False

    def edit(self, file_path: str, old_string: str, new_string: str) -> tuple[Content, bool]:
        path = self._path(file_path)
        text = path.read_text(encoding="utf-8")
        if text.count(old_string) != 1:
            return f"String to replace found {text.count(old_string)} times in {file_path}", True
        path.write_text(text.replace(old_string, new_string), encoding="utf-8")
        return f"The file {file_path} has been updated successfully.", False

    def grep(self, pattern: str, path: str = HOME) -> tuple[Content, bool]:
        wanted, found = re.compile(pattern), []
        for file in self._files(self._path(path)):
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                if wanted.search(line):
                    found.append(f"{HOME}/{file.relative_to(self.root)}:{number}:{line}")
        return "\n".join(found) or "No matches found", False

    def glob(self, pattern: str) -> tuple[Content, bool]:
        return "\n".join(f"{HOME}/{path.relative_to(self.root)}" for path in sorted(self.root.glob(pattern))), False

    def bash(self, command: str, description: str = "") -> tuple[Content, bool]:
        del description
        # Without ranges a traceback is the same in all versions of Python.
        told = {"PATH": f"{self.root.parent / 'bin'}:/usr/bin:/bin", "PYTHONNODEBUGRANGES": "1", "LC_ALL": "C.UTF-8"}
        told |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(self.root), "NO_COLOR": "1"}
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=self.root,
            env=told,
            stdout=-1,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        out = _TIMING.sub("0.1s", ran.stdout.replace(str(self.root), HOME)).rstrip("\n")
        return (f"Exit code {ran.returncode}\n{out}", True) if ran.returncode else (out or "(no output)", False)

    def _path(self, named: str) -> Path:
        return self.root / os.path.relpath(named, HOME)

    def _files(self, path: Path) -> list[Path]:
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        return [file for file in files if file.suffix in (".py", ".md", ".json", ".csv")]


def image(data: bytes) -> dict[str, object]:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


@dataclass(slots=True)
class Recorder:
    """Messages in Claude Code's format, each a child of the previous one."""

    records: list[Record] = field(default_factory=list)
    now: float = START
    calls: int = 0

    def say(self, content: Content) -> None:
        self._add({"role": "user", "content": content})

    def answer(self, content: Content) -> None:
        number = sum(record["type"] == "assistant" for record in self.records) + 1
        told = {"id": f"msg_example_{number:03}", "type": "message", "role": "assistant", "model": MODEL}
        self._add({**told, "content": content})

    def call(self, name: str, given: dict[str, str]) -> dict[str, object]:
        self.calls += 1
        return {"type": "tool_use", "id": f"toolu_example_{self.calls:03}", "name": name, "input": given}

    def _add(self, message: dict[str, object]) -> None:
        parent = str(self.records[-1]["uuid"]) if self.records else None
        client = {"version": "example", "gitBranch": "main"}
        record = message_record(message, session=SESSION, parent=parent, at=self.now, project=HOME, extra=client)
        self.records.append(record)
        self.now += 7  # seconds: what a call with a short answer takes


def thinking(text: str, number: int) -> dict[str, object]:
    return {"type": "thinking", "thinking": text, "signature": f"example-{number:03}"}


def turn(recorder: Recorder, tools: Tools, asked: Turn) -> None:
    recorder.now += asked.pause
    said = {"type": "text", "text": asked.user}
    pictures = [image(picture) for picture in asked.pictures]
    recorder.say([*pictures, said] if pictures else asked.user)
    for step in asked.steps:
        work(recorder, tools, step)


def work(recorder: Recorder, tools: Tools, step: Step) -> None:
    """Add one answer of the agent and run its calls in order."""
    blocks = [thinking(step.think, len(recorder.records))] if step.think else []
    blocks += [{"type": "text", "text": step.say}] if step.say else []
    calls = [recorder.call(name, given) for name, given in step.calls]
    recorder.answer([*blocks, *calls])
    results = []
    for call, (name, given) in zip(calls, step.calls, strict=True):
        content, wrong = tools.run(name, given)
        error = {"is_error": True} if wrong else {}
        results.append({"type": "tool_result", "tool_use_id": call["id"], "content": content, **error})
    if results:
        recorder.say(results)  # type: ignore[arg-type]


def record() -> Iterator[str]:
    """Return the lines of the session."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made).resolve() / "tidegauge"
        shutil.copytree(HERE / "project", root, ignore=shutil.ignore_patterns("__pycache__"))
        bin_ = root.parent / "bin"
        bin_.mkdir()
        (bin_ / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
        (bin_ / "python").chmod(0o700)
        recorder, tools = Recorder(), Tools(root)
        for asked in TURNS:
            turn(recorder, tools, asked)
        for one in recorder.records:
            yield json.dumps(one, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    lines = list(record())
    TARGET.parent.mkdir(exist_ok=True)
    data = ("\n".join(lines) + "\n").encode()
    TARGET.write_bytes(gzip.compress(data, mtime=0))
    print(f"{len(lines)} records, {len(data):,} bytes, {TARGET.stat().st_size:,} as gzip")


if __name__ == "__main__":
    main()
