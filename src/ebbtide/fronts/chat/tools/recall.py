"""What left the conversation, found and read again. The engine defines the two tools and answers their calls."""

from __future__ import annotations

from ebbtide.core.recall_limits import READ_TOOL, RECALL_TOOLS, SEARCH_TOOL
from ebbtide.fronts.chat.tools.desk import Desk, Given, Outcome, Refused

__all__ = ["READ_TOOL", "RECALL_TOOLS", "SEARCH_TOOL", "recalled"]


def recalled(desk: Desk, name: str, given: Given) -> Outcome:
    if desk.recall is None:
        raise Refused("this session has no recall")
    text = desk.recall(name, given)
    return Outcome(text=text, failed=text.startswith("Error: "))
