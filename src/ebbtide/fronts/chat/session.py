"""Opens a chat session, new or resumed: reads its log and builds the agent.

To change the model or the policy, open the session again. Nothing is carried over in memory.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ebbtide.assembly import Conversation
from ebbtide.config import Access, Settings, environment_without_keys
from ebbtide.core.errors import BadRequest
from ebbtide.core.types import Edit, Usage
from ebbtide.core.view import View
from ebbtide.fronts.chat.chat_records import (
    ChatRecords,
    RecordWriter,
    SessionStart,
    read_chat_records,
    recorded_messages,
    restore_conversation,
    without_reply,
)
from ebbtide.fronts.chat.error_messages import explain_error
from ebbtide.fronts.chat.loop import MAX_REQUESTS, Agent, final_reply
from ebbtide.fronts.chat.permission import AskUser, Permissions, Rules
from ebbtide.fronts.chat.prompts import SUBAGENT_PROMPT, prompt_for
from ebbtide.fronts.chat.providers import Interruption, Provider, ToolCall, define_tools, wait_for_response
from ebbtide.fronts.chat.tools import SUBAGENT_TOOLS, TOOLS, Tool, ToolError, ToolResult, ToolState
from ebbtide.fronts.chat.tools.bash import stop_all
from ebbtide.fronts.chat.tools.tasks import format_todos
from ebbtide.money import UsageBill, bill_records
from ebbtide.runtime.context import Context
from ebbtide.runtime.report import Listener
from ebbtide.store import SessionInfo, Store
from ebbtide.window_usage import WindowUsage, measure_window
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader
from ebbtide.workspace import Sources, Surroundings, look_around

MAX_REPLY = 8_192
"""Tokens of a reply in a large window."""
_REHYDRATE_WINDOW = 100_000
"""Tokens. In a smaller window files are not shown again after a compaction: they may take 25,000."""
_OWN_SESSION = re.compile(r"\d{8}-[\w-]+")
"""The format of `new_session_id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Everything a session is opened with, except its id."""

    provider: Provider
    settings: Settings
    access: Access
    store: Store
    project: str
    rules: Rules
    ask: AskUser
    on_event: Listener
    url: str = ""
    """Of the user's own server. The session remembers it."""
    system_prompt: str = ""
    """Replaces the prompt for the model's family."""
    tools: tuple[Tool, ...] = TOOLS
    max_reply: int = MAX_REPLY
    """Tokens; at most a quarter of the window."""
    max_requests: int = MAX_REQUESTS
    clock: Callable[[], float] = time.time

    @property
    def root(self) -> Path:
        """The workspace."""
        return self.rules.root

    @property
    def window(self) -> int:
        return self.settings.window_for(self.provider.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One open session."""

    session: str
    setup: Setup
    agent: Agent
    records: ChatRecords
    bill: UsageBill
    is_waiting: bool
    """Whether the program ended before the model answered."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Instruction files that were not read, each with the reason."""

    def messages(self) -> Sequence[Mapping[str, object]]:
        """Read every message of the conversation from the log, with the newest reply."""
        log = self.setup.store.peek(self.session, project=self.setup.project)
        return recorded_messages(log.read().records)

    def last_request(self) -> dict[str, object]:
        """Return the last request as it was before any edit. Compaction by hand works on it."""
        wire = self.setup.provider.wire
        return self.agent.conversation.frame | {WIRES[wire].list_key: without_reply(self.messages(), wire)}

    def measure_window(self, usage: Usage | None, edits: Sequence[Edit]) -> WindowUsage:
        """Measure what fills the window. `usage` is that of the newest request, None if there was none yet."""
        policy, wire = self.setup.settings.policy(), WIRES[self.setup.provider.wire]
        body = self.agent.conversation.frame | {wire.list_key: self.messages()}
        request = Reader(policy.estimator, wire=wire).read(body)
        billed = usage.total if usage is not None else None
        view = View.of(request.items, edits)
        return measure_window(policy, request, view, size=self.agent.context.window, billed=billed)


def open_chat(setup: Setup, session: str) -> Chat:
    log = setup.store.open(session, project=setup.project, now=setup.clock())
    log_records = log.read().records
    records, bill = read_chat_records(log_records), bill_records(log_records, setup.provider.model)
    _check_resumable(setup, session, records)
    surroundings, start = None, records.start
    if start is None or start.model != setup.provider.model:
        surroundings = _look_around(setup)
        start = _new_start(setup, surroundings)
    writer, state = RecordWriter(log, setup.clock), ToolState(root=setup.root, environ=environment_without_keys())
    state.known_files.update(records.known_files)
    state.todos[:] = [dict(todo) for todo in records.todos]
    make = partial(Context, store=setup.store, session=session, project=setup.project, clock=setup.clock)
    context = _open_context(make, setup, state, bill)
    agent = _make_agent(setup, context, state, start.system, setup.tools, _restore_permissions(setup, records, writer))
    agent.on_usage = partial(bill.add, setup.provider.model)
    agent.on_result = _result_writer(state, writer)
    agent.on_first_turn = partial(writer.write_start, start) if surroundings is not None else None
    state.run_subagent = partial(_run_subagent, setup, agent, bill)
    is_waiting = restore_conversation(agent.conversation, records, setup.provider.wire)
    if surroundings is not None and not records.messages:
        surroundings.enter(agent.conversation)
    return Chat(
        session=session,
        setup=setup,
        agent=agent,
        records=records,
        bill=bill,
        is_waiting=is_waiting,
        skipped=surroundings.skipped if surroundings is not None else (),
    )


def _check_resumable(setup: Setup, session: str, records: ChatRecords) -> None:
    start, provider = records.start, setup.provider
    if start is None and records.messages:
        raise BadRequest(f"{session} is a session of another program; to look at it: ebb show {session}")
    if start is not None and start.wire != provider.wire:
        reason = f"this session uses the API format {start.wire}, and {provider.model} needs {provider.wire}"
        raise BadRequest(f"{reason}; start a new session with /clear")


def new_session_id(clock: Callable[[], float] = time.time) -> str:
    """Ids sort by time; milliseconds keep two of the same second apart."""
    now = clock()
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(now)) + f"-{int(now * 1000) % 1000:03d}"


def list_sessions(store: Store, project: str) -> list[SessionInfo]:
    """Chat sessions of this project, newest first. Sub-agents and other programs use the same store."""
    return [info for info in store.list_sessions() if info.project == project and _OWN_SESSION.fullmatch(info.session)]


def find_session(store: Store, project: str, prefix: str) -> SessionInfo:
    """Find a session of this project by its id or the start of it; the newest one if `prefix` is empty."""
    sessions = list_sessions(store, project)
    if not sessions:
        raise BadRequest("there is no session of this project yet")
    matches = [info for info in sessions if info.session.startswith(prefix)]
    exact = [info for info in matches if info.session == prefix]
    if not prefix or exact:
        return (exact or sessions)[0]
    if len(matches) != 1:
        ids = ", ".join(info.session for info in (matches or sessions)[:8])
        reason = "matches several sessions" if matches else "is not a session of this project; there are"
        raise BadRequest(f"{prefix!r} {reason}: {ids}")
    return matches[0]


# --- parts -------------------------------------------------------------------------------------------------------


def _look_around(setup: Setup) -> Surroundings:
    sources = Sources(cwd=setup.root, home=setup.access.home, config_dir=setup.access.config)
    return look_around(sources, model=setup.provider.model, trusted=setup.rules.is_trusted)


def _new_start(setup: Setup, surroundings: Surroundings) -> SessionStart:
    system = surroundings.system(setup.system_prompt or prompt_for(setup.provider.model))
    # Do not write an address with a password to the log.
    url = "" if "@" in setup.url else setup.url
    return SessionStart(model=setup.provider.model, wire=setup.provider.wire, system=system, url=url)


def _open_context(make: Callable[..., Context], setup: Setup, state: ToolState, bill: UsageBill) -> Context:
    """Call `make` with the options that the contexts of an agent and of its sub-agents have in common."""
    provider = setup.provider

    def summarize(request: dict[str, object]) -> object:
        # If the user interrupts, the engine compacts with facts only.
        response = wait_for_response(partial(provider.stream, request), state.stop)
        bill.add(provider.model, provider.read(response).usage)
        return response

    return make(
        model=provider.model,
        window=setup.window,
        policy=setup.settings.policy(),
        wire=provider.wire,
        marks=True,
        summarizer=summarize,
        workspace=setup.root if setup.window >= _REHYDRATE_WINDOW else None,
        live={"todo": lambda: format_todos(state.todos)},
        recall="tool" if setup.tools else "off",
        on_event=setup.on_event,
    )


def _make_agent(
    setup: Setup,
    context: Context,
    state: ToolState,
    system: Sequence[Mapping[str, object]],
    tools: tuple[Tool, ...],
    permissions: Permissions,
) -> Agent:
    state.recall, provider = context.recall_answer, setup.provider
    conversation = Conversation(
        model=provider.model,
        system=system,
        tools=define_tools(tools, context.recall_tools(provider.wire), provider.wire) if tools else (),
        max_tokens=min(setup.max_reply, setup.window // 4),
        wire=provider.wire,
    )
    return Agent(
        provider=provider,
        context=context,
        conversation=conversation,
        state=state,
        permissions=permissions,
        tools={tool.name: tool for tool in tools},
        max_requests=setup.max_requests,
    )


def _restore_permissions(setup: Setup, records: ChatRecords, writer: RecordWriter) -> Permissions:
    rules = setup.rules
    for action in records.granted:
        rules = rules.grant(action)
    return Permissions(rules=rules, ask=setup.ask, on_grant=writer.write_grant)


def _result_writer(state: ToolState, writer: RecordWriter) -> Callable[[ToolCall, ToolResult], None]:
    """Write each tool result to the log, with what it changed: known files and the to-do list."""
    written: dict[str, int | None] = dict(state.known_files)

    def write(call: ToolCall, result: ToolResult) -> None:
        changes = {path: at for path, at in state.known_files.items() if written.get(path, -1) != at}
        written.update(changes)
        writer.write_result(call.id, result, changes, state.todos if call.name == "todo" else None)

    return write


def _run_subagent(setup: Setup, parent: Agent, bill: UsageBill, title: str, prompt: str) -> str:
    """Run a task in a new context and return the final reply. Permissions and the stop flag are the parent's."""
    state = ToolState(root=parent.state.root, environ=parent.state.environ, stop=parent.state.stop)
    name = "-".join(title.lower().split())[:40] or "task"
    make = partial(parent.context.child, f"{name}-{new_session_id(setup.clock)}")
    context = _open_context(make, setup, state, bill)
    system = _look_around(setup).system((setup.system_prompt or prompt_for(setup.provider.model)) + SUBAGENT_PROMPT)
    agent = _make_agent(setup, context, state, system, SUBAGENT_TOOLS, parent.permissions)
    agent.on_usage = parent.on_usage
    try:
        reply = final_reply(agent.run_turn(prompt))
    except Interruption:
        raise
    except Exception as error:
        raise ToolError(f"the sub-agent failed: {explain_error(error)}") from error
    finally:
        stop_all(state)
    context.finish(reply)
    return reply
