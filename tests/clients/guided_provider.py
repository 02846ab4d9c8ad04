"""A provider that leads any client through the same work: read one file after another, then say that all are read.

What a client calls its shell differs; it is found among the tools that the request offers, so that a new version of a
client needs no new test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from upstream.finding import Body
from upstream.prefix import tokens, units
from upstream.provider import Exchange, wire_of
from upstream.script import Part, Say, Use
from upstream.server import Upstream

_SAVED = re.compile(r"/[\w/.-]+/tool-results/(?!history)[\w.-]+\w")
DONE = "All parts are read."
TITLE = "Reading parts"
_SHELLS: dict[str, Callable[[str], Body]] = {
    "Bash": lambda command: {"command": command, "description": "Reads a part"},
    "bash": lambda command: {"command": command, "description": "Reads a part"},
    "exec_command": lambda command: {"cmd": command, "max_output_tokens": 20_000},
    "shell": lambda command: {"command": ["sh", "-c", command]},
    "shell_command": lambda command: {"command": command},
    "run_shell_command": lambda command: {"command": command, "description": "Reads a part"},
    "read_part": lambda command: {"name": command.split()[-1]},
}
"""By the name of the tool, how it is asked to run a command."""


@dataclass(slots=True)
class Walk:
    """The script, and how far it is."""

    parts: int
    opens: bool = False
    """Whether the client is asked to open what was saved of a part that left the request."""
    at: int = 0
    """Requests of the loop that came."""
    opened: str = ""
    """The file that it was asked to open."""

    def __call__(self, body: Body) -> list[Part]:
        shell = next((name for name in names(body) if name in _SHELLS), None)
        if shell is None:
            return [Say(TITLE)]  # a side request: clients ask for a title or a topic with no tools at hand
        self.at += 1
        if self.opens and self.at == self.parts + 1:
            saved = _SAVED.search(json.dumps(body))
            assert saved is not None, "a stub names a file"
            self.opened = saved[0]
            return [Say("What was that?"), Use(shell, _SHELLS[shell](f"cat {self.opened}"))]
        if self.at > self.parts:
            return [Say(DONE)]
        return [Say(f"Now part {self.at}."), Use(shell, _SHELLS[shell](f"cat {file_name(self.at)}"))]

    def lane(self, upstream: Upstream) -> list[Exchange]:
        """Requests of the loop, in order."""
        return [request for request in upstream.requests if request.usage and set(names(request.parsed)) & set(_SHELLS)]


def names(body: Body) -> list[str]:
    tools = [tool.get("function") or tool for tool in body.get("tools") or []]
    declared = [tool.get("functionDeclarations") or [tool] for tool in tools]
    return [str(tool.get("name")) for each in declared for tool in each]


def file_name(part: int) -> str:
    return f"part{part:02}.txt"


def marker(part: int) -> str:
    """Stands at the end of a part: who shows it has read the whole file."""
    return f"end-of-part-{part:02}"


def text(part: int, lines: int) -> str:
    """Lines of a log, none like another."""
    rows = (f"{part:02}-{at:04} gauge station-{(part * 31 + at) % 97} reads {at * part} mm" for at in range(lines))
    return "\n".join((*rows, marker(part))) + "\n"


def sent(one: Exchange) -> list[str]:
    return [unit.text for unit in units(wire_of(one.path), one.parsed)]


def tokens_of(one: Exchange) -> int:
    return tokens(units(wire_of(one.path), one.parsed))
