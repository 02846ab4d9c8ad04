"""Answers a model's calls of the recall tools: a bounded text with its source, framed as quoted data.

No recorded text can close the frame. An error is answered with a sentence, so that the agent's loop goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

from ebbtide.core import texts
from ebbtide.core.errors import EbbtideError
from ebbtide.core.text.framing import OUR_TAGS, frame
from ebbtide.core.tool_calls import PAGE, READ_TOOL, SEARCH_TOOL
from ebbtide.recall.search import Hit, Page

TAG = "recalled"
_MAX_QUERY_CHARS = 2_000  # longer queries are pasted texts
_MAX_FIELD_CHARS = 160  # of a path or tool name


class RecallSource(Protocol):
    """Where answers come from: a whole session (`RecallSearch`) or one conversation (`ScopedRecall`)."""

    def search(self, query: str) -> tuple[Hit, ...]: ...
    def read(self, handle: str, start: int = 0, end: int | None = None) -> Page: ...


def answer_call(recall: RecallSource, name: str, arguments: Mapping[str, object] | str) -> str:
    """Return the result of one call. Bad arguments give an error text, not an exception."""
    text, _ = try_answer_call(recall, name, arguments)
    return text


def try_answer_call(recall: RecallSource, name: str, arguments: Mapping[str, object] | str) -> tuple[str, bool]:
    """The same, with whether the call failed, for wires that report errors."""
    try:
        return _run_tool(recall, name, _parse_arguments(arguments)), False
    except (EbbtideError, _BadCall) as error:
        return texts.recall_error(str(error)), True


class _BadCall(Exception):
    """The call cannot be answered."""


def _parse_arguments(arguments: Mapping[str, object] | str) -> Mapping[str, object]:
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        raise _BadCall(texts.ARGUMENTS_NOT_JSON) from None
    if not isinstance(value, dict):
        raise _BadCall(texts.ARGUMENTS_NO_OBJECT)
    return value


def _run_tool(recall: RecallSource, name: str, arguments: Mapping[str, object]) -> str:
    if name == SEARCH_TOOL:
        query = _text_argument(arguments, "query")
        return _format_hits(query, recall.search(query[:_MAX_QUERY_CHARS]))
    if name == READ_TOOL:
        start, end = _number_argument(arguments, "start") or 0, _number_argument(arguments, "end")
        # The model gets at most one page, however much it asks for.
        return _format_page(
            recall.read(_text_argument(arguments, "handle"), start, min(end, start + PAGE) if end is not None else None)
        )
    raise _BadCall(texts.unknown_tool(name[:_MAX_FIELD_CHARS]))


def _format_hits(query: str, hits: tuple[Hit, ...]) -> str:
    if not hits:
        return texts.no_match(query[:_MAX_FIELD_CHARS])
    hit_lines = "\n\n".join(f"[{n}] {_format_source(hit)}\n{hit.snippet}" for n, hit in enumerate(hits, 1))
    framed = frame(TAG, hit_lines, tags=(*OUR_TAGS, TAG))
    return f"{framed}\n{texts.RECALLED_NOTE} {texts.handle_hint(READ_TOOL)}"


def _format_page(page: Page) -> str:
    description = _describe(page.kind, page.role, page.name, page.path)
    head = f"{page.handle}: {description}, characters {page.start} to {page.end} of {page.total}"
    next_hint = texts.next_page(page.next) if page.next is not None else texts.LAST_PAGE
    framed = frame(TAG, f"{_to_one_line(head)}\n{page.text}", tags=(*OUR_TAGS, TAG))
    return f"{framed}\n{texts.RECALLED_NOTE} {next_hint}"


def _format_source(hit: Hit) -> str:
    description = _describe(hit.kind, hit.role, hit.name, hit.path)
    place = f"message {hit.message}, line {hit.line}" if hit.message >= 0 else f"line {hit.line}"
    copies = f", recorded {hit.copies} times" if hit.copies > 1 else ""
    return _to_one_line(f"handle {hit.handle} ({description}; {place} of {hit.total} characters{copies})")


def _describe(kind: str, role: str, name: str, path: str) -> str:
    description = (
        f"{kind} of {name[:_MAX_FIELD_CHARS]}"
        if name
        else texts.SAVED_RESULT
        if kind == "blob"
        else f"{kind} by {role}"
    )
    return f"{description} {path[-_MAX_FIELD_CHARS:]}" if path else description


def _to_one_line(text: str) -> str:
    """Join lines: a tool name or a path can contain line breaks."""
    return " ".join(text.split())


def _text_argument(arguments: Mapping[str, object], key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _BadCall(texts.argument_not_text(key))
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _BadCall(texts.argument_bad_text(key))
    return value


def _number_argument(arguments: Mapping[str, object], key: str) -> int | None:
    value = arguments.get(key)
    if value is None:
        return None
    # Models write numbers as strings, and integers as `3.0`.
    try:
        return int(float(value)) if isinstance(value, str | int | float) else int("")
    except (ValueError, OverflowError):
        raise _BadCall(texts.argument_not_integer(key)) from None
