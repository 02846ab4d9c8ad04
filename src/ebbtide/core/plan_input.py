"""What a plan is made from besides the view: thresholds, budget, cache and compaction state. Passes read it.

The values are tuples because two of them are built for every request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ebbtide.core.blob_names import BlobNames
from ebbtide.core.cache.economics import Prices
from ebbtide.core.types import Answer, Edit, Question, Trigger
from ebbtide.core.view import View

LEVELS = ("calm", "warning", "soft", "auto", "hard", "blocking")
"""From nothing to do, to refuse. The presets map their own levels onto these."""
_FALLING = LEVELS[:0:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """At how many tokens of the whole request each level begins."""

    warning: int
    soft: int
    auto: int
    """High water: make edits until the request is down at `low`."""
    hard: int
    """The request must end at or below this."""
    blocking: int
    """Refuse the request, where the policy says so."""
    low: int
    least: int = 0
    """What a batch below the hard level must free, and how far below high water it must end, or a compaction joins it.

    Less would have to be repeated a few turns later.
    """
    inclusive: bool = False
    """Whether a level is reached at exactly its value (`>=`) or only above it (`>`)."""

    def is_reached(self, tokens: int, level: str) -> bool:
        threshold: int = getattr(self, level)
        return tokens >= threshold if self.inclusive else tokens > threshold

    def level_at(self, tokens: int) -> str:
        """Return the highest level that is reached."""
        return next((level for level in _FALLING if self.is_reached(tokens, level)), LEVELS[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The window and the thresholds that follow from it."""

    window: int
    max_output: int = 0
    """The request's own `max_tokens`: a reply must fit too."""
    levels: Thresholds
    overhead: int = 0
    """Tokens of the request outside the view: system prompt and tools."""

    @property
    def message_budget(self) -> int:
        """Tokens that the conversation may take."""
        return max(0, self.levels.blocking - self.overhead)


class CompactionInput(NamedTuple):
    """What is known about compaction, besides the view.

    It stays flat, at 16 fields, because the log records it so: a plan must be repeatable from the record.
    """

    answers: Mapping[str, Answer] = {}
    """By the key of the question. Not recorded with the plan: answers are records of their own."""
    asks: bool = False
    """Whether a model can be asked: there is one, and it has not failed too often."""
    live: bool = False
    """Whether files and notes can be read as they are now."""
    focus: str = ""
    """What a person wants to keep above all."""
    instructions: tuple[str, ...] = ()
    """What the project says about summaries."""
    summary: str = ""
    """A person's own summary instead of a model's."""
    first: str = ""
    """Compact from this item on, if a person said so; else from the beginning."""
    last: str = ""
    """Compact up to this item, if a person said so."""
    after: int | None = None
    """Tokens of the request after the newest compaction; None before the first."""
    stalled: bool = False
    """The last compactions made no room."""
    forbidden: bool = False
    """A hook forbade compaction this time. Not recorded: a plan without compaction is the same."""
    waiting: bool = False
    """A model is being asked in the background: only the hard level compacts without its answer."""
    way: str = "path"
    """How the model can read what was removed: by `path`, by `tool`, or `off`, not at all."""
    transcript: str = ""
    """Where the whole conversation can be read."""
    tool: str = ""
    """The tool by which the model can find and read what was removed."""
    children: tuple[tuple[str, str], ...] = ()
    """Finished sub-agents with their results. Not recorded: they are records of their own."""


def _quarter(text: str) -> int:
    return -(-len(text) // 4)


class PlanInput(NamedTuple):
    """What a pass may know besides the view.

    All of it is passed in and recorded, so that a plan can be made again. It stays flat, at 21 fields, because a pass
    reads two or three of them and the log records them side by side.
    """

    budget: Budget
    tokens: int
    """Size of the whole request, based on the last usage where there is one."""
    scale: float = 1.0
    """How much `tokens` falls for each estimated token that is removed: calibration and safety margins."""
    scale_new: float = 1.0
    """The same for entries that were never sent: 0 where `tokens` is the last bill, which does not include them."""
    utilisation: float = 0.0
    """`tokens` over the space that the policy counts as usable."""
    cached_entries: int = 0
    """How many leading entries the provider still has cached."""
    first_unsent: int = 0
    """Index of the first entry that was never sent: from there on changes are free."""
    idle: float | None = None
    """Seconds since the last call; None before the first."""
    trigger: Trigger = "auto"
    target: int | None = None
    """Tokens of results that a clear may keep, if a person or the caller named it (R136)."""
    growth: int = 0
    """Tokens that a call adds, on average so far."""
    prices: Prices = Prices(read=0.1, write=1.25)
    count_tokens: Callable[[str], int] = _quarter
    """How the policy counts the tokens of a text. Not recorded: it follows from the policy."""
    result_overhead: int = 0
    """Tokens around the text of a result or a stub. Not recorded: it follows from the policy."""
    message_overhead: int = 0
    """Tokens around the content of a message. Not recorded: it follows from the policy."""
    blob_names: BlobNames | None = None
    """Where removed content is stored; None if nothing is stored."""
    thinking_bound_to_prefix: bool = False
    """Signed thinking is bound to everything before it (A63)."""
    cleared: frozenset[str] = frozenset()
    """Call ids of results that the client had cleared before its session was resumed here (R149)."""
    compaction: CompactionInput = CompactionInput()
    forced: bool = False
    """The request was over high water at the start, so it is rewritten anyway. The planner sets it."""
    now: float = 0.0

    @property
    def level(self) -> str:
        return self.budget.levels.level_at(self.tokens)

    @property
    def is_cache_cold(self) -> bool:
        """The provider has nothing of this request cached any more: a rewrite costs nothing extra (R133)."""
        return self.idle is not None and self.cached_entries == 0

    def after_freeing(self, freed: int) -> PlanInput:
        """Return the input after so many estimated tokens were removed from the view."""
        if not freed:
            return self
        tokens = max(0, self.tokens - round(freed * self.scale))
        share = tokens / self.tokens if self.tokens else 0.0
        return self._replace(tokens=tokens, utilisation=self.utilisation * share)

    @property
    def tokens_to_free(self) -> int:
        """Tokens to free to be back at low water."""
        return max(0, self.tokens - self.budget.levels.low)


Pass = Callable[[View, PlanInput], Iterable[Edit | Question]]
"""Looks at a view and proposes edits. Its keyword arguments are its settings. It has no other input or output."""
