"""What stands where content was, and under which name the content is saved.

File names are built from checked ids only. Stubs have one grammar of ours with one parser, and the presets' own words:

    [ebb: result of read_file, 9000 tokens, 412 lines; kept in /agents/tool-results/toolu_1.txt]
    [ebb: result of read_file, 9000 tokens, 412 lines; kept in memory:toolu_1.txt]
    [ebb: call of Write (src/app.py), 5200 tokens, 210 lines; not kept]

The head is one line; a preview may follow it. The parser is for people and tools. Nothing is ever taken for a stub
because it reads like one: a tool may print this very line, and the view knows its own stand-ins by id.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ebbtide.core.text.framing import neutral, tag_names
from ebbtide.core.types import Edit

MEMORY = "memory:"
"""Prefix of the name of a text that is in no file: it lasts as long as the process, and recall can read it."""
_CLEAN = re.compile(r"[A-Za-z0-9_-]{1,80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobNames:
    """Chooses the names of offloaded content. The runtime writes the files."""

    directory: str = ""
    """Where the files will be. Empty if there are none: the texts stay in memory, and only recall can read them."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """Names in use, lower-cased, with the digest of their content."""

    def name(self, call_id: str, text: str, *, suffix: str = ".txt") -> str:
        """Return the call's id if it is a safe, free name; else add a hash. Two contents never share a name."""
        return self.name_for_digest(call_id, digest(text), suffix=suffix)

    def name_for_digest(self, call_id: str, mark: str, *, suffix: str = ".txt") -> str:
        """Return the name for a text with this digest."""
        clean = call_id if _CLEAN.fullmatch(call_id) else ""
        name = f"{clean}{suffix}"
        # File systems may not tell upper from lower case.
        if clean and self.taken.get(name.lower(), mark) == mark:
            return name
        prefix = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)[:40] or "result"
        return f"{prefix}-{mark}{suffix}"

    def path(self, name: str) -> str:
        """Return what a stub shows: the path of the file, or a handle that does not look like one."""
        return f"{self.directory}/{name}" if self.directory else f"{MEMORY}{name}"


def digest(text: str) -> str:
    """Hash a text to twenty hexadecimal digits."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """What is known of content that left, or of the part of it that did."""

    kind: str
    """`result`, `call`, `input`, `text`, `image`, `document` or `history`: a lower-case word."""
    name: str = ""
    """The tool's name."""
    about: str = ""
    """The file a call wrote, an image's type and sides, how many exchanges."""
    tokens: int = 0
    lines: int = 0
    path: str = ""
    """Where it is: a file, or `memory:` and a handle for as long as the process lasts. Empty: it was not kept."""
    preview: str = ""
    more: bool = False
    """Whether the preview is less than the whole."""
    chars: int = 0
    octets: int = 0
    """Length in UTF-8. Like `chars` it is for the seeds' templates, and not part of the grammar."""

    @property
    def file(self) -> str:
        """The file that it can be read in; empty where there is none."""
        return "" if self.path.startswith(MEMORY) else self.path

    @property
    def handle(self) -> str:
        """The name by which recall opens it; empty where it was not kept."""
        return self.path.removeprefix(MEMORY).rpartition("/")[2]


Template = Callable[[Stub], str]

_UNPRINTABLE = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
_PLAIN_NAME = re.compile(r"[\w.:@/+-]+")
_PLAIN_ABOUT = re.compile(rf'[^{_UNPRINTABLE}"()\[\]]+')
_PLAIN_PATH = re.compile(rf'[^{_UNPRINTABLE}"\[\]]+')
_QUOTED = r'"(?:[^"\\\n]|\\[^\n])*"'
_HEAD = re.compile(
    rf"\[ebb: (?P<kind>[a-z]+)"
    rf"(?: of (?P<name>{_PLAIN_NAME.pattern}|{_QUOTED}))?"
    rf"(?: \((?P<about>{_PLAIN_ABOUT.pattern}|{_QUOTED})\))?"
    rf", (?P<tokens>[0-9]+) tokens, (?P<lines>[0-9]+) lines; "
    rf"(?:not kept|kept in (?P<path>{_PLAIN_PATH.pattern}|{_QUOTED}))\]"
)


def render(stub: Stub) -> str:
    """The default template. Names and paths that could end the line early are quoted as JSON."""
    name = f" of {_quote(stub.name, _PLAIN_NAME)}" if stub.name else ""
    about = f" ({_quote(stub.about, _PLAIN_ABOUT)})" if stub.about else ""
    kept = f"kept in {_quote(stub.path, _PLAIN_PATH)}" if stub.path else "not kept"
    head = f"[ebb: {stub.kind}{name}{about}, {stub.tokens} tokens, {stub.lines} lines; {kept}]"
    return f"{head}\n{stub.preview}" if stub.preview else head


def parse(text: str) -> Stub | None:
    """Read back what `render` wrote, but for `more`, `chars` and `octets`; None where the text does not begin so."""
    head, _, preview = text.partition("\n")
    match = _HEAD.fullmatch(head)
    if match is None:
        return None
    part = match.groupdict(default="")
    try:
        name, about, path = (_unquote(part[key]) for key in ("name", "about", "path"))
        tokens, lines = int(part["tokens"]), int(part["lines"])
    except ValueError:  # no JSON, or more digits than Python reads
        return None
    return Stub(
        kind=part["kind"],
        name=name,
        about=about,
        tokens=tokens,
        lines=lines,
        path=path,
        preview=preview,
    )


def stored_names(edit: Edit) -> list[str]:
    """Names of the stored originals, from the edit's record or its placeholders."""
    stubs = [stub for item in edit.replacement if (stub := parse(item.text)) is not None]
    return list(dict.fromkeys([*(blob.name for blob in edit.blobs), *(stub.handle for stub in stubs if stub.handle)]))


def _quote(text: str, plain: re.Pattern[str]) -> str:
    return text if plain.fullmatch(text) else json.dumps(text)


def _unquote(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


# The seeds' templates. What names a file falls back to ours where there is none: it must not promise one.


def mini_claude_persisted(stub: Stub) -> str:
    """R102."""
    if not stub.file:
        return render(stub)
    return (
        f"[Result too large ({stub.octets / 1024:.1f} KB, {stub.lines} lines). Full output saved to {stub.path}. "
        f"You can use read_file to see the full result.]\n\nPreview (first 200 lines):\n{stub.preview}"
    )


def mini_claude_snipped(_: Stub) -> str:
    """R125."""
    return "[Content snipped - re-read if needed]"


def mini_claude_cleared(_: Stub) -> str:
    """R132."""
    return "[Old result cleared]"


_PERSISTED = tag_names(["persisted-output"])


def claude_code_persisted(stub: Stub) -> str:
    """R111, sizes as in the captured request (E4). What is shown cannot close the tag."""
    if not stub.file:
        return render(stub)
    (preview,) = neutral([stub.preview], _PERSISTED)
    return (
        f"<persisted-output>\nOutput too large ({_kilobytes(stub.chars)}). Full output saved to: {stub.path}\n\n"
        f"Preview (first 2KB):\n{preview}" + ("\n...\n" if stub.more else "\n") + "</persisted-output>"
    )


def claude_code_cleared(stub: Stub) -> str:
    """R143, with the captured request's two newlines (E4). Where nothing is kept, what the seed says on failure."""
    if not stub.file:
        return "[Old tool result content cleared]"
    return f"<persisted-output>Tool result saved to: {stub.path}\n\nUse Read to view</persisted-output>"


def opencode_cleared(_: Stub) -> str:
    """R154."""
    return "[Old tool result content cleared]"


def learn_persisted(stub: Stub) -> str:
    """R115."""
    if not stub.file:
        return render(stub)
    return f"Output too large. Saved to: {stub.path}\nPreview:\n{stub.preview}..."


def learn_cleared(_: Stub) -> str:
    """R151."""
    return "[Output compacted - re-read if needed]"


def region_input(stub: Stub) -> str:
    """R116."""
    if not stub.file:
        return render(stub)
    return f"[Large input saved to {stub.path}, {stub.chars} chars. Use Read tool to access.]"


def region_output(stub: Stub) -> str:
    """R117. The seed counts characters and calls them bytes."""
    note = f"[Output truncated, {stub.chars} bytes total. Save to file with > if you need full output.]"
    return f"{stub.preview}\n\n{note}"


def region_evicted(_: Stub) -> str:
    """R252."""
    return "[Earlier turns truncated due to compactor error]"


def render_truncated(chars: int) -> str:
    """What stands between head and tail, R099."""
    return f"\n\n[... truncated {chars} chars ...]\n\n"


def render_budgeted(chars: int) -> str:
    """What stands between head and tail, R121."""
    return f"\n\n[... budgeted: {chars} chars truncated ...]\n\n"


def _kilobytes(chars: int) -> str:
    """As the captured request has it: `134.7KB`, `2KB`."""
    if chars < 1024:
        return f"{chars} bytes"
    amount, unit = (chars / 1024, "KB") if chars < 1024**2 else (chars / 1024**2, "MB")
    return f"{amount:.1f}".removesuffix(".0") + unit
