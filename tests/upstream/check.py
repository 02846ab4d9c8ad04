"""What a provider would refuse, read from the list of rules and from nothing else.

Independent of our own validator on purpose: where the two disagree, one of them has misread the list. A rule that was
seen or documented refuses; one that nobody verified warns. Unknown fields and blocks are accepted unless the list names
them. What takes memory (issued signatures, sealed reasoning) is in `signing`, what takes a tokenizer is in `server`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from upstream import (
    anthropic_media,
    anthropic_request,
    anthropic_thinking,
    anthropic_tools,
    anthropic_turns,
    bedrock_rules,
    chat_rules,
    gemini_rules,
    responses_rules,
)
from upstream.encoding import NotJson, parse, too_large
from upstream.finding import Body, Refusal, Rules, run

__all__ = ["RULES", "WARNED", "WIRES", "Refusal", "Wire", "refusals", "refusals_bytes", "warnings"]

Wire = Literal["anthropic", "openai_chat", "openai_responses", "gemini", "bedrock_converse"]
WIRES: tuple[Wire, ...] = ("anthropic", "openai_chat", "openai_responses", "gemini", "bedrock_converse")

ANTHROPIC: Rules[anthropic_request.Request] = {
    **anthropic_turns.RULES,
    **anthropic_tools.RULES,
    **anthropic_thinking.RULES,
    **anthropic_media.RULES,
}
ANTHROPIC_WARNINGS: Rules[anthropic_request.Request] = {
    "A10": anthropic_turns.unknown_fields,
    "A13": anthropic_turns.unknown_blocks,
    "A19": anthropic_tools.results_not_first,
    "A24": anthropic_tools.tools_missing,
    "A31": anthropic_tools.search_without_cipher,
    "A33": anthropic_media.citation_of_nothing,
    "A43": anthropic_thinking.forced_while_thinking,
    "A45": anthropic_media.auto_mark_counts,
    "A55": anthropic_media.large_image,
    "A56": anthropic_media.unreadable_image,
    "A57": anthropic_media.many_pages,
    "A58": anthropic_media.citations_all_or_none,
}
RULES: dict[Wire, list[str]] = {
    "anthropic": [*ANTHROPIC, "A12"],
    "openai_chat": [*chat_rules.RULES],
    "openai_responses": [*responses_rules.RULES],
    "gemini": [*gemini_rules.RULES],
    "bedrock_converse": [*bedrock_rules.RULES],
}
"""Every rule that can refuse, for the test that each has its examples."""
WARNED: dict[Wire, list[str]] = {
    "anthropic": [*ANTHROPIC_WARNINGS],
    "openai_chat": [*chat_rules.WARNINGS],
    "openai_responses": [*responses_rules.WARNINGS],
    "gemini": [*gemini_rules.WARNINGS],
    "bedrock_converse": [*bedrock_rules.WARNINGS],
}


_PLAIN: dict[str, tuple[Rules[Body], Rules[Body]]] = {
    "openai_chat": (chat_rules.RULES, chat_rules.WARNINGS),
    "openai_responses": (responses_rules.RULES, responses_rules.WARNINGS),
    "gemini": (gemini_rules.RULES, gemini_rules.WARNINGS),
    "bedrock_converse": (bedrock_rules.RULES, bedrock_rules.WARNINGS),
}
"""Rules that read the body as it is, and warnings."""


def refusals(wire: str, body: Body, betas: Collection[str] | None = None) -> list[Refusal]:
    """All that is wrong, not only the first. `betas` are those the header names; None leaves their rules out."""
    if wire == "anthropic":
        request = anthropic_request.read(body, None if betas is None else frozenset(betas))
        # Nobody reads on in a body of a hundred thousand messages, or of none.
        return run({"A1": ANTHROPIC["A1"]}, request) or run(ANTHROPIC, request)
    return run(_PLAIN[wire][0], body)


def warnings(wire: str, body: Body) -> list[Refusal]:
    """Rules that nobody verified: a provider may refuse, and may not."""
    if wire == "anthropic":
        return run(ANTHROPIC_WARNINGS, anthropic_request.read(body))
    return run(_PLAIN[wire][1], body)


def refusals_bytes(wire: str, raw: bytes, betas: Collection[str] | None = None) -> list[Refusal]:
    """The bytes first; if they spell a body, the body."""
    large = [Refusal("A12", path, text) for path, text in too_large(raw)] if wire == "anthropic" else []
    if large:
        return large
    try:
        body = parse(raw)
    except NotJson as error:
        return [Refusal("A11", "", str(error))]
    if not isinstance(body, dict):
        return [Refusal("A11", "", "The request body is not valid JSON: expected an object")]
    return refusals(wire, body, betas)
