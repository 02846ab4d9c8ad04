"""How a compaction is laid out in the request: the summary, and the user's messages and the operator's notes beside it.

A summary has our own layout, or one that is filled with the texts of a preset. Messages and notes stay whole while they
fit, then have one line each. None is ever dropped: what is not shown whole is saved to a file, under the number and the
handle that its line has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from ebbtide.core import texts
from ebbtide.core.offload import describe
from ebbtide.core.stub import MEMORY, render
from ebbtide.core.text.framing import RECORD_TAG, SUMMARY_TAG, escape, neutralize, unescape
from ebbtide.core.text.preview import essence
from ebbtide.core.types import HARNESS, OURS, QUOTED, USER, AnswerMode, Blob, Item, Role
from ebbtide.facts import item_handle
from ebbtide.facts.model import to_one_line
from ebbtide.summary.prompts import DEFAULT, REGION, REGION_SHARE, PromptInput, PromptStyle, build_prompt

MergeMode = Literal["fold", "accumulate", "pin"]
"""D10. `fold`: the earlier summary is merged into the new one. `accumulate`: only what follows the last summary is
summarized, and summaries stand in a row. `pin`: the same in place, and no summary is ever changed."""
NO_SUMMARY = "No summary available."
"""R161, R255."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryContent:
    """Everything that a layout may write about the items that it replaces.

    It has 18 fields because each preset shows other parts, and a layout reads them by name.
    """

    summary: str = ""
    """A model's or a person's; empty if neither wrote one."""
    analysis: str = ""
    facts: str = ""
    project_instructions: tuple[Item, ...] = ()
    """What the harness put at the beginning of the conversation."""
    user_messages: tuple[Item, ...] = ()
    live_content: tuple[Item, ...] = ()
    """Files and notes as they are now."""
    kept_items: tuple[Item, ...] = ()
    """The operator's messages and pinned items: they stay."""
    first_turn: int = 1
    last_turn: int = 1
    user_count: int = 0
    """Messages of the user."""
    assistant_count: int = 0
    is_automatic: bool = True
    transcript_path: str = ""
    """File of the whole conversation."""
    history_path: str = ""
    """File or handle of the replaced items as text; empty if the model is not to know."""
    is_saved: bool = True
    """Whether the replaced items can be read again."""
    recall_tool: str = ""
    """The tool that finds and reads them, if the model has one."""
    next_is_user: bool = False
    """Whether a user message follows: then an assistant message must come between."""
    count: Callable[[str], int]

    def make_item(self, text: str, *, role: Role = "user") -> Item:
        tokens = self.count(text)
        return Item(id="", message=-1, role=role, kind="text", text=text, tokens=tokens, trust=QUOTED, source=OURS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryLayout:
    """How one preset asks for a summary and shows it."""

    write_prompt: Callable[[PromptInput], str]
    write_summary: Callable[[SummaryContent], tuple[Item, ...]]
    merge_mode: MergeMode = "fold"
    answer_mode: AnswerMode = "prefix"
    read_summary: Callable[[str], str] = str
    """From the text of an earlier summary item to the summary in it."""
    keeps_user_messages: bool = True
    keeps_newest_message: bool = False
    """Whether the user's newest message stays whole however long it is, images included."""


# --- our own layout ---------------------------------------------------------------------------------------------------

_PARTS = re.compile(
    rf"(?:<{SUMMARY_TAG}>\n(?P<summary>.*?)\n</{SUMMARY_TAG}>)?\n*(?:<{RECORD_TAG}>\n(?P<facts>.*?)\n</{RECORD_TAG}>)?",
    re.DOTALL,
)
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\"`<>\[\]]+")


def write_summary_text(
    *,
    summary: str,
    facts: str,
    recall_hint: str = "",
    is_automatic: bool,
    turns: str = "",
    has_user_messages: bool = True,
) -> str:
    """The text of a summary item. Only an automatic compaction says that the work goes on (R179).

    Summary and facts are escaped, so that nothing in them can end the quotation and `read_summary_text` can return them
    unchanged.
    """
    opening = texts.summary_opening(turns, has_summary=bool(summary))
    parts = [f"{opening} {texts.USER_MESSAGES_FOLLOW}" if has_user_messages else opening]
    parts += [_quoted(SUMMARY_TAG, summary)] if summary else []
    parts += [_quoted(RECORD_TAG, facts)] if facts else []
    parts += filter(None, (recall_hint, texts.CONTINUE_WORK if is_automatic else ""))
    return "\n\n".join(parts)


def _quoted(tag: str, text: str) -> str:
    return f"<{tag}>\n{escape(text)}\n</{tag}>"


def read_summary_text(text: str) -> tuple[str, str] | None:
    """The summary and the facts in a text of `write_summary_text`; None for another text.

    Anyone can write such a text: whether an item is ours, the view knows by its id.
    """
    if not text.startswith(texts.SUMMARY_START):
        return None
    starts = text.find(f"\n\n<{SUMMARY_TAG}>\n"), text.find(f"\n\n<{RECORD_TAG}>\n")
    start = min((start for start in starts if start >= 0), default=-1)
    match = _PARTS.match(text, start + 2) if start >= 0 else None
    if match is None:
        return "", ""
    return unescape(match["summary"] or ""), unescape(match["facts"] or "")


def recall_hint(*, transcript: str = "", history: str = "", tool: str = "", has_handles: bool = False) -> str:
    """How the model can read what was compacted; empty if it cannot."""
    return texts.recall_hint(
        transcript=_printable(transcript), history=_printable(history), tool=tool, has_handles=has_handles
    )


def _printable(path: str) -> str:
    return path if not path or _PRINTABLE.fullmatch(path) else json.dumps(path).replace("<", "\\u003c")


def _write_default(content: SummaryContent) -> tuple[Item, ...]:
    text = write_summary_text(
        summary=content.summary,
        facts=content.facts,
        recall_hint=_recall_hint(content),
        is_automatic=content.is_automatic,
        turns=texts.turns_covered(content.first_turn, content.last_turn),
        has_user_messages=bool(content.user_messages),
    )
    answer = (content.make_item(texts.SUMMARY_ACKNOWLEDGEMENT, role="assistant"),) if content.next_is_user else ()
    return (
        *content.project_instructions,
        content.make_item(text),
        *content.live_content,
        *content.user_messages,
        *content.kept_items,
        *answer,
    )


def _recall_hint(content: SummaryContent) -> str:
    if not content.is_saved:
        return texts.HISTORY_NOT_SAVED
    if content.history_path.startswith(MEMORY) and not content.recall_tool:
        return texts.HISTORY_IN_MEMORY
    return recall_hint(
        transcript=content.transcript_path, history=content.history_path, tool=content.recall_tool, has_handles=True
    )


def _read_default(text: str) -> str:
    parts = read_summary_text(text)
    return parts[0] if parts else ""


DEFAULT_LAYOUT = SummaryLayout(
    write_prompt=partial(build_prompt, DEFAULT),
    write_summary=_write_default,
    read_summary=_read_default,
    keeps_newest_message=True,
)


# --- the presets' layouts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetTexts:
    """Texts around a summary, as the reference agent writes them. An empty one is left out."""

    summary_user: str = ""
    """The user message that carries the summary."""
    summary_ack: str = ""
    """The assistant's answer to it."""
    summary_assistant: str = ""
    """The assistant message that carries the summary."""
    summary_block: str = ""
    """The summary as a block in place, with the numbers of its turns."""
    summary_analysed: str = ""
    """How the analysis is kept before the summary (D9)."""
    summary_counted: str = ""
    """Replaces a summary without a model (R172); by default the facts do."""
    continuation: str = ""
    """Added if the compaction was automatic."""
    truncated: str = ""
    """Replaces exchanges that were dropped."""
    transcript_hint: str = ""
    """Where to read what was summarized, with its `{path}`."""
    interjection: str = ""
    """The frame around a message that a user sends while the agent works (R087)."""


def preset_layout(
    style: PromptStyle,
    preset_texts: PresetTexts,
    *,
    answer_mode: AnswerMode = "prefix",
    merge_mode: MergeMode = "fold",
) -> SummaryLayout:
    """The layout of a reference agent: its texts and roles, and nothing of ours."""
    return SummaryLayout(
        write_prompt=partial(build_prompt, style),
        write_summary=partial(_write_preset, preset_texts),
        answer_mode=answer_mode,
        merge_mode=merge_mode,
        keeps_user_messages=False,
        read_summary=lambda _: "",  # these agents summarize their summary again, or leave it alone
    )


def _write_preset(preset_texts: PresetTexts, content: SummaryContent) -> tuple[Item, ...]:
    summary = content.summary or _summary_without_model(preset_texts, content)
    if content.analysis and preset_texts.summary_analysed:
        summary = preset_texts.summary_analysed.format(analysis=content.analysis, summary=content.summary)
    numbers = {"first": content.first_turn, "last": content.last_turn}
    items: list[Item] = []
    if preset_texts.summary_user:
        parts = [preset_texts.summary_user.format(summary=summary, **numbers)]
        parts += [item.text for item in content.live_content]
        if preset_texts.transcript_hint and content.transcript_path:
            parts.append(preset_texts.transcript_hint.format(path=content.transcript_path))
        if preset_texts.continuation and content.is_automatic:
            parts.append(preset_texts.continuation)
        items.append(content.make_item("\n\n".join(parts)))
    # The operator's notes must stand between a user message and an assistant message (A3).
    notes = tuple(item for item in content.kept_items if items and item.role in ("user", "system"))
    items += notes
    if preset_texts.summary_assistant:
        text = preset_texts.summary_assistant.format(summary=summary, **numbers)
        items.append(content.make_item(text, role="assistant"))
    if preset_texts.summary_ack:
        items.append(content.make_item(preset_texts.summary_ack, role="assistant"))
    return (*items, *(item for item in content.kept_items if item not in notes))


def _summary_without_model(preset_texts: PresetTexts, content: SummaryContent) -> str:
    """The preset's own text, or else the user's messages and the facts."""
    if preset_texts.summary_counted:
        return preset_texts.summary_counted.format(users=content.user_count, assistants=content.assistant_count)
    messages = "\n".join(f"- {neutralize(item.text)}" for item in content.user_messages)
    parts = [f"{texts.USER_MESSAGES}\n{messages}"] if messages else []
    parts += [neutralize(content.facts)] if content.facts else []
    return "\n\n".join(parts) or NO_SUMMARY


def region_layout(block: str) -> SummaryLayout:
    """A block that replaces a region where it was, never changed again (R194, R196)."""
    layout = preset_layout(REGION, PresetTexts(summary_user=block), answer_mode="transcript", merge_mode="pin")
    return replace(layout, write_prompt=region_prompt)


def region_prompt(prompt_input: PromptInput) -> str:
    """R169: the target is a share of what is asked about."""
    target = max(1, prompt_input.tokens // REGION_SHARE)
    return build_prompt(REGION, replace(prompt_input, max_tokens=target, prior_summary="", language=""))


SaveBlob = Callable[[str, str], tuple[str, tuple[Blob, ...]]]
"""From a key and a text to the path that a stub may name and the blobs to save first."""
Count = Callable[[str], int]

_LIST_SHARE = 0.2
"""Share of the room for lines of older messages: most of it is for whole messages."""
_NOTE_LIST_SHARE = 0.4
"""The same for notes: what an older one asks for must be seen."""
_LINE_CHARS = 100
_NOTE_LINE_CHARS = 160
"""A sentence that asks for something is seldom longer."""
_TAGS = re.compile(r"</?[A-Za-z][\w-]*>")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_REQUESTS = re.compile(
    r"\b(?:must|never|always|do not|don['’]t|only|should|shall|may not|cannot|please|make sure|ensure|avoid|instead"
    r"|from now on|remember|required|forbidden|stop|keep|use|ask)\b|必须|不要|请|务必|禁止|不得|始终|只能",
    re.IGNORECASE,
)
"""How a request sounds. A note without one is still listed, and saved in the file."""


class _Line(NamedTuple):
    text: str
    is_urgent: bool = False
    """Comes first if there is no room for all."""


class _ListKind(NamedTuple):
    key: str
    """Of its file."""
    word: str
    """What its stub calls them."""
    trust: int
    shorten: Callable[[str], _Line]
    hint: str = ""


def _message_line(text: str) -> _Line:
    return _Line(" ".join(text.split())[:_LINE_CHARS])


def _note_line(text: str) -> _Line:
    """A short note whole; of a longer one the first sentence that asks for something, or else the first."""
    plain = _TAGS.sub(" ", text)
    is_request = _REQUESTS.search(plain) is not None
    if len(plain) <= _NOTE_LINE_CHARS:
        return _Line(" ".join(plain.split()), is_request)
    sentences = [sentence for sentence in _SENTENCES.split(plain) if sentence.strip()]
    requests = (sentence for sentence in sentences if _REQUESTS.search(sentence))
    chosen = next(requests, sentences[0] if sentences else "")
    return _Line(f"… {to_one_line(chosen, _NOTE_LINE_CHARS)} …", is_request)


_MESSAGES = _ListKind("user-messages", texts.MESSAGES_LISTED, USER, _message_line)
_NOTES = _ListKind("operator-notes", texts.NOTES_LISTED, HARNESS, _note_line, texts.NOTES_HINT)


def carry_user_messages(
    originals: Sequence[Item],
    current: Sequence[Item],
    *,
    limit: int,
    count: Count,
    save_blob: SaveBlob,
    whole_count: int = 0,
    may_shorten: bool = True,
) -> tuple[tuple[Item, ...], tuple[Blob, ...]]:
    """The user's messages within `limit` tokens: the newest whole, the older ones as a list.

    `current` are the messages as the request has them, perhaps shortened on arrival. The newest `whole_count` stay as
    they are, however long. If not even the newest fits, it is shortened, or without `may_shorten` listed.
    """
    if sum(item.tokens for item in current) <= limit:
        return tuple(current), ()
    list_limit = round(limit * _LIST_SHARE)
    first_whole, room = _newest_that_fit(current, round(limit * (1 - _LIST_SHARE)))
    if first_whole == len(current) and not whole_count and may_shorten:
        listed, blobs = _list_items(originals[:-1], list_limit, count, save_blob, _MESSAGES)
        short, short_blobs = _shorten(originals[-1], room, count, save_blob)
        return (*listed, short), (*blobs, *short_blobs)
    first_whole = min(first_whole, len(current) - whole_count)
    listed, blobs = _list_items(originals[:first_whole], list_limit, count, save_blob, _MESSAGES)
    return (*listed, *current[first_whole:]), blobs


def carry_operator_notes(
    notes: Sequence[Item], *, limit: int, count: Count, save_blob: SaveBlob
) -> tuple[tuple[Item, ...], tuple[Item, ...], tuple[Blob, ...]]:
    """The newest of the operator's notes that fit, a list of the older ones, and the blobs of the list."""
    if sum(note.tokens for note in notes) <= limit:
        return tuple(notes), (), ()
    first_whole, _ = _newest_that_fit(notes, round(limit * (1 - _NOTE_LIST_SHARE)))
    listed, blobs = _list_items(notes[:first_whole], round(limit * _NOTE_LIST_SHARE), count, save_blob, _NOTES)
    return tuple(notes[first_whole:]), listed, blobs


def _newest_that_fit(items: Sequence[Item], room: int) -> tuple[int, int]:
    """Index of the first of the newest items that fit together, and the room that is left."""
    first = len(items)
    while first > 0 and items[first - 1].tokens <= room:
        first -= 1
        room -= items[first].tokens
    return first, room


def _list_items(
    items: Sequence[Item], room: int, count: Count, save_blob: SaveBlob, kind: _ListKind
) -> tuple[tuple[Item, ...], tuple[Blob, ...]]:
    """One item that lists these, and the blob with their full text."""
    if not items:
        return (), ()
    full_text = "\n\n".join(f"## {n} {item_handle(item)}\n{item.text}" for n, item in enumerate(items, 1))
    path, blobs = save_blob(kind.key, full_text)
    about = texts.listed_range(len(items))
    stub = describe(full_text, kind=kind.word, about=about, tokens=sum(item.tokens for item in items), path=path)
    head = "\n".join([render(stub), *([kind.hint] if kind.hint and path else [])])
    lines = _lines_that_fit(items, room - count(head), count, kind, has_handles=bool(path))
    text = "\n".join([head, *lines])
    tokens = count(text)
    item = Item(id="", message=-1, role="user", kind="text", text=text, tokens=tokens, trust=kind.trust, source=OURS)
    return (item,), blobs


def _lines_that_fit(items: Sequence[Item], room: int, count: Count, kind: _ListKind, *, has_handles: bool) -> list[str]:
    """A line for each item, in order, while there is room: urgent ones first, then the newest."""
    rows = [(n, item, kind.shorten(item.text)) for n, item in enumerate(items, 1)]
    lines: dict[int, str] = {}
    for n, item, line in sorted(rows, key=lambda row: (not row[2].is_urgent, -row[0])):
        # Without a file nothing can be opened by its handle.
        label = f"{n} {item_handle(item)}" if has_handles else str(n)
        room -= count(f"{label}: {line.text}") + 1
        if room < 0:
            break
        lines[n] = f"{label}: {line.text}"
    return [lines[n] for n in sorted(lines)]


def _shorten(item: Item, room: int, count: Count, save_blob: SaveBlob) -> tuple[Item, tuple[Blob, ...]]:
    path, blobs = save_blob("user-message", item.text)
    stub = describe(item.text, kind="message", tokens=item.tokens, path=path)
    text = render(replace(stub, preview=essence(max(60, room - 100))(item.text, count)))
    return replace(item, id="", message=-1, text=text, tokens=count(text), source=OURS, raw=None), blobs
