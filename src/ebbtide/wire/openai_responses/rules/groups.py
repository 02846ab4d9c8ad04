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
    found = []
    followed = False
    for at in range(len(entries) - 1, -1, -1):
        if kind(entries[at].item) == "reasoning":
            found += [] if followed or entries[at].item is VOID else [at]
        else:
            followed = is_models(entries[at].item)
    return sorted(found)


def without_follower(entry: At) -> Finding:
    identity = as_text(entry.item.get("id"))
    what = f"Item '{identity}' of type 'reasoning' was provided without its required following item."
    return Finding("R3", f"input.{entry.at}", what, "dropped")


def regrouped(entries: list[At], log: Log) -> list[At]:
    """R3, R4: reasoning that cannot stay goes, and what followed it goes on without the ids that ask for it."""
    leaving = lonely(entries)
    log += (without_follower(entries[at]) for at in leaving)
    kept = []
    orphaned = False
    for at, entry in enumerate(entries):
        if kind(entry.item) == "reasoning":
            orphaned = at in leaving or entry.item is VOID
            if not orphaned:
                kept.append(entry)
        elif not is_models(entry.item):
            orphaned = orphaned and kind(entry.item) in OUTPUT_TYPES
            kept.append(entry)
        elif not orphaned or "id" not in entry.item or kind(entry.item) not in (*PREFIXES, *NEEDS_ITS_ID):
            kept.append(entry)
        else:
            what = f"Item '{as_text(entry.item['id'])}' was provided without its required 'reasoning' item"
            gone = kind(entry.item) in NEEDS_ITS_ID
            log.note("R4", f"input.{entry.at}", what, "dropped" if gone else "id dropped")
            kept += [] if gone else [At(entry.at, anonymous(entry.item))]
    return kept
