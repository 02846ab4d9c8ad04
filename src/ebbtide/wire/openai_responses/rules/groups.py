"""R3, R4: reasoning and what follows it, up to the next reasoning or the next words of someone else, are one atom."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.wire.findings import Finding, Log, as_text
from ebbtide.wire.openai_responses.rules.items import (
    NEEDS_ITS_ID,
    OUTPUT_TYPES,
    PREFIXES,
    VOID,
    At,
    anonymous,
    is_models,
    kind,
)


def lonely(entries: Sequence[At]) -> list[int]:
    """R3: reasoning with nothing of the model's after it. Several in a row share the follower."""
    indexes = []
    has_follower = False
    for at in range(len(entries) - 1, -1, -1):
        if kind(entries[at].item) == "reasoning":
            indexes += [] if has_follower or entries[at].item is VOID else [at]
        else:
            has_follower = is_models(entries[at].item)
    return sorted(indexes)


def without_follower(entry: At) -> Finding:
    identity = as_text(entry.item.get("id"))
    problem = f"Item '{identity}' of type 'reasoning' was provided without its required following item."
    return Finding("R3", f"input.{entry.at}", problem, "dropped")


def regrouped(entries: list[At], log: Log) -> list[At]:
    """R3, R4: reasoning that cannot stay goes, and what followed it goes on without the ids that ask for it."""
    lonely_indexes = lonely(entries)
    log += (without_follower(entries[at]) for at in lonely_indexes)
    regrouped = []
    is_orphaned = False
    for at, entry in enumerate(entries):
        if kind(entry.item) == "reasoning":
            is_orphaned = at in lonely_indexes or entry.item is VOID
            if not is_orphaned:
                regrouped.append(entry)
        elif not is_models(entry.item):
            is_orphaned = is_orphaned and kind(entry.item) in OUTPUT_TYPES
            regrouped.append(entry)
        elif not is_orphaned or "id" not in entry.item or kind(entry.item) not in (*PREFIXES, *NEEDS_ITS_ID):
            regrouped.append(entry)
        else:
            problem = f"Item '{as_text(entry.item['id'])}' was provided without its required 'reasoning' item"
            must_go = kind(entry.item) in NEEDS_ITS_ID
            log.note("R4", f"input.{entry.at}", problem, "dropped" if must_go else "id dropped")
            regrouped += [] if must_go else [At(entry.at, anonymous(entry.item))]
    return regrouped
