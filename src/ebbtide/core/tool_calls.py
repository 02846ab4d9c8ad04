"""Reading items: who speaks, what a call is about, what a result holds. Nothing is trusted, and nothing raises.

Arguments and results come from models and tools of any make. What cannot be read is empty, not an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.core import texts
from ebbtide.core.text.media import HEAD, base64_head, image_pixels, media_type
from ebbtide.core.types import HARNESS, OURS, Item
from ebbtide.core.view import View

SEARCH_TOOL, READ_TOOL = "ebb_recall", "ebb_read"
RECALL_TOOLS = (SEARCH_TOOL, READ_TOOL)
"""The tools with which a model reads back what was removed. Passes do not remove their results again, and the search
index does not contain them: they quote what is recorded elsewhere."""

HITS = 5
"""How many hits a search returns: about 2,000 characters, which a model reads at a glance."""
MOST_HITS = 50
PAGE = 8_000
"""Characters of one page, about 2,000 tokens: a page must not itself fill the window."""

READS = frozenset(
    (
        *("Read", "NotebookRead", "read", "read_file", "readFile", "ReadFile", "read_text_file", "get_file_contents"),
        *("view", "view_file", "open_file", "cat", "str_replace_editor", "str_replace_based_edit_tool"),
    )
)
"""Tools whose result is a file's text: Claude Code, OpenCode, Codex, mini-claude, MCP's file servers and the usual
names. The two editors read only when their command is `view`."""

SEARCHES = frozenset(
    (
        *("Grep", "Glob", "LS", "WebSearch", "WebFetch", "grep", "glob", "list", "webfetch", "grep_search"),
        *("list_files", "list_dir", "list_directory", "search_files", "find_files", "codebase_search", "web_search"),
        "run_shell",
    )
)
"""Tools whose older results say less and less. `run_shell` is among them in mini-claude (R125)."""

PROTECTED = frozenset(("skill", "Skill", "memory", "recall", *RECALL_TOOLS))
"""Tools whose results are instructions or were asked back on purpose: taken out again they would be fetched again."""

UNKNOWN = "unknown"
"""The tool of a result without a call."""

_FILE_KEYS = (
    *("file_path", "filePath", "path", "notebook_path", "notebookPath", "filename", "file_name"),
    *("target_file", "absolute_path", "relative_path", "file"),
)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_EDITORS = frozenset(("str_replace_editor", "str_replace_based_edit_tool"))


def call_arguments(call: Item) -> Mapping[str, object]:
    """A call's arguments; empty where they are not a JSON object."""
    try:
        value = json.loads(call.text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def argument_strings(arguments: str) -> Iterator[str]:
    """The strings in a tool call's arguments; the text itself if it is not JSON."""
    try:
        yield from _string_leaves(json.loads(arguments))
    except ValueError:
        yield arguments


def _string_leaves(value: object) -> Iterator[str]:
    children = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else None
    if children is not None:
        for child in children:
            yield from _string_leaves(child)
    elif value is not None:
        yield str(value)


def file_path(call: Item) -> str:
    """The file a call names, or the first one that a patch in it touches; empty where there is none."""
    arguments = call_arguments(call)
    path = next((value for key in _FILE_KEYS if isinstance(value := arguments.get(key), str) and value), "")
    if path:
        return path
    patches = [value for value in arguments.values() if isinstance(value, str)] or [call.text]
    match = next((match for patch in patches if (match := _PATCHED.search(patch))), None)
    return match[1].strip() if match else ""


def is_read_call(call: Item) -> str:
    """The file whose text this call asks for; empty where it does something else."""
    if call.name not in READS or (call.name in _EDITORS and call_arguments(call).get("command") != "view"):
        return ""
    return file_path(call)


def tool_name(view: View, result: Item) -> str:
    if result.name:
        # The reader named it. Looking for the call would index the whole conversation on every turn.
        return result.name
    call = view.calls_by_id.get(result.call_id)
    return (call.name if call else "") or UNKNOWN


def is_failed_result(result: Item) -> bool:
    """Whether the tool itself called it an error."""
    return result.is_failed


def is_reasoning(item: Item) -> bool:
    """A block of reasoning that only the provider can read, and that it wants together with what follows."""
    return item.kind == "opaque" and isinstance(item.raw, Mapping) and item.raw.get("type") == "reasoning"


def describe_item(item: Item, *, indent: int | None = 2) -> str | None:
    """A result's content as JSON, where it is a list of parts (R109); None where it is a string."""
    if not isinstance(item.raw, Mapping):
        return None
    parts = next((value for key in ("content", "output") if isinstance(value := item.raw.get(key), list)), None)
    return None if parts is None else _json(parts, indent)


def block(item: Item) -> str | None:
    """The provider's own block as JSON: the one way to keep an image."""
    return _json(item.raw, 2) if isinstance(item.raw, Mapping) else None


def _json(value: object, indent: int | None) -> str | None:
    separators = (",", ":") if indent is None else None
    try:
        return json.dumps(value, indent=indent, separators=separators, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return None


def media_blocks(item: Item) -> str:
    """An image's or document's name, type and sides, as far as its block tells."""
    raw = item.raw if isinstance(item.raw, Mapping) else {}
    source = next((value for key in ("source", "image_url", "file") if (value := raw.get(key)) is not None), raw)
    inner: Mapping[str, object] = source if isinstance(source, Mapping) else {"data": source}
    data = next((text for key in ("data", "url", "file_data") if isinstance(text := inner.get(key), str)), "")
    head = b"" if data.startswith("http") else base64_head(data, HEAD)
    sides = image_pixels(head)
    names = [
        value for block in (raw, inner) for key in ("title", "filename") if isinstance(value := block.get(key), str)
    ]
    declared = inner.get("media_type")
    parts = [*names[:1], media_type(head) or (declared if isinstance(declared, str) else "")]
    parts += [data] if data.startswith("http") else []
    parts += [f"{sides[0]}x{sides[1]}"] if sides else []
    # A stub is a line: a name or address may be of any length.
    return " ".join(part for part in parts if part)[:200]


def unreadable_files(before: View, after: View) -> tuple[str, ...]:
    """Files whose text the model saw and no longer sees (R145): the caller's read cache must let go of them."""
    still = set(_files_read(after))
    return tuple(file for file in dict.fromkeys(_files_read(before)) if file not in still)


def _files_read(view: View) -> list[str]:
    # A replacement shows a preview at most; an original that an edit carried along is whole.
    complete = [result for result in view.results if result.id in view.index]
    calls = [view.calls_by_id[result.call_id] for result in complete if result.call_id in view.calls_by_id]
    return [file for call in calls if (file := is_read_call(call))]


def compact_instructions(text: str) -> str:
    """What an instruction file asks of a summary: its sections of that name, headings left out."""
    wanted = r"^(?P<level>\#{1,6})[ \t]+(?:compact|summary)[ \t]+instructions[ \t]*\#*[ \t]*$"
    sections = []
    for heading in re.finditer(wanted, text, re.IGNORECASE | re.MULTILINE):
        rest = text[heading.end() :]
        end = re.search(rf"^\#{{1,{len(heading['level'])}}}[ \t]", rest, re.MULTILINE)
        sections.append((rest[: end.start()] if end else rest).strip())
    return "\n\n".join(filter(None, sections))


def write_transcript(items: Sequence[Item]) -> str:
    """Items in full, as a file for a person or a model to read."""
    return "\n\n".join(f"=== {speaker_of(item)}\n{item.text}" for item in items if item.text)


def speaker_of(item: Item) -> str:
    """Who said it, in a transcript."""
    if item.kind == "call":
        return texts.call_speaker(plain_name(item.name))
    if item.kind == "result":
        return texts.result_speaker(plain_name(item.name))
    if item.role == "user" and item.source == OURS:
        return "history"
    if item.role == "user" and item.trust >= HARNESS:
        return "harness"
    return f"{item.role}, thinking" if item.kind == "thinking" else item.role


def plain_name(name: str) -> str:
    """A tool's name without characters that could read as structure."""
    return re.sub(r"[^\w.:@/+, -]", "", name)[:120]
