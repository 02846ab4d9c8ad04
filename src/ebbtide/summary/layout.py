"""What a fold has to show, and the form it is shown in. A preset's form is a value; the pass that folds is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ebbtide.core.types import OURS, QUOTED, Item, Role, Way

Merge = Literal["fold", "accumulate", "pin"]
"""D10. `fold`: the earlier summary is handed on and merged. `accumulate`: only what came after it is folded, and
summaries stand in a row. `pin`: the same in place, and no summary is ever touched again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Everything that a shape may write down about the run that leaves."""

    summary: str = ""
    """A model's words or a person's; empty where neither wrote any."""
    analysis: str = ""
    digest: str = ""
    """The ledger's facts, by machine."""
    front: tuple[Item, ...] = ()
    """What the harness had put in front of it all: the project's instructions."""
    words: tuple[Item, ...] = ()
    """The user's own messages."""
    live: tuple[Item, ...] = ()
    """Files and notes as they are now."""
    operator: tuple[Item, ...] = ()
    """The operator's messages inside the run, and what is pinned: they stay."""
    first_turn: int = 1
    last_turn: int = 1
    users: int = 0
    assistants: int = 0
    """Messages of each side in the run."""
    automatic: bool = True
    transcript: str = ""
    """Where the whole conversation can be read."""
    history: str = ""
    """Where this run can be read, as text: a file, or a handle in memory. Empty where nobody is to know."""
    kept: bool = True
    """Whether what folds can be read again at all."""
    tool: str = ""
    """The tool that finds and reads it, where the model has one."""
    next_is_user: bool = False
    """What follows stands on the user's side: something must answer in between."""
    count: Callable[[str], int]

    def note(self, text: str, *, role: Role = "user") -> Item:
        """An item of ours."""
        return Item(
            id="", message=-1, role=role, kind="text", text=text, tokens=self.count(text), tier=QUOTED, source=OURS
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a prompt may go by."""

    cap: int
    """Tokens that the answer may have."""
    focus: str = ""
    instructions: tuple[str, ...] = ()
    prior: str = ""
    """The summary of an earlier fold."""
    tokens: int = 0
    """Of the run that is asked about."""
    language: str = ""
    """That the user writes, where it was recognised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How one preset folds."""

    ask: Callable[[Question], str]
    write: Callable[[Fold], tuple[Item, ...]]
    merge: Merge = "fold"
    way: Way = "prefix"
    prior: Callable[[str], str] = str
    """From the item that an earlier fold left to the summary in it."""
    words: bool = True
    """Whether the user's messages are carried as they are."""
    newest_whole: bool = False
    """Whether the newest of them stays as it is however long it is, pictures included."""
