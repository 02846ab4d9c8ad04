"""An answer is used only for what it can be held to. What is wrong as a whole is refused, what is wrong in part loses
that part, and both are said.

Refused: nothing, a refusal, an answer that was cut, a tool call, a loop, mostly invention, longer than what it
replaces. Struck out: statements with a name that nobody said, lines that order or allow. The rest cannot be read as
anything but text.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ebbtide.summary.claims import KnownText, find_claims
from ebbtide.summary.instructions import find_hidden_instruction, find_instructions, split_points
from ebbtide.summary.quoted_output import mark_quotes
from ebbtide.summary.sanitize import neutralize, strip_invisible, to_plain_letters
from ebbtide.summary.sections import is_heading, shorten_summary

Count = Callable[[str], int]
Fault = Literal["empty", "refused", "cut", "tool call", "looping", "invented", "not smaller", "too long"]

LENGTH_STOPS = frozenset(
    ("max_tokens", "length", "max_output_tokens", "incomplete", "model_context_window_exceeded", "MAX_TOKENS")
)
REFUSAL_STOPS = frozenset(("refusal", "content_filter", "safety", "SAFETY", "blocked"))
CALL_STOPS = frozenset(("tool_use", "tool_calls", "function_call"))

TRIMMED = 2.0
"""Times its cap that an answer may have and still be trimmed. Beyond, it is no summary that ran over."""
INVENTED = 0.5
"""Share of an answer's statements that may be struck out for names nobody said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySource:
    """What an answer stands for, and is held against."""

    texts: Sequence[str]
    """All of it, the earlier summary included."""
    user_texts: Sequence[str] = ()
    """The user's own messages."""
    tool_outputs: Sequence[str] = ()
    """What tools returned: a copy of it is marked as a quotation."""
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedText:
    """Words that were struck out."""

    text: str
    reason: str
    """`approval`, `order`, `cap`, or the name that does not occur, as in `not in the source: src/x.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSummary:
    text: str
    """What may be used; empty where there are faults."""
    analysis: str = ""
    """What was thought before, made harmless too."""
    faults: tuple[Fault, ...] = ()
    dropped: tuple[DroppedText, ...] = ()


def check_summary(
    answer: str, source: SummarySource, *, stop_reason: str = "", max_tokens: int, count: Count
) -> CheckedSummary:
    """`stopped` is why the model stopped, in the provider's words; `cap` is in tokens.

    An order stays if the user gave it in these words. Nothing makes an approval stay: the user's words stand beside
    the summary, and whether they still allow anything is not for a summary to say.
    """
    analysis, found = split_answer(answer)
    fault = _unusable(answer, found, stop_reason)
    if fault:
        return CheckedSummary(text="", analysis=neutralize(strip_invisible(analysis)), faults=(fault,))
    text = strip_invisible(found or "").strip()
    said = [_words(one) for one in source.user_texts]
    text, dropped, statements = _struck(text, KnownText.from_texts(source.texts), said)
    text = neutralize(mark_quotes(text, source.tool_outputs, source.user_texts))
    faults = tuple(_faults(text, dropped, statements, source.tokens, max_tokens, count))
    if not faults and count(text) > max_tokens:
        text, cut = _trimmed(text, max_tokens, count)
        dropped = (*dropped, *cut)
        faults = () if text else ("too long",)
    text = "" if faults else text
    return CheckedSummary(text=text, analysis=neutralize(strip_invisible(analysis)), faults=faults, dropped=dropped)


# ------------------------------------------------------------------------------------------------------ the whole of it

_THOUGHT = re.compile(
    r"\s*<(analysis|think|thinking)>(?P<thought>.*?)</\1>\s*(?=<summary>|\Z)", re.DOTALL | re.IGNORECASE
)
_THOUGHT_ONLY = re.compile(r"\s*<(analysis|think|thinking)>(?P<thought>.*?)(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_OPEN, _CLOSE = re.compile(r"<summary>", re.IGNORECASE), re.compile(r"</summary>", re.IGNORECASE)


def split_answer(answer: str) -> tuple[str, str | None]:
    """(analysis, summary): what was thought, and the summary element alone (R176); None where one was never closed.

    The element ends with its last closing tag: one that a tool smuggled in must not cut the rest off. Without such an
    element all that is not thought is the summary.
    """
    thought = _THOUGHT.match(answer) or _THOUGHT_ONLY.match(answer)
    rest = answer[thought.end() :] if thought else answer
    analysis = thought["thought"].strip() if thought else ""
    opened = _OPEN.search(rest)
    if opened is None:
        unclosed = thought is not None and not thought[0].rstrip().endswith(">")
        return analysis, None if unclosed else rest.strip()
    closed = [match.start() for match in _CLOSE.finditer(rest, opened.end())]
    return analysis, rest[opened.end() : closed[-1]].strip() if closed else None


_REFUSAL = re.compile(
    r"(?:i(?:'m| am) (?:very |so |really )?sorry|sorry[,.]|unfortunately,? i|i apologi[sz]e|my apologies"
    r"|i (?:can(?:no|')?t|am unable|am not able|won't|will not|must decline)|as an (?:ai|assistant|llm)"
    r"|(?:非常|很|十分)?(?:抱歉|对不起|不好意思)|我(?:不能|无法|没有办法|没办法|拒绝)"
    r"|作为(?:一个|一名)?(?:ai|人工智能|语言模型|助手))",
    re.IGNORECASE,
)
_CALLED = re.compile(
    r"\s*(?:```\w*\s*)?(?:<(?:tool_call|function_calls?|invoke|tool_use)\b|\{\s*\"(?:name|tool|function)\"\s*:)"
)
_SHORT = 600
"""Characters. A refusal is a few sentences; a summary that happens to begin so goes on."""


def _unusable(answer: str, found: str | None, stopped: str) -> Fault | None:
    if stopped in CALL_STOPS or _CALLED.match(found if found is not None else answer):
        return "tool call"
    if stopped in REFUSAL_STOPS:
        return "refused"
    if stopped in LENGTH_STOPS or found is None:
        return "cut"
    text = strip_invisible(found).strip()
    if not any(char.isalnum() for char in text):
        return "empty"
    if len(text) < _SHORT and _REFUSAL.match(to_plain_letters(text).lstrip("*_#> \"'").replace("’", "'")):
        return "refused"
    return "looping" if _loops(text) else None


_REPEATED = 4
_DENSE = 10.0
"""Prose packs to a half or a third, a list of paths to a fifth; the same sentence over and over to a twentieth."""


def _loops(text: str) -> bool:
    """The same line again and again, or so little in so many words that it must go round in a circle."""
    lines = [line for line in map(_words, text.split("\n")) if len(line) >= 12 and not is_heading(line)]
    often = Counter(re.sub(r"\d+", "0", line) for line in lines).most_common(1)
    if often and often[0][1] >= _REPEATED and often[0][1] * 3 >= len(lines):
        return True
    data = text.encode("utf-8", "surrogatepass")
    return len(data) >= 400 and len(data) / len(zlib.compress(data, 9)) > _DENSE


def _faults(
    text: str, dropped: Sequence[DroppedText], statements: int, replaced: int, cap: int, count: Count
) -> Iterator[Fault]:
    invented = sum(one.reason.startswith("not in") for one in dropped)
    if statements >= 4 and invented > INVENTED * statements:
        yield "invented"
    elif not any(line.strip() and not is_heading(line) for line in text.split("\n")):
        yield "empty"
    elif count(text) >= replaced:
        yield "not smaller"
    elif count(text) > TRIMMED * cap:
        yield "too long"


def _trimmed(text: str, cap: int, count: Count) -> tuple[str, tuple[DroppedText, ...]]:
    short = shorten_summary(text, max_tokens=cap, count=count)
    left = Counter(short.split("\n"))
    left.subtract(Counter(line for line in text.split("\n") if line.strip()))
    gone = [DroppedText(text=line, reason="cap") for line, n in left.items() if n < 0]
    return short, tuple(gone)


# --------------------------------------------------------------------------------------------- statement by statement

_SENTENCES = re.compile(r"(?<=[.!?])[ \t]+(?=[A-Z`*\"])|(?<=[。！？；])")
_BULLET = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])?[ \t]*")


def _struck(text: str, source: KnownText, trusted: Sequence[str]) -> tuple[str, tuple[DroppedText, ...], int]:
    """The text without what it should not say, what that was, and how many statements there were."""
    spoken = _spoken(text, trusted)
    kept, dropped, statements, at = list[str](), list[DroppedText](), 0, 0
    for n, line in enumerate(text.split("\n")):
        start, at = at, at + len(line) + 1
        reason = next((why for lo, hi, why in spoken if lo < start + len(line) and hi > start), None)
        if reason:
            dropped.append(DroppedText(text=line, reason=reason))
            kept += [""] if n and not kept[-1:] else []
            continue
        told_here = [one for one in _SENTENCES.split(line) if one.strip()]
        statements += len(told_here)
        line, gone = _founded(line, told_here, source)
        dropped += gone
        if line.strip() or not gone:
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), tuple(dropped), statements


def _spoken(text: str, trusted: Sequence[str]) -> list[tuple[int, int, str]]:
    """Where the text orders or allows, openly or in disguise; not where it repeats an order of the user's."""
    openly = [(one.start, one.end, one.fault) for one in find_instructions(text)]
    points = [(start, end, find_hidden_instruction(text[start:end])) for start, end in split_points(text)]
    found = [*openly, *((start, end, fault) for start, end, fault in points if fault)]
    return [one for one in found if one[2] == "approval" or not _said(text[one[0] : one[1]], trusted)]


def _said(words: str, trusted: Sequence[str]) -> bool:
    """Whether the user said the whole of it: `please run` is anybody's, what is to be run is not."""
    wanted = _words(words).strip("\"'“”‘’`*_:;,)( ")
    return bool(wanted) and any(wanted in one for one in trusted)


def _words(text: str) -> str:
    return " ".join(to_plain_letters(text).casefold().split())


def _founded(line: str, sentences: Sequence[str], source: KnownText) -> tuple[str, list[DroppedText]]:
    """The line without the sentences that name what does not occur."""
    gone = [(one, name) for one in sentences if (name := _unknown(one, source))]
    if not gone:
        return line, []
    lost = {one for one, _ in gone}
    mark = _BULLET.match(line)
    head = mark[0] if mark and sentences and sentences[0] in lost else ""
    rest = " ".join(one.strip() if n else one for n, one in enumerate(sentences) if one not in lost)
    dropped = [DroppedText(text=one, reason=f"not in the source: {name}") for one, name in gone]
    return f"{head}{rest}" if rest.strip() else "", dropped


def _unknown(sentence: str, source: KnownText) -> str | None:
    return next((name for name in find_claims(sentence) if not source.contains(name)), None)
