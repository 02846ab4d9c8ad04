"""One story sent to a real model through a Context, with the same requests sent raw for comparison.

The client keeps its whole history and sends all of it each time, as agents do: what it has at hand is the raw request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ebbtide import Context
from local_model.model_server import Model, Refused
from local_model.story import SYSTEM, TOOLS, Turn

Body = Mapping[str, Any]
REPLY = 512  # tokens that the client reserves for an answer, as an agent would
SAID = 12  # tokens that are really waited for: the model's own words, in a quarter of a second
# So small a model copies the headings it was shown, or never comes to an end. Held to a form, it finishes.
FORM = r"""
root ::= "<summary>\n## Intent\n- The user wants" words "## State of work\n- The assistant" words "</summary>"
words ::= " " [^\n<>]{8,80} "\n"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request of the client, as it had it and as it went out."""

    raw: Body
    sent: Body
    raw_tokens: int
    """As the server counts them."""
    raw_refusal: Mapping[str, Any] | None
    """What the server says to the raw request, where it is too long for the window."""
    refusal: Mapping[str, Any] | None
    """What it says to ours."""
    prompt: int = 0
    cached: int = 0
    output: int = 0
    made_by: tuple[str, ...] = ()
    """The passes whose edits were made for this request."""


@dataclass(slots=True)
class Summarizer:
    """Asks the same server, and keeps what was asked and answered."""

    model: Model
    asked: list[Body] = field(default_factory=list)
    answered: list[Body] = field(default_factory=list)

    def __call__(self, request: Body) -> Body:
        self.asked.append(request)
        # The server takes no form where a tool may be called.
        answer = self.model.chat({**request, "grammar": FORM, "tool_choice": "none"})
        self.answered.append(answer)
        return answer


def walk(model: Model, context: Context, turns: Iterable[Turn]) -> Iterator[Step]:
    """Every request of the story, in order, each answered before the next."""
    history: list[Body] = [{"role": "system", "content": SYSTEM}]
    for turn in turns:
        history.append({"role": "user", "content": turn.said})
        for call in turn.calls:
            step, words = _exchange(model, context, history, calls=[call.as_asked])
            yield step
            history += [words, call.as_answered]
        step, words = _exchange(model, context, history, calls=[])
        yield step
        history.append(words)


def _exchange(model: Model, context: Context, history: list[Body], *, calls: list[Any]) -> tuple[Step, Body]:
    raw = {"model": "smollm2", "max_tokens": REPLY, "messages": list(history), "tools": TOOLS}
    tokens = model.tokens(raw)
    # One that fits is not sent: the server would read it all for nothing, and this is about those that do not.
    refusal = _refusal(model.chat, raw) if tokens >= model.window else None
    ready = context.prepare(raw)
    made_by = tuple(edit.by for edit in ready.report.edits)
    common = {"raw": raw, "sent": ready.body, "raw_tokens": tokens, "raw_refusal": refusal, "made_by": made_by}
    try:
        answer = model.chat({**ready.body, "max_tokens": SAID})
    except Refused as refused:
        return Step(**common, refusal=refused.error), _scripted({"role": "assistant", "content": ""}, calls)
    message = answer["choices"][0]["message"] = _scripted(answer["choices"][0]["message"], calls)
    ready.record(answer)
    usage = answer["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    step = Step(**common, refusal=None, prompt=usage["prompt_tokens"], cached=cached, output=usage["completion_tokens"])
    return step, message


def _scripted(message: Body, calls: list[Any]) -> Body:
    """The model's words with the calls of the story; what it would have called itself is left out."""
    words = {"role": "assistant", "content": message.get("content") or "I go on."}
    return {**words, "tool_calls": calls} if calls else words


def _refusal(send: Callable[[Body], object], body: Body) -> Mapping[str, Any] | None:
    try:
        send(body)
    except Refused as refused:
        return refused.error
    return None
