"""The tools of the agent, one file each. `desk.py` says what a tool is."""

from __future__ import annotations

from ebbtide.fronts.chat.tools.bash import bash
from ebbtide.fronts.chat.tools.desk import Desk, Given, Need, Outcome, Refused, Tool, refuse_odd_text
from ebbtide.fronts.chat.tools.edit import edit
from ebbtide.fronts.chat.tools.glob import glob
from ebbtide.fronts.chat.tools.grep import grep
from ebbtide.fronts.chat.tools.read import read
from ebbtide.fronts.chat.tools.recall import RECALL_TOOLS, recalled
from ebbtide.fronts.chat.tools.task import task
from ebbtide.fronts.chat.tools.todo import todo
from ebbtide.fronts.chat.tools.write import write

__all__ = [
    "ALONE",
    "RECALL_TOOLS",
    "TOOLS",
    "Desk",
    "Given",
    "Need",
    "Outcome",
    "Refused",
    "Tool",
    "recalled",
    "refuse_odd_text",
]

TOOLS = (bash, read, write, edit, grep, glob, todo, task)
"""In the order they stand in a request: fixed, for the cache's sake."""
ALONE = (bash, read, write, edit, grep, glob, todo)
"""What a sub-agent has."""
