"""Collects the facts of a session from its items.

A call says what it means to do; its result says whether it did. So files, to-dos and commands are recorded when the
result is read, and a call without a result is pending.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import islice
from operator import is_
from typing import Any

from ebbtide.core.edit_layout import is_movable
from ebbtide.core.types import OURS, USER, Item
from ebbtide.facts.model import (
    AGENTS,
    CommandFact,
    Failure,
    FileAction,
    FileFact,
    LineRange,
    NameStats,
    PendingCall,
    RunningTask,
    SessionFacts,
    TextFact,
    Todo,
    strip_cd,
    to_one_line,
)
from ebbtide.facts.names import name_cost, name_set
from ebbtide.facts.render import find_constraints
from ebbtide.facts.tool_calls import (
    exit_status,
    fenced_actions,
    find_key_lines,
    is_failed_result,
    is_probe,
    normalize_tool_name,
    program_name,
    read_call,
    read_todos,
)

_MAX_RANGES = 4
"""Parts of a file to remember: enough to see where the work is."""
_TASK_STARTED = re.compile(
    r"(?:running in (?:the )?background with ID:?|running with session ID|agentId:|"
    r"Background task started[^\n]{0,200}?:|shell_id>|task_id>)\s*(?P<name>[\w-]{1,40})",
    re.IGNORECASE,
)
_TASK_ENDED = re.compile(
    r"<status>(?:completed|killed|failed|stopped)|exited with code|process exited|successfully (?:killed|stopped)",
    re.IGNORECASE,
)
_TODO_CREATED = re.compile(r"Task #(?P<number>\d+) created")
_LINE_NUMBER = re.compile(r"^[^\S\n]*(\d+)(?:→|\t|: )", re.MULTILINE)
_PLAN_MODE = re.compile(r"plan mode is (?:still )?active|Entered plan mode", re.IGNORECASE)
_TASK_CONTROLS = ("bashoutput", "taskoutput", "writestdin", "killshell", "killbash", "taskstop")


CollectFacts = Callable[[Sequence[Item]], SessionFacts]


def collect_facts(items: Sequence[Item]) -> SessionFacts:
    return FactCollector(items).build()


class FactsMemory:
    """Collects the facts of a session's items, and reads only the items that the longest collection so far lacks.

    Each compaction covers everything that the one before it covered, so without this it would read it all again.
    """

    def __init__(self) -> None:
        self._items: Sequence[Item] = ()
        self._collector = FactCollector()

    def collect(self, items: Sequence[Item]) -> SessionFacts:
        known = self._items
        if len(items) < len(known):
            return collect_facts(items)
        collector = self._collector if all(map(is_, known, items)) else FactCollector()
        self._items, self._collector = (), FactCollector()  # in case reading fails half-way
        collector.extend(items[len(collector.handles) :])
        self._items, self._collector = items, collector
        return collector.build()


class FactCollector:
    """Facts while items are added: the fields of `SessionFacts`, as lists and dicts."""

    def __init__(self, items: Sequence[Item] = ()) -> None:
        self.handles, self.tokens = list[str](), 0
        self.user_messages, self.assistant_texts = list[TextFact](), list[TextFact]()
        self.constraints, self.failures = list[TextFact](), list[Failure]()
        self.files, self.commands, self.todos = dict[str, FileFact](), dict[str, CommandFact](), dict[str, Todo]()
        self.plan: TextFact | None = None
        self.mode = ""
        self.tasks, self.pending_calls = dict[str, RunningTask](), dict[str, PendingCall]()
        self.names, self.name_costs = dict[str, NameStats](), dict[str, int]()
        self.extend(items)

    def extend(self, items: Sequence[Item]) -> None:
        for item in items:
            self.add(item)

    def build(self) -> SessionFacts:
        """Return what is known so far. Later items do not change it."""
        return SessionFacts(**{field.name: _frozen(getattr(self, field.name)) for field in fields(SessionFacts)})

    def add(self, item: Item) -> None:
        order = len(self.handles)
        self.handles.append(item_handle(item))
        if item.source != OURS:
            self._read(item, order)
        self.tokens += item.tokens

    def _read(self, item: Item, order: int) -> None:
        if item.kind == "call":
            self.pending_calls[item.call_id or item.id] = call = read_call(item, order)
            self._add_names(_argument_text(item), order, role="assistant", path=_only_path(call))
        elif item.kind == "result":
            self._read_result(item, order)
        elif item.kind == "text" and item.role == "assistant":
            self._read_assistant_text(item, order)
        elif item.kind == "text" and item.role == "user":
            self._read_user_text(item, order)
        elif item.kind == "document":
            self._add_names(item.text, order)

    def _read_user_text(self, item: Item, order: int) -> None:
        if item.trust > USER:
            if _PLAN_MODE.search(item.text[:2000]):
                self.mode = "plan"
            # The client may drop a movable reminder while the compaction stays: its names must not be shown then.
            if not is_movable(item):
                self._add_names(item.text, order)
            return
        self.user_messages.append(TextFact(order=order, text=item.text))
        self.constraints += [TextFact(order=order, text=line) for line in find_constraints(item.text)]
        self._add_names(item.text, order, role="user")

    def _read_assistant_text(self, item: Item, order: int) -> None:
        for action in fenced_actions(item.text):
            self._record_file(action, order, "")
        if item.text.strip():
            self.assistant_texts.append(TextFact(order=order, text=item.text))
        self._add_names(item.text, order, role="assistant")

    def _read_result(self, item: Item, order: int) -> None:
        call = self.pending_calls.pop(item.call_id, None) or PendingCall(order=order, name=item.name)
        self._add_names(item.text, order, path=_only_path(call))
        has_failed = is_failed_result(item)
        if call.command:
            self._record_command(call, item, order, has_failed)
        if has_failed:
            self._record_failure(call, item, order)
        else:
            self._record_success(call, item, order)
        self._record_task(call, item)

    def _record_success(self, call: PendingCall, item: Item, order: int) -> None:
        for action in call.file_actions:
            self._record_file(action, order, item.text)
        todos = read_todos(call)
        if todos is not None:
            self.todos = todos
        name = normalize_tool_name(call.name)
        if name == "exitplanmode":
            self.plan, self.mode = TextFact(order=call.order, text=str(call.arguments.get("plan", ""))), ""
        elif name == "enterplanmode":
            self.mode = "plan"
        elif name in ("taskcreate", "taskupdate"):
            self._record_numbered_todo(call, item)
        self._resolve_failures(_failure_key(call), order)

    def _record_numbered_todo(self, call: PendingCall, item: Item) -> None:
        """Claude Code's newer list: to-dos are created one by one, and the result gives each its number."""
        created = _TODO_CREATED.search(item.text[:500])
        number = created["number"] if created else str(call.arguments.get("taskId", ""))
        old = self.todos.get(f"#{number}")
        text = str(call.arguments.get("subject") or (old.text if old else ""))
        status = str(call.arguments.get("status") or (old.status if old else "pending"))
        if number and text:
            self.todos[f"#{number}"] = Todo(text=text, status=status)

    def _record_file(self, action: FileAction, order: int, output: str) -> None:
        old = self.files.pop(action.path, None) or FileFact(path=action.path)
        lines = action.line_range if action.line_range.first else _listed_range(output)
        ranges = old.line_ranges
        if lines.first:
            ranges = (*(old_lines for old_lines in ranges if old_lines != lines), lines)[-_MAX_RANGES:]
        is_overwritten = action.verb == "create" and old.last_touched >= 0 and old.deleted_at < old.last_touched
        verb = "change" if is_overwritten else action.verb
        fact = replace(old, line_ranges=ranges, touch_count=old.touch_count + 1)
        self.files[action.path] = {
            "read": replace(fact, read_at=order),
            "create": replace(fact, created_at=order),
            "change": replace(fact, changed_at=order),
            "delete": replace(fact, deleted_at=order, line_ranges=()),
        }[verb]

    def _record_command(self, call: PendingCall, item: Item, order: int, has_failed: bool) -> None:
        text = to_one_line(strip_cd(call.command), 300)
        old = self.commands.pop(text, None)
        self.commands[text] = CommandFact(
            text=text,
            order=order,
            status=exit_status(item.text),
            has_failed=has_failed,
            key_lines=find_key_lines(item.text),
            run_count=old.run_count + 1 if old else 1,
        )

    def _record_failure(self, call: PendingCall, item: Item, order: int) -> None:
        if call.command and is_probe(call.command):
            return
        about = " ".join((call.name, *(action.path for action in call.file_actions[:1])))
        if call.command:
            about = to_one_line(strip_cd(call.command), 120)
        line = next(iter(find_key_lines(item.text)), "")
        key = _failure_key(call)
        self.failures.append(Failure(about=about, line=line, order=order, key=key, is_command=bool(call.command)))

    def _resolve_failures(self, key: str, order: int) -> None:
        for n, failure in enumerate(self.failures):
            if failure.resolved_at >= 0 or failure.key != key or not key:
                continue
            changes = (
                fact.path
                for fact in self.files.values()
                if max(fact.changed_at, fact.created_at, fact.deleted_at) > failure.order
            )
            self.failures[n] = replace(failure, resolved_at=order, changed_files=tuple(changes)[-3:])

    def _record_task(self, call: PendingCall, item: Item) -> None:
        head = item.text[:1000]
        tool = normalize_tool_name(call.name)
        if tool in _TASK_CONTROLS:
            keys = ("bash_id", "task_id", "shell_id", "session_id")
            handle = next((str(call.arguments[key]) for key in keys if call.arguments.get(key)), "")
            if _TASK_ENDED.search(head) or tool.startswith(("kill", "taskstop")):
                self.tasks.pop(handle, None)
            return
        started = _TASK_STARTED.search(head) if call.command or call.name in AGENTS else None
        if started and (call.command or call.arguments.get("run_in_background")):
            description = strip_cd(call.command) or str(call.arguments.get("description") or call.name)
            self.tasks[started["name"]] = RunningTask(
                kind="agent" if call.name in AGENTS else "task",
                handle=started["name"],
                description=to_one_line(description, 120),
                order=call.order,
            )

    def _add_names(self, text: str, order: int, *, role: str = "", path: str = "") -> None:
        now, by_assistant, by_user = self.tokens, role == "assistant", role == "user"
        new = NameStats(1, int(by_assistant), int(by_user), now, now if by_assistant else -1, order, path)
        for name in name_set(text):
            old = self.names.get(name)
            if old is None:
                self.names[name] = new
                self.name_costs[name] = name_cost(name)
                continue
            self.names[name] = NameStats(
                old.item_count + 1,
                old.assistant_count + by_assistant,
                old.user_count + by_user,
                now,
                now if by_assistant else old.last_use,
                order,
                path or old.path,
            )


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else {**value} if isinstance(value, dict) else value


def item_handle(item: Item) -> str:
    """The short form of an item's id: the first eight digits of its hash."""
    parts = item.id.split("-")
    return (parts[1] if len(parts) > 1 else parts[0])[:8]


def _only_path(call: PendingCall) -> str:
    return call.file_actions[0].path if len(call.file_actions) == 1 else ""


def _argument_text(call: Item) -> str:
    """The values in a call's arguments. Read as JSON, or an escape would join the name that follows it."""
    try:
        arguments = json.loads(call.text)
    except (ValueError, RecursionError):
        return call.text
    return "\n".join(islice(_leaf_texts(arguments), 10_000))


def _leaf_texts(value: object) -> Iterator[str]:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack += reversed(node.values())
        elif isinstance(node, list):
            stack += reversed(node)
        elif node is not None:
            yield str(node)


def _listed_range(output: str) -> LineRange:
    """The first and last line number of a numbered listing."""
    first = _LINE_NUMBER.search(output[:2000])
    if first is None:
        return LineRange()
    numbers = _LINE_NUMBER.findall(output[-2000:])
    last = int(numbers[-1]) if numbers else 0
    return LineRange(first=int(first[1]), last=last) if last >= int(first[1]) else LineRange()


def _failure_key(call: PendingCall) -> str:
    """What must succeed for an earlier failure to be over: the same program, or the same tool on the same file."""
    if call.command:
        return program_name(call.command)
    return " ".join((normalize_tool_name(call.name), *(action.path for action in call.file_actions[:1])))
