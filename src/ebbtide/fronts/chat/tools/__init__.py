"""The tools of the agent. `tool.py` defines what a tool is."""

from __future__ import annotations

from ebbtide.fronts.chat.tools.bash import bash
from ebbtide.fronts.chat.tools.files import edit, read, write
from ebbtide.fronts.chat.tools.search import glob, grep
from ebbtide.fronts.chat.tools.tasks import task, todo
from ebbtide.fronts.chat.tools.tool import Action, Arguments, Tool, ToolError, ToolResult, ToolState

__all__ = ["SUBAGENT_TOOLS", "TOOLS", "Action", "Arguments", "Tool", "ToolError", "ToolResult", "ToolState"]

SUBAGENT_TOOLS = (bash, read, write, edit, grep, glob, todo)
TOOLS = (*SUBAGENT_TOOLS, task)
"""In the order in which they stand in a request. Another order would invalidate the provider's cache."""
