"""What a reader sees is what is checked, and what would be read as structure is made plain.

Summaries carry words that a tool may have chosen. Hidden characters go. Tags, stub heads, role marks and the tokens of
chat templates are found however they are spelt, and lose the character that makes them one: for good where the text is
ours to keep (`harmless`), reversibly where it must come back as it was (`escape`, `unescape`).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise

from ebbtide.core.text.framing import OUR_TAGS, brackets, found_at, tag_names, translated

RECORD_TAG = "session-record"
SUMMARY_TAG = "conversation-summary"
SEGMENT_TAG = "conversation_segment"
PART_TAG = "transcript-part"

_HEARD = (
    *("summary", "analysis", "thinking", "system", "user", "assistant", "human", "developer", "tool_result"),
    *("tool_use", "tool_call", "tool_response", "function_calls", "function_results", "invoke", "persisted-output"),
    *("start_of_turn", "end_of_turn", "instructions"),
)
"""Tags by which models are told who speaks, in answers, harnesses and chat templates."""
NAMES = tag_names((*OUR_TAGS, RECORD_TAG, SUMMARY_TAG, SEGMENT_TAG, PART_TAG, *_HEARD))

_TWINS = (
    ("аеорсухіјѕԁһԛԝѵоոսցӏвкмнтг", "aeopcyxijsdhqwvonuglbkmhtr"),  # Cyrillic and Armenian letters that read as Latin
    ("АВЕКМНОРСТУХІЈЅ", "ABEKMHOPCTYXIJS"),
    ("αεικνορτυχΑΒΕΗΙΚΜΝΟΡΤΥΧ", "aeiknoptuxABEHIKMNOPTYX"),
    ("ıɩɡ‐‑‒–—―−⁃‹〈⟨❮˂ᐸ≺⧼", "iig--------<<<<<<<<"),
)
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_ORDINARY = re.compile(r"[\n\t\x20-\x7e]*")
_RETURNS = "\r\x85\u2028\u2029"
"""Line ends that are nothing worse: they stay where a text must stay."""
_LINE_END = re.compile("[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_JOINERS = "\u200c\u200d"
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f")
_HIDDEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs"))


class _Plain(dict[int, str]):
    """The plain character that one is read as. One for one, so that offsets hold. Filled as characters turn up."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        parts = [c for c in unicodedata.normalize("NFKD", char) if unicodedata.category(c) not in ("Mn", "Me")]
        self[code] = parts[0] if len(parts) == 1 and parts[0].isascii() else char
        return self[code]


_PLAIN = _Plain({ord(odd): plain for odds, plains in _TWINS for odd, plain in zip(odds, plains, strict=True)})


def to_plain_letters(text: str) -> str:
    """The text as it reads: full width, look-alikes and accents undone, letter for letter."""
    return text if text.isascii() else translated(text, _PLAIN)


def strip_invisible(text: str) -> str:
    """The text without what nobody sees: zero width, direction marks, tag letters, controls, piled-up accents.

    Joiners stay between letters of scripts that need them. Every kind of line end becomes the one we know.
    """
    if _ORDINARY.fullmatch(text):
        return text
    text = unicodedata.normalize("NFC", _LINE_ENDS.sub("\n", text))
    # What could be composed with a letter was, by NFC. A mark that is left on a Latin letter only hides it.
    return _replaced(text, [(at, at + 1, "") for at in sorted((*_hidden(text), *_piled_up(text)))])


class _Odd(dict[int, str]):
    """One letter for what a character is: hidden, a joiner, a mark on the one before, or none of these."""

    def __missing__(self, code: int) -> str:
        char, kind = chr(code), unicodedata.category(chr(code))
        if char in _JOINERS:
            self[code] = "j"
        elif char in _BLANK_LETTERS or "\U000e0100" <= char <= "\U000e01ef" or (kind in _HIDDEN and char not in "\n\t"):
            self[code] = "h"
        else:
            self[code] = "m" if kind in ("Mn", "Me") else "."
        return self[code]


_ODD = _Odd()


def _hidden(text: str) -> list[int]:
    """Places of what nobody sees."""
    unseen = {char for char in set(text) if _ODD[ord(char)] in "hj"}
    found = [at for at, char in enumerate(text) if char in unseen] if unseen else []
    return [at for at in found if text[at] not in _JOINERS or not _joins(text, at)]


def _joins(text: str, at: int) -> bool:
    around = text[max(0, at - 1) : at] + text[at + 1 : at + 2]
    return len(around) == 2 and not any(one.isascii() or one in _JOINERS for one in around)


def _piled_up(text: str) -> list[int]:
    """Places of marks on plain letters."""
    if not any(_ODD[ord(char)] == "m" for char in set(text)):
        return []
    runs = re.finditer("(?<!m)m+", text.translate(_ODD))
    return [at for run in runs if text[max(0, run.start() - 1) : run.start()].isascii() for at in range(*run.span())]


# ---------------------------------------------------------------------------------------------- what reads as structure

_ROLE = r"human|user|assistant|system|developer|model|ai|用户|使用者|助手|助理|系统|人类|开发者"
_MARKS = re.compile(
    rf"^[ \t>*_\#|•+\"'“‘「-]*(?:{_ROLE})[ \t*_]*(?P<role>:)"
    r"|(?P<stub>[\[(])[ \t]*ebb[ \t]*:"
    r"|(?P<token><)[ \t]*\|"
    r"|(?P<inst>\[)[ \t]*(?:/[ \t]*)?(?:inst|sys|system_prompt|available_tools|tool_calls?|tool_results)[ \t]*\]"
    r"|(?P<sys><)<[ \t]*(?:/[ \t]*)?sys",
    re.IGNORECASE | re.MULTILINE,
)
_OPENS = re.compile(r"^|[\[(<]", re.MULTILINE)
"""Where any of these begins."""
_PUT = {"role": " -", "stub": "{", "token": "[", "inst": "{", "sys": "["}


def _dangers(text: str) -> list[tuple[int, int, str]]:
    """Spans that make structure, and what to put there, in order; none overlaps another."""
    hidden = [] if _ORDINARY.fullmatch(text) else [at for at in _hidden(text) if text[at] not in _RETURNS]
    # Marks on letters are passed over and stay: decomposed names have them.
    unread = {*hidden, *_piled_up(text)} if not text.isascii() else {*hidden}
    read, place = _without(_LINE_END.sub("\n", to_plain_letters(text)), sorted(unread))
    found = {
        (place(match.start(name)), place(match.start(name)) + 1, _PUT[name])
        for match in found_at(_MARKS, _OPENS, read)
        if (name := match.lastgroup) is not None
    }
    return sorted(
        {*found, *((at, at + 1, "") for at in hidden), *((start, end, "[") for start, end in brackets(text, NAMES))}
    )


def _without(text: str, places: list[int]) -> tuple[str, Callable[[int], int]]:
    """The text less the characters at these places; and where a character of what is left stood."""
    cuts = pairwise((-1, *places, len(text)))
    passed = [at - n for n, at in enumerate(places)]
    return "".join([text[a + 1 : b] for a, b in cuts]), lambda at: at + bisect_right(passed, at)


def neutralize(text: str) -> str:
    """The text with nothing in it that reads as a frame, a stub of ours or another speaker."""
    return _replaced(text, _dangers(text))


_MARK = "\u27e6"  # a bracket of mathematics, rare in any source
_CODE = r"(?:10[0-9a-f]{4}|[0-9a-f]{1,5})"
_ESCAPED = re.compile(rf"{_MARK}(?:(?P<itself>=)|(?P<codes>(?:{_CODE}(?:\.{_CODE})*)?):)")


def escape(text: str) -> str:
    """The same as `harmless`, but nothing is lost: `unescape` gives the text back."""
    spans = [(start, end, f"{_MARK}{_codes(text[start:end])}:") for start, end, _ in _dangers(text)]
    spans += [(match.start(), match.end(), f"{_MARK}=") for match in re.finditer(_MARK, text)]
    return _replaced(text, sorted(spans))


def unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: _MARK if found["itself"] else _chars(found["codes"]), text)


def _codes(span: str) -> str:
    """Empty for the usual bracket: it reads best."""
    return "" if span == "<" else ".".join(f"{ord(char):x}" for char in span)


def _chars(codes: str) -> str:
    return "".join(chr(int(code, 16)) for code in codes.split(".")) if codes else "<"


def _replaced(text: str, spans: list[tuple[int, int, str]]) -> str:
    parts, past = [], 0
    for start, end, put in spans:
        if start < past:
            continue
        parts += [text[past:start], put]
        past = end
    return "".join((*parts, text[past:]))
