"""Whether recall answers questions in plain language: two collections of conversations, English and Chinese, no model.

MemoryBank: a person's conversations are one session, and each probing question must find the turns that answer it;
`labels.json` says which these are. hindsight: a request of the user must find its reply among all distinct replies.
Found means among the first five hits of `Context.recall`.

    python benchmarks/questions.py [--data DIR] [--json] [--show]    a few seconds
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import ebbtide

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TOP = 5
LANGUAGES = {"en": "en", "zh": "cn"}
"""Ours, and the one in the names of MemoryBank's files."""
_SHORTEST, _ASKED = 20, 300
"""Characters of a request of hindsight: shorter ones ask nothing, of longer ones so much is asked."""


@dataclass
class Score:
    """The questions of one collection in one language."""

    shares: list[float] = field(default_factory=list)
    """For each question, how many of the turns that answer it were found."""
    cpu_ms: list[float] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, question: str, hits: Sequence[Any], wanted: Sequence[int], cpu: float) -> None:
        turns = {hit.message for hit in hits}
        self.shares.append(len(turns.intersection(wanted)) / len(wanted))
        self.cpu_ms.append(1e3 * cpu)
        if self.shares[-1] < 1:
            self.missed.append(question)

    def figures(self) -> dict[str, float]:
        return {
            "questions": len(self.shares),
            "found": round(statistics.mean(self.shares), 3),
            "cpu_ms_p50": round(statistics.median(self.cpu_ms), 2),
        }


def remember(turns: Sequence[tuple[str, str]]) -> ebbtide.Context:
    """Return a context that has recorded these turns: role and text of each."""
    context = ebbtide.Context(window=1_000_000)
    messages = [{"role": role, "content": text} for role, text in turns]
    context.prepare({"model": "any", "max_tokens": 1, "messages": messages})
    context.recall("warm")  # so that no question pays for the index
    return context


class Memory(Protocol):
    """What questions are asked: a context, or another kind of search."""

    def recall(self, query: str, *, limit: int) -> Sequence[Any]: ...


Remember = Callable[[Sequence[tuple[str, str]]], Memory]


def ask(context: Memory, question: str, wanted: Sequence[int], score: Score) -> None:
    begun = time.process_time()
    hits = context.recall(question, limit=TOP)
    score.add(question, hits, wanted, time.process_time() - begun)


def memorybank(folder: Path, language: str, remember: Remember = remember) -> Score:
    labels = {name: turns for name, turns in _read_json(folder / "labels.json").items() if name != "about"}
    suffix = LANGUAGES[language]
    lines = (folder / f"probing_questions_{suffix}.jsonl").read_text("utf-8").splitlines()
    questions = [next(iter(json.loads(line).values())) for line in lines]
    people = list(_read_json(folder / f"memory_bank_{suffix}.json").values())
    names = [name.strip() for name in _read_json(folder / "memory_bank_en.json")]
    score = Score()
    for name, wanted in labels.items():
        person = names.index(name)  # both languages have the same people in the same order
        context = remember(list(_turns(people[person]["history"])))
        for number, turns in wanted.items():
            ask(context, questions[person][int(number)], turns, score)
    return score


def _turns(history: dict[str, list[dict[str, str]]]) -> Iterator[tuple[str, str]]:
    for date, exchanges in history.items():
        for exchange in exchanges:
            yield "user", f"{date} {exchange['query']}"
            yield "assistant", f"{date} {exchange['response']}"


def hindsight(folder: Path, language: str, remember: Remember = remember) -> Score:
    (path,) = (path for path in folder.glob("*.gz") if path.name.endswith("_en.txt.gz") == (language == "en"))
    with gzip.open(path, "rt", encoding="utf-8") as file:
        exchanges = [messages for line in file if line.strip() for messages in json.loads(line)]
    pairs = dict.fromkeys(  # the recording repeats most of them
        (user["content"], reply["content"])
        for messages in exchanges
        for user, reply in pairwise(messages)
        if (user["role"], reply["role"]) == ("user", "assistant")
    )
    replies = list(dict.fromkeys(reply for _, reply in pairs))
    context, score = remember([("assistant", reply) for reply in replies]), Score()
    for request, reply in pairs:
        if len(request) > _SHORTEST:
            question = request.partition(": ")[2][:_ASKED]  # after the speaker
            ask(context, question, [replies.index(reply)], score)
    return score


def _read_json(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return data


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true", help="print the questions that were missed")
    options = parser.parse_args(argv)
    if not (options.data / "memorybank").is_dir():
        print(f"no conversations in {options.data}", file=sys.stderr)
        return 2
    scores = {
        f"{name} {language}": measure(options.data / name, language)
        for name, measure in {"memorybank": memorybank, "hindsight-zh-en": hindsight}.items()
        for language in LANGUAGES
    }
    figures = {name: score.figures() for name, score in scores.items()}
    if options.json:
        json.dump(figures, sys.stdout, indent=1)
        return 0
    for name, score in scores.items():
        print(f"{name:<20} {figures[name]}")
        for question in score.missed if options.show else ():
            print(f"  missed: {question[:120]!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
