"""Summary requests: a question to a model, either after the conversation itself or about a transcript of it.

After the conversation, everything ahead of the question stays as it was sent, so the call reads the prompt cache: same
system prompt, tools, messages and thinking. Only settings outside the cached prefix change, and those that would make
an answer impossible: a forced tool call, an enforced format. If user text is not allowed at the end of the
conversation, we cut it back to the last place where it is: an open call is left out, not answered with an invention.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ebbtide.core.types import Usage
from ebbtide.wire.protocol import Wire


def summary_on_prefix(wire: Wire, tree: Mapping[str, Any], prompt: str, max_tokens: int) -> dict[str, Any] | None:
    """Build the outgoing request `tree` with `prompt` as the last user text (R164, R278); None if that is impossible.

    It is impossible if the server keeps the history, which our answer would join, and if nothing remains after cutting
    back. `tool_choice` stays, because it is part of what is cached: the prompt must ask for prose, and `read_answer`
    reports an answer that calls a tool all the same. A choice that forces a call is removed.
    """
    if wire.messages.partial_history_reason(tree):
        return None
    messages = tree.get(wire.list_key)
    if isinstance(messages, str):
        messages = [wire.requests.user_message(messages)]
    if not isinstance(messages, list):
        return None
    messages = messages[: wire.requests.count_before_user_text(messages)]
    if not messages:
        return None
    body = wire.requests.prepare_question({**tree, wire.list_key: messages})
    body = wire.requests.limit_output(body, _limit(wire, tree, max_tokens))
    body[wire.list_key] = wire.requests.add_user_text(body, prompt)
    return body


def summary_of_transcript(wire: Wire, *, model: str, prompt: str, quoted: str, max_tokens: int) -> dict[str, Any]:
    """Build a fresh request of one user message (R171): the quoted text, then the question. No tools, no system prompt.

    The question comes last, because models follow best what is at the end of a long text, and nothing quoted can come
    after it. The caller frames `quoted`.
    """
    body = {"model": model, wire.list_key: [wire.requests.user_message(f"{quoted}\n\n{prompt}")]}
    return wire.requests.limit_output(body, max_tokens + wire.requests.thinking_room(body))


def _limit(wire: Wire, tree: Mapping[str, Any], max_tokens: int) -> int:
    """Return the cap plus room for thinking, but no more than the client's own limit, which is known to be accepted.

    So a thinking budget, which is below the client's limit, stays below ours (A42).
    """
    limit = max_tokens + wire.requests.thinking_room(tree)
    client_limit = wire.messages.max_output(tree)
    return min(limit, max(client_limit, max_tokens)) if client_limit else limit


StopReason = Literal["end", "length", "refusal", "tool", "other"]
"""`other`: paused, failed, cancelled, or without a word on how it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAnswer:
    """What a model answered, in words."""

    text: str
    """Without its thinking."""
    stopped: StopReason
    usage: Usage | None


_STOP_REASONS: Mapping[str, StopReason] = {
    **dict.fromkeys(("end_turn", "stop_sequence", "stop", "eos", "eos_token", "complete", "completed"), "end"),
    **dict.fromkeys(("max_tokens", "length", "model_length", "max_output_tokens"), "length"),
    "model_context_window_exceeded": "length",
    **dict.fromkeys(("refusal", "content_filter", "safety", "sensitive"), "refusal"),
    **dict.fromkeys(("tool_use", "tool_calls", "function_call"), "tool"),
}
"""By the provider's word in lower case; `eos` and `model_length` come from compatible servers."""

_THINKING_IN_TEXT = re.compile(r"\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
"""Open models write their reasoning into the text if the server does not separate the two."""


def read_answer(wire: Wire, response: Mapping[str, Any]) -> TextAnswer:
    """Read a provider's response. Report a call, a refusal or a cut whatever the provider says about its end."""
    parts = wire.replies.read_answer(response)
    stopped = _STOP_REASONS.get(parts.stop_reason.lower(), "other")
    if stopped == "end" and parts.has_calls:
        stopped = "tool"
    if stopped == "end" and parts.is_refusal:
        stopped = "refusal"
    text = "".join(parts.texts)
    thinking = _THINKING_IN_TEXT.match(text)
    answer = text[thinking.end() if thinking else 0 :].strip()
    return TextAnswer(text=answer, stopped=stopped, usage=wire.replies.usage(response))
