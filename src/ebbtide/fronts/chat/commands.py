"""The slash commands of the chat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from ebbtide.argparse_errors import close_matches
from ebbtide.config import Settings
from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.core.text.preview import pluralize
from ebbtide.core.types import Edit, Usage
from ebbtide.display import code_fence, first_lines, make_visible, short_number, token_count
from ebbtide.fronts.chat import render
from ebbtide.fronts.chat.chat_records import split_blocks
from ebbtide.fronts.chat.session import Chat, Setup, find_session, list_sessions, new_session_id
from ebbtide.policy import POLICY_NAMES, preset
from ebbtide.wire import WIRES

_PREVIEW = 24  # lines of a summary: a screen
_LISTED = 15  # sessions
_HANDLE = re.compile(r"#?([0-9a-f-]{8,}|\S*\.(txt|json))")


class ExitChat(Exception):
    """The user wants to leave."""


class CommandScreen(Protocol):
    """What a command can use of the screen."""

    @property
    def chat(self) -> Chat: ...

    @property
    def last_usage(self) -> Usage | None:
        """Of the newest request."""
        ...

    @property
    def is_agent_working(self) -> bool:
        """Whether the agent runs in another thread at the same time."""
        ...

    def show(self, content: RenderableType) -> None: ...

    def confirm(self, question: str) -> bool: ...

    def reopen(self, setup: Setup, session: str) -> None:
        """Leave the open session and open this one, which may be the same."""
        ...

    def setup_for_model(self, model: str) -> Setup: ...


Content = RenderableType | None
"""What a command shows at its end. A plain text is shown as a notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    description: str
    run: Callable[[CommandScreen, str], Content]
    arguments: str = ""
    is_read_only: bool = False
    """It may run while the agent works."""


def run_command(screen: CommandScreen, text: str) -> None:
    """`text` begins with a slash."""
    command, rest = _find_command(text)
    content = command.run(screen, rest)
    if content is not None:
        screen.show(render.notice(content) if isinstance(content, str) else content)


def is_read_only(text: str) -> bool:
    """True for an unknown command too: its error can be shown at once."""
    try:
        return _find_command(text)[0].is_read_only
    except BadRequest:
        return True


def _find_command(text: str) -> tuple[Command, str]:
    name, _, rest = text[1:].partition(" ")
    command = COMMANDS.get(name) or COMMANDS.get(_ALIASES.get(name, ""))
    if command is None:
        matches = [known for known in COMMANDS if known.startswith(name)] if name else []
        if len(matches) != 1:
            hint = "".join(f"did you mean /{match}? " for match in close_matches(name, COMMANDS)[:1])
            raise BadRequest(f"there is no command /{name}; {hint}/help lists the commands")
        command = COMMANDS[matches[0]]
    return command, rest.strip()


# --- the window --------------------------------------------------------------------------------------------------


def _context(screen: CommandScreen, _rest: str) -> Content:
    return render.WindowGrid(screen.chat.measure_window(screen.last_usage, _active_edits(screen)))


def _active_edits(screen: CommandScreen) -> tuple[Edit, ...]:
    """While the agent works, only its thread may bring the context up to date."""
    context = screen.chat.agent.context
    return context.standing if screen.is_agent_working else context.edits()


def _compact(screen: CommandScreen, focus: str) -> Content:
    chat = screen.chat
    request = chat.last_request()
    has_messages = request[WIRES[chat.setup.provider.wire].list_key]
    draft = chat.agent.context.compact(request, focus=focus, apply=False) if has_messages else None
    if draft is None or not draft.edits:
        return draft.notes[0] if draft and draft.notes else "There is nothing to compact yet."
    lines = make_visible(draft.text).splitlines()
    screen.show(Text("\n".join(first_lines(lines, _PREVIEW)), style="dim"))
    sizes = f"{short_number(draft.tokens_before)} → {short_number(draft.tokens_after)} tokens"
    if not screen.confirm(f"Replace the old turns by this summary? {sizes}."):
        return "Nothing was changed."
    draft.apply()
    return "Conversation compacted."


def _undo(screen: CommandScreen, _rest: str) -> Content:
    edits = screen.chat.agent.context.undo()
    if not edits:
        return "There is nothing to undo."
    tokens = sum(edit.saved for edit in edits)
    return f"Undone: {pluralize(len(edits), 'edit')}; {token_count(tokens)} are back in the conversation."


def _redo(screen: CommandScreen, _rest: str) -> Content:
    edits = screen.chat.agent.context.redo()
    return f"Redone: {pluralize(len(edits), 'edit')}." if edits else "There is nothing to redo."


def _edits(screen: CommandScreen, _rest: str) -> Content:
    edits = _active_edits(screen)
    return render.edits(edits) if edits else "Nothing was removed from this conversation."


def _pin(screen: CommandScreen, target: str) -> Content:
    if not target:
        raise BadRequest("name what to keep: /pin HANDLE, or /pin WORDS to keep the first text that /recall finds")
    context = screen.chat.agent.context
    hits = [] if _HANDLE.fullmatch(target) else context.recall(target, limit=1)
    handle = hits[0].handle if hits else target
    context.pin(handle)
    return f"Pinned: {handle} stays in the conversation."


def _recall(screen: CommandScreen, target: str) -> Content:
    if not target:
        raise BadRequest("name what to find: /recall WORDS searches everything recorded; /recall HANDLE shows a text")
    context = screen.chat.agent.context
    if _HANDLE.fullmatch(target):
        return render.page(context.read(target))
    hits = context.recall(target)
    return render.hits(hits) if hits else "Nothing recorded matches."


# --- sessions ----------------------------------------------------------------------------------------------------


def _clear(screen: CommandScreen, _rest: str) -> Content:
    old = screen.chat.session
    screen.reopen(screen.chat.setup, new_session_id(screen.chat.setup.clock))
    return f"This is a new conversation. To go back to the old one: /resume {old}"


def _sessions(screen: CommandScreen, _rest: str) -> Content:
    setup = screen.chat.setup
    sessions = list_sessions(setup.store, setup.project)
    return render.sessions(sessions[:_LISTED]) if sessions else "There are no sessions yet."


def _resume(screen: CommandScreen, prefix: str) -> Content:
    setup = screen.chat.setup
    if not prefix:
        run_command(screen, "/sessions")
        return "To open one: /resume ID. The start of an id is enough."
    screen.reopen(setup, find_session(setup.store, setup.project, prefix).session)
    return None


def _export(screen: CommandScreen, name: str) -> Content:
    chat = screen.chat
    path = chat.setup.root / (Path(name).expanduser() if name else f"chat-{chat.session}.md")
    try:
        with path.open("x", encoding="utf-8", errors="replace") as file:
            file.writelines(export_markdown(chat))
    except FileExistsError:
        raise BadRequest(f"{path} already exists; name another file with /export NAME") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    return f"Written: {path}"


def export_markdown(chat: Chat) -> Iterator[str]:
    """Yield the whole recorded conversation as Markdown, without edits."""
    yield f"# {chat.session}\n"
    for message in chat.messages():
        for block in split_blocks(message, chat.setup.provider.wire):
            title = {"call": f"Call of {block.name}", "result": "Result"}.get(block.kind, block.role.capitalize())
            text = code_fence(block.text) if block.kind in ("call", "result") else block.text
            yield f"\n## {title}\n\n{text}\n"


# --- settings ----------------------------------------------------------------------------------------------------


def _model(screen: CommandScreen, name: str) -> Content:
    if not name:
        return render.notice(f"The model is {screen.chat.setup.provider.model}. To change it: /model NAME", "cyan")
    screen.reopen(screen.setup_for_model(name), screen.chat.session)
    return f"The model is now {name}. The first request pays for the whole conversation: models share no cache."


def _policy(screen: CommandScreen, name: str) -> Content:
    setup = screen.chat.setup
    if not name:
        text = f"The policy is {setup.settings.preset}. To change it: /policy NAME, one of {', '.join(POLICY_NAMES)}"
        return render.notice(text, "cyan")
    settings: Settings = replace(setup.settings, preset=preset(name).name)
    screen.reopen(replace(setup, settings=settings), screen.chat.session)
    return f"The policy is now {settings.preset}. Earlier edits stay."


def _cost(screen: CommandScreen, _rest: str) -> Content:
    return render.cost(screen.chat.bill, screen.chat.agent.context.health().hit_rate)


def _plan(screen: CommandScreen, _rest: str) -> Content:
    permissions = screen.chat.agent.permissions
    permissions.toggle_mode()
    is_plan = permissions.mode == "plan"
    text = "Plan mode: the agent changes nothing." if is_plan else "Build mode: the agent may change files."
    return render.notice(text, "cyan")


def _help(_screen: CommandScreen, _rest: str) -> Content:
    cells = [(f"/{name} {command.arguments}".strip(), command.description) for name, command in COMMANDS.items()]
    return render.table(("", ""), [*cells, *_KEYS])


def _exit(_screen: CommandScreen, _rest: str) -> Content:
    raise ExitChat


_KEYS = (
    ("", ""),
    ("Enter", "send; while the agent works, it reads your message after its next step"),
    ("Alt-Enter, Ctrl-J", "new line"),
    ("Esc", "stop the agent"),
    ("Shift-Tab", "plan mode on and off"),
    ("Up, Down", "your earlier messages"),
    ("Ctrl-D", "leave; ebb chat --continue resumes the session"),
)

COMMANDS: Mapping[str, Command] = {
    "context": Command(description="show what fills the window", run=_context, is_read_only=True),
    "compact": Command(description="summarize old turns; shows the summary first", run=_compact, arguments="[focus]"),
    "undo": Command(description="undo the last edits", run=_undo),
    "redo": Command(description="redo them", run=_redo),
    "edits": Command(description="list what was removed, by which pass and why", run=_edits, is_read_only=True),
    "pin": Command(description="keep a text through every compaction", run=_pin, arguments="WORDS|HANDLE"),
    "recall": Command(description="search what was recorded, or read a text", run=_recall, arguments="WORDS|HANDLE"),
    "clear": Command(description="start a new conversation", run=_clear),
    "sessions": Command(description="list the conversations of this project", run=_sessions, is_read_only=True),
    "resume": Command(description="open one of them", run=_resume, arguments="[ID]"),
    "export": Command(description="write the whole conversation to a file", run=_export, arguments="[FILE]"),
    "model": Command(description="show or change the model", run=_model, arguments="[NAME]"),
    "policy": Command(description="show or change the policy", run=_policy, arguments="[NAME]"),
    "cost": Command(description="show what was billed", run=_cost, is_read_only=True),
    "plan": Command(description="switch between plan mode, which changes nothing, and build mode", run=_plan),
    "help": Command(description="show this list", run=_help, is_read_only=True),
    "exit": Command(description="leave", run=_exit),
}
_ALIASES = {"summarize": "compact", "quit": "exit", "new": "clear", "?": "help", "build": "plan"}
