"""What a person can say with a slash. A command does one thing to the room it is said in, and tells what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from ebbtide.argparse_errors import close_matches
from ebbtide.config import Settings
from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.core.text.pluralize import pluralize
from ebbtide.core.types import Edit, Usage
from ebbtide.display import make_visible, short_number, token_count
from ebbtide.fronts.chat import render
from ebbtide.fronts.chat.context_usage import recorded, standing, weigh
from ebbtide.fronts.chat.session import Chat, Setup, chosen, new_session, sessions_of
from ebbtide.policy import PRESETS, preset
from ebbtide.wire import WIRES

_PREVIEW = 24  # lines of a fold that are shown before it is made: a screen
_LISTED = 15  # sessions


class Leave(Exception):
    """The person wants to go."""


class Room(Protocol):
    """Where a command is said."""

    @property
    def chat(self) -> Chat: ...

    @property
    def last(self) -> Usage | None:
        """What the newest call was billed."""
        ...

    @property
    def working(self) -> bool:
        """The agent is at it, in a thread of its own."""
        ...

    def show(self, what: RenderableType) -> None: ...

    def confirm(self, asked: str) -> bool: ...

    def reopen(self, setup: Setup, session: str) -> None:
        """Leave this session and open that one, or this one anew."""
        ...

    def provider(self, model: str) -> Setup:
        """The setup with another model."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    about: str
    run: Callable[[Room, str], None]
    takes: str = ""
    looks: bool = False
    """It only looks, so it need not wait until the agent is done."""


def obey(room: Room, said: str) -> None:
    """`said` begins with a slash."""
    command, rest = _understood(said)
    command.run(room, rest)


def only_looks(said: str) -> bool:
    """What is no command at all can be told so at once, too."""
    try:
        return _understood(said)[0].looks
    except BadRequest:
        return True


def _understood(said: str) -> tuple[Command, str]:
    name, _, rest = said[1:].partition(" ")
    command = COMMANDS.get(name) or COMMANDS.get(_OTHER_NAMES.get(name, ""))
    if command is None:
        begun = [known for known in COMMANDS if known.startswith(name)] if name else []
        if len(begun) != 1:
            meant = "".join(f"did you mean /{one}? " for one in close_matches(name, COMMANDS)[:1])
            raise BadRequest(f"there is no /{name}; {meant}/help lists what there is")
        command = COMMANDS[begun[0]]
    return command, rest.strip()


# --- the window --------------------------------------------------------------------------------------------------


def _context(room: Room, _rest: str) -> None:
    room.show(render.window(weigh(room.chat, room.last, _edits_now(room))))


def _edits_now(room: Room) -> tuple[Edit, ...]:
    """Who works has the log, and nobody else brings it up to date meanwhile."""
    context = room.chat.agent.context
    return context.standing if room.working else context.edits()


def _compact(room: Room, focus: str) -> None:
    chat = room.chat
    request = standing(chat)
    made = chat.agent.context.compact(request, focus=focus, apply=False) if _said(chat, request) else None
    if made is None or not made.edits:
        room.show(render.notice(made.notes[0] if made and made.notes else "There is nothing to fold yet."))
        return
    lines = make_visible(made.text).splitlines()
    more = [f"… {pluralize(len(lines) - _PREVIEW, 'more line')}"] if len(lines) > _PREVIEW else []
    room.show(Text("\n".join([*lines[:_PREVIEW], *more]), style="dim"))
    saving = f"{short_number(made.tokens_before)} → {short_number(made.tokens_after)} tokens"
    if not room.confirm(f"This note would stand for the old turns: {saving}. Fold?"):
        room.show(render.notice("Left as it was."))
        return
    made.apply()
    room.show(render.notice("Conversation compacted."))


def _said(chat: Chat, request: Mapping[str, object]) -> bool:
    return bool(request[WIRES[chat.setup.provider.wire].list_key])


def _undo(room: Room, _rest: str) -> None:
    edits = room.chat.agent.context.undo()
    tokens = sum(edit.saved for edit in edits)
    told = f"Taken back: {pluralize(len(edits), 'edit')}, {token_count(tokens)} back."
    room.show(render.notice(told if edits else "There is nothing to undo."))


def _redo(room: Room, _rest: str) -> None:
    edits = room.chat.agent.context.redo()
    room.show(render.notice(f"Made again: {pluralize(len(edits), 'edit')}." if edits else "There is nothing to redo."))


def _edits(room: Room, _rest: str) -> None:
    made = _edits_now(room)
    room.show(render.edits(made) if made else render.notice("Nothing was taken out of this conversation."))


def _pin(room: Room, what: str) -> None:
    if not what:
        raise BadRequest("/pin HANDLE or words: what /recall finds first for them stays, whatever folds")
    context = room.chat.agent.context
    found = [] if _is_handle(what) else context.recall(what, limit=1)
    handle = found[0].handle if found else what
    context.pin(handle)
    room.show(render.notice(f"Pinned: {handle} stays."))


def _recall(room: Room, what: str) -> None:
    if not what:
        raise BadRequest("/recall WORDS searches all that was said and read; /recall HANDLE shows one text")
    context = room.chat.agent.context
    if _is_handle(what):
        room.show(render.page(context.read(what)))
        return
    found = context.recall(what)
    room.show(render.hits(found) if found else render.notice("Nothing of that was recorded."))


def _is_handle(what: str) -> bool:
    bare = what.removeprefix("#")
    return " " not in what and (bare.endswith((".txt", ".json")) or (len(bare) >= 8 and _hex(bare)))


def _hex(text: str) -> bool:
    return all(letter in "0123456789abcdef-" for letter in text)


# --- sessions ----------------------------------------------------------------------------------------------------


def _clear(room: Room, _rest: str) -> None:
    old = room.chat.session
    room.reopen(room.chat.setup, new_session(room.chat.setup.clock))
    room.show(render.notice(f"A new conversation. The old one is kept: /resume {old}"))


def _sessions(room: Room, _rest: str) -> None:
    setup = room.chat.setup
    found = sessions_of(setup.store, setup.project)
    room.show(render.sessions(found[:_LISTED]) if found else render.notice("None yet."))


def _resume(room: Room, name: str) -> None:
    setup = room.chat.setup
    if not name:
        _sessions(room, "")
        room.show(render.notice("/resume ID, or the beginning of one"))
        return
    room.reopen(setup, chosen(setup.store, setup.project, name).session)


def _export(room: Room, name: str) -> None:
    chat = room.chat
    path = chat.setup.root / (Path(name).expanduser() if name else f"chat-{chat.session}.md")
    try:
        with path.open("x", encoding="utf-8", errors="replace") as file:
            file.writelines(exported(chat))
    except FileExistsError:
        raise BadRequest(f"{path} is there already; /export NAME writes to another") from None
    except OSError as failed:
        raise StoreError(f"{path}: {failed.strerror}") from failed
    room.show(render.notice(f"Written: {path}"))


def exported(chat: Chat) -> Iterator[str]:
    """All that was said and done, as Markdown, nothing folded."""
    wire = WIRES[chat.setup.provider.wire]
    yield f"# {chat.session}\n"
    for message in recorded(chat):
        for block in wire.messages.split(message, wire.list_key):
            title = {"call": f"Call of {block.name}", "result": "Result"}.get(block.kind, block.role.capitalize())
            fence = "`" * max(3, _ticks(block.text) + 1)
            text = f"{fence}\n{block.text}\n{fence}" if block.kind in ("call", "result") else block.text
            yield f"\n## {title}\n\n{text}\n"


def _ticks(text: str) -> int:
    """The longest run of back ticks: the fence must be longer."""
    longest = run = 0
    for letter in text:
        run = run + 1 if letter == "`" else 0
        longest = max(longest, run)
    return longest


# --- how it works ------------------------------------------------------------------------------------------------


def _model(room: Room, name: str) -> None:
    if not name:
        room.show(render.notice(f"{room.chat.setup.provider.model}; /model NAME changes it", "cyan"))
        return
    room.reopen(room.provider(name), room.chat.session)
    room.show(render.notice(f"Now {name}. Its first request pays for the whole conversation: no cache is shared."))


def _policy(room: Room, name: str) -> None:
    setup = room.chat.setup
    if not name:
        told = ", ".join(PRESETS)
        room.show(render.notice(f"{setup.settings.preset}; there are {told}; /policy NAME changes it", "cyan"))
        return
    settings: Settings = replace(setup.settings, preset=preset(name).name)
    room.reopen(replace(setup, settings=settings), room.chat.session)
    room.show(render.notice(f"From now on by the policy {settings.preset}. What was taken out stays out."))


def _cost(room: Room, _rest: str) -> None:
    room.show(render.cost(room.chat.bill, room.chat.agent.context.health().hit_rate))


def _plan(room: Room, _rest: str) -> None:
    permits = room.chat.agent.permits
    permits.mode = "build" if permits.mode == "plan" else "plan"
    told = "Plan mode: nothing is changed." if permits.mode == "plan" else "Build mode: files may be changed."
    room.show(render.notice(told, "cyan"))


def _help(room: Room, _rest: str) -> None:
    cells = [(f"/{name} {one.takes}".strip(), one.about) for name, one in COMMANDS.items()]
    room.show(render.table(("", ""), [*cells, *_KEYS]))


def _exit(_room: Room, _rest: str) -> None:
    raise Leave


_KEYS = (
    ("", ""),
    ("Enter", "send; while the agent works, it hears you after its next step"),
    ("Alt-Enter, Ctrl-J", "a new line"),
    ("Esc", "stop the agent"),
    ("Shift-Tab", "plan mode on and off"),
    ("Up, Down", "what you said before"),
    ("Ctrl-D", "leave; ebb chat --continue goes on"),
)

COMMANDS: Mapping[str, Command] = {
    "context": Command(about="what fills the window", run=_context, looks=True),
    "compact": Command(about="fold old turns now; you see the note first", run=_compact, takes="[focus]"),
    "undo": Command(about="take the last edits back", run=_undo),
    "redo": Command(about="make them again", run=_redo),
    "edits": Command(about="what was taken out, by whom and why", run=_edits, looks=True),
    "pin": Command(about="keep a text whatever folds", run=_pin, takes="HANDLE|WORDS"),
    "recall": Command(about="search all that was recorded, or read one text", run=_recall, takes="WORDS|HANDLE"),
    "clear": Command(about="begin a new conversation", run=_clear),
    "sessions": Command(about="conversations of this project", run=_sessions, looks=True),
    "resume": Command(about="go on with one of them", run=_resume, takes="[ID]"),
    "export": Command(about="write the whole conversation to a file", run=_export, takes="[FILE]"),
    "model": Command(about="show or change the model", run=_model, takes="[NAME]"),
    "policy": Command(about="show or change what leaves when", run=_policy, takes="[NAME]"),
    "cost": Command(about="what was billed", run=_cost, looks=True),
    "plan": Command(about="look and plan, change nothing; again: build", run=_plan),
    "help": Command(about="this list", run=_help, looks=True),
    "exit": Command(about="leave", run=_exit),
}
_OTHER_NAMES = {"summarize": "compact", "quit": "exit", "new": "clear", "?": "help", "build": "plan"}
