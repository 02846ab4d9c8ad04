"""From settings and a session's name to an agent that can work. Begun or resumed is the same act: the log tells which.

Changing the model or the policy is opening the session again. Nothing is carried over in memory.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypedDict

from ebbtide.assembly import Conversation
from ebbtide.compaction.rehydrate import Source
from ebbtide.config import Access, Settings, environment_without_keys
from ebbtide.core.errors import BadRequest
from ebbtide.fronts.chat.error_messages import told
from ebbtide.fronts.chat.loop import STEPS, Agent, final_words
from ebbtide.fronts.chat.notebook import Begun, Notebook, Scribe, read_notebook, retell
from ebbtide.fronts.chat.permission import Ask, Permits, Rules
from ebbtide.fronts.chat.prompts import DELEGATED, prompt_for
from ebbtide.fronts.chat.providers import Call, Interrupted, Provider, complete, define, watched
from ebbtide.fronts.chat.tools import ALONE, TOOLS, Desk, Outcome, Refused, Tool
from ebbtide.fronts.chat.tools.bash import stop_all
from ebbtide.fronts.chat.tools.todo import listed
from ebbtide.money import UsageBill, bill_records
from ebbtide.policy import Policy
from ebbtide.runtime.context import Context
from ebbtide.runtime.report import Listener
from ebbtide.store import SessionInfo, Store
from ebbtide.workspace import Sources, Surroundings, look_around

REPLY = 8_192
"""Tokens that a reply may have where the window is large."""
_ROOMY = 100_000
"""Tokens of window from which files are shown again after a fold: they may take 25,000."""

_OURS = re.compile(r"\d{8}-[\w-]+")
"""As `new_session` names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that a session is opened with, but for its name."""

    provider: Provider
    settings: Settings
    access: Access
    store: Store
    root: Path
    project: str
    rules: Rules
    ask: Ask
    listen: Listener
    window: int
    is_trusted: bool = False
    """Whether git may run in this folder: see `trust`."""
    url: str = ""
    """Of the server, where it was named: the session remembers it."""
    prompt: str = ""
    """In place of the one for the model's family."""
    tools: tuple[Tool, ...] = TOOLS
    reply: int = REPLY
    """Tokens that a reply may have, and never more than a quarter of the window."""
    steps: int = STEPS
    clock: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One session, open."""

    session: str
    setup: Setup
    agent: Agent
    notebook: Notebook
    bill: UsageBill
    frame: Mapping[str, object]
    """What stands around the messages in every request: model, system prompt, tools."""
    waiting: bool
    """Whether the model owes an answer: the program ended before it came."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Instruction files that were not read, each with the reason."""


def open_chat(setup: Setup, session: str) -> Chat:
    log = setup.store.open(session, project=setup.project, now=setup.clock())
    records = log.read().records
    notebook, bill = read_notebook(records), bill_records(records, setup.provider.model)
    scribe = Scribe(log, setup.clock)
    fresh = notebook.begun is None or notebook.begun.model != setup.provider.model
    if notebook.begun is None and notebook.messages:
        raise BadRequest(f"{session} is another program's session; ebb show looks at it")
    if notebook.begun is not None and notebook.begun.wire != setup.provider.wire:
        why = f"this session was begun over {notebook.begun.wire}, and {setup.provider.model} is spoken to over"
        raise BadRequest(f"{why} {setup.provider.wire}; begin a new one with /clear")
    around = _around(setup) if fresh else None
    begun = _begun(setup, around) if around is not None else notebook.begun
    assert begun is not None, "one of the two"
    desk = _desk(setup, notebook)
    context = _context(setup, session, desk, bill)
    talk = _conversation(setup, context, begun.system, setup.tools)
    waiting = retell(talk, notebook)
    if around is not None and not notebook.messages:
        around.enter(talk)
    agent = _agent(setup, context, talk, desk, scribe, notebook, bill)
    agent.opening = partial(scribe.begun, begun) if fresh else None
    skipped = around.skipped if around is not None else ()
    return Chat(
        session=session,
        setup=setup,
        agent=agent,
        notebook=notebook,
        bill=bill,
        frame=_frame(setup, context, begun),
        waiting=waiting,
        skipped=skipped,
    )


def with_provider(setup: Setup, provider: Provider) -> Setup:
    return replace(setup, provider=provider, window=setup.settings.window_for(provider.model))


def new_session(clock: Callable[[], float] = time.time) -> str:
    """Sorts by time, and two in one second do not meet."""
    now = clock()
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(now)) + f"-{int(now * 1000) % 1000:03d}"


def sessions_of(store: Store, project: str) -> list[SessionInfo]:
    """Those of this agent, the newest first: other programs and sub-agents keep theirs in the same place."""
    return [one for one in store.list_sessions() if one.project == project and _OURS.fullmatch(one.session)]


def chosen(store: Store, project: str, name: str) -> SessionInfo:
    """A session of this project by its id or the beginning of one; without a name the newest."""
    found = sessions_of(store, project)
    if not found:
        raise BadRequest("there is no session of this project yet")
    matching = [one for one in found if one.session.startswith(name)]
    exact = [one for one in matching if one.session == name]
    if not name or exact:
        return (exact or found)[0]
    if len(matching) != 1:
        known = ", ".join(one.session for one in (matching or found)[:8])
        why = "may mean several" if matching else "is no session of this project"
        raise BadRequest(f"{name!r} {why}: {known}")
    return matching[0]


# --- the parts ---------------------------------------------------------------------------------------------------


def _around(setup: Setup) -> Surroundings:
    sources = Sources(cwd=setup.root, home=setup.access.home, config_dir=setup.access.config)
    return look_around(sources, model=setup.provider.model, trusted=setup.is_trusted)


def _begun(setup: Setup, around: Surroundings) -> Begun:
    system = around.system(setup.prompt or prompt_for(setup.provider.model))
    # An address with a password in it is not written down.
    url = "" if "@" in setup.url else setup.url
    return Begun(model=setup.provider.model, wire=setup.provider.wire, system=system, url=url)


def _desk(setup: Setup, notebook: Notebook) -> Desk:
    desk = Desk(root=setup.root, environ=environment_without_keys())
    desk.seen.update(notebook.seen)
    desk.todos[:] = [dict(one) for one in notebook.todos]
    return desk


def _context(setup: Setup, session: str, desk: Desk, bill: UsageBill) -> Context:
    context = Context(
        store=setup.store, session=session, project=setup.project, clock=setup.clock, **_engine(setup, desk, bill)
    )
    desk.recall = context.recall_answer
    return context


class _Engine(TypedDict):
    """What a context and those of its sub-agents have in common."""

    model: str
    window: int
    policy: Policy
    wire: str
    marks: bool
    summarizer: Callable[[dict[str, object]], object]
    workspace: Path | None
    live: Mapping[str, Source]
    recall: Literal["tool", "off"]
    on_event: Listener


def _engine(setup: Setup, desk: Desk, bill: UsageBill) -> _Engine:
    provider = setup.provider

    def summarize(request: dict[str, object]) -> object:
        # Who will not wait for it gets the ledger's facts.
        response = complete(watched(partial(provider.stream, request), desk.stop))
        bill.add(provider.model, provider.read(response).usage)
        return response

    return {
        "model": provider.model,
        "window": setup.window,
        "policy": setup.settings.policy(),
        "wire": provider.wire,
        "marks": True,
        "summarizer": summarize,
        "workspace": setup.root if setup.window >= _ROOMY else None,
        "live": {"todo": lambda: listed(desk.todos)},
        "recall": "tool" if setup.tools else "off",
        "on_event": setup.listen,
    }


def _conversation(
    setup: Setup, context: Context, system: Sequence[Mapping[str, object]], tools: tuple[Tool, ...]
) -> Conversation:
    provider = setup.provider
    defined = [*define(tools, provider.wire), *(context.recall_tools(provider.wire) if tools else ())]
    return Conversation(
        model=provider.model,
        system=system,
        tools=defined,
        max_tokens=min(setup.reply, setup.window // 4),
        wire=provider.wire,
    )


def _agent(
    setup: Setup,
    context: Context,
    talk: Conversation,
    desk: Desk,
    scribe: Scribe,
    notebook: Notebook,
    bill: UsageBill,
) -> Agent:
    rules = setup.rules
    for need in notebook.allowed:
        rules = rules.grant(need)
    permits = Permits(rules=rules, ask=setup.ask, remembered=scribe.allowed)

    def keep(call: Call, outcome: Outcome) -> None:
        seen = {path: at for path, at in desk.seen.items() if known.get(path, -1) != at}
        known.update(seen)
        scribe.result(call.id, outcome, seen, desk.todos if call.name == "todo" else None)

    known: dict[str, int | None] = dict(desk.seen)
    agent = Agent(
        provider=setup.provider,
        context=context,
        talk=talk,
        desk=desk,
        permits=permits,
        tools=_named(setup.tools),
        steps=setup.steps,
        keep=keep,
        billed=partial(bill.add, setup.provider.model),
    )
    desk.delegate = _delegate(setup, agent, bill)
    return agent


def _frame(setup: Setup, context: Context, begun: Begun) -> Mapping[str, object]:
    """Asked of a conversation in which nothing else was said."""
    talk = _conversation(setup, context, begun.system, setup.tools)
    talk.user("-")
    return {key: value for key, value in talk.request().items() if key not in ("messages", "input")}


def _named(tools: tuple[Tool, ...]) -> Mapping[str, Tool]:
    return {tool.name: tool for tool in tools}


def _delegate(setup: Setup, parent: Agent, bill: UsageBill) -> Callable[[str, str], str]:
    """A sub-agent: its own context and desk, the parent's permits and its wish to stop."""

    def work(title: str, prompt: str) -> str:
        desk = Desk(root=parent.desk.root, environ=parent.desk.environ, stop=parent.desk.stop)
        name = "-".join(title.lower().split())[:40] or "task"
        context = parent.context.child(f"{name}-{new_session(setup.clock)}", **_engine(setup, desk, bill))
        desk.recall = context.recall_answer
        system = _around(setup).system((setup.prompt or prompt_for(setup.provider.model)) + DELEGATED)
        talk = _conversation(setup, context, system, ALONE)
        helper = Agent(
            provider=setup.provider,
            context=context,
            talk=talk,
            desk=desk,
            permits=parent.permits,
            tools=_named(ALONE),
            steps=setup.steps,
            billed=parent.billed,
        )
        try:
            found = final_words(helper.turn(prompt))
        except Interrupted:
            raise
        except Exception as failed:
            raise Refused(f"the sub-agent failed: {told(failed)}") from failed
        finally:
            stop_all(desk)
        context.finish(found)
        return found

    return work
