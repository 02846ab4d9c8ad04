"""`Context`: the public interface of the library. Prepare a request, send it, record the response."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ebbtide.compaction.answer_sources import (
    TIMEOUT,
    AnswerSources,
    BackgroundQuestions,
    LiveReader,
    SummarizeFunction,
    Summarizer,
)
from ebbtide.compaction.coordinator import Compaction, CompactionCoordinator, CompactionResult, Hooks, ManualCompaction
from ebbtide.compaction.rehydrate import NoteSource, restore_files
from ebbtide.compaction.rehydrate import read_notes as now_told
from ebbtide.core.cache.diagnosis import CacheHealth, diagnose_cache
from ebbtide.core.errors import BadRequest
from ebbtide.core.tokens.size import Calibration
from ebbtide.core.tool_calls import HITS
from ebbtide.core.types import Edit, Usage
from ebbtide.effects import Steps
from ebbtide.policy import Policy, preset
from ebbtide.policy.levels import window_for_model
from ebbtide.recall.handles import Scope
from ebbtide.recall.inject import RecallExchange, build_insertion, find_anchor, insert_record
from ebbtide.recall.search import Hit, Page, RecallSearch, ScopedRecall
from ebbtide.recall.tools import answer_call
from ebbtide.runtime.decision import SessionSettings
from ebbtide.runtime.driver import arun, run
from ebbtide.runtime.operations import (
    append_record,
    background_questions,
    catch_up,
    compact,
    find_item,
    record_background_answers,
    record_reply,
    redo_batch,
    retry_after_refusal,
    undo_batch,
)
from ebbtide.runtime.ready import Ready
from ebbtide.runtime.report import Listener, Prepared
from ebbtide.runtime.session import open_session, prepare_and_commit
from ebbtide.runtime.validation import Cache, Recall, RecallBy, check_settings, check_tokens, refuse_unknown, wrong_type
from ebbtide.state.session_state import ebb_record
from ebbtide.store import Log, PrivateLog, Record, Store, find_store
from ebbtide.wire import detect_response, find_wire
from ebbtide.wire.body import ParsedBody as Read
from ebbtide.wire.body import to_plain
from ebbtide.wire.protocol import Wire
from ebbtide.wire.recall_tools import recall_tools

Body = Mapping[str, Any] | bytes | str
_YEAR_10000 = 253_402_300_800
"""Where dates of four digits end."""


class Context:
    """One agent's conversation, kept inside its window.

    `window` is a number for all models, or a function from a model's name to its window; by default it follows from the
    model's name. `summarizer` is a function, or a `Summarizer` that also says how it is asked; `recall` is a mode, or a
    `Recall` that also says what may be opened.

    `store` is a directory or the address of a database, whose sessions belong to a `tenant`: by default, the role that
    connects.

    The clock is read only here; give `clock` to replay or to test.
    """

    def __init__(
        self,
        *,
        model: str = "",
        window: int | Callable[[str], int] | None = None,
        policy: str | Policy = "default",
        store: str | os.PathLike[str] | Store | None = None,
        session: str = "default",
        project: str = "",
        durable: bool = True,
        tenant: str = "",
        wire: str | None = None,
        marks: bool | None = True,
        cache: Cache = Cache(),  # noqa: B008 - a frozen value
        summarizer: SummarizeFunction | Summarizer | None = None,
        workspace: str | os.PathLike[str] | None = None,
        live: Mapping[str, NoteSource] | None = None,
        recall: RecallBy | Recall = "path",
        hooks: Hooks | None = None,
        on_event: Listener | None = None,
        clock: Callable[[], float] = time.time,
        **unknown: object,
    ) -> None:
        refuse_unknown(unknown)
        check_settings(model=model, store=store, session=session, project=project, tenant=tenant, recall=recall)
        check_settings(workspace=workspace, live=live, hooks=hooks, cache=cache, on_event=on_event, clock=clock)
        summarizer = _as_summarizer(summarizer)
        recall = recall if isinstance(recall, Recall) else Recall(recall)
        self._clock = _check_times(clock)
        self._background = summarizer is not None and summarizer.background
        self._store, self._project = find_store(store, durable=durable, tenant=tenant), project
        # Without a store the log is private, so its records need not be copied.
        open_log = PrivateLog if self._store is None else self._store.open
        self._log: Log = open_log(session, project=project, now=self._clock())
        settings = SessionSettings(
            policy=_with_marks(preset(policy, model=model), marks),
            window=_window_rule(window, model),
            model=model,
            project=project,
            wire=None if wire is None else find_wire(wire),
            adds_breakpoints=bool(marks),
            cache=_default_key(cache, marks),
            session=session,
        )
        coordinator = CompactionCoordinator(
            can_summarize=summarizer is not None,
            model=summarizer.model if summarizer else "",
            can_read_live=workspace is not None or bool(live),
            recall_mode=recall.by,
            hooks=hooks or Hooks(),
        )
        self._session = open_session(settings, self._log, on_event=on_event, compaction=coordinator)
        live_reader = _live_reader(workspace, live or {}, self._session.settings.policy.estimator.text)
        ask, timeout = (summarizer.ask, summarizer.timeout) if summarizer else (None, TIMEOUT)
        self._answer_sources = AnswerSources(summarizer=ask, live=live_reader, timeout=timeout)
        self._recall = RecallSearch(log=self._log, store=self._store, project=project)
        self._scope = recall.scope or "session"
        self._parent: Context | None = None
        self._background_questions: BackgroundQuestions | None = None
        self._last: Prepared | None = None

    def __repr__(self) -> str:
        values = {"session": self._log.session, "model": self._session.settings.model, "window": self.window}
        return f"Context({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    def __reduce__(self) -> str:
        # Called by copy, deepcopy and pickle. Two copies would both believe that they hold the lock.
        raise TypeError("a Context cannot be copied or pickled: make another with the same store and session")

    @property
    def window(self) -> int:
        """The window of the last request's model: as given, or as the provider named it when it refused a request."""
        return self._session.window_for(self._last.model if self._last else "")

    @property
    def calibration(self) -> Calibration:
        """How the tokens of each model compare with our estimates, learned from bills."""
        return self._session.log.state.calibration

    def use_model(self, model: str) -> None:
        """Say which model the next requests are sent to, if their bodies name none: Gemini has it in the path."""
        check_settings(model=model)
        self._session.reader.model = model

    def prepare(self, request: Body) -> Ready:
        """Return a valid request that fits the window. The prefix of the last one stays unless something is removed."""
        return self.prepare_soon(request, None)

    def prepare_soon(self, request: Body | Read, soon: Callable[[Ready], None] | None) -> Ready:
        """As `prepare`. Calls `soon` with the request before it is in the log.

        If it has no new edit, it may be sent then. If it has, `soon` may raise: then nothing is recorded.
        """
        if self._background_questions is not None and self._background_questions.is_done:
            run(self._record_background_answers(), self._log)

        def on_ready(prepared: Prepared) -> None:
            if soon is not None:
                soon(Ready(prepared.body, prepared.report, self._record, prepared, self._session.settings.wire))

        steps = prepare_and_commit(self._session, request, now=self._clock(), on_ready=on_ready)
        return self._ready(run(steps, self._log, self._answer_sources))

    async def aprepare(self, request: Body) -> Ready:
        """As `prepare`, without blocking the event loop. A summarizer that is a coroutine is awaited."""
        if self._background_questions is not None and self._background_questions.is_done:
            await arun(self._record_background_answers(), self._log)
        steps = prepare_and_commit(self._session, request, now=self._clock())
        return self._ready(await arun(steps, self._log, self._answer_sources))

    def compact(
        self,
        request: Body | None = None,
        focus: str = "",
        *,
        first: str = "",
        last: str = "",
        summary: str = "",
        apply: bool = True,
    ) -> Compaction:
        """Compact the old turns now, as `/compact` does; of the last prepared request if none is given.

        `first` and `last` are ids of the items to compact from and up to. With `apply=False` nothing changes: look at
        the result, and `apply()` it, with your own summary if you like. Undo it with `undo()`.
        """
        manual = self._manual(focus, summary, first, last)
        result = run(self._compaction_steps(request, manual, apply), self._log, self._answer_sources)
        return self._compaction(result, request, manual, apply)

    async def acompact(
        self,
        request: Body | None = None,
        focus: str = "",
        *,
        first: str = "",
        last: str = "",
        summary: str = "",
        apply: bool = True,
    ) -> Compaction:
        """As `compact`, awaited."""
        manual = self._manual(focus, summary, first, last)
        result = await arun(self._compaction_steps(request, manual, apply), self._log, self._answer_sources)
        return self._compaction(result, request, manual, apply)

    def overflowed(self, error: BaseException) -> Ready:
        """The provider refused the last request for its size: learn its real window, and compact the request.

        If it refused a lifetime or a cache key of ours (a 400 that names it), or signatures that it did not write, the
        request is prepared without.

        Anything else is raised again, and so is a second refusal, as `WontFit`.
        """
        return self._ready(run(self._steps_after_overflow(error), self._log, self._answer_sources))

    async def aoverflowed(self, error: BaseException) -> Ready:
        """As `overflowed`, awaited."""
        return self._ready(await arun(self._steps_after_overflow(error), self._log, self._answer_sources))

    def _steps_after_overflow(self, error: BaseException) -> Steps[Prepared]:
        if not isinstance(error, BaseException):
            raise BadRequest(f"overflowed() takes the exception that was raised, not {type(error).__name__}")
        if self._last is None:
            raise error
        return retry_after_refusal(self._session, error, self._last, now=self._clock())

    def reset_window(self, model: str = "") -> None:
        """Forget the window that this model's provider named in refusals, or those of all models."""
        self._note(ebb_record("limit", reset=True, model=model, at=self._clock()))

    def recall(self, query: str, *, limit: int = HITS, across: bool = False) -> tuple[Hit, ...]:
        """Find where this was written, read or printed, best match first: in this session, or in its whole project."""
        return self._recall.search(query, limit=limit, across=across, scope=self._recall_scope())

    def read(self, handle: str, start: int = 0, end: int | None = None) -> Page:
        """Return the exact text behind a handle that this session recorded, a page at a time."""
        return self._recall.read(handle, start, end, scope=self._recall_scope())

    def recall_tools(self, wire: str = "") -> list[dict[str, Any]]:
        """Return the tools to find and read removed content. Add them to `tools` of every request from the first on.

        Empty if the session's recall mode is not `tool`: adding a tool later would cost the whole cached prefix.
        """
        if (self._session.log.state.recall or self._session.compaction.recall_mode) != "tool":
            return []
        return recall_tools(find_wire(wire) if wire else self._wire_for({}))

    def recall_answer(self, name: str, arguments: Mapping[str, object] | str) -> str:
        """Answer a call of a recall tool: bounded, with its source, quoted as data."""
        scope = self._recall_scope()
        return answer_call(
            self._recall if scope is None else ScopedRecall(recall=self._recall, scope=scope), name, arguments
        )

    def _recall_scope(self) -> Scope | None:
        """Return what may be recalled; None for everything that the session recorded."""
        if self._scope == "session":
            return None
        view = self._session.view
        if view is None:
            raise BadRequest("recall comes after prepare(): there is no conversation yet")
        blobs = frozenset(blob.name for edit in view.active_edits for blob in edit.blobs)
        return Scope(messages=self._session.log.transcript.path, blobs=blobs)

    def insert_recalled(self, recalled: Sequence[RecallExchange], shown: Sequence[Any] = (), said: str = "") -> Edit:
        """Calls of the recall tools and their answers, for every request from now on: the client has neither.

        `shown` is what it was shown of the model's answer to the last request, as messages: they stand behind it.
        """
        session = self._session
        if session.last is None:
            raise BadRequest("insert_recalled() comes after prepare()")
        self._catch_up()  # the record goes on from what the log holds now
        request = session.last.request
        taken = {item.call_id for item in request.items}
        at = find_anchor(session.reader, request, shown)
        view = session.last.view
        edit = view.bind(build_insertion(recalled, said, at, taken, session.settings.policy.estimator.block))
        session.echoes.learn(request.wire, (edit,))
        self._note(insert_record(edit, session.log.state, self._clock()))
        return edit

    def pin(self, *handles: str) -> None:
        """Keep these items of the last request through every compaction. Name them by id or by a handle of `recall`."""
        self._pin(handles, on=True)

    def unpin(self, *handles: str) -> None:
        """Let these items be removed again."""
        self._pin(handles, on=False)

    def _pin(self, handles: Sequence[str], *, on: bool) -> None:
        ids = [find_item(self._session, handle) for handle in handles]
        self._note(ebb_record("pin", ids=ids, on=on, at=self._clock()))

    def child(self, name: str, **options: Any) -> Context:
        """Create the context of a sub-agent, with its own window and log: see `adopt`."""
        session = f"{self._log.session}.{name}"
        child = Context(store=self._store, session=session, project=self._project, clock=self._clock, **options)
        self.adopt(child)
        return child

    def adopt(self, child: Context) -> None:
        """Make another context that of a sub-agent. Its `finish` records the result here."""
        if child is self:
            raise BadRequest("a context cannot be its own sub-agent")
        child._parent = self
        self._note(ebb_record("child", session=child._log.session, at=self._clock()))
        child._note(ebb_record("parent", session=self._log.session, at=self._clock()))

    def finish(self, result: str) -> None:
        """Record a sub-agent's result, once: it stays in its parent's compactions."""
        if self._parent is None:
            raise BadRequest("finish() is for a sub-agent: see child()")
        self._parent._note(ebb_record("child", session=self._log.session, result=result, at=self._clock()))

    def record(self, response: object = None, *, usage: Usage | None = None) -> None:
        """Record the response to the last request, or only its `usage`, which makes later token counts exact."""
        if self._last is None:
            raise BadRequest("record() comes after prepare()")
        self._record(response, self._last, usage=usage)

    def edits(self) -> tuple[Edit, ...]:
        """Return all edits of the session, oldest first, without undone ones."""
        self._catch_up()
        return self._session.log.state.edits

    @property
    def standing(self) -> tuple[Edit, ...]:
        """The same as this process knows them, without reading the log."""
        return self._session.log.state.edits

    def undo(self, batch: str = "") -> tuple[Edit, ...]:
        """Undo the newest batch of edits, or the one named. Return its edits; empty if there was none."""
        return run(undo_batch(self._session, now=self._clock(), batch=batch), self._log)

    def redo(self) -> tuple[Edit, ...]:
        """Redo the batch that was undone last. Return its edits; empty if there was none."""
        return run(redo_batch(self._session, now=self._clock()), self._log)

    def health(self) -> CacheHealth:
        """Return how the provider's cache served the last requests, and why it missed."""
        return diagnose_cache(self._session.log.state.sent)

    def counters(self) -> Mapping[str, int]:
        """R020, R028, R248: compactions, skips, tokens saved, and usage so far."""
        return dict(self._session.log.state.counters)

    def _catch_up(self) -> None:
        run(catch_up(self._session), self._log)

    def _note(self, record: Record) -> None:
        run(append_record(self._session, record, now=self._clock()), self._log)

    def _manual(self, focus: str, summary: str, first: str, last: str) -> ManualCompaction:
        ids = [
            find_item(self._session, handle) if handle and not handle.startswith("e1-") else handle
            for handle in (first, last)
        ]
        return ManualCompaction(focus=focus, summary=summary, first=ids[0], last=ids[1])

    def _compaction_steps(self, request: Body | None, manual: ManualCompaction, apply: bool) -> Steps[CompactionResult]:
        return compact(self._session, request, now=self._clock(), manual=manual, apply=apply)

    def _compaction(
        self, result: CompactionResult, request: Body | None, manual: ManualCompaction, applied: bool
    ) -> Compaction:
        def again(summary: str) -> Compaction:
            changed = replace(manual, summary=summary or manual.summary)
            return self._compaction(
                run(self._compaction_steps(request, changed, True), self._log, self._answer_sources),
                request,
                changed,
                True,
            )

        plan = result.plan
        return Compaction(
            edits=result.edits,
            tokens_before=plan.tokens_before if plan else 0,
            tokens_after=plan.tokens_after if plan else 0,
            applied=applied and bool(result.edits),
            notes=result.notes,
            again=again,
        )

    def _record_background_answers(self) -> Steps[None]:
        ahead, self._background_questions = self._background_questions, None
        assert ahead is not None, "asked only when it is done"
        return record_background_answers(self._session, ahead.answers, now=self._clock())

    def _ready(self, prepared: Prepared) -> Ready:
        self._last = prepared
        if self._background and self._background_questions is None:
            questions = background_questions(self._session)
            if questions:
                self._session.compaction.is_asking = True
                self._background_questions = BackgroundQuestions(self._answer_sources, questions)
        return Ready(prepared.body, prepared.report, self._record, prepared, self._session.settings.wire)

    def _wire_for(self, response: Mapping[str, Any]) -> Wire:
        """Return the wire of the requests so far; before any, the one that the response looks like."""
        return self._session.reader.last_wire or detect_response(response)

    def _record(self, response: object, prepared: Prepared, *, reply: bool = True, usage: Usage | None = None) -> None:
        if usage is not None and not isinstance(usage, Usage):
            raise BadRequest(f"usage must be an ebbtide.Usage, not {type(usage).__name__}")
        messages: list[Any] = []
        if response is not None:
            plain = _plain_response(response)
            wire = self._wire_for(plain)
            messages = wire.replies.as_messages(plain) if reply else []
            usage = usage or wire.replies.usage(plain)
        elif usage is None:
            raise BadRequest("record() needs a response, or its usage")
        run(record_reply(self._session, messages, usage, prepared, now=self._clock()), self._log)


def _default_key(cache: Cache, marks: bool | None) -> Cache:
    """Return the options; without marks no key either, unless the caller asks for one."""
    return cache if marks or cache.key is not None else replace(cache, key=False)


def _with_marks(policy: Policy, marks: bool | None) -> Policy:
    """Return the policy; with `None` for marks one that adds none, as the caller places them later."""
    return policy if marks is not None else replace(policy, marks=None)


def _as_summarizer(summarizer: SummarizeFunction | Summarizer | None) -> Summarizer | None:
    check_settings(summarizer=summarizer)
    return summarizer if summarizer is None or isinstance(summarizer, Summarizer) else Summarizer(summarizer)


def _check_times(clock: Callable[[], float]) -> Callable[[], float]:
    """Return a clock that refuses times that no log could hold. It may jump, back as well as ahead."""

    def read() -> float:
        now = clock()
        if isinstance(now, bool) or not isinstance(now, int | float) or not 0 <= now < _YEAR_10000:
            raise wrong_type("clock()", "seconds since 1970, as time.time() gives them", now)
        return float(now)

    return read


def _window_rule(window: int | Callable[[str], int] | None, model: str) -> int | Callable[[str], int]:
    """Return the window of every model: the one that was given, or by the model's name."""
    if window is None:
        return lambda asked: window_for_model(asked or model)
    return (lambda asked: check_tokens("window", window(asked))) if callable(window) else check_tokens("window", window)


def _live_reader(
    workspace: str | os.PathLike[str] | None, live: Mapping[str, NoteSource], count: Callable[[str], int]
) -> LiveReader | None:
    """Return a function that reads recent files and the caller's notes as they are at a compaction."""
    if workspace is None and not live:
        return None

    def read_live(paths: list[str]) -> str:
        files = restore_files(paths, root=Path(workspace), count=count) if workspace is not None else ()
        notes = now_told(live, count=count)
        notes_found = [{"source": note.name, "text": note.text or note.note} for note in notes]
        notes_found += [{"source": "file", "text": f"{file.title}\n{file.text}"} for file in files]
        return json.dumps(notes_found, ensure_ascii=False)

    return read_live


def _plain_response(response: object) -> Mapping[str, Any]:
    plain = to_plain(dict(response) if isinstance(response, Mapping) else response, "response")
    if not isinstance(plain, dict):
        raise BadRequest(f"a response must be a dict or an SDK object, not {type(response).__name__}")
    return plain
