"""Makes text from outside safe to show: framed by tags that it cannot close, and without what reads as structure.

Text from outside comes in frames, `<tag>` to `</tag>`, so that a model can tell who speaks. Tags, stub heads, role
marks and chat template tokens inside are found however they are spelled, and lose the character that makes them one:
for good (`neutral`, `neutralize`), or reversibly where the text must come back unchanged (`escape`, `unescape`). No
meaning hangs on tags alone: how far a block is trusted is kept beside it.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from types import MappingProxyType

from ebbtide.core.errors import BadConfig

TAG_BY_SOURCE: Mapping[str, str] = MappingProxyType(
    {
        "reminder": "system-reminder",
        "ide_selection": "ide_selection",
        "ide_opened": "ide_opened_file",
        "hook_prompt": "user-prompt-submit-hook",
        "hook_pre_tool": "pre-tool-use-hook",
        "hook": "hook-output",
        "mode": "system-reminder",
        "attachment": "system-reminder",
        "instructions": "project-instructions",
        "summary": "conversation-summary",
        "compactor": "conversation-summary",
    }
)
GENERIC_TAG = "injected-context"
"""For an unknown source: it still gets a frame, and the lowest trust."""

_TWINS = (
    ("аеорсухіјѕԁһԛԝѵоոսցӏ", "aeopcyxijsdhqwvonugl"),  # Cyrillic and Armenian, small
    ("АВЕКМНОРСТУХІЈЅ", "abekmhopctyxijs"),
    ("αεικνορτυχΑΒΕΗΙΚΜΝΟΡΤΥΧ", "aeiknoptuxabehikmnoptyx"),  # Greek
    ("ıɩɡ‹〈⟨❮˂ᐸ≺⧼⁄∕⧸╱‐‑‒–—―−⁃", "iig<<<<<<<<////--------"),
    ("\u115f\u1160\u2800\u3164\uffa0", "\u200b" * 5),  # blanks that Unicode counts as letters
)
_JOINED = {"fi": "ﬁ", "fl": "ﬂ", "ff": "ﬀ", "st": "ﬅﬆ", "nj": "Ǌǋǌ", "lj": "Ǉǈǉ", "ij": "Ĳĳ"}
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn"})


class _Folding(dict[int, str]):
    """What a reader takes a character for; a zero-width space for what is not seen. Filled as characters turn up.

    One character for one, so that offsets in the folded text are offsets in the original.
    """

    def __missing__(self, code: int) -> str:
        char = chr(code)
        parts = unicodedata.normalize("NFKD", char)
        visible = [c for c in parts if unicodedata.category(c) not in _UNSEEN_CATEGORIES and not c.isspace()]
        if not visible:
            folded = char if char.isspace() else "\u200b"
        else:
            folded = visible[0] if len(visible) == 1 and visible[0].isascii() else char
        self[code] = folded
        return folded


_FOLDING = _Folding({ord(odd): plain for odds, plains in _TWINS for odd, plain in zip(odds, plains, strict=True)})

_SWAPS = 16
"""Kinds of characters that are faster replaced one after the other than all at once."""
_UNSEEN = "\u200b"
"""Replaces every invisible character: a pattern with one character for a gap compiles in a fifth of the time."""
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")
_OPENS = re.compile(r"[<&\\%]")
"""What a bracket of any make begins with: few places of a text are looked at closely."""
_BRACKET = r"<|&(?:amp;)*+(?:lt|\#0*+60|\#x0*+3c);?|\\u003c|\\x3c|%3c"
_SLASH = rf"(?:[\s{_UNSEEN}/\\]|&(?:amp;)*+(?:sol|\#0*+47|\#x0*+2f);?|%2f)*+"
_ALIKE = {"-": rf"[-_\s{_UNSEEN}]{{0,4}}", "_": rf"[-_\s{_UNSEEN}]{{0,4}}", "i": "[il1|]", "l": "[il1|]", "o": "[o0]"}


def _spelt(name: str) -> str:
    """The name in any spelling: unseen characters between its letters, look-alikes and ligatures for them."""
    gap = f"{_UNSEEN}*+"
    pairs = "|".join(_JOINED)
    units = []
    for unit in re.findall(f"{pairs}|.", name.lower()):
        letters = gap.join(_ALIKE.get(c, re.escape(c)) for c in unit)
        units.append(f"(?:{letters}|[{_JOINED[unit]}])" if unit in _JOINED else letters)
    return gap.join(units)


@lru_cache(maxsize=64)
def _tag_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """A bracket of any make, slashes and blanks, one of the names. No closing bracket is asked for: scanners that pair
    brackets are led astray by a stray one."""
    return re.compile(rf"(?P<bracket>{_BRACKET}){_SLASH}(?:{'|'.join(map(_spelt, names))})(?!\w|-\w)", re.IGNORECASE)


def brackets(text: str, names: tuple[str, ...]) -> list[tuple[int, int]]:
    """Where the bracket of every tag of these names stands, in order."""
    folded = _CONTROLS.sub(_UNSEEN, text) if text.isascii() else translate_keeping_places(text, _FOLDING)
    return [match.span("bracket") for match in find_matches_at(_tag_pattern(names), _OPENS, folded)]


def find_matches_at(pattern: re.Pattern[str], opens: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """`pattern.finditer(text)`, for one that matches only where `opens` does, and never nothing."""
    end = 0
    for place in opens.finditer(text):
        match = pattern.match(text, place.start()) if place.start() >= end else None
        if match is not None:
            end = match.end()
            yield match


def translate_keeping_places(text: str, table: Mapping[int, str]) -> str:
    """`text.translate(table)`. Most texts have few kinds of characters, and fewer that change."""
    kinds = set(text)
    swaps = [(char, put) for char in kinds if (put := table[ord(char)]) != char]
    if len(swaps) > _SWAPS or any(put in kinds and table[ord(put)] != put for _, put in swaps):
        return text.translate(table)
    for char, put in swaps:
        text = text.replace(char, put)
    return text


def neutral(parts: Sequence[str], names: tuple[str, ...]) -> list[str]:
    """The parts with `[` for the bracket of every tag of ours, also of one that is split between two parts."""
    joined = "".join(parts)
    spans = brackets(joined, names)
    if not spans:
        return list(parts)
    letters = list(joined)
    for start, end in spans:
        letters[start:end] = ["[", *[""] * (end - start - 1)]
    cuts = accumulate((len(part) for part in parts), initial=0)
    return ["".join(letters[start:end]) for start, end in pairwise(cuts)]


def tag_names(tags: Iterable[str]) -> tuple[str, ...]:
    names = tuple(sorted({*tags, GENERIC_TAG}))
    for name in names:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
            raise BadConfig(f"{name!r} cannot be a tag: letters, digits, - and _, a letter first")
    return names


OUR_TAGS = tag_names(TAG_BY_SOURCE.values())


def frame(tag: str, text: str, *, tags: Iterable[str] = OUR_TAGS) -> str:
    """The text between `<tag>` and `</tag>`, which nothing inside can close or open again, `tags` included.

    Tags of other names stay: markup in the text is the text's own affair.
    """
    body = neutral([text], tag_names([*tags, tag]))[0]
    return f"<{tag}>\n{body}\n</{tag}>"


def frames(text: str, *, tags: Iterable[str] = OUR_TAGS) -> tuple[tuple[str, str], ...]:
    """Every frame in the text, outermost only, as (tag, body)."""
    pattern = rf"<(?P<tag>{'|'.join(map(re.escape, tag_names(tags)))})>\n(?P<body>.*?)\n</(?P=tag)>"
    return tuple((match["tag"], match["body"]) for match in re.finditer(pattern, text, re.DOTALL))


# --- text that is quoted ----------------------------------------------------------------------------------------------

RECORD_TAG = "session-record"
SUMMARY_TAG = "conversation-summary"
SEGMENT_TAG = "conversation_segment"
PART_TAG = "transcript-part"

_SPEAKER_TAGS = (
    *("summary", "analysis", "thinking", "system", "user", "assistant", "human", "developer", "tool_result"),
    *("tool_use", "tool_call", "tool_response", "function_calls", "function_results", "invoke", "persisted-output"),
    *("start_of_turn", "end_of_turn", "instructions"),
)
"""Tags that say who speaks, in answers, harnesses and chat templates."""
NAMES = tag_names((*OUR_TAGS, RECORD_TAG, SUMMARY_TAG, SEGMENT_TAG, PART_TAG, *_SPEAKER_TAGS))

_LOOK_ALIKES = (
    ("аеорсухіјѕԁһԛԝѵоոսցӏвкмнтг", "aeopcyxijsdhqwvonuglbkmhtr"),  # Cyrillic and Armenian letters that read as Latin
    ("АВЕКМНОРСТУХІЈЅ", "ABEKMHOPCTYXIJS"),
    ("αεικνορτυχΑΒΕΗΙΚΜΝΟΡΤΥΧ", "aeiknoptuxABEHIKMNOPTYX"),
    ("ıɩɡ‐‑‒–—―−⁃‹〈⟨❮˂ᐸ≺⧼", "iig--------<<<<<<<<"),
)
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_ORDINARY = re.compile(r"[\n\t\x20-\x7e]*")
_RETURNS = "\r\x85\u2028\u2029"
"""Line ends that do no harm: they stay where the text must come back unchanged."""
_LINE_END = re.compile("[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_JOINERS = "\u200c\u200d"
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f")
_HIDDEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs"))


class _PlainLetters(dict[int, str]):
    """From a character to the plain one it looks like, one for one, so that offsets hold. Filled on first use."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        parts = [c for c in unicodedata.normalize("NFKD", char) if unicodedata.category(c) not in ("Mn", "Me")]
        self[code] = parts[0] if len(parts) == 1 and parts[0].isascii() else char
        return self[code]


_PLAIN_LETTERS = _PlainLetters(
    {ord(odd): plain for odds, plains in _LOOK_ALIKES for odd, plain in zip(odds, plains, strict=True)}
)


def to_plain_letters(text: str) -> str:
    """The text with full-width letters, look-alikes and accents replaced by plain letters, one for one."""
    return text if text.isascii() else translate_keeping_places(text, _PLAIN_LETTERS)


def strip_invisible(text: str) -> str:
    """The text without invisible characters: zero width, direction marks, controls, piled-up accents.

    Joiners stay between letters of scripts that need them. Every kind of line end becomes a newline.
    """
    if _ORDINARY.fullmatch(text):
        return text
    text = unicodedata.normalize("NFC", _LINE_ENDS.sub("\n", text))
    # NFC composed what it could. A mark that is left on a Latin letter only hides the letter.
    return _replace_spans(text, [(n, n + 1, "") for n in sorted((*_hidden_places(text), *_stacked_marks(text)))])


class _CharacterKinds(dict[int, str]):
    """From a character to its kind: `h` hidden, `j` joiner, `m` mark on the one before, `.` other."""

    def __missing__(self, code: int) -> str:
        char, kind = chr(code), unicodedata.category(chr(code))
        if char in _JOINERS:
            self[code] = "j"
        elif char in _BLANK_LETTERS or "\U000e0100" <= char <= "\U000e01ef" or (kind in _HIDDEN and char not in "\n\t"):
            self[code] = "h"
        else:
            self[code] = "m" if kind in ("Mn", "Me") else "."
        return self[code]


_CHARACTER_KINDS = _CharacterKinds()


def _hidden_places(text: str) -> list[int]:
    """Indexes of invisible characters."""
    hidden = {char for char in set(text) if _CHARACTER_KINDS[ord(char)] in "hj"}
    places = [n for n, char in enumerate(text) if char in hidden] if hidden else []
    return [n for n in places if text[n] not in _JOINERS or not _is_needed_joiner(text, n)]


def _is_needed_joiner(text: str, place: int) -> bool:
    neighbors = text[max(0, place - 1) : place] + text[place + 1 : place + 2]
    return len(neighbors) == 2 and not any(char.isascii() or char in _JOINERS for char in neighbors)


def _stacked_marks(text: str) -> list[int]:
    """Indexes of marks on plain letters."""
    if not any(_CHARACTER_KINDS[ord(char)] == "m" for char in set(text)):
        return []
    runs = re.finditer("(?<!m)m+", text.translate(_CHARACTER_KINDS))
    return [n for run in runs if text[max(0, run.start() - 1) : run.start()].isascii() for n in range(*run.span())]


# --- text that reads as structure -------------------------------------------------------------------------------------

_ROLE = r"human|user|assistant|system|developer|model|ai|用户|使用者|助手|助理|系统|人类|开发者"
_STRUCTURE = re.compile(
    rf"^[ \t>*_\#|•+\"'“‘「-]*(?:{_ROLE})[ \t*_]*(?P<role>:)"
    r"|(?P<stub>[\[(])[ \t]*ebb[ \t]*:"
    r"|(?P<token><)[ \t]*\|"
    r"|(?P<inst>\[)[ \t]*(?:/[ \t]*)?(?:inst|sys|system_prompt|available_tools|tool_calls?|tool_results)[ \t]*\]"
    r"|(?P<sys><)<[ \t]*(?:/[ \t]*)?sys",
    re.IGNORECASE | re.MULTILINE,
)
_STRUCTURE_STARTS = re.compile(r"^|[\[(<]", re.MULTILINE)
"""Where any of these can begin."""
_SUBSTITUTES = {"role": " -", "stub": "{", "token": "[", "inst": "{", "sys": "["}


def _structure_spans(text: str) -> list[tuple[int, int, str]]:
    """Spans that make structure, with their substitutes, in order and without overlap."""
    hidden = [] if _ORDINARY.fullmatch(text) else [n for n in _hidden_places(text) if text[n] not in _RETURNS]
    # Marks on letters are skipped in reading and stay in the text: decomposed names have them.
    skipped = {*hidden, *_stacked_marks(text)} if not text.isascii() else {*hidden}
    read, to_place = _remove_places(_LINE_END.sub("\n", to_plain_letters(text)), sorted(skipped))
    marks = {
        (to_place(match.start(name)), to_place(match.start(name)) + 1, _SUBSTITUTES[name])
        for match in find_matches_at(_STRUCTURE, _STRUCTURE_STARTS, read)
        if (name := match.lastgroup) is not None
    }
    return sorted(
        {*marks, *((n, n + 1, "") for n in hidden), *((start, end, "[") for start, end in brackets(text, NAMES))}
    )


def _remove_places(text: str, places: list[int]) -> tuple[str, Callable[[int], int]]:
    """The text without the characters at these places, and a function from an index in it to the old index."""
    cuts = pairwise((-1, *places, len(text)))
    shifted = [place - n for n, place in enumerate(places)]
    return "".join([text[a + 1 : b] for a, b in cuts]), lambda index: index + bisect_right(shifted, index)


def neutralize(text: str) -> str:
    """The text without anything that reads as a frame, a stub of ours or another speaker."""
    return _replace_spans(text, _structure_spans(text))


_MARK = "\u27e6"  # a bracket of mathematics, rare in any source
_CODE = r"(?:10[0-9a-f]{4}|[0-9a-f]{1,5})"
_ESCAPED = re.compile(rf"{_MARK}(?:(?P<itself>=)|(?P<codes>(?:{_CODE}(?:\.{_CODE})*)?):)")


def escape(text: str) -> str:
    """Like `neutralize`, but nothing is lost: `unescape` returns the text."""
    spans = [(start, end, f"{_MARK}{_codes(text[start:end])}:") for start, end, _ in _structure_spans(text)]
    spans += [(match.start(), match.end(), f"{_MARK}=") for match in re.finditer(_MARK, text)]
    return _replace_spans(text, sorted(spans))


def unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: _MARK if match["itself"] else _chars(match["codes"]), text)


def _codes(span: str) -> str:
    """Empty for `<`, the usual one, so that the text reads well."""
    return "" if span == "<" else ".".join(f"{ord(char):x}" for char in span)


def _chars(codes: str) -> str:
    return "".join(chr(int(code, 16)) for code in codes.split(".")) if codes else "<"


def _replace_spans(text: str, spans: list[tuple[int, int, str]]) -> str:
    parts, written_to = [], 0
    for start, end, substitute in spans:
        if start < written_to:
            continue
        parts += [text[written_to:start], substitute]
        written_to = end
    return "".join((*parts, text[written_to:]))
