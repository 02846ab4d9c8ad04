"""Ids that say which reasoning group they belong to, so that a torn group is seen without remembering what was issued.

`rs_ebb<group>_0of3`, `msg_ebb<group>_1of3`, `fc_ebb<group>_2of3`: a provider knows its groups, and so does this one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from upstream.finding import Body, Said, text_of

ISSUED = re.compile(r"[a-z]+_ebb([0-9a-z]+)_(\d+)of(\d+)")


def item_id(prefix: str, group: str, place: int, size: int) -> str:
    return f"{prefix}_ebb{group}_{place}of{size}"


def _members(items: list[Body]) -> dict[str, list[tuple[int, int, int]]]:
    """Per group: place in the group, the group's size, index in the input."""
    groups: dict[str, list[tuple[int, int, int]]] = {}
    for at, item in enumerate(items):
        found = ISSUED.fullmatch(text_of(item.get("id")))
        if found:
            groups.setdefault(found[1], []).append((int(found[2]), int(found[3]), at))
    return groups


def _reasoning_id(item: Body) -> str:
    found = ISSUED.fullmatch(text_of(item.get("id")))
    return item_id("rs", found[1], 0, int(found[3])) if found else ""


def followers_without_reasoning(items: list[Body]) -> Iterator[Said]:
    """R4."""
    for members in _members(items).values():
        if members[0][0] == 0:
            continue
        item = items[members[0][2]]
        text = f"Item '{item['id']}' of type '{item.get('type', 'message')}' was provided "
        yield "input", f"{text}without its required 'reasoning' item: '{_reasoning_id(item)}'."


def reasoning_without_follower(items: list[Body]) -> Iterator[Said]:
    """R3."""
    for members in _members(items).values():
        first = members[0]
        if first[0] == 0 and first[1] > 1 and (len(members) < 2 or members[1][0] != 1):
            yield "input", without_follower(items[first[2]])


def torn(items: list[Body]) -> Iterator[Said]:
    """R3+4, what is left: the head of the group is whole and a later member is missing, moved or doubled."""
    for group, members in _members(items).items():
        places = [place for place, _, _ in members]
        if places[:2] == [0, 1] and places != list(range(members[0][1])):
            yield "input", f"The items of reasoning group {group} were not provided whole and in order."


def without_follower(item: Body) -> str:
    return f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
