"""A view is items and the edits that hold, folded. The tool-pairing rule lives here and nowhere else.

Items are originals and never change. An edit covers a run of originals; the view shows its `put` instead. An edit holds
where all items are that it was made of, and nothing else stands between those that it hides (`core.binding`). So a
rewound branch sends what it sent then, a fork finds its own edits, and an edit never reaches another conversation.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, groupby
from operator import attrgetter

from ebbtide.core.atomic_groups import expand_to_atomic_groups
from ebbtide.core.edit_binding import Originals, bind
from ebbtide.core.edit_layout import Placed, lay_out, named_range, shown_by
from ebbtide.core.types import OURS, USER, Edit, Item

_NUMBERS = re.compile(r"[0-9]+")
NEWEST_NOTES = 8
"""Notes of the operator, the newest, that no edit takes: a mode, a plan and some reminders may hold at once."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What would be sent: originals, and in places the stand-ins of edits. Build with `View.of`."""

    originals: tuple[Item, ...]
    edits: tuple[Edit, ...] = ()
    """Recorded and not undone, oldest first; those that do not hold here are among them."""
    entries: tuple[Item, ...]
    """The fold: what the request is made of, in order."""
    tokens: int
    """Sum over `entries`."""
    edit_by_entry: Mapping[str, Edit] = field(default_factory=dict)
    """From the id of an entry that an edit put there to that edit."""
    visible_edits: int = 0
    """How many edits show, by what stands in or by what is left out: no larger one hides them."""
    dormant_ids: frozenset[str] = frozenset()
    """Ids that would reactivate an edit, or repeat an inserted call. If one appears, the view is built anew."""
    placed: Placed = field(default_factory=dict, repr=False, compare=False)
    """From the first place that an edit covers to where it lies, and the edit: those that no larger one hides."""
    indexed: tuple[Mapping[str, int], int] = field(default=({}, 0), repr=False, compare=False)
    """An index of the first items, made for a view that this one grew from, and how many it covers."""
    grown_from: tuple[tuple[Item, ...], int] = field(default=((), 0), repr=False, compare=False)
    """The entries of the view that this one grew from, and how many of them, from the first on, it has too."""

    @staticmethod
    def of(items: Iterable[Item], edits: Iterable[Edit] = ()) -> View:
        """Items with recorded edits. Where ranges meet: the containing one wins, then the newer."""
        items, edits = tuple(items), tuple(edits)
        return View._of(items, edits, {item.id: i for i, item in enumerate(items)} if edits else {})

    @staticmethod
    def _of(items: tuple[Item, ...], edits: tuple[Edit, ...], index: Mapping[str, int]) -> View:
        if not edits:
            return View(originals=items, entries=items, tokens=_sum(items))
        layout = lay_out(Originals(items, index), edits)
        entries, owner = shown_by(items, layout)
        return View(
            originals=items,
            edits=edits,
            entries=entries,
            tokens=_sum(entries),
            edit_by_entry=owner,
            visible_edits=len(layout.placed) + sum(map(len, layout.inserted.values())),
            placed=layout.placed,
            dormant_ids=layout.awaited,
            indexed=(index, len(items)),
        )

    def extend(self, items: Sequence[Item]) -> View:
        """The same conversation, grown. Costs what is new, unless an edit was waiting for one of the new items."""
        return self.extend_from(len(self.originals), self.originals + tuple(items))

    def extend_from(self, kept: int, items: tuple[Item, ...]) -> View:
        """These items, of which the first `kept` are ours. Cheap where what follows begins with the ids it had.

        Clients move cache marks: the last messages come back with other bytes and the same content.
        """
        tail, new = self.originals[kept:], items[kept:]
        # A reader makes an item once, in its place: where the last one kept is ours, all before it are.
        ours = not kept or self.originals[kept - 1] is items[kept - 1]
        if not ours or not self._only_grows(tail, new):
            return View.of(items, self.edits)
        stays = len(self.entries) - len(tail)
        plain = self.entries is self.originals
        return View(
            originals=items,
            edits=self.edits,
            entries=items if plain else self.entries[:stays] + new,
            tokens=self.tokens - _sum(tail) + _sum(new),
            edit_by_entry=self.edit_by_entry,
            visible_edits=self.visible_edits,
            dormant_ids=self.dormant_ids,
            placed=self.placed,
            indexed=self.indexed,
            grown_from=(self.entries, stays),
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
        """The view with more edits: recorded ones, and ones that are made here, which are bound to it."""
        bound = (edit if edit.binding is not None else self.bind(edit) for edit in edits)
        return View._of(self.originals, (*self.edits, *bound), self.index)

    def bind(self, edit: Edit) -> Edit:
        """An edit that is made here: it records the items that it hides, and those that its text was made of.

        What is inserted is made of all before it. It may follow a reply that is not in the view yet.
        """
        span = named_range(edit, self.index)
        if span is None and not edit.insert_after:
            return edit
        first, end = span or (len(self.originals), len(self.originals))
        first, end = (end + 1, end + 1) if edit.insert_after else (first, end + 1)
        before = self.originals[:first] if edit.insert_after or edit.made_of != "covered" else ()
        behind = self.originals[end:] if edit.made_of != "covered" else ()
        binding = bind(self.originals[first:end], (*before, *behind), self._call_items, edit)
        return replace(edit, branch_tip=edit.branch_tip or self.branch_tip, binding=binding)

    @cached_property
    def _call_items(self) -> Mapping[str, str]:
        """From a call's id to the id of its item, over the originals."""
        return {item.call_id: item.id for item in self.originals if item.kind == "call"}

    def span(self, edit: Edit) -> tuple[int, int] | None:
        """The places that an edit covers which shows here; None for one that does not, and for an insertion."""
        return self._spans.get(id(edit))

    @cached_property
    def _spans(self) -> Mapping[int, tuple[int, int]]:
        return {id(edit): (location.first, location.last) for location, edit in self.placed.values()}

    @property
    def has_edits(self) -> bool:
        """Whether any edit shows: something stands in, or something is left out."""
        return bool(self.visible_edits)

    def is_ours(self, entry: Item) -> bool:
        """Stands in for something, or is a stand-in that a client fed back: no pass may touch it again."""
        return entry.id in self.edit_by_entry or entry.source == OURS

    @cached_property
    def active_edits(self) -> tuple[Edit, ...]:
        """Edits that hold on this branch, oldest first, whether or not a larger one hides them."""
        originals = Originals(self.originals, self.index)
        return tuple(edit for edit in self.edits if originals.locate(edit) is not None)

    @cached_property
    def index(self) -> Mapping[str, int]:
        """From an original's id to its place in `items`."""
        known, count = self.indexed
        if count == len(self.originals):
            return known
        return {**known, **{item.id: i for i, item in enumerate(self.originals[count:], count)}}

    @cached_property
    def message_count(self) -> int:
        """How many messages the entries make."""
        return sum(1 for _ in groupby(self.entries, key=attrgetter("message")))

    @cached_property
    def calls_by_id(self) -> Mapping[str, Item]:
        """From a call's id to the call, over `entries`."""
        return {entry.call_id: entry for entry in self.entries if entry.kind == "call"}

    @cached_property
    def results(self) -> tuple[Item, ...]:
        """Results in order, stand-ins included."""
        return tuple(entry for entry in self.entries if entry.kind == "result")

    @cached_property
    def branch_tip(self) -> str:
        """The newest assistant original."""
        return next((item.id for item in reversed(self.originals) if item.role == "assistant"), "")

    @cached_property
    def unseen_ids(self) -> frozenset[str]:
        """Results that came after the assistant last spoke: the model has not read them yet."""
        ids = []
        for entry in reversed(self.entries):
            if entry.role == "assistant":
                break
            if entry.kind == "result":
                ids.append(entry.id)
        return frozenset(ids)

    def turn_starts_reversed(self) -> Iterator[int]:
        """`turns`, the newest first, and no further than somebody asks."""
        entries = self.entries
        for i in range(len(entries) - 1, -1, -1):
            if _speaks(entries[i]) and (i == 0 or not _speaks(entries[i - 1])):
                yield i

    @cached_property
    def turn_starts(self) -> tuple[int, ...]:
        """Places in `entries` where a turn begins: the user's own words, after something else."""
        return tuple(
            i for i, entry in enumerate(self.entries) if _speaks(entry) and (i == 0 or not _speaks(self.entries[i - 1]))
        )

    @cached_property
    def loop_start(self) -> int:
        """Where the open tool loop begins in `entries`: after the user's last words, while the assistant calls."""
        last = self.entries[-1] if self.entries else None
        if last is None or (last.role == "assistant" and last.kind == "text"):
            return len(self.entries)
        start = next((i + 1 for i in range(len(self.entries) - 1, -1, -1) if _speaks(self.entries[i])), 0)
        called = any(entry.kind == "call" for entry in self.entries[start:])
        return start if called else len(self.entries)

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """Places where the view may be cut: between atoms, and in an open loop only before what begins with thinking.

        What is left of the loop must open with it (A37), and a loop may run for hours: without these cuts it would die.
        """
        bound = any(entry.kind == "thinking" for entry in self.entries[self.loop_start :])
        return tuple(cut for cut in self.seams if not bound or cut <= self.loop_start or self._opens_with_thinking(cut))

    def _opens_with_thinking(self, cut: int) -> bool:
        return cut < len(self.entries) and self.entries[cut].kind == "thinking"

    @cached_property
    def seams(self) -> tuple[int, ...]:
        """All places between atoms. An atom: one message, a run of the assistant's items, a call and its result."""
        opened = accumulate(_weights(self.entries), initial=0)
        places = zip(range(len(self.entries) + 1), opened, strict=True)
        return tuple(i for i, depth in places if depth == 0 and self._may_part(i))

    def _may_part(self, i: int) -> bool:
        if i in (0, len(self.entries)):
            return True
        left, right = self.entries[i - 1], self.entries[i]
        same_message = left.message == right.message
        # A system message in the middle belongs to the user turn before it.
        return not same_message and right.role != "system" and (left.role, right.role) != ("assistant", "assistant")

    def covered_range(self, start: int, stop: int) -> tuple[str, str] | None:
        """The originals under `entries[start:stop]`, as first and last; None where there is none."""
        spans = [self._span(entry) for entry in (self.entries[start:stop] if start < stop else ())]
        known = [span for span in spans if span is not None]
        if not known:
            return None
        lo, hi = min(lo for lo, _ in known), max(hi for _, hi in known)
        return self.originals[lo].id, self.originals[hi].id

    def _span(self, entry: Item) -> tuple[int, int] | None:
        edit = self.edit_by_entry.get(entry.id)
        if edit is None:
            at = self.index.get(entry.id)
            return None if at is None else (at, at)
        return self.span(edit)

    def rejection_reason(self, edit: Edit) -> str:
        """Why this edit may not be made here; empty if it may. Every pass goes through this."""
        span = named_range(edit, self.index)
        if span is None:
            return "names items that are not there"
        covered = () if edit.insert_after else self.originals[span[0] : span[1] + 1]
        kept = {item.id for item in edit.replacement}
        if any(item.id not in kept and self.is_protected(item) for item in covered):
            return "touches a locked or pinned item"
        if self._parts(span, covered, edit.replacement):
            return "parts a call from its result"
        if (
            covered
            and edit.replacement
            and min(item.trust for item in edit.replacement) < min(item.trust for item in covered)
        ):
            return "raises trust"
        if self._crosses(edit, span):
            return "overlaps an edit in part"
        if covered and self._tears(span, kept):
            return "takes away what an opaque block needs after it"
        return ""

    def _parts(self, span: tuple[int, int], covered: Sequence[Item], put: Sequence[Item]) -> bool:
        """Whether a half is lost whose other half stays, or made. A half that never had another may go."""
        lost, made = _dangling(covered), _dangling(put)
        if lost == made:
            return False
        if made - lost:
            return True
        outside = {
            (one.kind, one.call_id)
            for one in (*self.originals[: span[0]], *self.originals[span[1] + 1 :])
            if one.call_id
        }
        return any((_OTHER[kind], call_id) in outside for kind, call_id in lost - made)

    def _tears(self, span: tuple[int, int], kept: set[str]) -> bool:
        """Reasoning and what it led to are one (R3, R4): no edit may take a later part of such a run and leave it."""
        leaves = {i for i in range(span[0], span[1] + 1) if self.originals[i].id not in kept}
        for i in leaves:
            if self.originals[i].role != "assistant" or self.originals[i].kind == "thinking":
                continue
            before = i - 1
            while before >= 0 and self.originals[before].role == "assistant":
                if self.originals[before].kind == "opaque" and before not in leaves:
                    return True
                before -= 1
        return False

    def _crosses(self, edit: Edit, span: tuple[int, int]) -> bool:
        """What stands is apart and in order, so only the range that begins last before each end can cross."""
        if edit.insert_after:
            return False
        before = bisect_left(self._standing, (span[0], -1)) - 1
        within = bisect_left(self._standing, (span[1] + 1, -1)) - 1
        overhangs = before >= 0 and self._standing[before][1] >= span[0]
        return overhangs or (within > before and self._standing[within][1] > span[1])

    def is_protected(self, item: Item) -> bool:
        """Whether no edit may take it out: pinned, locked, or the operator's word that still holds.

        Pinned thinking leaves with its turn: it is signed for its place, and no fold can carry it to another (A63).
        """
        held = item.locked or item.role == "system"
        pinned = item.pinned and item.kind != "thinking"
        return pinned or (held and item.id not in self._repeated_note_ids and item.id not in self.old_note_ids)

    @cached_property
    def protected_ids(self) -> frozenset[str]:
        """What no edit may take out, and what must stay with it."""
        return expand_to_atomic_groups(self.originals, {item.id for item in self.originals if self.is_protected(item)})

    @cached_property
    def old_note_ids(self) -> frozenset[str]:
        """Notes of the operator between what was said, but for the newest. Each may hold; but one with every result
        would fill the window. A fold carries them while there is room, and lists them where there is none.
        """
        begun = next((n for n, item in enumerate(self.originals) if item.role == "assistant"), len(self.originals))
        notes = [item for item in self.originals[begun:] if item.role == "system" and item.kind == "text"]
        return frozenset(
            [one.id for one in notes if not one.pinned and one.id not in self._repeated_note_ids][:-NEWEST_NOTES]
        )

    @cached_property
    def _repeated_note_ids(self) -> frozenset[str]:
        """What the operator said again since, but for its numbers. Claude Code tells the tokens left after each result:
        held on to, these notes would forbid every fold.
        """
        said, found = set[str](), set[str]()
        for item in reversed(self.originals):
            if item.role == "system" and item.kind == "text":
                words = _NUMBERS.sub("", item.text)
                found |= {item.id} if words in said else set()
                said.add(words)
        return frozenset(found)

    @cached_property
    def _standing(self) -> list[tuple[int, int]]:
        """The ranges of the edits shown by something that stands in."""
        edits = {id(edit): edit for edit in self.edit_by_entry.values() if not edit.insert_after}
        return sorted(span for edit in edits.values() if (span := self.span(edit)) is not None)


def _sum(items: Iterable[Item]) -> int:
    return sum([item.tokens for item in items])


def _speaks(entry: Item) -> bool:
    return entry.role == "user" and entry.trust <= USER


def _weights(entries: Sequence[Item]) -> Iterator[int]:
    """+1 where a call with a result opens, -1 where the result closes it."""
    answered = Counter(entry.call_id for entry in entries if entry.kind == "result")
    opened = set[str]()
    for entry in entries:
        if entry.kind == "call" and answered[entry.call_id] and entry.call_id not in opened:
            opened.add(entry.call_id)
            yield 1
        elif entry.kind == "result" and entry.call_id in opened:
            opened.discard(entry.call_id)
            yield -1
        else:
            yield 0


_OTHER = {"call": "result", "result": "call"}


def _dangling(items: Iterable[Item]) -> Counter[tuple[str, str]]:
    """Calls and results whose other half is not among these items."""
    sides = Counter[tuple[str, str]]((item.kind, item.call_id) for item in items if item.kind in ("call", "result"))
    return Counter({side: n for side, n in sides.items() if not sides[(_OTHER[side[0]], side[1])]})
