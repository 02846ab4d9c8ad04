"""Checks a model's summary before it is used.

Rejected as a whole: nothing, a refusal, a cut answer, a tool call, a loop, mostly invention, or longer than what it
replaces. Dropped in part: statements that name something which does not occur, and lines that order or allow. What
remains cannot be read as anything but text.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from ebbtide.core.text.framing import neutralize, strip_invisible, to_plain_letters
from ebbtide.core.texts import QUOTE_ORIGIN
from ebbtide.summary.instructions import find_hidden_instruction, find_instructions, split_points
from ebbtide.summary.sections import is_heading, shorten_summary

Count = Callable[[str], int]
Fault = Literal["empty", "refused", "cut", "tool call", "looping", "invented", "not smaller", "too long"]

LENGTH_STOPS = frozenset(
    ("max_tokens", "length", "max_output_tokens", "incomplete", "model_context_window_exceeded", "MAX_TOKENS")
)
REFUSAL_STOPS = frozenset(("refusal", "content_filter", "safety", "SAFETY", "blocked"))
CALL_STOPS = frozenset(("tool_use", "tool_calls", "function_call"))

MAX_OVERRUN = 2.0
"""How many times its limit a summary may have and still be trimmed. A longer one is no summary."""
MAX_INVENTED = 0.5
"""Share of the statements that may be dropped for names that do not occur."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySource:
    """What a summary replaces and is checked against."""

    texts: Sequence[str]
    """All of it, the earlier summary included."""
    user_texts: Sequence[str] = ()
    tool_outputs: Sequence[str] = ()
    """Words copied from these are marked as a quotation."""
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedText:
    text: str
    reason: str
    """`approval`, `order`, `cap`, or the name that does not occur, as in `not in the source: src/x.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSummary:
    text: str
    """What may be used; empty if there are faults."""
    analysis: str = ""
    """The model's reasoning before the summary, neutralized too."""
    faults: tuple[Fault, ...] = ()
    dropped: tuple[DroppedText, ...] = ()


def check_summary(
    answer: str, source: SummarySource, *, stop_reason: str = "", max_tokens: int, count: Count
) -> CheckedSummary:
    """Check a model's answer. `stop_reason` is in the provider's words.

    An order stays if the user gave it in the same words. An approval never stays: the user's messages stand beside the
    summary, and whether they still allow anything is not for a summary to say.
    """
    analysis, summary = split_answer(answer)
    analysis = neutralize(strip_invisible(analysis))
    fault = _unusable(answer, summary, stop_reason)
    if fault:
        return CheckedSummary(text="", analysis=analysis, faults=(fault,))
    text = strip_invisible(summary or "").strip()
    text, dropped, statement_count = _drop_bad_statements(text, source)
    text = neutralize(mark_quotes(text, source.tool_outputs, source.user_texts))
    faults = tuple(_faults(text, dropped, statement_count, source.tokens, max_tokens, count))
    if not faults and count(text) > max_tokens:
        short = shorten_summary(text, max_tokens=max_tokens, count=count)
        dropped += _trimmed_lines(text, short)
        text, faults = short, () if short else ("too long",)
    return CheckedSummary(text="" if faults else text, analysis=analysis, faults=faults, dropped=tuple(dropped))


# --- the answer as a whole --------------------------------------------------------------------------------------------

_ANALYSIS = re.compile(
    r"\s*<(analysis|think|thinking)>(?P<text>.*?)</\1>\s*(?=<summary>|\Z)", re.DOTALL | re.IGNORECASE
)
_ANALYSIS_ONLY = re.compile(r"\s*<(analysis|think|thinking)>(?P<text>.*?)(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_OPEN, _CLOSE = re.compile(r"<summary>", re.IGNORECASE), re.compile(r"</summary>", re.IGNORECASE)


def split_answer(answer: str) -> tuple[str, str | None]:
    """The analysis and the text of the summary element (R176); None if the element was never closed.

    The element ends at its last closing tag, so that one in quoted output cannot cut the rest off. Without a summary
    element, everything except the analysis is the summary.
    """
    thought = _ANALYSIS.match(answer) or _ANALYSIS_ONLY.match(answer)
    rest = answer[thought.end() :] if thought else answer
    analysis = thought["text"].strip() if thought else ""
    opening = _OPEN.search(rest)
    if opening is None:
        is_unclosed = thought is not None and not thought[0].rstrip().endswith(">")
        return analysis, None if is_unclosed else rest.strip()
    closings = [match.start() for match in _CLOSE.finditer(rest, opening.end())]
    return analysis, rest[opening.end() : closings[-1]].strip() if closings else None


_REFUSAL = re.compile(
    r"(?:i(?:'m| am) (?:very |so |really )?sorry|sorry[,.]|unfortunately,? i|i apologi[sz]e|my apologies"
    r"|i (?:can(?:no|')?t|am unable|am not able|won't|will not|must decline)|as an (?:ai|assistant|llm)"
    r"|(?:非常|很|十分)?(?:抱歉|对不起|不好意思)|我(?:不能|无法|没有办法|没办法|拒绝)"
    r"|作为(?:一个|一名)?(?:ai|人工智能|语言模型|助手))",
    re.IGNORECASE,
)
_TOOL_CALL = re.compile(
    r"\s*(?:```\w*\s*)?(?:<(?:tool_call|function_calls?|invoke|tool_use)\b|\{\s*\"(?:name|tool|function)\"\s*:)"
)
_MAX_REFUSAL = 600
"""Characters. A refusal is a few sentences; a summary that happens to begin like one is longer."""


def _unusable(answer: str, summary: str | None, stop_reason: str) -> Fault | None:
    if stop_reason in CALL_STOPS or _TOOL_CALL.match(summary if summary is not None else answer):
        return "tool call"
    if stop_reason in REFUSAL_STOPS:
        return "refused"
    if stop_reason in LENGTH_STOPS or summary is None:
        return "cut"
    text = strip_invisible(summary).strip()
    if not any(char.isalnum() for char in text):
        return "empty"
    if len(text) < _MAX_REFUSAL and _REFUSAL.match(to_plain_letters(text).lstrip("*_#> \"'").replace("’", "'")):
        return "refused"
    return "looping" if _is_looping(text) else None


_MIN_REPEATS = 4
_MAX_COMPRESSION = 10.0
"""Prose compresses to a half or a third, a list of paths to a fifth, one repeated sentence to a twentieth."""


def _is_looping(text: str) -> bool:
    """Whether a line is repeated again and again, or the text compresses so well that it must be."""
    lines = [line for line in map(_comparable, text.split("\n")) if len(line) >= 12 and not is_heading(line)]
    most_common = Counter(re.sub(r"\d+", "0", line) for line in lines).most_common(1)
    if most_common and most_common[0][1] >= _MIN_REPEATS and most_common[0][1] * 3 >= len(lines):
        return True
    data = text.encode("utf-8", "surrogatepass")
    return len(data) >= 400 and len(data) / len(zlib.compress(data, 9)) > _MAX_COMPRESSION


def _faults(
    text: str, dropped: Sequence[DroppedText], statement_count: int, source_tokens: int, max_tokens: int, count: Count
) -> Iterator[Fault]:
    invented = sum(drop.reason.startswith("not in") for drop in dropped)
    if statement_count >= 4 and invented > MAX_INVENTED * statement_count:
        yield "invented"
    elif not any(line.strip() and not is_heading(line) for line in text.split("\n")):
        yield "empty"
    elif count(text) >= source_tokens:
        yield "not smaller"
    elif count(text) > MAX_OVERRUN * max_tokens:
        yield "too long"


def _trimmed_lines(text: str, short: str) -> list[DroppedText]:
    line_counts = Counter(short.split("\n"))
    line_counts.subtract(Counter(line for line in text.split("\n") if line.strip()))
    return [DroppedText(text=line, reason="cap") for line, n in line_counts.items() if n < 0]


# --- statement by statement -------------------------------------------------------------------------------------------

_SENTENCES = re.compile(r"(?<=[.!?])[ \t]+(?=[A-Z`*\"])|(?<=[。！？；])")
_BULLET = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])?[ \t]*")


def _drop_bad_statements(text: str, source: SummarySource) -> tuple[str, list[DroppedText], int]:
    """The text without bad statements, what was dropped, and how many statements there were."""
    instructions = _instructions(text, [_comparable(user_text) for user_text in source.user_texts])
    known_text = KnownText.from_texts(source.texts)
    lines, dropped, statement_count, next_start = list[str](), list[DroppedText](), 0, 0
    for n, line in enumerate(text.split("\n")):
        start, end = next_start, next_start + len(line)
        next_start = end + 1
        reason = next((kind for first, last, kind in instructions if first < end and last > start), None)
        if reason:
            dropped.append(DroppedText(text=line, reason=reason))
            lines += [""] if n and not lines[-1:] else []
            continue
        sentences = [sentence for sentence in _SENTENCES.split(line) if sentence.strip()]
        statement_count += len(sentences)
        line, invented = _drop_inventions(line, sentences, known_text)
        dropped += invented
        if line.strip() or not invented:
            lines.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(), dropped, statement_count


def _instructions(text: str, user_texts: Sequence[str]) -> list[tuple[int, int, str]]:
    """Where the text orders or allows, openly or hidden; not where it repeats an order of the user."""
    spans: list[tuple[int, int, str]] = [(hit.start, hit.end, hit.kind) for hit in find_instructions(text)]
    for start, end in split_points(text):
        if kind := find_hidden_instruction(text[start:end]):
            spans.append((start, end, kind))
    return [span for span in spans if span[2] == "approval" or not _is_from_user(text[span[0] : span[1]], user_texts)]


def _is_from_user(instruction: str, user_texts: Sequence[str]) -> bool:
    """Whether the user said all of it: `please run` alone proves nothing, what is to be run does."""
    words = _comparable(instruction).strip("\"'“”‘’`*_:;,)( ")
    return bool(words) and any(words in user_text for user_text in user_texts)


def _comparable(text: str) -> str:
    return " ".join(to_plain_letters(text).casefold().split())


def _drop_inventions(line: str, sentences: Sequence[str], known_text: KnownText) -> tuple[str, list[DroppedText]]:
    """The line without the sentences that name something which does not occur."""
    inventions: set[str] = set()
    dropped: list[DroppedText] = []
    for sentence in sentences:
        unknown = next((name for name in find_claims(sentence) if not known_text.contains(name)), None)
        if unknown:
            inventions.add(sentence)
            dropped.append(DroppedText(text=sentence, reason=f"not in the source: {unknown}"))
    if not dropped:
        return line, []
    bullet = _BULLET.match(line)
    head = bullet[0] if bullet and sentences and sentences[0] in inventions else ""
    remaining = [(n, sentence) for n, sentence in enumerate(sentences) if sentence not in inventions]
    rest = " ".join(sentence.strip() if n else sentence for n, sentence in remaining)
    return f"{head}{rest}" if rest.strip() else "", dropped


# --- names that can be looked up --------------------------------------------------------------------------------------


_EXTENSION = (
    r"(?:pyi?|ipynb|tsx?|jsx?|mjs|cjs|vue|svelte|rs|go|java|kts?|swift|c|cc|cpp|cxx|h|hpp|cs|rb|php|pl|lua|sh|bash|zsh"
    r"|ps1|bat|sql|html?|s?css|less|xml|ya?ml|toml|ini|cfg|conf|env|json[lc5]?|md|rst|txt|csv|tsv|lock|log|proto|graphql"
    r"|tf|gradle|cmake|mk|png|jpe?g|gif|svg|webp|pdf|zip|gz|tar|whl|db|sqlite|parquet|dockerfile)"
)
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b[a-z][a-z0-9+.-]{0,30}://[^\s<>\"'`）)\]}，。；、]+",
        # From a root, a home or a dot; with two slashes or more; or with one and an extension.
        r"(?<![\w/.~-])(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)+/?",
        r"(?<![\w/.~:@+\\-])[\w.@+-]+(?:/[\w.@+-]+){2,}/?",
        rf"(?<![\w/.~:@+\\-])[\w.@+-]+/[\w@+-]+(?:\.[\w+-]+)*\.{_EXTENSION}\b",
        rf"(?<![\w/.~:@+\\-])[\w@+-]+(?:\.[\w+-]+)*\.{_EXTENSION}\b(?![/(])",
        r"\b[A-Za-z]:\\[\w.\\@+-]+\w",
        r"\b(?=[0-9]*[A-Za-z])[A-Za-z0-9]+(?:_+[A-Za-z0-9]+)+\b",
        r"(?<![\w.])_{1,2}[A-Za-z]\w+",
        r"\b[a-z][a-z0-9]*(?:[A-Z][a-z0-9]+)+[A-Z]?\b",
        r"\b(?:[A-Z][a-z0-9]+){2,}\b",
        r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b",
        r"(?<![\w.,])\d[\d,_]*(?:\.\d+)?(?![\w])",
        r"(?<=`)[\w.-]{3,}(?=`|\()",
    )
)  # fmt: skip
_BRANDS = frozenset(
    (
        *("javascript", "typescript", "github", "gitlab", "openai", "chatgpt", "postgresql", "mysql", "graphql"),
        *("fastapi", "pytorch", "tensorflow", "numpy", "devops", "macos", "ios", "iphone", "youtube", "linkedin"),
        *("stackoverflow", "langchain", "powershell", "wordpress", "mongodb", "websocket", "websockets", "openapi"),
        *("readme", "todo", "webassembly", "intellij", "jetbrains", "deepseek", "bytedance"),
    )
)
"""Well-known words with a capital inside: naming one invents nothing."""
_ENDLESS = re.compile(r"[\w./@+~\\-]{300,}")
"""No name is so long, and the patterns would take very long on it."""
_EDGE = "`'\".,:;!?*_()[]{}<>，。；：、！？（）“”‘’"
_IS_FILE = re.compile(rf"\.{_EXTENSION}$")
_ESCAPES = re.compile(r"\\([\\/_*`\[\]\"])")


def find_claims(text: str) -> Iterator[str]:
    """Every name in the text that can be looked up, once, without punctuation around it."""
    seen_names: set[str] = set()
    text = _ENDLESS.sub(" ", text)
    for pattern in _PATTERNS:
        for match in pattern.findall(text):
            name = re.sub(r"(?::\d+){1,8}(?:-\d+)?$|#L\d+(?:-L?\d+)?$", "", match).strip(_EDGE)
            if name not in seen_names and _is_checkable(name):
                seen_names.add(name)
                yield name


def _is_checkable(name: str) -> bool:
    if re.fullmatch(r"[\d,_.]+", name):
        # A shorter number is a count or a date that a summarizer may work out.
        return sum(char.isdigit() for char in name) >= 4
    return len(name) >= 3 and name.lower() not in _BRANDS


def _normalize(text: str) -> str:
    """One spelling for a name, whatever its case, JSON's and Markdown's backslashes, and Windows' slashes."""
    return _ESCAPES.sub(r"\1", to_plain_letters(text)).replace("\\", "/").casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownText:
    """The summarized text, prepared for looking up names."""

    text: str
    figures: frozenset[str]
    """Numbers of several digits, without separators."""

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> KnownText:
        text = _normalize("\n".join(texts))
        figures = re.findall(r"\d[\d,_ ]*\d(?:\.\d+)?", text)
        return cls(text=text, figures=frozenset(re.sub("[,_ ]", "", figure) for figure in figures))

    def contains(self, claim: str) -> bool:
        name = _normalize(claim).removeprefix("./").rstrip("/")
        if name in self.text or re.sub("[,_]", "", name) in self.figures:
            return True
        # `Session.id` is fair if both parts occur; `session.py` is a file that occurs or does not.
        parts = name.split(".")
        is_dotted = len(parts) > 1 and "/" not in name and not _IS_FILE.search(name) and all(parts)
        return is_dotted and not name[0].isdigit() and all(part in self.text for part in parts)


# --- copies of tool output --------------------------------------------------------------------------------------------


_CHINESE = r"\u3400-\u9fff\u3040-\u30ff"
_WORD = re.compile(rf"[{_CHINESE}]|[^\W{_CHINESE}](?:[^\s{_CHINESE}]*[^\W{_CHINESE}])?")
"""A Chinese character, or a run without blanks, without the marks around it: a path is one word."""
_MIN_WORDS = 6
"""Words in a row that two texts do not share by chance. Fewer are idioms, titles and names."""
_CHINESE_WEIGHT = 0.75
"""What a Chinese character counts for: six words are about eight characters."""
_CODE_BLOCK = re.compile(r"(^[ \t]*```[^\n]*\n.*?^[ \t]*```[^\n]*$)", re.MULTILINE | re.DOTALL)

Shingle = tuple[str, ...]
"""A fixed number of words in a row."""


def mark_quotes(text: str, outputs: Iterable[str], user_texts: Iterable[str]) -> str:
    """Put quotation marks around words that an output has in this order and no text of the user has.

    Code blocks stay as they are: they show what they are.
    """
    candidates = set(_shingles(_words(text)))
    if not candidates:
        return text
    copied = {shingle for output in outputs for shingle in _shingles(_words(output)) if shingle in candidates}
    copied -= {shingle for user_text in user_texts for shingle in _shingles(_words(user_text))}
    if not copied:
        return text
    parts = _CODE_BLOCK.split(text)
    return "".join(
        part if n % 2 else "\n".join(_mark_point(part[start:end], copied) for start, end in split_points(part))
        for n, part in enumerate(parts)
    )


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(to_plain_letters(text))]


def _shingles(words: Sequence[str]) -> Iterator[Shingle]:
    return zip(*(islice(words, start, None) for start in range(_MIN_WORDS)), strict=False)


def _mark_point(point: str, copied: set[Shingle]) -> str:
    matches = list(_WORD.finditer(to_plain_letters(point)))
    words = [match[0].casefold() for match in matches]
    is_copied = [False] * len(words)
    for n, shingle in enumerate(_shingles(words)):
        if shingle in copied:
            is_copied[n : n + _MIN_WORDS] = [True] * _MIN_WORDS
    parts, written_to, first = list[str](), 0, 0
    while first < len(words):
        last = first
        while last < len(words) and is_copied[last]:
            last += 1
        if sum(_CHINESE_WEIGHT if _is_chinese(word) else 1.0 for word in words[first:last]) >= _MIN_WORDS:
            start, end = matches[first].start(), matches[last - 1].end()
            quote = point[start:end].replace("”", "'")  # it must not end its own quotation
            parts += [point[written_to:start], f"“{quote}” {QUOTE_ORIGIN}"]
            written_to = end
        first = max(last, first + 1)
    return "".join((*parts, point[written_to:]))


def _is_chinese(word: str) -> bool:
    return len(word) == 1 and word > "\u2fff"
