"""What a summarizer is asked, and the conversation as it is quoted to it.

The prompt asks for what `check_summary` can test: names as they occur, one statement a line, known headings. Nothing
depends on the model's following it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ebbtide.core import texts
from ebbtide.core.text.framing import PART_TAG, SEGMENT_TAG, escape, strip_invisible
from ebbtide.core.text.preview import essence
from ebbtide.core.text.redact import redact
from ebbtide.core.tool_calls import media_blocks, plain_name, speaker_of
from ebbtide.core.types import USER, Item

Count = Callable[[str], int]

# --- the styles of the presets ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStyle:
    """What a preset wants in a summary: the sections and limits of the reference agent, in our own words."""

    name: str
    task: str
    sections: tuple[tuple[str, str], ...] = ()
    """Heading, and what belongs there. Without any, `form` says how to write."""
    form: str = ""
    has_analysis: bool = True
    """Whether the answer has two phases, `<analysis>` and `<summary>`."""
    is_numbered: bool = False
    system: str = ""
    """System prompt for a separate call, if the reference agent has one."""
    max_tokens: int = 0
    """The reference agent's limit of the answer; 0 for the policy's."""


DEFAULT = PromptStyle(name="default", task=texts.SUMMARY_TASK, sections=texts.SUMMARY_SECTIONS)

CLAUDE_CODE = PromptStyle(
    name="claude-code",
    task="Record this conversation in such detail that the development work goes on from it without a gap.",
    sections=(  # R163; nine, numbered 1 to 9 (E2)
        ("Primary Request and Intent", "everything the user asked for, and what for"),
        ("Key Technical Concepts", "technologies, frameworks and ideas that came up and matter"),
        (
            "Files and Code Sections",
            "each file looked at, changed or made, why, and the code that counts, newest first",
        ),
        ("Errors and fixes", "each error, its cure, and what the user said about it"),
        ("Problem Solving", "problems solved, and hunts still going on"),
        ("All user messages", "each message of the user that is no tool result, in order"),
        ("Pending Tasks", "what the user explicitly asked for and is open"),
        ("Current Work", "what was being done right before this request, with file names and code"),
        ("Optional Next Step", "one step, only if it follows from the latest request, with the words that show it"),
    ),
    is_numbered=True,
)

MINI_CLAUDE = PromptStyle(
    name="mini-claude",
    task="Condense the conversation up to here.",
    form="One compact paragraph. Keep the decisions that matter, paths of files, and what is needed to carry on.",
    has_analysis=False,
    system="You condense conversations: brief, and without losing a detail that counts.",
    max_tokens=2048,  # R159
)

OPENCODE = PromptStyle(
    name="opencode",
    task="Sum up this conversation for whoever continues it: complete enough to go by, short enough to take in fast.",
    form="Plain prose or lists, on these points:",
    sections=(  # R166
        ("Done", "what was done"),
        ("In progress", "what is being worked on"),
        ("Files", "which files are being changed"),
        ("Next", "what has to be done next"),
        ("User", "requests, constraints and preferences of the user that go on holding"),
        ("Decisions", "technical decisions of weight, and their reasons"),
    ),
    has_analysis=False,
)

LEARN_V5 = PromptStyle(
    name="learn-v5",
    task="Retell this conversation in the order in which it happened.",
    form="Goals, what was done, what was decided, and where things stand now.",  # R167
    has_analysis=False,
    max_tokens=2000,
)

REGION = PromptStyle(
    name="region",
    task="A stretch of a software agent's history is to be replaced by something shorter.",
    form=(  # R168
        "Use bullet points. Keep: paths, line numbers and names of functions; the approach that was chosen; facts that "
        "were learnt (test results, error messages, settings); what the user required or ruled out. Leave out: how "
        "tools were called, of which only the findings count; repetitions; thinking to and fro."
    ),
    has_analysis=False,
)
REGION_SHARE = 5
"""R169: a region shrinks to a fifth of its tokens. R170: a tenth loses facts, a half saves too little."""
REGION_SPARE = 200
"""Tokens on top of the target, so that a sentence can end (R169)."""

SAGE = PromptStyle(
    name="sage",
    task="Summarise the messages of this conversation so that it can go on from the summary.",  # R171
    form="State the topics, what was agreed and found, and what is open.",
    has_analysis=False,
)


# --- the prompt -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInput:
    """What a prompt depends on besides its style."""

    max_tokens: int
    """Of the summary."""
    focus: str = ""
    instructions: tuple[str, ...] = ()
    """What the project's files say about summaries."""
    prior_summary: str = ""
    """An earlier summary, which is kept: only what is new is asked for."""
    tokens: int = 0
    """Of the items to summarize."""
    language: str = ""
    """Of the user's messages, if it was recognised."""


def build_prompt(style: PromptStyle, prompt_input: PromptInput) -> str:
    max_tokens = min(prompt_input.max_tokens, style.max_tokens or prompt_input.max_tokens)
    rules = (
        *texts.SUMMARY_RULES,
        texts.language_rule(prompt_input.language),
        texts.length_rule(max_tokens, has_analysis=style.has_analysis),
    )
    parts = [texts.summary_request(style.task), _form(style)]
    if prompt_input.focus.strip():
        parts.append(f"{texts.FOCUS}\n{_inset('focus', prompt_input.focus)}")
    instructions = [_inset("compact-instructions", text) for text in prompt_input.instructions if text.strip()]
    if instructions:
        parts.append("\n".join((texts.PROJECT_INSTRUCTIONS, *instructions)))
    if prompt_input.prior_summary.strip():
        parts.append(f"{texts.EARLIER_SUMMARY}\n{_inset('earlier-summary', prompt_input.prior_summary)}")
    parts.append("\n".join((texts.RULES_HEADING, *(f"- {rule}" for rule in rules))))
    parts.append(texts.TWO_PHASES if style.has_analysis else texts.ONE_PHASE)
    return "\n\n".join(parts)


def _form(style: PromptStyle) -> str:
    if not style.sections:
        return style.form
    sections = [
        f"{n}. {name}: {content}" if style.is_numbered else f"## {name}\n{content}"
        for n, (name, content) in enumerate(style.sections, 1)
    ]
    return "\n\n".join((style.form or texts.SECTIONS_INTRO, "\n".join(sections), texts.SECTIONS_OUTRO))


def _inset(tag: str, text: str) -> str:
    """Text quoted in the prompt. `escape` knows the other tags; this one cannot be closed inside either."""
    body = re.sub(rf"<(?=[\s/]*{tag})", "[", escape(strip_invisible(text)).strip(), flags=re.IGNORECASE)
    return f"<{tag}>\n{body}\n</{tag}>"


_SCRIPTS = (
    ("Japanese", r"[\u3040-\u30ff]"),
    ("Korean", r"[\uac00-\ud7af]"),
    ("Chinese", r"[\u4e00-\u9fff]"),
    ("Russian", r"[\u0400-\u04ff]"),
)


def detect_language(user_texts: Iterable[str]) -> str:
    """The language of the user's messages, if their script shows it; else empty."""
    text = "".join(user_texts)
    letters = len(re.findall(r"[^\W\d_]", text)) or 1
    # A Chinese sentence about code is half Latin, and one character says as much as two or three letters.
    return next((name for name, script in _SCRIPTS if len(re.findall(script, text)) / letters > 0.1), "")


# --- the transcript ---------------------------------------------------------------------------------------------------

MAX_ITEM_TOKENS = 1_000
"""Of one item in a quoted transcript. Ten turns of a tool loop then fit any window."""
MAX_USER_TOKENS = 4 * MAX_ITEM_TOKENS
"""Of a message of the user: a summary is about these."""


def quote_items(items: Sequence[Item], *, count: Count) -> str:
    """Items as quoted data, for a model that has not seen the conversation. Empty if nothing can be quoted."""
    parts = [part for item in items if (part := _quote_item(item, MAX_ITEM_TOKENS, count))]
    return _segment(parts) if parts else ""


def quote_in_chunks(items: Sequence[Item], *, tokens: int, count: Count) -> list[str]:
    """The same in chunks of about `tokens`, split between items. An item longer than a chunk is shortened."""
    room = max(100, tokens - count(_segment([])))
    chunks: list[list[str]] = [[]]
    used = 0
    for item in items:
        part = _quote_item(item, min(MAX_ITEM_TOKENS, room), count)
        if not part:
            continue
        part_tokens = count(part) + 1
        if used + part_tokens > room and chunks[-1]:
            chunks.append([])
            used = 0
        chunks[-1].append(part)
        used += part_tokens
    return [_segment(chunk) for chunk in chunks if chunk]


def _segment(parts: Sequence[str]) -> str:
    return "\n".join((f"<{SEGMENT_TAG}>", *parts, f"</{SEGMENT_TAG}>"))


def _quote_item(item: Item, limit: int, count: Count) -> str:
    content = _content(item, limit, count)
    return f'<{PART_TAG} from="{speaker_of(item)}">\n{content}\n</{PART_TAG}>' if content else ""


def _content(item: Item, limit: int, count: Count) -> str:
    if item.kind in ("image", "document"):
        return texts.media_not_shown(item.kind, plain_name(media_blocks(item)))
    if item.kind == "opaque" or (item.kind == "thinking" and not item.text.strip()):
        return ""
    limit = min(limit * 4, MAX_USER_TOKENS) if item.trust <= USER else limit
    raw = item.text if len(item.text) <= 8 * limit else essence(2 * limit)(item.text, count)
    # Neither secrets nor hidden characters go to a second model.
    text = escape(strip_invisible(redact(raw)[0]).strip())
    if count(text) > limit:
        text = essence(limit)(text, count)
    if item.text.strip() and not text:
        text = texts.tokens_not_shown(item.tokens)
    return text + (f"\n{texts.attachments_not_shown(item.media)}" if item.media else "")
