"""Items become facts, each item once: `extend(ledger_of(a), b) == ledger_of([*a, *b])`, wherever the cut falls.

A call says what it means to do; its result says whether it did. So files, to-dos and commands are written down when the
result is there, and a call without one is pending.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from ebbtide.core.edit_binding import is_movable
from ebbtide.core.types import OURS, USER, Item
from ebbtide.facts.constraints import find_constraints
from ebbtide.facts.identifiers import name_cost, name_set
from ebbtide.facts.lines import strip_cd, to_one_line
from ebbtide.facts.model import (
    AGENTS,
    AssistantText,
    CommandFact,
    Constraint,
    Failure,
    FileAction,
    FileFact,
    LineRange,
    LineTokens,
    NameStats,
    PendingCall,
    RunningTask,
    SessionFacts,
    Todo,
    UserMessage,
)
from ebbtide.facts.outcome import exit_status, find_key_lines, is_failed_result, is_probe, program_name
from ebbtide.facts.sentences import split_sentences
from ebbtide.facts.tool_calls import fenced_actions, normalize_tool_name, read_call, read_todos

_RANGES = 4
"""Parts of a file that are remembered: enough to see where the work is."""
_BACKGROUND = re.compile(
    r"(?:running in (?:the )?background with ID:?|running with session ID|agentId:|"
    r"Background task started[^\n]{0,200}?:|shell_id>|task_id>)\s*(?P<name>[\w-]{1,40})",
    re.IGNORECASE,
)
_ENDED = re.compile(
    r"<status>(?:completed|killed|failed|stopped)|exited with code|process exited|successfully (?:killed|stopped)",
    re.IGNORECASE,
)
_CREATED = re.compile(r"Task #(?P<number>\d+) created")
_NUMBERED = re.compile(r"^[^\S\n]*(\d+)(?:→|\t|: )", re.MULTILINE)
_PLANNING = re.compile(r"plan mode is (?:still )?active|Entered plan mode", re.IGNORECASE)


_EMPTY = SessionFacts()


def collect_facts(items: Sequence[Item]) -> SessionFacts:
    return extend_facts(_EMPTY, items)


def extend_facts(facts: SessionFacts, items: Sequence[Item]) -> SessionFacts:
    """The ledger of what it knew and of these items, which follow."""
    book = FactCollector(facts)
    for item in items:
        book.add(item)
    return book.build()


class FactCollector:
    """The ledger while it is written."""

    def __init__(self, ledger: SessionFacts = _EMPTY) -> None:
        self.handles = list(ledger.handles)
        self.tokens = ledger.tokens
        self.words = list(ledger.user_messages)
        self.stated = list(ledger.constraints)
        self.files = dict(ledger.files)
        self.commands = dict(ledger.commands)
        self.troubles = list(ledger.failures)
        self.todos = dict(ledger.todos)
        self.tasks = dict(ledger.tasks)
        self.notes = list(ledger.assistant_texts)
        self.seen = dict(ledger.names)
        self.pending = dict(ledger.pending_calls)
        self.plan, self.mode = ledger.plan, ledger.mode
        self.counted = ledger.line_tokens if ledger.handles else LineTokens()

    def build(self) -> SessionFacts:
        """What is known now. The book may be written on: nothing of it is shared."""
        return SessionFacts(
            handles=tuple(self.handles),
            tokens=self.tokens,
            user_messages=tuple(self.words),
            constraints=tuple(self.stated),
            files=dict(self.files),
            commands=dict(self.commands),
            failures=tuple(self.troubles),
            todos=dict(self.todos),
            plan=self.plan,
            mode=self.mode,
            tasks=dict(self.tasks),
            assistant_texts=tuple(self.notes),
            names=dict(self.seen),
            pending_calls=dict(self.pending),
            line_tokens=self.counted,
        )

    def add(self, item: Item) -> None:
        order = len(self.handles)
        self.handles.append(item_handle(item))
        if item.source != OURS:
            self._read(item, order)
        self.tokens += item.tokens

    def _read(self, item: Item, order: int) -> None:
        if item.kind == "call":
            self.pending[item.call_id or item.id] = call = read_call(item, order)
            self._see(
                _spoken(item),
                order,
                by="assistant",
                path=call.file_actions[0].path if len(call.file_actions) == 1 else "",
            )
        elif item.kind == "result":
            self._result(item, order)
        elif item.kind == "text" and item.role == "assistant":
            self._answer(item, order)
        elif item.kind == "text" and item.role == "user":
            self._user(item, order)
        elif item.kind == "document":
            self._see(item.text, order)

    def _user(self, item: Item, order: int) -> None:
        if item.tier > USER:
            if _PLANNING.search(item.text[:2000]):
                self.mode = "plan"
            if not is_movable(item):  # a fold may stand where the client dropped it: it must not show its names
                self._see(item.text, order)
            return
        self.words.append(UserMessage(id=item.id, order=order, text=item.text))
        self.stated += [Constraint(order=order, text=line) for line in find_constraints(item.text)]
        self._see(item.text, order, by="user")

    def _answer(self, item: Item, order: int) -> None:
        for n in range(len(self.words) - 1, -1, -1):
            if self.words[n].is_answered:
                break
            self.words[n] = replace(self.words[n], is_answered=True)
        for act in fenced_actions(item.text):
            self._file(act, order, "")
        if item.text.strip():
            self.notes.append(AssistantText(order=order, text=item.text, sentences=tuple(split_sentences(item.text))))
        self._see(item.text, order, by="assistant")

    def _result(self, item: Item, order: int) -> None:
        call = self.pending.pop(item.call_id, None) or PendingCall(order=order, name=item.name)
        path = call.file_actions[0].path if len(call.file_actions) == 1 else ""
        self._see(item.text, order, path=path)
        bad = is_failed_result(item)
        if call.command:
            self._command(call, item, order, bad)
        if bad:
            self._trouble(call, item, order)
        else:
            self._done(call, item, order)
        self._task(call, item)

    def _done(self, call: PendingCall, item: Item, order: int) -> None:
        for act in call.file_actions:
            self._file(act, order, item.text)
        todos = read_todos(call)
        if todos is not None:
            self.todos = dict(todos)
        name = normalize_tool_name(call.name)
        if name == "exitplanmode":
            self.plan, self.mode = AssistantText(order=call.order, text=str(call.arguments.get("plan", ""))), ""
        elif name == "enterplanmode":
            self.mode = "plan"
        elif name in ("taskcreate", "taskupdate"):
            self._numbered_todo(call, item)
        self._mended(_key(call), order)

    def _numbered_todo(self, call: PendingCall, item: Item) -> None:
        """Claude Code's newer list: made one by one, named by the number in the result."""
        created = _CREATED.search(item.text[:500])
        name = created["number"] if created else str(call.arguments.get("taskId", ""))
        old = self.todos.get(f"#{name}")
        text = str(call.arguments.get("subject") or (old.text if old else ""))
        status = str(call.arguments.get("status") or (old.status if old else "pending"))
        if name and text:
            self.todos[f"#{name}"] = Todo(text=text, status=status, order=call.order)

    def _file(self, act: FileAction, order: int, shown: str) -> None:
        old = self.files.get(act.path) or FileFact(path=act.path)
        lines = act.line_range if act.line_range.first else _numbered(shown)
        ranges = (
            old.line_ranges
            if not lines.first
            else (*(one for one in old.line_ranges if one != lines), lines)[-_RANGES:]
        )
        text = act.text if act.text is not None else shown if act.verb == "read" else None
        digest = old.digest if act.verb == "read" and act.line_range.first else _digest(text)
        verb = act.verb
        if verb == "create" and old.last_touched >= 0 and old.deleted_at < old.last_touched:
            # Written over: the session knew the file before.
            verb = "change"
        fact = replace(old, line_ranges=ranges, digest=digest, touch_count=old.touch_count + 1)
        self.files.pop(act.path, None)
        self.files[act.path] = {
            "read": replace(fact, read_at=order),
            "create": replace(fact, created_at=order),
            "change": replace(fact, changed_at=order),
            "delete": replace(fact, deleted_at=order, line_ranges=(), digest=""),
        }[verb]

    def _command(self, call: PendingCall, item: Item, order: int, bad: bool) -> None:
        text = to_one_line(strip_cd(call.command), 300)
        old = self.commands.pop(text, None)
        self.commands[text] = CommandFact(
            text=text,
            order=order,
            status=exit_status(item.text),
            has_failed=bad,
            key_lines=find_key_lines(item.text),
            run_count=old.run_count + 1 if old else 1,
        )

    def _trouble(self, call: PendingCall, item: Item, order: int) -> None:
        if call.command and is_probe(call.command):
            return
        lines = find_key_lines(item.text)
        about = (
            to_one_line(strip_cd(call.command), 120)
            if call.command
            else " ".join((call.name, *(a.path for a in call.file_actions[:1])))
        )
        self.troubles.append(
            Failure(
                about=about, line=lines[0] if lines else "", order=order, key=_key(call), is_command=bool(call.command)
            )
        )

    def _mended(self, key: str, order: int) -> None:
        for n, trouble in enumerate(self.troubles):
            if trouble.resolved_at >= 0 or trouble.key != key or not key:
                continue
            since = [
                f.path for f in self.files.values() if max(f.changed_at, f.created_at, f.deleted_at) > trouble.order
            ]
            self.troubles[n] = replace(trouble, resolved_at=order, changed_files=tuple(since[-3:]))

    def _task(self, call: PendingCall, item: Item) -> None:
        head = item.text[:1000]
        if normalize_tool_name(call.name) in (
            "bashoutput",
            "taskoutput",
            "writestdin",
            "killshell",
            "killbash",
            "taskstop",
        ):
            keys = ("bash_id", "task_id", "shell_id", "session_id")
            name = next((str(call.arguments[key]) for key in keys if call.arguments.get(key)), "")
            if _ENDED.search(head) or normalize_tool_name(call.name).startswith(("kill", "taskstop")):
                self.tasks.pop(name, None)
            return
        found = _BACKGROUND.search(head) if call.command or call.name in AGENTS else None
        if found and (call.command or call.arguments.get("run_in_background")):
            what = strip_cd(call.command) or str(call.arguments.get("description") or call.name)
            self.tasks[found["name"]] = RunningTask(
                kind="agent" if call.name in AGENTS else "task",
                handle=found["name"],
                description=to_one_line(what, 120),
                order=call.order,
            )

    def _see(self, text: str, order: int, *, by: str = "", path: str = "") -> None:
        seen, now = self.seen, self.tokens
        spoken, said = by == "assistant", by == "user"
        for name in name_set(text):
            old = seen.get(name)
            if old is None:
                seen[name] = NameStats(
                    1, int(spoken), int(said), now, now if spoken else -1, order, path, name_cost(name)
                )
                continue
            items, was_spoken, was_said, _, used, _, where, parts = old
            used = now if spoken else used
            seen[name] = NameStats(
                items + 1, was_spoken + spoken, was_said + said, now, used, order, path or where, parts
            )


def item_handle(item: Item) -> str:
    """The short form of an item's id: the first eight digits of its hash."""
    parts = item.id.split("-")
    return (parts[1] if len(parts) > 1 else parts[0])[:8]


def _spoken(call: Item) -> str:
    """The words in a call's arguments. In JSON an escape would be read as part of the name that follows it."""
    try:
        value = json.loads(call.text)
    except (ValueError, RecursionError):
        return call.text
    return "\n".join(islice(_leaves(value), 10_000))


def _leaves(value: object) -> Iterator[str]:
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            stack += reversed(one.values())
        elif isinstance(one, list):
            stack += reversed(one)
        elif one is not None:
            yield str(one)


def _digest(text: str | None) -> str:
    return "" if text is None else hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _numbered(shown: str) -> LineRange:
    """The lines that a numbered listing begins and ends with."""
    first = _NUMBERED.search(shown[:2000])
    if first is None:
        return LineRange()
    numbers = _NUMBERED.findall(shown[-2000:])
    last = int(numbers[-1]) if numbers else 0
    return LineRange(first=int(first[1]), last=last) if last >= int(first[1]) else LineRange()


def _key(call: PendingCall) -> str:
    """What has to go well for an earlier failure to be over: the same program, or the same tool on the same file."""
    if call.command:
        return program_name(call.command)
    return " ".join((normalize_tool_name(call.name), *(act.path for act in call.file_actions[:1])))
