"""Between a plan that asks and the one who answers: the question as a request, and the answer held against its source.

What is written down is what was checked, so a plan made again from the log goes by the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.core.engine import Folding
from ebbtide.core.journal import State, ebb
from ebbtide.core.types import USER, Ask, Item
from ebbtide.core.view import View
from ebbtide.drive.consulting import Consult, Heard, told
from ebbtide.ledger import ReadAhead
from ebbtide.store import Record
from ebbtide.summary.check import check
from ebbtide.wire.asking import Reply, answer_of, same_prefix, transcript
from ebbtide.wire.reading import Request
from ebbtide.wire.shape import Wire
from ebbtide.wire.validity import harden

BREAKER = 3
"""Useless answers in a row after which nobody is asked by itself any more (R251)."""
STALLED = 2
"""Folds in a row that made no room, after which none is made by itself below the hard level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """What a person said about a fold they asked for."""

    focus: str = ""
    summary: str = ""
    first: str = ""
    last: str = ""


def folding_of(
    state: State,
    *,
    asks: bool,
    live: bool,
    manual: Manual | None,
    instructions: tuple[str, ...] = (),
    way: str = "path",
    transcript: str = "",
    tool: str = "",
    waiting: bool = False,
    ahead: ReadAhead | None = None,
) -> Folding:
    """What the passes may know. The breaker keeps a broken model from being asked for ever; a person may try again."""
    asked = manual or Manual()
    brought = tuple((name, result) for name, result in state.children.items() if result is not None)
    return Folding(
        answers=state.answers,
        asks=asks and (manual is not None or state.failures < BREAKER),
        live=live,
        focus=asked.focus,
        instructions=instructions,
        summary=asked.summary,
        first=asked.first,
        last=asked.last,
        after=state.folded,
        stalled=state.stalled >= STALLED,
        waiting=waiting,
        way=way,
        transcript=transcript,
        tool=tool,
        children=brought,
        ahead=ahead,
    )


def journaled(folding: Folding) -> Record:
    """What a plan went by, but for answers and sub-agents, which are records of their own."""
    return {
        "asks": folding.asks,
        "live": folding.live,
        "focus": folding.focus,
        "instructions": list(folding.instructions),
        "summary": folding.summary,
        "first": folding.first,
        "last": folding.last,
        "after": folding.after,
        "stalled": folding.stalled,
        "waiting": folding.waiting,
        "way": folding.way,
        "transcript": folding.transcript,
        "tool": folding.tool,
    }


def folding_from(was: Mapping[str, Any], state: State) -> Folding:
    """The same, read back."""
    kept = {name: was[name] for name in _NAMES if name in was}
    brought = tuple((name, result) for name, result in state.children.items() if result is not None)
    instructions = tuple(str(one) for one in was.get("instructions", ()))
    return Folding(**kept, instructions=instructions, answers=state.answers, children=brought)


_NAMES = (
    "asks",
    "live",
    "focus",
    "summary",
    "first",
    "last",
    "after",
    "stalled",
    "waiting",
    "way",
    "transcript",
    "tool",
)


def question_for(ask: Ask, request: Request, tree: Mapping[str, Any], model: str) -> Consult | None:
    """The request to put to a model: valid, and the live one as far as it can be. None where there is none."""
    if ask.way == "live":
        return Consult(ask, {})
    wire: Any = request.wire.name
    if ask.way == "transcript":
        body = transcript(
            request.wire, model=model or request.model, prompt=ask.prompt, quoted=ask.quoted, max_tokens=ask.max_tokens
        )
    else:
        found = same_prefix(request.wire, tree, ask.prompt, ask.max_tokens)
        if found is None:
            return None
        body = {**found, "model": model} if model else found
    return Consult(ask, dict(harden(wire, body)[0]))


def judged(ask: Ask, heard: Heard, view: View, wire: Wire, count: Callable[[str], int], now: float) -> Record:
    """An answer as a record: words that may be used, or why there are none."""
    fields: dict[str, object] = {"key": ask.key, "by": ask.by, "way": ask.way, "first": ask.first, "last": ask.last}
    if heard.failed:
        return ebb("answer", at=now, **fields, failed=heard.failed)
    answer = told(heard.response)
    if ask.way == "live":
        return ebb("answer", at=now, **fields, text=answer if isinstance(answer, str) else "[]")
    reply = Reply(text=answer, stopped="end", usage=None) if isinstance(answer, str) else answer_of(wire, answer)
    run = run_of(ask, view)
    checked = check(
        reply.text,
        stopped=_STOPS.get(reply.stopped, reply.stopped),
        source=[*(item.text for item in run), *(entry.text for entry in view.entries if entry.id in view.owner)],
        trusted=[item.text for item in run if item.role == "user" and item.tier <= USER],
        outputs=[item.text for item in run if item.kind == "result"],
        replaced_tokens=sum(item.tokens for item in run),
        cap=ask.max_tokens,
        count=count,
    )
    usage = reply.usage
    bill = {"input": usage.input, "output": usage.output, "cache_read": usage.cache_read} if usage else {}
    struck = [[one.text, one.reason] for one in checked.dropped]
    return ebb(
        "answer", at=now, **fields, text=checked.text, analysis=checked.analysis, struck=struck,
        failed=checked.faults[0] if checked.faults else "", usage=bill,
    )  # fmt: skip


def unasked(ask: Ask, why: str, now: float) -> Record:
    """The answer to a question that was not put to anybody: it is nobody's failure."""
    return ebb(
        "answer", at=now, key=ask.key, by=ask.by, way=ask.way, first=ask.first, last=ask.last, failed=why, asked=False
    )


_STOPS = {"tool": "tool_use"}


def run_of(ask: Ask, view: View) -> Sequence[Item]:
    """The originals that were asked about."""
    lo, hi = view.index.get(ask.first), view.index.get(ask.last)
    return view.items[lo : hi + 1] if lo is not None and hi is not None else ()
