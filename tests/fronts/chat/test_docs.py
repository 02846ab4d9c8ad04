"""The page about `ebb chat` says what the program takes and what it has."""

import re
import shlex
from pathlib import Path

import pytest

from ebbtide.core.tool_calls import RECALL_TOOLS
from ebbtide.fronts.chat.command import command_line
from ebbtide.fronts.chat.commands import COMMANDS
from ebbtide.fronts.chat.tools import TOOLS

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "how-to" / "chat.md").read_text(encoding="utf-8")
LINES = [
    line
    for text in (PAGE, (DOCS / "tutorial.md").read_text(encoding="utf-8"))
    for line in re.findall(r"(?:^|`|\| )(ebb chat[^`|\n]*)", text, re.MULTILINE)
]


@pytest.mark.parametrize("line", sorted(set(LINES)))
def test_every_line_of_the_page_parses(line):
    assert command_line().parse_args(shlex.split(line)[2:])


def test_the_page_names_every_command_and_every_tool():
    assert not [name for name in COMMANDS if f"/{name}" not in PAGE]
    assert not [name for name in (*(tool.name for tool in TOOLS), *RECALL_TOOLS) if f"`{name}`" not in PAGE]
