"""The conversation as it would be sent: the original items with the active edits applied.

Originals never change. An edit covers a run of originals, and the view shows its replacement instead. It is active
where all items are present that it was made of and nothing else lies between those that it hides
(`core.edit_layout`). So a rewound branch sends what it sent before, and no edit reaches another conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from itertools import groupby
from operator import attrgetter
from typing import TypeVar, cast

from ebbtide.core.edit_layout import Originals, Placed, bind, edit_range, lay_out, show_edits
from ebbtide.core.types import OURS, Edit, Item

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class View:
    """Original items and edits, and the entries that follow from them. Build it with `View.of`."""

    originals: tuple[Item, ...]
    edits: tuple[Edit, ...] = ()
    """All recorded edits that were not undone, oldest first, active here or not."""
    entries: tuple[Item, ...]
    """The items to send, in order: originals, and replacements where an edit is active."""
    tokens: int
    """Sum over `entries`."""
    edit_by_entry: Mapping[str, Edit] = field(default_factory=dict)
    """From the id of a replacement entry to its edit."""
    visible_edits: int = 0
    """How many edits change the entries. An edit inside the range of a larger one does not."""
    dormant_ids: frozenset[str] = frozenset()
    """Ids that would activate a dormant edit, or repeat an inserted call. If one appears, the view is rebuilt."""
    placed: Placed = field(default_factory=dict, repr=False, compare=False)
    """The visible edits that cover something, by the first index they cover."""
    indexed: tuple[Mapping[str, int], int] = field(default=({}, 0), repr=False, compare=False)
    """The index of an earlier view that this one extends, and how many items it covers."""
    grown_from: tuple[tuple[Item, ...], int] = field(default=((), 0), repr=False, compare=False)
    """The entries of the view that this one extends, and how many of them, from the first on, are the same here."""
    computed: dict[str, object] = field(default_factory=dict, repr=False, compare=False)
    """Values that `once_per_view` keeps."""

    @staticmethod
    def of(items: Iterable[Item], edits: Iterable[Edit] = ()) -> View:
        """Apply recorded edits to items. Where two ranges overlap, the containing one wins, then the newer."""
        items, edits = tuple(items), tuple(edits)
        return View._of(items, edits, {item.id: i for i, item in enumerate(items)} if edits else {})

    @staticmethod
    def _of(items: tuple[Item, ...], edits: tuple[Edit, ...], index: Mapping[str, int]) -> View:
        if not edits:
            return View(originals=items, entries=items, tokens=_count_tokens(items))
        layout = lay_out(Originals(items, index), edits)
        entries, edit_by_entry = show_edits(items, layout)
        return View(
            originals=items,
            edits=edits,
            entries=entries,
            tokens=_count_tokens(entries),
            edit_by_entry=edit_by_entry,
            visible_edits=len(layout.placed) + sum(map(len, layout.inserted.values())),
            placed=layout.placed,
            dormant_ids=layout.dormant_ids,
            indexed=(index, len(items)),
        )

    def extend(self, items: Sequence[Item]) -> View:
        """Add new items at the end. Costs what is new, unless a dormant edit waits for one of them."""
        return self.extend_from(len(self.originals), self.originals + tuple(items))

    def extend_from(self, kept: int, items: tuple[Item, ...]) -> View:
        """Return the view of `items`, whose first `kept` are the same as here. Cheap if the ids after them are too.

        Clients move cache breakpoints, so the last messages come back with other bytes and the same content.
        """
        tail, new = self.originals[kept:], items[kept:]
        # A reader creates each item once: where the last kept item is the same object, so are all before it.
        is_same = not kept or self.originals[kept - 1] is items[kept - 1]
        if not is_same or not self._only_grows(tail, new):
            return View.of(items, self.edits)
        kept_entries = len(self.entries) - len(tail)
        is_plain = self.entries is self.originals
        return View(
            originals=items,
            edits=self.edits,
            entries=items if is_plain else self.entries[:kept_entries] + new,
            tokens=self.tokens - _count_tokens(tail) + _count_tokens(new),
            edit_by_entry=self.edit_by_entry,
            visible_edits=self.visible_edits,
            dormant_ids=self.dormant_ids,
            placed=self.placed,
            indexed=self.indexed,
            grown_from=(self.entries, kept_entries),
        )

    def _only_grows(self, tail: tuple[Item, ...], new: tuple[Item, ...]) -> bool:
        if tail:
            if self.entries[len(self.entries) - len(tail) :] != tail:
                return False
            if [item.id for item in tail] != [item.id for item in new[: len(tail)]]:
                return False
        dormant = self.dormant_ids
        return not dormant or not any(item.id in dormant or item.call_id in dormant for item in new[len(tail) :])

    def apply(self, edits: Iterable[Edit]) -> View:
        """Return the view with these edits too. An edit without a binding is new and is bound to this view."""
        bound = (edit if edit.binding is not None else self.bind(edit) for edit in edits)
        return View._of(self.originals, (*self.edits, *bound), self.index)

    def bind(self, edit: Edit) -> Edit:
        """Record in a new edit which items it hides and which items its text was made of.

        An insertion is made of everything before it. It may follow a reply that is not in the view yet.
        """
        span = edit_range(edit, self.index)
        if span is None and not edit.insert_after:
            return edit
        first, end = span or (len(self.originals), len(self.originals))
        first, end = (end + 1, end + 1) if edit.insert_after else (first, end + 1)
        before = self.originals[:first] if edit.insert_after or edit.made_of != "covered" else ()
        behind = self.originals[end:] if edit.made_of != "covered" else ()
        binding = bind(self.originals[first:end], (*before, *behind), self._call_item_ids, edit)
        return replace(edit, branch_tip=edit.branch_tip or self.branch_tip, binding=binding)

    @cached_property
    def _call_item_ids(self) -> Mapping[str, str]:
        """From a call's id to the id of its item, over the originals."""
        return {item.call_id: item.id for item in self.originals if item.kind == "call"}

    def span(self, edit: Edit) -> tuple[int, int] | None:
        """First and last index of the originals that a visible edit covers; None for a hidden one or an insertion."""
        return self._spans.get(id(edit))

    @cached_property
    def _spans(self) -> Mapping[int, tuple[int, int]]:
        return {id(edit): (location.first, location.last) for location, edit in self.placed.values()}

    @property
    def has_edits(self) -> bool:
        """Whether the entries differ from the originals."""
        return bool(self.visible_edits)

    def is_ours(self, entry: Item) -> bool:
        """Whether an entry is a replacement, or one that a client sent back as history. No pass may edit it again."""
        return entry.id in self.edit_by_entry or entry.source == OURS

    @cached_property
    def active_edits(self) -> tuple[Edit, ...]:
        """Edits that are active on this branch, oldest first, also those hidden by a larger one."""
        originals = Originals(self.originals, self.index)
        return tuple(edit for edit in self.edits if originals.locate(edit) is not None)

    @cached_property
    def index(self) -> Mapping[str, int]:
        """From an original's id to its index in `originals`."""
        index, count = self.indexed
        if count == len(self.originals):
            return index
        return {**index, **{item.id: i for i, item in enumerate(self.originals[count:], count)}}

    @cached_property
    def message_count(self) -> int:
        """How many messages the entries form."""
        return sum(1 for _ in groupby(self.entries, key=attrgetter("message")))

    @cached_property
    def calls_by_id(self) -> Mapping[str, Item]:
        """From a call's id to the call, over `entries`."""
        return {entry.call_id: entry for entry in self.entries if entry.kind == "call"}

    @cached_property
    def results(self) -> tuple[Item, ...]:
        """Tool results in order, replacements included."""
        return tuple(entry for entry in self.entries if entry.kind == "result")

    @cached_property
    def branch_tip(self) -> str:
        """Id of the newest assistant original."""
        return next((item.id for item in reversed(self.originals) if item.role == "assistant"), "")

    @cached_property
    def unseen_ids(self) -> frozenset[str]:
        """Ids of the results after the last assistant entry: the model has not read them yet."""
        ids = []
        for entry in reversed(self.entries):
            if entry.role == "assistant":
                break
            if entry.kind == "result":
                ids.append(entry.id)
        return frozenset(ids)


def once_per_view(compute: Callable[[View], Value]) -> Callable[[View], Value]:
    """Decorate a function of a view so that it runs once for each view. A view never changes, nor does the value."""
    name = f"{compute.__module__}.{compute.__name__}"

    @wraps(compute)
    def look_up(view: View) -> Value:
        if name not in view.computed:
            view.computed[name] = compute(view)
        return cast("Value", view.computed[name])

    return look_up


def _count_tokens(items: Iterable[Item]) -> int:
    return sum([item.tokens for item in items])
