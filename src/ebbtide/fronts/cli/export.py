"""`ebb export`: write a session out, with secrets masked unless --no-redact is given."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ebbtide import screen
from ebbtide.audit.history import History, build_history
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.redact import redact_tree
from ebbtide.core.types import Item
from ebbtide.display import code_fence, make_visible, one_line
from ebbtide.fronts.cli.describe import describe_item
from ebbtide.fronts.cli.parser import Commands, command
from ebbtide.fronts.cli.sources import find_session, read_records
from ebbtide.store import Record
from ebbtide.wire import WIRES
from ebbtide.wire.blocks import group_by_message
from ebbtide.wire.reader import write_messages
from ebbtide.wire.validity import repair


def add(commands: Commands) -> None:
    parser = command(commands, "export", run, "session", "--store", "--project")
    parser.add_argument("--format", choices=list(_FORMATS), default="jsonl")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: stdout")
    parser.add_argument("--no-redact", action="store_true", help="leave secrets in")


def run(args: argparse.Namespace) -> int:
    """write a session out, secrets masked

    Writes a stored session to stdout or a file. 'jsonl' is every stored record, one per line; 'anthropic' is
    the request as the model would see it now, for the Messages API; 'markdown' is the whole conversation
    with nothing removed, to read. Keys, tokens, passwords and what looks like them are masked; check the
    result before you publish it. --no-redact masks nothing.

    examples:
        ebb export last --format markdown -o session.md
        ebb export nightly --format anthropic | ebb context -
        ebb export nightly --no-redact > nightly.jsonl
    """
    _, info, log = find_session(args, args.session)
    records = read_records(info, log)
    masked = Counter[str]()
    if not args.no_redact:
        pairs = [redact_tree(record) for record in records]
        records = [record for record, _ in pairs if isinstance(record, dict)]
        masked = sum((counts for _, counts in pairs), Counter[str]())
    out = _FORMATS[args.format](records, build_history(records, session=info.session))
    if args.output:
        _write(args.output, out)
    else:
        screen.write_bytes(out)
    if masked:
        screen.notify("masked: " + ", ".join(f"{n} {kind}" for kind, n in masked.most_common()))
    return 0


def _write(path: str, out: bytes) -> None:
    """Make the file readable by its owner only: transcripts are private by default."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(out)
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror or error}") from None


def _jsonl(records: Sequence[Record], _: History) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def _anthropic(_: Sequence[Record], history: History) -> bytes:
    (request, view), wire = history.next_request(), WIRES["anthropic"]
    messages = write_messages(request, view)
    if history.wire != wire.name:
        groups = [_without_origin(group) for _, group in group_by_message(view.entries)]
        messages = [message for group in groups if group for message in wire.messages.join(None, group)]
    body, _repairs = repair(wire, {"model": request.model, wire.list_key: messages})
    return (json.dumps(body, indent=1) + "\n").encode()


def _without_origin(group: Sequence[Item]) -> list[Item]:
    """Keep what another wire can write: texts, tool calls and results; no images and no opaque blocks."""
    known = [item for item in group if item.kind in ("text", "call", "result") and item.role != "system"]
    return [replace(item, id="", raw=None, text=_arguments(item)) for item in known]


def _arguments(item: Item) -> str:
    if item.kind != "call":
        return item.text
    try:
        return item.text if isinstance(json.loads(item.text), dict) else json.dumps({"input": item.text})
    except ValueError:
        return json.dumps({"input": item.text})


def _markdown(_: Sequence[Record], history: History) -> bytes:
    request, _view = history.next_request()
    title = f"# {one_line(history.session)}\n"
    return "\n".join([title, *_sections(request.items)]).encode("utf-8", "replace")


def _sections(items: Sequence[Item]) -> Iterator[str]:
    message = None
    for item in items:
        if item.message != message:
            message = item.message
            yield f"## {item.role.capitalize()}\n"
        text = make_visible(item.text)
        if item.kind == "text":
            yield text + "\n"
            continue
        yield f"*{one_line(describe_item(item))}*\n"
        if text:
            yield code_fence(text) + "\n"


_FORMATS: dict[str, Callable[[Sequence[Record], History], bytes]] = {
    "jsonl": _jsonl,
    "anthropic": _anthropic,
    "markdown": _markdown,
}
