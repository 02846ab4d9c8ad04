"""An agent's work that is the same every time: who asks what, which tools are called, what they print.

The model's words are its own; calls and results are scripted, because so small a model cannot hold a thread of calls.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": about,
            "parameters": {"type": "object", "properties": {given: {"type": "string"}}, "required": [given]},
        },
    }
    for name, about, given in (
        ("read_file", "Read a file.", "path"),
        ("grep", "Search for a pattern.", "pattern"),
        ("run", "Run a command.", "command"),
    )
]
SYSTEM = "You are a careful engineer. Answer in one short sentence."
_PORTS = ("trieste", "brest", "halifax", "callao", "darwin", "bergen", "busan", "durban", "seattle", "lisbon")
_WORDS = ("datum", "gauge", "level", "offset", "phase", "range", "slack", "station", "surge", "tide", "height", "drift")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call and what the tool prints."""

    id: str
    name: str
    arguments: str
    result: str

    @property
    def as_asked(self) -> dict[str, object]:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}

    @property
    def as_answered(self) -> dict[str, object]:
        return {"role": "tool", "tool_call_id": self.id, "content": self.result}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The user's words, and the calls that the agent makes of them."""

    said: str
    calls: tuple[Call, ...]


def story(calls: int, *, a_turn: int = 3, lines: int = 5, seed: int = 7) -> Iterator[Turn]:
    """So many calls in all, so many to each of the user's messages."""
    dice = random.Random(seed)
    for first in range(0, calls, a_turn):
        port, word = _PORTS[(first // a_turn) % len(_PORTS)], dice.choice(_WORDS)
        file = f"src/tide/{port}_{first}.py"
        said = f"Find out why the {word} of {port} is {dice.randint(2, 99)} cm too high, and mend {file}."
        numbers = range(first, min(first + a_turn, calls))
        yield Turn(said=said, calls=tuple(_call(dice, n, file, word, lines) for n in numbers))


def _call(dice: random.Random, n: int, file: str, word: str, lines: int) -> Call:
    name, given, line = (
        ("read_file", {"path": file}, _source),
        ("grep", {"pattern": word}, _match),
        ("run", {"command": f"python -m pytest {file}"}, _log),
    )[n % 3]
    result = "\n".join(line(dice, file, at) for at in range(1, lines + 1))
    return Call(id=f"call_{n}", name=name, arguments=json.dumps(given), result=result)


def _source(dice: random.Random, file: str, at: int) -> str:
    del file
    first, second = dice.sample(_WORDS, 2)
    return f"{at:3}  {first} = {second} - {dice.randint(1, 999)}"


def _match(dice: random.Random, file: str, at: int) -> str:
    return f"{file}:{at * 7}: {dice.choice(_WORDS)} += {dice.randint(1, 99)}"


def _log(dice: random.Random, file: str, at: int) -> str:
    return f"{file} test_{dice.choice(_WORDS)}_{at} {dice.choice(('passed', 'passed', 'FAILED'))}"
