"""A question to the model that has the conversation before it is that conversation and one more piece of user text.

Everything ahead of the question stays as it went out, so the call reads the prompt cache: same system prompt, same
tools, same messages, same thinking. Only what is no part of the cached prefix is changed, and what would make an answer
impossible: a forced tool call, an enforced format. Where the conversation ends in a place after which the user may not
speak, it is cut back to the last place where it may: an open call is left out rather than answered with an invention.

Pure, for all three wires. What may stand where is `validity`'s; `tests/wire/test_asking.py` holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ebbtide.core.types import Usage
from ebbtide.wire.anthropic.rules.blocks import blocks, calls, ends_in_server_use, is_programmatic, role
from ebbtide.wire.openai_responses.rules.items import OUTPUT_TYPES, call_id, is_models, kind, pairs_by_call_id
from ebbtide.wire.protocol import Wire, as_mapping, as_text

MOST_MARKS = 4
"""A45."""
ROOM_TO_THINK = 16_000
"""Tokens on top of the cap where thinking has no budget of its own: thought counts as output. With a cap of 4,000 the
sum stays under what Anthropic's SDK sends without streaming (about 21,000)."""

_ONE_OFF = frozenset(
    {
        *("stream", "stream_options", "background"),  # One answer, now.
        *("n", "prediction"),  # Billed, and of no use.
        *("stop", "stop_sequences"),  # The client's own protocol would cut a summary.
        "truncation",  # A middle dropped unseen would be a summary of something else: rather an error.
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"),  # vLLM
        *("grammar", "json_schema"),  # llama.cpp
        "output_format",  # Anthropic's beta name for `output_config.format`
    }
)
"""Left out of the question. None is in the cached prefix but the formats, and under those no prose can come."""

_LATER_OPENAI = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9])")
"""C10: models that take `max_completion_tokens` alone."""
_THINKS_UNASKED = re.compile(rf"{_LATER_OPENAI.pattern}|claude-(?:fable|mythos)")


def same_prefix(wire: Wire, tree: Mapping[str, Any], prompt: str, max_tokens: int) -> dict[str, Any] | None:
    """The outgoing request `tree` with `prompt` as the last user text (R164, R278), or None where that cannot be.

    It cannot be where the server keeps the history, which an answer of ours would join, and where nothing is left after
    cutting back. `tool_choice` stays, for it is part of what is cached; the prompt must ask for words, and an answer
    that calls a tool all the same is told by `answer_of`. A choice that forces a call goes: no words could come.
    """
    if wire.kept_by_server(tree):
        return None
    given = tree.get(wire.key)
    spoken = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(spoken, list):
        return None
    messages = spoken[: _STANDING[wire.name](spoken)]
    if not messages:
        return None
    body = {name: value for name, value in tree.items() if name not in _ONE_OFF}
    body[wire.key] = messages
    body = _free_to_speak(body)
    body[_limit_field(wire, tree)] = _limit(wire, tree, max_tokens)
    body[wire.key] = _ENDING[wire.name](body, prompt)
    return body


def transcript(wire: Wire, *, model: str, prompt: str, quoted: str, max_tokens: int) -> dict[str, Any]:
    """A fresh request of one user message (R171): what is quoted, then what is asked of it. No tools, no system prompt.

    The question comes last: what stands at the end of a long text is followed best, and nothing quoted comes after it.
    `quoted` is framed by the caller.
    """
    body: dict[str, Any] = {"model": model, wire.key: [{"role": "user", "content": f"{quoted}\n\n{prompt}"}]}
    body[_limit_field(wire, body)] = max_tokens + _thought(body)
    return body


# --- how much of the conversation can stand before user text ----------------------------------------------------------


def _standing_anthropic(messages: Sequence[Any]) -> int:
    kept = len(messages)
    while kept and not _lets_the_user_speak(messages, kept - 1):
        kept -= 1
    return kept


def _lets_the_user_speak(messages: Sequence[Any], at: int) -> bool:
    """Not after operator text (A3), an open call (A16), a paused turn (A30) or nothing said (A8), and not beside the
    results that code in the provider's container waits for (A27)."""
    message = messages[at]
    if role(message) == "user":
        return not (at and any(is_programmatic(call) for call in calls(messages[at - 1])))
    return (
        role(message) == "assistant"
        and bool(blocks(message))
        and not calls(message)
        and not ends_in_server_use(message)
    )


def _standing_chat(messages: Sequence[Any]) -> int:
    """C1: the last calls are all answered, or leave with the answers there are."""
    asked = len(messages) - 1
    while asked >= 0 and role(messages[asked]) in ("tool", "function"):
        asked -= 1
    caller = as_mapping(messages[asked]) if asked >= 0 else {}
    answered = {as_mapping(message).get("tool_call_id") for message in messages[asked + 1 :]}
    listed = caller.get("tool_calls")
    wanted = {as_mapping(call).get("id") for call in listed} if isinstance(listed, list) else set()
    waiting = caller.get("function_call") is not None and asked == len(messages) - 1
    return asked if waiting or wanted - answered else len(messages)


def _standing_responses(items: Sequence[Any]) -> int:
    """R1, R3: up to the first open call, less the reasoning and words that belong to it; no reasoning at the end."""
    answered = {call_id(item) for item in items if kind(item) in OUTPUT_TYPES}
    waits = (at for at, item in enumerate(items) if pairs_by_call_id(item) and call_id(item) not in answered)
    kept = next(waits, len(items))
    if kept == len(items) and not (items and kind(items[-1]) == "reasoning"):
        return kept
    while kept and is_models(items[kept - 1]):
        kept -= 1
    return kept


_STANDING: Mapping[str, Callable[[Sequence[Any]], int]] = {
    "anthropic": _standing_anthropic,
    "openai_chat": _standing_chat,
    "openai_responses": _standing_responses,
}


# --- the question itself ----------------------------------------------------------------------------------------------


def _ending_anthropic(body: Mapping[str, Any], prompt: str) -> list[Any]:
    """A block of the last user message, for roles alternate (A5) and results come first (A19)."""
    block: dict[str, Any] = {"type": "text", "text": prompt}
    # The automatic mark at the top level falls on the last block by itself, and takes no second one there.
    if body.get("cache_control") is None and _marks(body) < MOST_MARKS:
        block["cache_control"] = {"type": "ephemeral"}
    *before, last = body["messages"]
    if role(last) != "user":
        return [*before, last, {"role": "user", "content": [block]}]
    content = last.get("content")
    return [*before, {**last, "content": [*(content if isinstance(content, list) else blocks(last)), block]}]


def _marks(body: Mapping[str, Any]) -> int:
    around = [part for name in ("tools", "system") if isinstance(part := body.get(name), list)]
    parts = [*around, *map(blocks, body["messages"])]
    return sum(1 for part in parts for block in part if as_mapping(block).get("cache_control") is not None)


def _ending_chat(body: Mapping[str, Any], prompt: str) -> list[Any]:
    """Joined to a last user message: many templates of open models refuse two in a row."""
    *before, last = body["messages"]
    content = as_mapping(last).get("content")
    if role(last) == "user" and isinstance(content, str):
        return [*before, {**last, "content": f"{content}\n\n{prompt}"}]
    if role(last) == "user" and isinstance(content, list):
        return [*before, {**last, "content": [*content, {"type": "text", "text": prompt}]}]
    return [*before, last, {"role": "user", "content": prompt}]


def _ending_responses(body: Mapping[str, Any], prompt: str) -> list[Any]:
    return [*body["input"], {"role": "user", "content": prompt}]


_ENDING: Mapping[str, Callable[[Mapping[str, Any], str], list[Any]]] = {
    "anthropic": _ending_anthropic,
    "openai_chat": _ending_chat,
    "openai_responses": _ending_responses,
}


# --- settings ---------------------------------------------------------------------------------------------------------


def _free_to_speak(body: dict[str, Any]) -> dict[str, Any]:
    """Without what would force a call or a format. That may cost the cache; keeping it would cost the answer."""
    gone = {name for name in ("tool_choice", "function_call") if _forces_a_call(body.get(name))}
    if as_mapping(body.get("response_format")).get("type", "text") != "text":
        gone.add("response_format")
    kept = {name: value for name, value in body.items() if name not in gone}
    for name in ("output_config", "text"):  # Anthropic and Responses: a format among other settings.
        setting = as_mapping(kept.get(name))
        if as_mapping(setting.get("format")).get("type", "text") != "text":
            kept[name] = {key: value for key, value in setting.items() if key != "format"}
            if not kept[name]:
                del kept[name]
    return kept


def _forces_a_call(choice: Any) -> bool:
    if isinstance(choice, str):
        return choice in ("required", "any")
    told = as_mapping(choice)
    if told.get("type") == "allowed_tools":
        return "required" in (told.get("mode"), as_mapping(told.get("allowed_tools")).get("mode"))
    return bool(told) and told.get("type") not in ("auto", "none")


def _limit_field(wire: Wire, body: Mapping[str, Any]) -> str:
    if wire.name == "anthropic":
        return "max_tokens"
    if wire.name == "openai_responses":
        return "max_output_tokens"
    for field in ("max_completion_tokens", "max_tokens"):
        if field in body:
            return field
    return "max_completion_tokens" if _LATER_OPENAI.search(str(body.get("model", ""))) else "max_tokens"


def _limit(wire: Wire, tree: Mapping[str, Any], max_tokens: int) -> int:
    """The cap, and room for thought beside it, but no more than the client itself asked for: that much is known to be
    accepted and to fit. So a thinking budget, which is below the client's limit, stays below ours (A42)."""
    thought = _thought(tree)
    own = wire.max_output(tree)
    return min(max_tokens + thought, max(own, max_tokens)) if own else max_tokens + thought


def _thought(body: Mapping[str, Any]) -> int:
    """Tokens that may go to thought before a word is said; 0 where the request does not think."""
    thinking = as_mapping(body.get("thinking"))
    mode, budget = thinking.get("type"), thinking.get("budget_tokens")
    if mode == "disabled":
        return 0
    if isinstance(budget, int):
        return budget
    effort = as_mapping(body.get("reasoning")).get("effort") or body.get("reasoning_effort")
    asked = mode is not None or effort not in (None, "none")
    unasked = effort is None and _THINKS_UNASKED.search(str(body.get("model", ""))) is not None
    return ROOM_TO_THINK if asked or unasked else 0


# --- the answer -------------------------------------------------------------------------------------------------------

Stop = Literal["end", "length", "refusal", "tool", "other"]
"""`other`: paused, failed, cancelled, or nothing that says it came to an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model answered, in words."""

    text: str
    """Without its thinking."""
    stopped: Stop
    usage: Usage | None


_STOPS: Mapping[str, Stop] = {
    **dict.fromkeys(("end_turn", "stop_sequence", "stop", "eos", "eos_token", "complete", "completed"), "end"),
    **dict.fromkeys(("max_tokens", "length", "model_length", "max_output_tokens"), "length"),
    "model_context_window_exceeded": "length",
    **dict.fromkeys(("refusal", "content_filter", "safety", "sensitive"), "refusal"),
    **dict.fromkeys(("tool_use", "tool_calls", "function_call"), "tool"),
}
"""By the provider's word in small letters; `eos` and `model_length` are compatibles'."""

_THOUGHT_ALOUD = re.compile(r"\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
"""Open models that reason in their text, where the server does not part the two."""


def answer_of(wire: Wire, response: Mapping[str, Any]) -> Reply:
    """A provider's response, read. A call, a refusal or a cut is told whatever the provider says of how it ended."""
    words, ended, called, declined = _READING[wire.name](response)
    stopped = _STOPS.get(ended.lower(), "other")
    if stopped == "end" and called:
        stopped = "tool"
    if stopped == "end" and declined:
        stopped = "refusal"
    text = "".join(words)
    aloud = _THOUGHT_ALOUD.match(text)
    return Reply(text=text[aloud.end() if aloud else 0 :].strip(), stopped=stopped, usage=wire.usage(response))


_Read = tuple[list[str], str, bool, bool]
"""Words, how it ended, whether a tool was called, whether the model declined."""


def _read_anthropic(response: Mapping[str, Any]) -> _Read:
    parts = _listed(response.get("content"))
    words = [as_text(block.get("text")) for block in parts if block.get("type") == "text"]
    called = any(block.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use") for block in parts)
    return words, as_text(response.get("stop_reason")), called, False


def _read_chat(response: Mapping[str, Any]) -> _Read:
    choice = next(iter(_listed(response.get("choices"))), {})
    message = as_mapping(choice.get("message"))
    content = message.get("content")
    words = [as_text(part.get("text")) for part in _listed(content) if part.get("type", "text") == "text"]
    called = bool(message.get("tool_calls")) or message.get("function_call") is not None
    ended = as_text(choice.get("finish_reason"))
    return words or [content if isinstance(content, str) else ""], ended, called, bool(message.get("refusal"))


def _read_responses(response: Mapping[str, Any]) -> _Read:
    items = _listed(response.get("output"))
    parts = [part for item in items if item.get("type") == "message" for part in _listed(item.get("content"))]
    words = [as_text(part.get("text")) for part in parts if part.get("type") == "output_text"]
    called = any(as_text(item.get("type")).endswith("_call") for item in items)
    ended = as_text(response.get("status"))
    if ended == "incomplete":
        ended = as_text(as_mapping(response.get("incomplete_details")).get("reason"))
    return words, ended, called, any(part.get("type") == "refusal" for part in parts)


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


_READING: Mapping[str, Callable[[Mapping[str, Any]], _Read]] = {
    "anthropic": _read_anthropic,
    "openai_chat": _read_chat,
    "openai_responses": _read_responses,
}
