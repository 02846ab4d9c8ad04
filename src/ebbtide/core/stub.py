"""Our stub, the line that replaces removed content; its parser; and the name under which the content is saved.

    [ebb: result of read_file removed, 9000 tokens, 412 lines; saved to /agents/tool-results/toolu_1.txt]
    [ebb: result of read_file removed, 9000 tokens, 412 lines; saved as memory:toolu_1.txt]
    [ebb: result of read_file removed, 9000 tokens, 412 lines; saved as ebb:toolu_1.txt]
    [ebb: call of Write (src/app.py) removed, 5200 tokens, 210 lines; not saved]
    [ebb: result of bash shortened, 700 tokens, 58 lines; saved to /agents/tool-results/toolu_2.txt]
    FAILED tests/test_parse.py::test_dates

The head is one line. A preview may follow it; then the content is `shortened`. The parser is for people and tools.
Nothing is ever taken for a stub because it reads like one: a tool may print this very line, and the view knows its own
replacements by id. The parser also reads the stubs of version 1, which are in old logs and in histories that clients
send back: `[ebb: result of read_file, 9000 tokens, 412 lines; kept in /agents/...]`. File names are built from checked
ids only.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ebbtide.core import texts
from ebbtide.core.types import Edit

MEMORY = "memory:"
"""Prefix of the name of a text that is in no file: it lasts as long as the process, and recall can read it."""
HANDLE = "ebb:"
"""Prefix of the name of a text that is in a file which the model is not to open: it has tools for it, or no way."""
_CLEAN = re.compile(r"[A-Za-z0-9_-]{1,80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobNames:
    """Chooses the names of offloaded content. The runtime writes the files."""

    directory: str = ""
    """Where the files will be; `HANDLE` if the model is not told where. Empty if there are none: the texts stay in
    memory, and only recall can read them."""
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
        if self.directory == HANDLE:
            return f"{HANDLE}{name}"
        return f"{self.directory}/{name}" if self.directory else f"{MEMORY}{name}"


def digest(text: str) -> str:
    """Hash a text to twenty hexadecimal digits."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """What is known of removed content."""

    kind: str
    """`result`, `call`, `message`, `text`, `image`, `document`, `history`, ...: a lower-case word."""
    name: str = ""
    """The tool's name."""
    about: str = ""
    """The file that a call wrote, an image's type and size, how many exchanges."""
    tokens: int = 0
    lines: int = 0
    path: str = ""
    """Where it is: a file, `ebb:` and a handle, or `memory:` and a handle for as long as the process lasts. Empty if it
    was not saved."""
    preview: str = ""
    more: bool = False
    """Whether the preview is less than the whole."""
    chars: int = 0
    octets: int = 0
    """Length in UTF-8. Like `chars` it is for the presets' templates, and not part of our stub."""

    @property
    def file(self) -> str:
        """The file that has it; empty if there is none."""
        return "" if self.path.startswith((MEMORY, HANDLE)) else self.path

    @property
    def handle(self) -> str:
        """The name by which recall opens it; empty if it was not saved."""
        return without_prefix(self.path).rpartition("/")[2]


Template = Callable[[Stub], str]


def without_prefix(path: str) -> str:
    """Return the name in a handle; a path as it is."""
    return path.removeprefix(MEMORY).removeprefix(HANDLE)


_UNPRINTABLE = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
_PLAIN_NAME = re.compile(r"[\w.:@/+-]+")
_PLAIN_ABOUT = re.compile(rf'[^{_UNPRINTABLE}"()\[\]]+')
_PLAIN_PATH = re.compile(rf'[^{_UNPRINTABLE}"\[\]]+')
_QUOTED = r'"(?:[^"\\\n]|\\[^\n])*"'
_HEAD = re.compile(
    rf"\[ebb: (?P<kind>[a-z]+)"
    rf"(?: of (?P<name>{_PLAIN_NAME.pattern}|{_QUOTED}))?"
    rf"(?: \((?P<about>{_PLAIN_ABOUT.pattern}|{_QUOTED})\))?"
    rf"(?: {texts.REMOVED}| {texts.SHORTENED})?"
    rf", (?P<tokens>[0-9]+) tokens, (?P<lines>[0-9]+) lines; "
    rf"(?:{texts.NOT_SAVED}|not kept|"
    rf"(?:{texts.SAVED_TO}|{texts.SAVED_AS}|kept in) (?P<path>{_PLAIN_PATH.pattern}|{_QUOTED}))\]"
)


def render(stub: Stub) -> str:
    """The default template. Names and paths that could end the line early are quoted as JSON."""
    name = f" of {_quote(stub.name, _PLAIN_NAME)}" if stub.name else ""
    about = f" ({_quote(stub.about, _PLAIN_ABOUT)})" if stub.about else ""
    change = texts.SHORTENED if stub.preview else texts.REMOVED
    saved = texts.SAVED_TO if stub.file else texts.SAVED_AS
    place = f"{saved} {_quote(stub.path, _PLAIN_PATH)}" if stub.path else texts.NOT_SAVED
    head = f"[ebb: {stub.kind}{name}{about} {change}, {stub.tokens} tokens, {stub.lines} lines; {place}]"
    return f"{head}\n{stub.preview}" if stub.preview else head


def parse(text: str) -> Stub | None:
    """Read back what `render` wrote, except `more`, `chars` and `octets`. None if the text is no stub."""
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
