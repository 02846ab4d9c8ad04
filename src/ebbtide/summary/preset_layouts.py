"""Forms of a fold: our own, and one that is filled from a seed's texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ebbtide.core.blob_names import MEMORY
from ebbtide.core.types import Item, Way
from ebbtide.summary.frame import fold_text, unfold, way_back
from ebbtide.summary.layout import Fold, Merge, Question, Shape
from ebbtide.summary.prompt_styles import DEFAULT, REGION, REGION_SHARE, Style
from ebbtide.summary.prompts import question
from ebbtide.summary.sanitize import harmless

ACK = "Understood. I have the report and your messages, and go on from there."
"""Between the fold and what the user said next: two of the user's messages in a row are refused by some providers."""


NOT_KEPT = "What folded was not kept: it cannot be read again."
IN_MEMORY = "What folded is kept in memory only: there is no file to read."
"""Where the program can read it by its handles, and the model has no tool for that."""
NO_SUMMARY = "No summary available."
"""R161, R255."""


def asking(style: Style) -> Callable[[Question], str]:
    """A question in this style."""

    def ask(about: Question) -> str:
        cap = min(about.cap, style.max_tokens) if style.max_tokens else about.cap
        return question(
            style,
            cap=cap,
            focus=about.focus,
            compact_instructions=about.instructions,
            prior=about.prior,
            language=about.language,
        )

    return ask


def a_fifth(style: Style) -> Callable[[Question], str]:
    """R169: the target is a share of what is asked about."""

    def ask(about: Question) -> str:
        target = max(1, about.tokens // REGION_SHARE)
        return question(style, cap=target, focus=about.focus, compact_instructions=about.instructions)

    return ask


def _own(fold: Fold) -> tuple[Item, ...]:
    turns = f"turns {fold.first_turn} to {fold.last_turn}" if fold.last_turn > fold.first_turn else "one turn"
    text = fold_text(
        summary=fold.summary,
        digest=fold.digest,
        way_back=_back(fold),
        automatic=fold.automatic,
        turns=turns,
        words_follow=bool(fold.words),
    )
    answer = (fold.note(ACK, role="assistant"),) if fold.next_is_user else ()
    return (*fold.front, fold.note(text), *fold.live, *fold.words, *fold.operator, *answer)


def _back(fold: Fold) -> str:
    if not fold.kept:
        return NOT_KEPT
    if fold.history.startswith(MEMORY) and not fold.tool:
        return IN_MEMORY
    return way_back(transcript=fold.transcript, history=fold.history, tool=fold.tool, handles=True)


def _summary_in(text: str) -> str:
    found = unfold(text)
    return found[0] if found else ""


OWN = Shape(ask=asking(DEFAULT), write=_own, prior=_summary_in, newest_whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """A seed's texts around a summary. What is empty is not said."""

    user: str = ""
    """On the user's side."""
    assistant: str = ""
    """On the assistant's."""
    ack: str = ""
    """The assistant's answer to what stands on the user's."""
    analysed: str = "{summary}"
    """Where the model thought aloud first."""
    counted: str = ""
    """In place of a summary that nobody wrote; without it the ledger's facts are."""
    hint: str = ""
    """Where the transcript is."""
    continuation: str = ""
    """Where nobody asked for the fold."""


def templated(
    style: Style,
    wording: Wording,
    *,
    way: Way = "prefix",
    merge: Merge = "fold",
    ask: Callable[[Question], str] | None = None,
) -> Shape:
    """A seed's own form: its texts around the summary, its roles, and nothing of ours beside them."""
    write = partial(_filled, wording)
    return Shape(ask=ask or asking(style), write=write, way=way, merge=merge, words=False, prior=_nothing)


def _nothing(_: str) -> str:
    """A seed asks about its own summary again, or lets it stand: there is nothing to hand on."""
    return ""


def _filled(says: Wording, fold: Fold) -> tuple[Item, ...]:
    alone = says.counted.format(users=fold.users, assistants=fold.assistants) if says.counted else _unwritten(fold)
    told = fold.summary or alone
    if fold.analysis:
        told = says.analysed.format(analysis=fold.analysis, summary=fold.summary)
    numbers = {"first": fold.first_turn, "last": fold.last_turn}
    put: list[Item] = []
    if says.user:
        restored = [item.text for item in fold.live]
        parts = [says.user.format(summary=told, **numbers), *restored]
        parts += [says.hint.format(path=fold.transcript)] if says.hint and fold.transcript else []
        parts += [says.continuation] if says.continuation and fold.automatic else []
        put.append(fold.note("\n\n".join(parts)))
    # Notes of the operator stand between the user's side and the assistant's: nowhere else are they taken (A3).
    notes = tuple(item for item in fold.operator if put and item.role in ("user", "system"))
    put += notes
    if says.assistant:
        put.append(fold.note(says.assistant.format(summary=told, **numbers), role="assistant"))
    if says.ack:
        put.append(fold.note(says.ack, role="assistant"))
    return (*put, *(item for item in fold.operator if item not in notes))


def _unwritten(fold: Fold) -> str:
    """What stands for a summary that nobody wrote: the user's words and the ledger's facts."""
    words = "\n".join(f"- {harmless(item.text)}" for item in fold.words)
    parts = ([f"The user's messages:\n{words}"] if words else []) + ([harmless(fold.digest)] if fold.digest else [])
    return "\n\n".join(parts) or NO_SUMMARY


def in_place(text: str) -> Shape:
    """A block where the run stood, never touched again (R194, R196)."""
    return templated(REGION, Wording(user=text), way="transcript", merge="pin", ask=a_fifth(REGION))
