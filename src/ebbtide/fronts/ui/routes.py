"""The HTTP API of the inspector: JSON answers about sessions, and undo. The disk is read in threads."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, replace

from aiohttp import web

from ebbtide import __version__
from ebbtide.audit.history import Step
from ebbtide.core.cache.prefix import find_cached_prefix
from ebbtide.core.errors import BadRequest, EbbtideError
from ebbtide.core.tool_calls import PAGE
from ebbtide.core.types import COMPACTION_PASSES, Edit
from ebbtide.core.view import View
from ebbtide.fronts.ui.compare import compare_policies
from ebbtide.fronts.ui.counts import dollars_saved, dollars_spent
from ebbtide.fronts.ui.figures import Figures
from ebbtide.fronts.ui.guard import ignore_expect, read_json
from ebbtide.fronts.ui.library import Library, NotFound, OpenSession, Setting
from ebbtide.fronts.ui.listing import SessionRow, filter_rows, row_json
from ebbtide.fronts.ui.serialize import (
    Json,
    covered_items,
    edit_sides,
    entry_rows,
    facts_json,
    item_json,
    list_batches,
    original_text,
)
from ebbtide.fronts.ui.trace import Trace, cached_tokens, list_batch_marks, scale_to_bills
from ebbtide.money import SessionCost, session_cost, session_figures
from ebbtide.policy import POLICY_NAMES, preset
from ebbtide.recall.search import mask_page, search_masked
from ebbtide.replay.policies import NAMES
from ebbtide.runtime import Context
from ebbtide.wire.blocks import group_by_message

_MAX_ROWS = 400
"""In one answer: a few screens."""
_MAX_HITS = 20
_POLL_INTERVAL = 0.5
"""Seconds between two checks of a log that the page follows."""
_HEARTBEAT_INTERVAL = 15.0
"""Seconds after which a silent stream sends a comment: browsers and proxies close silent ones."""


@dataclass(slots=True)
class Inspector:
    """Answers the page's requests from one library."""

    library: Library
    allow_undo: bool = False
    _compare_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def routes(self) -> list[web.RouteDef]:
        session = "/api/session/{key}"
        gets: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
            "/api/sessions": self.sessions,
            f"{session}/row": self.row,
            f"{session}/head": self._session_route(_head),
            session: self._slow_route(_summary),
            f"{session}/calls": self._slow_route(_calls),
            f"{session}/request": self._session_route(_request),
            f"{session}/edge": self._slow_route(_edge),
            f"{session}/under": self._session_route(_covered_items),
            f"{session}/original": self._session_route(_original),
            f"{session}/edits": self._slow_route(_edits),
            f"{session}/edit": self._session_route(_edit),
            f"{session}/cache": self._slow_route(_cache),
            f"{session}/ledger": self._session_route(_facts),
            f"{session}/recall": self._session_route(_recall),
            f"{session}/read": self._session_route(_read),
            f"{session}/events": self.events,
            f"{session}/compare": self.compare,
        }
        posts = {f"{session}/undo": self._change_route(Context.undo), f"{session}/redo": self._change_route(_redo)}
        answers = [web.get(path, handler, expect_handler=ignore_expect) for path, handler in gets.items()]
        return answers + [web.post(path, do, expect_handler=ignore_expect) for path, do in posts.items()]

    async def sessions(self, request: web.Request) -> web.Response:
        rows = await asyncio.to_thread(self.library.list)
        figures, waiting = self.library.counter.known(rows)
        return json_response(
            {
                "version": __version__,
                "allow_undo": self.allow_undo,
                "policies": list(dict.fromkeys(preset(name).name for name in POLICY_NAMES)),
                "arms": list(NAMES),
                "setting": asdict(self.library.setting),
                "total": len(rows),
                "waiting": waiting,
                "totals": _add_up(rows, figures),
                "sessions": filter_rows(rows, request.query.get("q", ""), figures),
            }
        )

    async def row(self, request: web.Request) -> web.Response:
        """Return what the list knows of a session: enough to draw the page while the session is opened."""
        row = await asyncio.to_thread(self.library.row, request.match_info["key"])
        figures, _ = self.library.counter.known([row])
        return json_response(filter_rows([row], "", figures)[0])

    async def compare(self, request: web.Request) -> web.Response:
        """Replay the session once for each policy. This takes seconds, so comparisons run one after another."""
        key, query = request.match_info["key"], request.query

        def work() -> Json:
            opened = self.library.open(key, self._read_setting(query))
            names = query.get("policies", "").split(",")
            window, models = self.library.window(opened), [turn.model for turn in opened.history.turns]
            return compare_policies(self.library.recording(opened), opened.episode, names, window=window, models=models)

        async with self._compare_lock:
            return json_response(await asyncio.to_thread(work))

    def _session_route(
        self, build_answer: Callable[[Library, OpenSession, Mapping[str, str]], Json]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Make a handler that opens the session and builds the answer in a thread, one thread at a time."""

        return self._route(build_answer, lambda opened: opened.lock)

    def _slow_route(
        self, build_answer: Callable[[Library, OpenSession, Mapping[str, str]], Json]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """The same for answers that walk through all requests. Quick answers do not wait for these."""
        return self._route(build_answer, lambda opened: opened.slow_lock)

    def _route(
        self,
        build_answer: Callable[[Library, OpenSession, Mapping[str, str]], Json],
        lock_of: Callable[[OpenSession], AbstractContextManager[object]],
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            key, query = request.match_info["key"], request.query

            def work() -> Json:
                with self.library.counter.waiting():
                    opened = self.library.open(key, self._read_setting(query))
                    with lock_of(opened):
                        return build_answer(self.library, opened, query)

            return json_response(await asyncio.to_thread(work))

        return answer

    def _read_setting(self, query: Mapping[str, str]) -> Setting:
        setting = self.library.setting
        policy = query.get("policy") or setting.policy
        if policy not in POLICY_NAMES:
            raise BadRequest(f"there is no policy {policy[:40]!r}; choose one of {', '.join(POLICY_NAMES)}")
        return replace(setting, policy=policy, window=query_number(query, "window", setting.window, maximum=10**9))

    def _change_route(
        self, change: Callable[[Context, str], object]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            if not self.allow_undo:
                raise web.HTTPForbidden(text="the inspector is read-only; to undo, start it with --allow-undo")
            batch = str((await read_json(request)).get("batch") or "")
            return json_response(await asyncio.to_thread(self._change, request.match_info["key"], batch, change))

        return answer

    def _change(self, key: str, batch_id: str, change: Callable[[Context, str], object]) -> Json:
        opened = self.library.open(key)
        if opened.recording is not None:
            raise BadRequest("this is a recorded file: there is nothing to undo")
        active = {batch.id for batch in opened.history.state.batches} - set(opened.history.state.undone)
        if change is Context.undo and batch_id not in active:
            raise NotFound("there is no such batch to undo")
        row = opened.row
        change(Context(store=self.library.store, session=row.session, project=row.project), batch_id)
        with opened.slow_lock:  # While it is held, the history stays as it is.
            pass
        opened = self.library.open(key)
        return {"undone": list(opened.history.state.undone)}

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Send an event whenever the session grows, until the page disconnects."""
        key, setting = request.match_info["key"], self._read_setting(request.query)
        opened = await asyncio.to_thread(self.library.open, key, setting)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        last_sent, silent_seconds = _progress(opened), 0.0
        await _send(stream, last_sent)
        with suppress(ConnectionError):
            while request.transport is not None and not request.transport.is_closing():
                await asyncio.sleep(_POLL_INTERVAL)
                opened = await asyncio.to_thread(self.library.open, key, setting)
                progress, silent_seconds = _progress(opened), silent_seconds + _POLL_INTERVAL
                if progress != last_sent:
                    last_sent, silent_seconds = progress, 0.0
                    await _send(stream, last_sent)
                elif silent_seconds >= _HEARTBEAT_INTERVAL:
                    silent_seconds = 0.0
                    await stream.write(b": still here\n\n")
        return stream


def json_response(value: Json) -> web.Response:
    # ASCII: a lone surrogate in a tool's output is not valid UTF-8, but its escape is valid JSON.
    return web.Response(text=json.dumps(value, separators=(",", ":")), content_type="application/json")


def query_number(query: Mapping[str, str], name: str, default: int, *, maximum: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 12) or int(text) > maximum:
        raise BadRequest(f"{name} must be a whole number from 0 to {maximum:,}")
    return int(text)


@web.middleware
async def errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Return every error as JSON with one sentence."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return web.json_response({"error": error.text or error.reason}, status=error.status)
    except BadRequest as error:
        return web.json_response({"error": str(error)}, status=404 if isinstance(error, NotFound) else 400)
    except (EbbtideError, OSError, ValueError) as error:
        return web.json_response({"error": str(error)}, status=500)


def _progress(opened: OpenSession) -> Json:
    """Return figures that change whenever the session does: usage, for one, arrives after its request."""
    return {"calls": len(opened.history.turns), "place": opened.position.size, "file": opened.file_stamp[0]}


async def _send(stream: web.StreamResponse, event: Json) -> None:
    await stream.write(f"event: grown\ndata: {json.dumps(event)}\n\n".encode())


def _redo(context: Context, _: str) -> object:
    return context.redo()


def _trace(opened: OpenSession) -> Trace:
    return opened.cached("trace", opened.tracer.trace)


def _cost(opened: OpenSession) -> SessionCost:
    return opened.cached("cost", lambda history: session_cost(history.records))


def _steps(opened: OpenSession) -> Mapping[str, Step]:
    """Return the batches by edit."""
    return opened.cached(
        "steps", lambda history: {edit.id: step for step in history.steps for edit in step.batch.edits}
    )


def _add_up(rows: Sequence[SessionRow], figures: Mapping[str, Figures]) -> Json:
    """Add up what is known so far. What a simulation would have saved is no saving."""
    known = [figures[row.key] for row in rows if row.key in figures]
    costs = [entry.cost for entry in known if entry.cost is not None]
    saved = [entry.saved_usd for entry in known if entry.saved_usd is not None and not entry.simulated]
    return {
        "sessions": len(known),
        "calls": sum(entry.calls for entry in known),
        "cost": round(sum(costs), 6) if costs else None,
        "priced": len(costs),
        "saved_usd": round(sum(saved), 6) if saved else None,
        "ours": sum(row.stored for row in rows),
    }


def _head(library: Library, opened: OpenSession, _: Mapping[str, str]) -> Json:
    """Return what is known as soon as the session is open."""
    history, window, policy = opened.history, library.window(opened), library.policy(opened)
    output, overhead = (history.turns[-1].max_output, history.turns[-1].overhead) if history.turns else (0, (0, 0))
    models = dict.fromkeys(turn.model for turn in history.turns)
    return {
        **row_json(opened.row),
        "played": opened.recording is not None,
        "policy": policy.name,
        "window": window,
        "auto_at": policy.levels(window, output or policy.output_reserved, sum(overhead)).auto,
        "wire": history.wire,
        # Claude Code writes replies of its own under a name that is no model.
        "models": [model for model in models if not model.startswith("<")],
        "calls": len(history.turns),
        "undone": list(history.state.undone),
        "pinned": len(history.state.pinned),
        "refusals": list(history.refusals),
        "recall": history.state.recall,
        "commands": _commands(library, opened),
    }


def _commands(library: Library, opened: OpenSession) -> Json:
    """Return the commands that do in a terminal what the page shows; the page fills in BATCH and ITEM."""
    row = opened.row
    if opened.recording is not None:
        setting = f"{shlex.quote(opened.recording.path)} --policy {opened.setting.policy}"
        window = f" --window {library.window(opened)}"
        return {"undo": "", "show": f"ebb show {setting}{window} --item ITEM"}
    where = f" --store {shlex.quote(library.store_path)}" if library.store_path else ""
    name = shlex.quote(row.session)
    return {"undo": f"ebb undo {name} BATCH{where}", "show": f"ebb show {name} --item ITEM{where}"}


def _summary(library: Library, opened: OpenSession, query: Mapping[str, str]) -> Json:
    history, trace, cost = opened.history, _trace(opened), _cost(opened)
    window, figures = library.window(opened), session_figures(cost)
    edits = [edit for step in history.steps for edit in step.batch.edits if not step.undone]
    return {
        **_head(library, opened, query),
        "batches": len(history.steps),
        "edits": sum(len(step.batch.edits) for step in history.steps),
        "summaries": sum(edit.by in COMPACTION_PASSES for edit in edits),
        "removed": sum(edit.saved for edit in edits),
        "tokens": figures.tokens,
        "untouched": figures.tokens_without,
        "peak": figures.peak,
        "untouched_peak": figures.peak_without,
        "untouched_over": sum(line.untouched_tokens > window for line in cost.lines),
        "hit_rate": trace.hit_rate,
        "breaks": len(trace.breaks),
        "diagnosis": trace.diagnosis,
        "cost": dollars_spent(cost),
        "saved_usd": dollars_saved(cost),
        "saved_share": round(figures.saved_share, 4),
        "estimated": not all(trace.billed),
        "prices": list(cost.price_rows),
        "basis": cost.basis,
    }


def _calls(_: Library, opened: OpenSession, __: Mapping[str, str]) -> Json:
    cost = _cost(opened)
    trace = scale_to_bills(_trace(opened), cost.lines)
    return {**asdict(trace), "cost": cost.call_costs(), "batches": list_batch_marks(opened.history)}


def _request_number(opened: OpenSession, query: Mapping[str, str]) -> int:
    number = query_number(query, "at", 0, maximum=len(opened.history.turns))
    return number if opened.history.turns else 0


def _request(_: Library, opened: OpenSession, query: Mapping[str, str]) -> Json:
    number = _request_number(opened, query)
    view = opened.view(number)
    start = query_number(query, "start", 0, maximum=10**9)
    stop = start + query_number(query, "limit", 100, maximum=_MAX_ROWS)
    steps = _steps(opened)
    return {
        "at": number,
        "total": len(view.entries),
        "tokens": view.tokens,
        "messages": len(view.originals),
        "place": _place_of(view, query.get("find", "")),
        "rows": entry_rows(view, opened.history, steps, start, stop),
    }


def _place_of(view: View, edit_id: str) -> int:
    """Return where the placeholder of an edit is in the request; -1 if it has none there."""
    places = (
        index
        for index, entry in enumerate(view.entries)
        if (edit := view.edit_by_entry.get(entry.id)) is not None and edit.id == edit_id
    )
    return next(places, -1) if edit_id else -1


def _edge(_: Library, opened: OpenSession, query: Mapping[str, str]) -> Json:
    """Return up to where a request was cached, and where its breakpoints are."""
    number = _request_number(opened, query)
    if not number:
        return {"at": 0, "warm": None, "marks": []}
    return {
        "at": number,
        "warm": _cached(opened, number),
        "marks": list(opened.history.turn(number).sent.breakpoints),
    }


def _cached(opened: OpenSession, number: int) -> Json:
    now, sent = opened.history.turn(number).sent, [turn.sent for turn in opened.history.turns[: number - 1]]
    prefix = find_cached_prefix(
        sent, now=now.at, model=now.model, system=now.system, tools=now.tools, prefix=now.prefix
    )
    tokens = cached_tokens(prefix, opened.view(number), _overhead(opened, number))
    return {"messages": prefix.messages, "tokens": tokens, "reason": prefix.reason}


def _overhead(opened: OpenSession, number: int) -> int:
    return sum(opened.history.turn(number).overhead) or _trace(opened).parts["unrecorded"][number - 1]


def _covered_items(_: Library, opened: OpenSession, query: Mapping[str, str]) -> Json:
    """Return the originals that an edit replaced."""
    view = opened.view(_request_number(opened, query))
    edit = _find_edit(view, query)
    start = query_number(query, "start", 0, maximum=10**9)
    items = covered_items(view, edit)
    page = items[start : start + query_number(query, "limit", 100, maximum=_MAX_ROWS)]
    return {"total": len(items), "rows": [item_json(item) for item in page]}


def _find_edit(view: View, query: Mapping[str, str]) -> Edit:
    edit = next((edit for edit in view.edits if edit.id == query.get("edit")), None)
    if edit is None:
        raise NotFound("there is no such edit in this request")
    return edit


def _original(_: Library, opened: OpenSession, query: Mapping[str, str]) -> Json:
    """Return all that an edit replaced, to be copied."""
    view = opened.view(_request_number(opened, query))
    return original_text(view, _find_edit(view, query))


def _edits(_: Library, opened: OpenSession, __: Mapping[str, str]) -> Json:
    return {"batches": opened.cached("batches", lambda history: list_batches(history, _cost(opened)))}


def _edit(_: Library, opened: OpenSession, query: Mapping[str, str]) -> Json:
    sides = edit_sides(opened.history, query.get("id", ""))
    if sides is None:
        raise NotFound("there is no such edit")
    return sides


def _cache(_: Library, opened: OpenSession, query: Mapping[str, str]) -> Json:
    """Return one request message by message: tokens, what was cached, and the breakpoints."""
    number = _request_number(opened, query)
    if not number:
        raise BadRequest("`at` must be the number of a request, from 1")
    turn, view, trace = opened.history.turn(number), opened.view(number), _trace(opened)
    groups = [
        {"tokens": sum(entry.tokens for entry in group), "role": group[0].role, "ours": any(map(view.is_ours, group))}
        for _, group in group_by_message(view.entries)
    ]
    return {
        "at": number,
        "overhead": _overhead(opened, number),
        "messages": groups,
        "warm": _cached(opened, number),
        "marks": list(turn.sent.breakpoints),
        "ttl": turn.ttl,
        "usage": asdict(turn.usage) if turn.usage else None,
        "break": next((entry for entry in trace.breaks if entry["call"] == number), None),
        "pause": turn.at - opened.history.turns[number - 2].at if number > 1 else None,
    }


def _facts(_: Library, opened: OpenSession, query: Mapping[str, str]) -> Json:
    number = _request_number(opened, query)
    return opened.cached(f"facts {number}", lambda history: facts_json(history, opened.view(number).originals))


def _recall(_: Library, opened: OpenSession, query: Mapping[str, str]) -> Json:
    words = query.get("q", "")[:400]
    hits = search_masked(opened.recall, words, limit=_MAX_HITS, across=query.get("across") == "1")
    return {"query": words, "hits": [asdict(hit) for hit in hits]}


def _read(_: Library, opened: OpenSession, query: Mapping[str, str]) -> Json:
    """Return a page of the text of a handle, with secrets masked."""
    start = query_number(query, "start", 0, maximum=10**10)
    page = opened.recall.read(query.get("handle", ""), 0, 0, session=query.get("session", ""))
    page, secrets = mask_page(page, opened.recall, start=start, end=start + 4 * PAGE)
    return {**asdict(page), "masked": secrets}
