"""Old results become stubs, oldest first. The call stays, so the model knows what it did and can do it again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ebbtide.core.content import PROTECTED, tool_of
from ebbtide.core.engine import Situation
from ebbtide.core.leaving import Leaving, may_leave, newest
from ebbtide.core.preview import Count
from ebbtide.core.stub import Template, render
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from ebbtide.ledger.telling import Telling

BY = "clear_results"


def clear_results(
    view: View,
    situation: Situation,
    *,
    keep_results: int = 3,  # newest of the tools below
    keep_turns: int = 0,
    keep_tokens: int = 0,
    min_tokens: int = 100,  # a stub takes about 30: clearing less saves little and costs a look-up
    only: frozenset[str] | None = None,
    never: frozenset[str] = PROTECTED,
    telling: float = 0.0,  # share of a result that may stay, as its most telling lines
    telling_tokens: int = 1_200,  # the same in tokens, at most; in a window below 192k less
    stub: Template = render,
) -> Iterator[Edit]:
    """Clear what no rule keeps: a result stays if any of the rules says so, or if it has `min_tokens` or fewer."""
    leaving = Leaving(by=BY, view=view, situation=situation)
    selected = _Selected(view, only, never, min_tokens)
    old = [one for one in selected.old(keep_results, keep_tokens, newest(view, keep_turns)) if may_leave(view, one)]
    told = _told(view, old) if telling and old else None
    for entry in old:
        if told is None:
            yield leaving.result(entry, stub, "old result")
            continue
        most = min(telling_tokens, situation.budget.window // 160, int(telling * entry.tokens))
        yield leaving.result(entry, stub, "old result", preview=partial(_shown, told, most))


def _told(view: View, leaves: list[Item]) -> Telling:
    """What the request says besides the results that leave. Thinking does not count: it goes with a batch."""
    gone = {entry.id for entry in leaves}
    return Telling.beside(entry for entry in view.entries if entry.kind != "thinking" and entry.id not in gone)


def _shown(told: Telling, most: int, text: str, count: Count) -> str:
    return told.lines(text, count, most)


class _Selected:
    """Results of the tools that are cleared; and of them the large ones, which alone may go."""

    def __init__(self, view: View, only: frozenset[str] | None, never: frozenset[str], min_tokens: int) -> None:
        def counts(entry: Item) -> bool:
            if entry.kind != "result":
                return False
            tool = tool_of(view, entry)
            return tool not in never and (only is None or tool in only)

        def goes(entry: Item) -> bool:
            return entry.tokens > min_tokens and not view.is_ours(entry) and counts(entry)

        self.all = view.picked((BY, only, never), counts)
        self.large = view.picked((BY, only, never, min_tokens), goes)

    def old(self, keep_results: int, keep_tokens: int, newest_turns: int) -> list[Item]:
        """Large ones that are not among the newest, by any rule; oldest first."""
        old = list[Item]()
        for place, entry in zip(self.large.places, self.large.entries, strict=True):
            nth = self.all.before(place)
            newer = self.all.total - (self.all.tokens[nth - 1] if nth else 0)
            if len(self.all.places) - nth > keep_results and newer > keep_tokens and place < newest_turns:
                old.append(entry)
        return old
