"""Forms of a fold: our own, and one that is filled from a seed's texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ebbtide.core.blob_names import MEMORY
from ebbtide.core.types import AnswerMode, Item
from ebbtide.summary.frame import read_summary_text, recall_hint, write_summary_text
from ebbtide.summary.layout import MergeMode, PromptInput, SummaryContent, SummaryLayout
from ebbtide.summary.prompt_styles import DEFAULT, REGION, REGION_SHARE, PromptStyle
from ebbtide.summary.prompts import build_prompt
from ebbtide.summary.sanitize import neutralize

ACK = "Understood. I have the report and your messages, and go on from there."
"""Between the fold and what the user said next: two of the user's messages in a row are refused by some providers."""


NOT_KEPT = "What folded was not kept: it cannot be read again."
IN_MEMORY = "What folded is kept in memory only: there is no file to read."
"""Where the program can read it by its handles, and the model has no tool for that."""
NO_SUMMARY = "No summary available."
"""R161, R255."""


def prompt_in_style(style: PromptStyle) -> Callable[[PromptInput], str]:
    """A question in this style."""

    def ask(about: PromptInput) -> str:
        cap = min(about.max_tokens, style.max_tokens) if style.max_tokens else about.max_tokens
        return build_prompt(
            style,
            max_tokens=cap,
            focus=about.focus,
            compact_instructions=about.instructions,
            prior_summary=about.prior_summary,
            language=about.language,
        )

    return ask


def region_prompt(style: PromptStyle) -> Callable[[PromptInput], str]:
    """R169: the target is a share of what is asked about."""

    def ask(about: PromptInput) -> str:
        target = max(1, about.tokens // REGION_SHARE)
        return build_prompt(style, max_tokens=target, focus=about.focus, compact_instructions=about.instructions)

    return ask


def _own(fold: SummaryContent) -> tuple[Item, ...]:
    turns = f"turns {fold.first_turn} to {fold.last_turn}" if fold.last_turn > fold.first_turn else "one turn"
    text = write_summary_text(
        summary=fold.summary,
        facts=fold.facts,
        recall_hint=_back(fold),
        is_automatic=fold.is_automatic,
        turns=turns,
        has_user_messages=bool(fold.user_messages),
    )
    answer = (fold.make_item(ACK, role="assistant"),) if fold.next_is_user else ()
    return (
        *fold.project_instructions,
        fold.make_item(text),
        *fold.live_content,
        *fold.user_messages,
        *fold.kept_items,
        *answer,
    )


def _back(fold: SummaryContent) -> str:
    if not fold.is_saved:
        return NOT_KEPT
    if fold.history_path.startswith(MEMORY) and not fold.recall_tool:
        return IN_MEMORY
    return recall_hint(
        transcript=fold.transcript_path, history=fold.history_path, tool=fold.recall_tool, has_handles=True
    )


def _summary_in(text: str) -> str:
    found = read_summary_text(text)
    return found[0] if found else ""


DEFAULT_LAYOUT = SummaryLayout(
    write_prompt=prompt_in_style(DEFAULT), write_summary=_own, read_summary=_summary_in, keeps_newest_message=True
)


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


def preset_layout(
    style: PromptStyle,
    wording: Wording,
    *,
    way: AnswerMode = "prefix",
    merge: MergeMode = "fold",
    ask: Callable[[PromptInput], str] | None = None,
) -> SummaryLayout:
    """A seed's own form: its texts around the summary, its roles, and nothing of ours beside them."""
    write = partial(_filled, wording)
    return SummaryLayout(
        write_prompt=ask or prompt_in_style(style),
        write_summary=write,
        answer_mode=way,
        merge_mode=merge,
        keeps_user_messages=False,
        read_summary=_nothing,
    )


def _nothing(_: str) -> str:
    """A seed asks about its own summary again, or lets it stand: there is nothing to hand on."""
    return ""


def _filled(says: Wording, fold: SummaryContent) -> tuple[Item, ...]:
    alone = (
        says.counted.format(users=fold.user_count, assistants=fold.assistant_count)
        if says.counted
        else _unwritten(fold)
    )
    told = fold.summary or alone
    if fold.analysis:
        told = says.analysed.format(analysis=fold.analysis, summary=fold.summary)
    numbers = {"first": fold.first_turn, "last": fold.last_turn}
    put: list[Item] = []
    if says.user:
        restored = [item.text for item in fold.live_content]
        parts = [says.user.format(summary=told, **numbers), *restored]
        parts += [says.hint.format(path=fold.transcript_path)] if says.hint and fold.transcript_path else []
        parts += [says.continuation] if says.continuation and fold.is_automatic else []
        put.append(fold.make_item("\n\n".join(parts)))
    # Notes of the operator stand between the user's side and the assistant's: nowhere else are they taken (A3).
    notes = tuple(item for item in fold.kept_items if put and item.role in ("user", "system"))
    put += notes
    if says.assistant:
        put.append(fold.make_item(says.assistant.format(summary=told, **numbers), role="assistant"))
    if says.ack:
        put.append(fold.make_item(says.ack, role="assistant"))
    return (*put, *(item for item in fold.kept_items if item not in notes))


def _unwritten(fold: SummaryContent) -> str:
    """What stands for a summary that nobody wrote: the user's words and the ledger's facts."""
    words = "\n".join(f"- {neutralize(item.text)}" for item in fold.user_messages)
    parts = ([f"The user's messages:\n{words}"] if words else []) + ([neutralize(fold.facts)] if fold.facts else [])
    return "\n\n".join(parts) or NO_SUMMARY


def region_layout(text: str) -> SummaryLayout:
    """A block where the run stood, never touched again (R194, R196)."""
    return preset_layout(REGION, Wording(user=text), way="transcript", merge="pin", ask=region_prompt(REGION))
