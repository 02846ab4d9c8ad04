"""The events of a turn, in the order in which the agent yields them."""

from __future__ import annotations

from typing import NamedTuple

from ebbtide.fronts.chat.providers import Reply, ToolCall
from ebbtide.fronts.chat.tools import ToolResult
from ebbtide.runtime.report import Report


class RequestStart(NamedTuple):
    report: Report


class TextDelta(NamedTuple):
    text: str


class ReplyEnd(NamedTuple):
    reply: Reply


class ToolStart(NamedTuple):
    call: ToolCall


class ToolEnd(NamedTuple):
    call: ToolCall
    result: ToolResult


class QueuedMessage(NamedTuple):
    """A message that the user sent during the turn is now part of the conversation."""

    text: str


class TurnInterrupt(NamedTuple):
    """The user interrupted the turn."""


class TurnFailure(NamedTuple):
    """The turn ended early. The conversation can continue."""

    error: Exception


AgentEvent = RequestStart | TextDelta | ReplyEnd | ToolStart | ToolEnd | QueuedMessage | TurnInterrupt | TurnFailure
