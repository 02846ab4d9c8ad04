"""Generated tool conversations with facts at known places, and a question for each fact. Equal seeds give equal text.

A conversation is the work of an agent on one project: the user states a rule, the agent reads files, runs commands and
edits. Six facts are early in it, and long results of other files follow. The answers are random, so no model can guess
them, and no other line contains them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conversation import Step, anthropic, openai
from conversation import steps as filler_steps

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import FIVE_MINUTES
from ebbtide.replay.message_index import MessageIndex
from ebbtide.replay.session import ReplayCall, ReplaySession
from ebbtide.wire import WIRES

NONE = "NONE"
"""The right answer if the conversation does not say it."""
SYSTEM = "You are a careful engineer. You answer questions about your work in one word, from what you have seen."
SECONDS = 15.0
"""Between two calls: about one step of an agent, far below the lifetime of a cache."""
_STEPS_IN_A_TURN = 5
_CALL_TOKENS = 90
"""Of a step besides its result: the call, and its part of the turn's messages."""
_CHARACTERS = 2
"""Of a token, in results such as these: paths, numbers, names."""
_FIELDS = {"Read": "path", "Grep": "pattern", "Edit": "path", "Bash": "command"}
_SERVICES = ("billing", "catalog", "payroll", "shipping", "tickets", "warehouse")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A question about the conversation, and the one right answer."""

    kind: str
    question: str
    answer: str
    shown: str
    """A pattern of the text that shows the answer. If the text is there several times, the last one counts."""
    wrong: tuple[str, ...] = ()
    """Answers of a model that confused two facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A message of the user, and the steps that the agent takes then."""

    said: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    turns: tuple[Turn, ...]
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class _Fact:
    """A step that shows something, at a share of the conversation, with its line in the middle of a result."""

    at: float
    tool: str
    argument: str
    line: str


def generate(seed: int, *, tokens: int, result_tokens: int) -> Conversation:
    """Make a conversation of about so many tokens. The same seed has the same facts and tasks at every length."""
    dice = random.Random(seed)
    service = dice.choice(_SERVICES)
    facts, rule, tasks = _facts(dice, service)
    filler = filler_steps(seed)
    sample = _step(0, None, filler, result_tokens)
    count = max(len(facts), tokens // (DEFAULT.text(sample.result) + _CALL_TOKENS))
    places = _places(facts, count)
    steps = [_step(n, places.get(n), filler, result_tokens) for n in range(count)]
    return Conversation(turns=tuple(_turns(steps, service, rule)), tasks=tasks)


def _facts(dice: random.Random, service: str) -> tuple[list[_Fact], str, tuple[Task, ...]]:
    lease, old, new, size = (str(number) for number in dice.sample(range(1_000, 9_999), 4))
    code, harbor = f"E{dice.randint(10_000, 99_999)}", f"harbor-{dice.randint(1_000, 9_999)}"
    commit = f"{dice.randrange(16**7):07x}"[:6] + "c"
    settings = f"settings/{service}.toml"
    facts = [
        _Fact(0.02, "Read", settings, f"{service}_lease_seconds = {lease}"),
        _Fact(0.05, "Bash", f"pytest tests/test_{service}.py", f"FAILED test_{service}_rounding: error {code}"),
        _Fact(0.08, "Read", f"settings/{service}_batch.toml", f"{service}_batch_size = {old}"),
        _Fact(0.11, "Bash", f"git commit -m 'Fix rounding of {service}'", f"[main {commit}] Fix rounding of {service}"),
        _Fact(0.14, "Read", f"settings/{service}_cache.toml", f"{service}_cache_size = {size}"),
        _Fact(0.30, "Edit", f"settings/{service}_batch.toml", f"{service}_batch_size = {new}"),
    ]
    tasks = (
        _task("value", f"What is the value of {service}_lease_seconds?", lease, rf"{service}_lease_seconds = (\d+)"),
        _task("error", f"With which error code did test_{service}_rounding fail?", code, r"_rounding: error (E\d+)"),
        _task(
            "rule", "Which name must the release branch have?", harbor, r"release branch must be called (harbor-\d+)"
        ),
        _task("output", f"What is the hash of the commit 'Fix rounding of {service}'?", commit, r"\[main (\w+)\] Fix"),
        _task("changed", f"What is the newest value of {service}_batch_size?", new, rf"{service}_batch_size = (\d+)"),
        _task("absent", f"What is the value of {service}_cache_shards?", NONE, rf"{service}_cache_shards = (\d+)"),
    )
    tasks = tuple(replace(task, wrong=(old,) if task.kind == "changed" else ()) for task in tasks)
    return facts, f"Rule: the release branch must be called {harbor}.", tasks


def _task(kind: str, question: str, answer: str, shown: str) -> Task:
    ask = f"{question} Answer with the value alone, or with {NONE} if this conversation does not say it."
    return Task(kind=kind, question=ask, answer=answer, shown=shown)


def _places(facts: Sequence[_Fact], count: int) -> dict[int, _Fact]:
    """At which step each fact is, in the order of the facts."""
    places: dict[int, _Fact] = {}
    for fact in facts:
        places[max(int(fact.at * count), max(places, default=-1) + 1)] = fact
    return places


def _step(number: int, fact: _Fact | None, filler: Iterator[Step], tokens: int) -> Step:
    other = next(filler)
    lines: list[str] = []
    while sum(map(len, lines)) < _CHARACTERS * tokens:
        lines += ((lines and next(filler)) or other).result.splitlines()
    lines = lines[: max(1, _line_count(lines, _CHARACTERS * tokens))]
    if fact is None:
        argument = str(other.arguments.get("file_path") or other.arguments.get("pattern") or other.arguments["command"])
        tool, said = other.tool, other.said
    else:
        lines.insert(len(lines) // 2, fact.line)
        tool, argument, said = fact.tool, fact.argument, "Next I go on with the service."
    arguments: dict[str, object] = {_FIELDS[tool]: argument}
    return Step(id=f"toolu_{number:08d}", said=said, tool=tool, arguments=arguments, result="\n".join(lines) + "\n")


def _line_count(lines: Sequence[str], characters: int) -> int:
    total = 0
    for n, line in enumerate(lines):
        total += len(line)
        if total >= characters:
            return n + 1
    return len(lines)


def _turns(steps: Sequence[Step], service: str, rule: str) -> Iterator[Turn]:
    for first in range(0, len(steps), _STEPS_IN_A_TURN):
        said = f"Now look at part {first // _STEPS_IN_A_TURN} of the service."
        if not first:
            said = f"The service {service} rounds wrongly. Find out why and fix it. {rule}"
        yield Turn(said=said, steps=tuple(steps[first : first + _STEPS_IN_A_TURN]))


# --- as requests ------------------------------------------------------------------------------------------------------


def as_session(
    conversation: Conversation, question: str, *, wire: str, model: str, reply_tokens: int, more_tools: Sequence[Any]
) -> ReplaySession:
    """Return the requests of an agent that never removes anything; the last one asks the question."""
    kind, messages, calls = WIRES[wire], list[dict[str, Any]](), list[ReplayCall]()
    tools = [
        *(kind.requests.tool_definition(name, f"{name}.", _schema(of)) for name, of in _FIELDS.items()),
        *more_tools,
    ]
    system = {"system": SYSTEM} if wire == "anthropic" else {}
    if wire == "openai_chat":
        messages.append({"role": "system", "content": SYSTEM})

    def call(response: dict[str, Any] | None) -> None:
        body = {"model": model, "max_tokens": reply_tokens, **system, "tools": tools, "messages": list(messages)}
        marks = dict(kind.cache.client_fields(model, FIVE_MINUTES))
        calls.append(
            ReplayCall(
                raw={**body, **marks}, unmarked=body, recorded=body, response=response, at=len(calls) * SECONDS,
                model=model, usage=None, is_compacted=False,
            )
        )  # fmt: skip

    for turn in conversation.turns:
        messages.append({"role": "user", "content": turn.said})
        for step in turn.steps:
            said, result = anthropic(step) if wire == "anthropic" else openai(step)
            call(_response(wire, said))
            messages += [said, result]
        done = {"role": "assistant", "content": "That part is done."}
        call(_response(wire, done))
        messages.append(done)
    messages.append({"role": "user", "content": question})
    call(None)
    overhead = DEFAULT.text(SYSTEM if wire == "anthropic" else "") + DEFAULT.text(json.dumps(tools))
    index = MessageIndex(wire=kind, estimator=DEFAULT, has_names=False, overhead=overhead)
    return ReplaySession(name="task", format="task", wire=kind, calls=tuple(calls), messages=index)


def _schema(field: str) -> dict[str, Any]:
    return {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}


def _response(wire: str, message: dict[str, Any]) -> dict[str, Any]:
    """The answer as a recording has it."""
    content = message["content"]
    if wire == "openai_chat" or isinstance(content, list):
        return message
    return {**message, "content": [{"type": "text", "text": content}]}
