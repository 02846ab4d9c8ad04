"""What a fold has to show, and the form it is shown in. A preset's form is a value; the pass that folds is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ebbtide.core.types import OURS, QUOTED, AnswerMode, Item, Role

MergeMode = Literal["fold", "accumulate", "pin"]
"""D10. `fold`: the earlier summary is handed on and merged. `accumulate`: only what came after it is folded, and
summaries stand in a row. `pin`: the same in place, and no summary is ever touched again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryContent:
    """Everything that a shape may write down about the run that leaves."""

    summary: str = ""
    """A model's words or a person's; empty where neither wrote any."""
    analysis: str = ""
    facts: str = ""
    """The ledger's facts, by machine."""
    project_instructions: tuple[Item, ...] = ()
    """What the harness had put in front of it all: the project's instructions."""
    user_messages: tuple[Item, ...] = ()
    """The user's own messages."""
    live_content: tuple[Item, ...] = ()
    """Files and notes as they are now."""
    kept_items: tuple[Item, ...] = ()
    """The operator's messages inside the run, and what is pinned: they stay."""
    first_turn: int = 1
    last_turn: int = 1
    user_count: int = 0
    assistant_count: int = 0
    """Messages of each side in the run."""
    is_automatic: bool = True
    transcript_path: str = ""
    """Where the whole conversation can be read."""
    history_path: str = ""
    """Where this run can be read, as text: a file, or a handle in memory. Empty where nobody is to know."""
    is_saved: bool = True
    """Whether what folds can be read again at all."""
    recall_tool: str = ""
    """The tool that finds and reads it, where the model has one."""
    next_is_user: bool = False
    """What follows stands on the user's side: something must answer in between."""
    count: Callable[[str], int]

    def make_item(self, text: str, *, role: Role = "user") -> Item:
        """An item of ours."""
        return Item(
            id="", message=-1, role=role, kind="text", text=text, tokens=self.count(text), trust=QUOTED, source=OURS
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInput:
    """What a prompt may go by."""

    max_tokens: int
    """Tokens that the answer may have."""
    focus: str = ""
    instructions: tuple[str, ...] = ()
    prior_summary: str = ""
    """The summary of an earlier fold."""
    tokens: int = 0
    """Of the run that is asked about."""
    language: str = ""
    """That the user writes, where it was recognised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryLayout:
    """How one preset folds."""

    write_prompt: Callable[[PromptInput], str]
    write_summary: Callable[[SummaryContent], tuple[Item, ...]]
    merge_mode: MergeMode = "fold"
    answer_mode: AnswerMode = "prefix"
    read_summary: Callable[[str], str] = str
    """From the item that an earlier fold left to the summary in it."""
    keeps_user_messages: bool = True
    """Whether the user's messages are carried as they are."""
    keeps_newest_message: bool = False
    """Whether the newest of them stays as it is however long it is, pictures included."""
