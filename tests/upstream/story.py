"""What happens in a generated session, before any wire gives it a shape: an engineer's agent at work on a few files.

Every choice is drawn from the generator that is passed in, and few per step, so that Hypothesis can shrink a session.
The same file is read again and again, changed or not; results are empty, small, large and now and then huge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Literal

Kind = Literal["read", "shell", "grep", "edit", "write"]

PATHS = (
    "src/app/main.py",
    "src/app/queue.py",
    "docs/设计说明.md",
    "tests/test_queue.py",
    "README.md",
    "src/ui/表格.ts",
)
QUESTIONS = (
    "The nightly job dies with a timeout in queue.py. Find out why and fix it.",
    "请把队列的重试逻辑改成指数退避，并补上测试。",
    "Rename `Worker.run` to `Worker.drain` everywhere. Do not touch the public API.",
    "テストが落ちています。原因を調べてください。",
    "Why is the table empty after a reload? 🙂 Here is what I see.",
    "continue",
    "This is the log of last night; find the first failure.\n" + "09:14:02 WARN queue: retry 3 of 5, lock held\n" * 20,
)
PASTED = "09:14:02 WARN queue: retry 3 of 5, lock held by worker-7\n" * 200
"""More than a quarter of a small window."""
THOUGHTS = (
    "The traceback points at the queue. I should read it before I change anything.",
    "先看一下调用方，再决定改哪里。",
    "The earlier read may be stale after the edit; read it again.",
    "",
)
WORDS = (
    "I'll look at the file first.",
    "Now the tests.",
    "先运行测试看看。",
    "That explains it: the lock is never released.",
)
REPLIES = (
    "Done: the retry now backs off, and the test covers it.",
    "修好了。",
    "It was the lock. Fixed in queue.py.",
    "\n".join(
        f"{at}. The lock is taken in step {at} and given back in step {at + 1}, 除了超时。" for at in range(1, 25)
    ),
)
COMMANDS = (
    "pytest -q tests/test_queue.py",
    "git status --short",
    "git diff",
    "ls -la src",
    "cargo build 2>&1 | tail -20",
)
NOTICES = ("The user switched to plan mode.", "Reminder: the budget for this task is nearly used up.")
LINES = (0, 1, 4, 12, 60, 60, 400, 1500)
"""Lengths of results. 1500 lines are about 60 kB, which no client shortens by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    kind: Kind
    path: str
    detail: str
    result: str
    failed: bool = False
    picture: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model call that ends in tool calls."""

    thought: str
    said: str
    calls: tuple[Call, ...]
    searched: str
    """A query the provider itself ran, or nothing."""
    notice: str
    """What the operator put in after the results, where the wire has a place for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    text: str
    picture: bool
    document: bool
    notice: str


@dataclass(slots=True)
class Story:
    rng: Random
    versions: dict[str, int] = field(default_factory=dict)
    """How often each file was changed; a file read twice without a change reads the same."""
    asked: int = 0

    def question(self) -> Question:
        extra = self.rng.randrange(12)
        notice = NOTICES[0] if extra == 2 else ""
        text = self._one(QUESTIONS)
        self.asked += 1
        if extra == 4:
            text += "\n" + PASTED
        elif extra > 6:
            # Said once: where it is lost, no other says the same.
            text += f" ({self.asked})"
        return Question(text=text, picture=extra in (0, 3), document=extra == 1, notice=notice)

    def steps(self) -> list[Step]:
        return [self._step() for _ in range(self.rng.randrange(5))]

    def reply(self) -> tuple[str, str, bool]:
        """Thought, words, and whether the model declined."""
        return self._one(THOUGHTS), self._one(REPLIES), self.rng.randrange(10) == 0

    def _step(self) -> Step:
        calls = tuple(self._call() for _ in range((1, 1, 1, 2, 3)[self.rng.randrange(5)]))
        extra = self.rng.randrange(10)
        return Step(
            thought=self._one(THOUGHTS),
            said=self._one(("", *WORDS)),
            calls=calls,
            searched="python queue timeout" if extra == 0 else "",
            notice=NOTICES[1] if extra == 1 else "",
        )

    def _call(self) -> Call:
        kind: Kind = ("read", "read", "read", "shell", "grep", "edit", "write")[self.rng.randrange(7)]
        path, lines = self._one(PATHS), LINES[self.rng.randrange(len(LINES))]
        version = self.versions.get(path, 0)
        if kind == "read":
            drawn = self.rng.randrange(12) == 0
            return Call(kind=kind, path=path, detail="", result=text_of_file(path, version), picture=drawn)
        if kind in ("edit", "write"):
            self.versions[path] = version + 1
            # What is written is long now and then: such a call is worth taking out.
            detail = "\n".join([f"retry = {version}"] * (1 + (lines // 40 if kind == "write" else 0)))
            return Call(kind=kind, path=path, detail=detail, result=f"The file {path} has been updated.")
        command = self._one(COMMANDS) if kind == "shell" else "def retry"
        failed = kind == "shell" and self.rng.randrange(5) == 0
        output = "\n".join(f"{path}:{at}: {command} 结果 {at * 7919 % 9973}" for at in range(1, lines + 1))
        return Call(kind=kind, path=path, detail=command, result=output, failed=failed)

    def _one(self, choices: tuple[str, ...]) -> str:
        return choices[self.rng.randrange(len(choices))]


@lru_cache(maxsize=256)
def text_of_file(path: str, version: int) -> str:
    """Numbered lines, as file readers print them. A file has its own length, whoever reads it."""
    length = (8, 40, 120, 300, 900)[sum(path.encode()) % 5]
    body = (f"{at:>6}\t{_line(path, at)}" for at in range(1, length + 1))
    return "\n".join([f"     0\t# {path} v{version}", *body])


def _line(path: str, at: int) -> str:
    if path.startswith("docs"):
        return f"第{at}节：重试队列在超时之后会把任务放回，锁必须释放。"
    return f"def step_{at}(queue, lock): return queue.take({at * 31 % 97})  # {path}"
