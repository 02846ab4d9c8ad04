"""A count is made once, when a block is read, from a handful of byte counts; never from a vocabulary.

What costs tokens is where a text changes: a word begins, a run of digits or of punctuation begins, a line ends. Adding
up those beginnings comes within a few per cent of the bill on prose, code and logs alike, where tool output costs 1.43
times what a quarter of its length says. The weights are those of a robust fit on half of the recordings, rounded;
`benchmarks/tokens.py` measures them on the other half. Where the recordings are silent the comment names the source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from zlib import adler32

from ebbtide.core.types import Kind

Unit = Literal["classes", "chars", "utf8", "utf16"]
"""`classes` weighs what the text is made of; the others are lengths, as the reference agents measure them."""

Rounding = Literal["ceil", "floor", "half_up"]

_LOWER, _UPPER = b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS, _PUNCTUATION = b"0123456789", b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_CONTROL = bytes({*range(32), 127} - set(b"\t\n\r"))


def _table(classes: Mapping[str, bytes]) -> bytes:
    """A translation of every byte to its class's letter, or to a space."""
    table = bytearray(b" " * 256)
    for letter, members in classes.items():
        for byte in members:
            table[byte] = ord(letter)
    return bytes(table)


_SLICES, _SLICE = 16, 1 << 8
_WHOLE = _SLICES * _SLICE
"""Longer texts are judged by slices from end to end, so that 100 MB cost what 4 KB do."""
_ELSE, _LETTER, _CAPITAL, _DIGIT, _MARK, _NEWLINE, _OTHER = range(7)
_CLASS = bytearray(256)
for _name, _members in (
    *((_LETTER, _LOWER), (_CAPITAL, _UPPER), (_DIGIT, _DIGITS)),
    *((_MARK, _PUNCTUATION), (_NEWLINE, b"\n"), (_OTHER, _CONTROL)),
):
    for _byte in _members:
        _CLASS[_byte] = _name


def _pair_weight(before: int, after: int) -> int:
    """Of a byte of one class after one of another, in hundredths."""
    begins = before != after
    if after == _CAPITAL:
        return 20 + (70 if before == _LETTER else 46 if begins else 0)  # inside a word, or beginning one
    if after == _LETTER:
        return 46 if before not in (_LETTER, _CAPITAL) else 0
    if after == _OTHER:
        return 110  # a token in o200k and in Claude 2's vocabulary
    starts = {_DIGIT: 137, _NEWLINE: 137, _MARK: 103}.get(after, 0) if begins else 0
    return starts + (18 if after == _DIGIT else 0)


_WEIGHTS = bytes(_pair_weight(pair >> 3, pair & 7) for pair in range(256))
_RUN = 65_520 // max(_WEIGHTS)
"""Bytes whose weights Adler's sum adds up without wrapping around."""
_SCRIPT = _table(
    {
        "k": bytes(range(0x80, 0xC0)),  # inside a character
        "l": bytes(range(0xC0, 0xC6)),  # Latin with marks
        "g": bytes(range(0xC6, 0xE0)),  # Greek, Cyrillic, Hebrew, Arabic
        "i": bytes(range(0xE0, 0xE2)),  # Indic, Thai, Georgian
        "s": b"\xe2",  # arrows, dashes, box drawing
        "c": bytes(range(0xE3, 0xF0)),  # Chinese, Japanese, Korean
        "e": bytes(range(0xF0, 0x100)),  # emoji
    }
)
_NOT_CJK = bytes(set(range(256)) - set(range(0xE3, 0xEE)))


def _pair_weights(raw: bytes) -> bytes:
    """Of each byte, in hundredths. A weight follows from a byte's class and that of the one before, three bits each.

    All pairs are made at once, as one large number. Nothing before the first byte counts as a space: it begins its run.
    """
    classes = int.from_bytes(raw.translate(_CLASS), "little")
    return (classes | classes << 11).to_bytes(len(raw) + 1, "little").translate(_WEIGHTS)


def _added_up(weights: bytes) -> int:
    """By a checksum whose lower half is a plain sum."""
    if len(weights) <= _RUN:
        return (adler32(weights) & 0xFFFF) - 1
    runs = range(0, len(weights), _RUN)
    return sum([adler32(weights[start : start + _RUN]) & 0xFFFF for start in runs]) - len(runs)


def _script_weight(raw: bytes) -> float:
    script = raw.translate(_SCRIPT).count
    symbols = script(b"s")
    return (
        # A marked letter tells of a language whose words split more than English ones: French and German cost half
        # as much again (Claude 2's vocabulary), and the mark is the only cheap sign of it.
        3.4 * script(b"l")
        + 0.75 * script(b"g")  # between Russian 0.6 and Arabic 1.2, same source
        + 1.2 * script(b"i")  # Hindi, same source
        + 0.17 * symbols
        + 0.75 * (symbols - script(b"ks"))  # a ruled line is a few tokens, an arrow is one
        + 1.07 * script(b"c")  # with 0.1 for the length: 1.17 a character in nine recorded Chinese replies, 1.13-1.28
        + 3.0 * script(b"e")  # 2.2 to 2.6 in o200k and Claude 2, at the usual 1.17
    )


def _classes(text: str) -> float:
    """Tokens of Claude 4.5 and 4.6, which most recordings are of. Other models are a ratio of it (`calibrate.py`)."""
    if len(text) > _WHOLE:
        step = (len(text) - _SLICE) / (_SLICES - 1)
        starts = [int(step * n) for n in range(_SLICES)]
        sample = "".join([text[start : start + _SLICE] for start in starts])
        return _classes(sample) * len(text) / len(sample)
    # Lone surrogates are data like any other.
    raw = text.encode("utf-8", "surrogatepass")
    weight = (10 * len(text) + _added_up(_pair_weights(raw))) / 100
    return weight if text.isascii() else weight + _script_weight(raw)


_AT_ONCE = 1 << 14
"""Characters that are weighed in one go: small enough for a processor's cache."""


def _classes_each(texts: Sequence[str]) -> list[float]:
    """`_classes` of each, neighbours in one go: a first read has a thousand texts, most of them short."""
    weights, ready, size = list[float](), list[str](), 0
    for text in texts:
        if len(text) <= _WHOLE and text.isascii():
            ready.append(text)
            size += len(text)
            if size < _AT_ONCE:
                continue
            weights += _ascii_each(ready)
        else:
            weights += _ascii_each(ready)
            weights.append(_classes(text))
        ready, size = [], 0
    return weights + _ascii_each(ready)


def _ascii_each(texts: Sequence[str]) -> list[float]:
    """A space between two of them weighs nothing, and whatever follows it begins its run."""
    weights, at = _pair_weights(" ".join(texts).encode()), 0
    sums = list[float]()
    for size in map(len, texts):
        end = at + size
        # `_added_up`, without the call where the text is short.
        added = (adler32(weights[at:end]) & 0xFFFF) - 1 if size <= _RUN else _added_up(weights[at:end])
        sums.append((10 * size + added) / 100)
        at = end + 1
    return sums


_UNITS: Mapping[Unit, Callable[[str], float]] = {
    "classes": _classes,
    "chars": len,
    "utf8": lambda text: len(text.encode("utf-8", "surrogatepass")),
    "utf16": lambda text: len(text.encode("utf-16-le", "surrogatepass")) // 2,
}


def _cjk(text: str) -> int:
    return 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass").translate(None, _NOT_CJK))


_DRIFT = 5e-7
"""Thousands of added parts drift in the last digits, and `ceil` would make a token of that."""
_PAGE = 1500
"""Tokens of one page of a PDF at the least; providers name 1,500 to 3,000."""
_LONG_EDGE, _PIXELS_A_TOKEN = 1568, 750
"""An image is scaled down to this edge and billed by area. Two recorded ones: 2,378 by this rule, 2,464 billed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """How one policy counts. Plain settings, so that two policies that count alike are equal."""

    unit: Unit = "chars"
    per_token: float = 4.0
    """Units to a token."""
    cjk: float | None = None
    """Tokens of a Chinese, Japanese or Korean character, where they are counted apart."""
    rounding: Rounding = "ceil"
    per_message: int = 0
    per_call: int = 0
    """What frames a tool call besides its arguments."""
    per_result: int = 0
    per_tool: int = 0
    """What frames a tool's schema besides its JSON."""
    per_image: int = 0
    """The most an image costs; all that it costs where `by_pixels` is off."""
    by_pixels: bool = False
    per_signature_char: float = 0.0
    """Thinking that comes back encrypted is as long as its signature says."""
    per_document_char: float = 0.0
    safety: float = 1.0
    """A factor on the sum, not on each text (E5)."""
    margin: float = 1.0
    """What `upper` allows for, as a factor."""

    def measure(self, text: str) -> float:
        """Tokens before rounding. Adds up: the measure of a whole is that of its parts, each given the character before
        it, so that a stream may be measured piece by piece and rounded once."""
        units = _UNITS[self.unit](text)
        if self.cjk is None:
            return units / self.per_token
        wide = _cjk(text)
        return (units - wide) / self.per_token + wide * self.cjk

    def rounded(self, tokens: float) -> int:
        if self.rounding == "ceil":
            return math.ceil(tokens - _DRIFT)
        return math.floor(tokens + _DRIFT + (0.5 if self.rounding == "half_up" else 0.0))

    def text(self, text: str) -> int:
        return self.rounded(self.measure(text)) if text else 0

    def block(self, kind: Kind, text: str) -> int:
        """A whole block: its text and what the provider puts around a block of its kind."""
        tokens = self.rounded(self.measure(text)) if text else 0
        return tokens + self.per_call if kind == "call" else tokens + self.per_result if kind == "result" else tokens

    def blocks(self, kinds: Sequence[Kind], texts: Sequence[str]) -> list[int]:
        """`block` of each."""
        if self.unit != "classes" or self.cjk is not None:
            return [self.block(kind, text) for kind, text in zip(kinds, texts, strict=True)]
        overhead = {"call": self.per_call, "result": self.per_result}
        per, rounded, framing = self.per_token, self.rounded, overhead.get
        return [
            rounded(units / per) + framing(kind, 0) for kind, units in zip(kinds, _classes_each(texts), strict=True)
        ]

    def thinking(self, text: str, signature: str) -> int:
        """Clients often keep no more than a summary of the text, or nothing; all of it re-enters the prompt.

        Hidden tokens against signature length, measured on 78 replies of Claude 4.6 without text: 0.21 a character
        after the first 300, correlation 0.997.
        """
        hidden = max(0, len(signature) - 300) * self.per_signature_char
        return max(self.text(text), self.rounded(hidden))

    def tool(self, schema: str) -> int:
        return self.text(schema) + self.per_tool

    def image(self, pixels: tuple[int, int] | None) -> int:
        if not self.by_pixels or pixels is None or min(pixels) <= 0:
            return self.per_image
        scale = min(1.0, _LONG_EDGE / max(pixels))
        return min(self.per_image, math.ceil(pixels[0] * pixels[1] * scale * scale / _PIXELS_A_TOKEN))

    def document(self, chars: int) -> int:
        """A PDF by the length of its base64. Text documents are texts."""
        if not self.per_document_char or chars <= 0:
            return 0
        return max(_PAGE, math.ceil(chars * self.per_document_char))

    def total(self, tokens: int, messages: int) -> int:
        return math.ceil((tokens + self.per_message * messages) * self.safety - _DRIFT)

    def upper(self, tokens: int) -> int:
        """A bound for a request that was not billed yet; with an anchor, `anchored_upper` is tighter."""
        return math.ceil(max(0, tokens) * self.margin - _DRIFT)


DEFAULT = Estimator(
    unit="classes",
    per_token=1.0,
    per_message=4,  # role and turn marks: 3 to 7 tokens at recorded user turns
    per_call=57,
    per_result=17,
    per_tool=53,  # published per-tool overhead of Claude 4.5 (dependencies, `ai-tokenizer`)
    per_image=1600,
    by_pixels=True,
    per_signature_char=0.21,
    # A page of 1,500 tokens is about 24 KB of PDF, 32 KB of base64; scanned pages are larger and cost no more.
    per_document_char=1 / 21,
    margin=1.25,
)
"""Ours: class-aware, calibrated on recorded usage."""

OPENCODE = Estimator(unit="utf16", rounding="half_up")
LEARN_V5 = Estimator(rounding="floor")
CLAUDE_CODE = Estimator(unit="utf16", rounding="half_up", per_image=2000, safety=4 / 3)
REGION = Estimator(cjk=1.5)
MINI_CLAUDE = Estimator()
"""Counts by usage alone; this is for what no usage has covered yet."""


def sage(provider: str) -> Estimator:
    """R034: characters are UTF-8 bytes (Rust), 4 role tokens a message and the provider's own overhead (R033)."""
    per_token, overhead = {"anthropic": (4.0, 8), "openai": (4.0, 4), "google": (4.5, 6)}.get(provider, (4.0, 0))
    return Estimator(unit="utf8", per_token=per_token, per_message=4 + overhead)
