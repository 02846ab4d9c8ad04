"""What the page may ask, and one undo. All answers are JSON. The disk is read in threads, one a session at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

from aiohttp import web

from ebbtide import __version__
from ebbtide.core.cache.warmth import find_cached_prefix
from ebbtide.core.errors import BadRequest, EbbtideError
from ebbtide.core.recall_limits import PAGE
from ebbtide.core.text.redact import redact
from ebbtide.fronts.ui.compare import compared
from ebbtide.fronts.ui.guard import ignore_expectation, read_json
from ebbtide.fronts.ui.library import Library, Opened, Setting, Unknown, matching
from ebbtide.fronts.ui.serialize import Json, batches_told, covered, item_told, ledger_told, rows_told, sides_told
from ebbtide.fronts.ui.trace import Trace, batch_marks, warm_tokens
from ebbtide.money import SessionCost, session_cost
from ebbtide.policy import PRESETS
from ebbtide.recall.search import Hit
from ebbtide.replay.policies import NAMES
from ebbtide.runtime import Context
from ebbtide.store.search.hits import build_excerpt
from ebbtide.store.search.words import parse_query
from ebbtide.wire.blocks import group_by_message

T = TypeVar("T")
_ROWS = 400
"""Of one answer: what a page asks for is a few screens."""
_HITS = 20
_POLL = 0.5
"""Seconds between two looks at a log that somebody follows: one stat each."""
_BEAT = 15.0
"""Seconds after which a silent stream says that it lives: browsers and proxies drop silent ones."""


@dataclass(slots=True)
class Desk:
    """Answers, from one library."""

    library: Library
    allow_undo: bool = False
    _comparing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def routes(self) -> list[web.RouteDef]:
        one = "/api/session/{key}"
        gets: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
            "/api/sessions": self.sessions,
            one: self._about(_summary),
            f"{one}/calls": self._about(_calls),
            f"{one}/request": self._about(_request),
            f"{one}/under": self._about(_under),
            f"{one}/edits": self._about(_edits),
            f"{one}/edit": self._about(_edit),
            f"{one}/cache": self._about(_cache),
            f"{one}/ledger": self._about(_ledger),
            f"{one}/recall": self._about(_recall),
            f"{one}/read": self._about(_read),
            f"{one}/events": self.events,
            f"{one}/compare": self.compare,
        }
        posts = {f"{one}/undo": self._changing(Context.undo), f"{one}/redo": self._changing(_redone)}
        answers = [web.get(path, do, expect_handler=ignore_expectation) for path, do in gets.items()]
        return answers + [web.post(path, do, expect_handler=ignore_expectation) for path, do in posts.items()]

    async def sessions(self, request: web.Request) -> web.Response:
        rows = await asyncio.to_thread(self.library.list)
        return told(
            {
                "version": __version__,
                "allow_undo": self.allow_undo,
                "policies": list(PRESETS),
                "arms": list(NAMES),
                "setting": asdict(self.library.setting),
                "total": len(rows),
                "sessions": matching(rows, request.query.get("q", "")),
            }
        )

    async def compare(self, request: web.Request) -> web.Response:
        """Plays the session several times, which takes seconds: one comparison after the other."""
        key, query = request.match_info["key"], request.query

        def work() -> Json:
            opened = self.library.open(key, self._setting(query))
            names = query.get("policies", "").split(",")
            window, models = self.library.window(opened), [turn.model for turn in opened.history.turns]
            return compared(self.library.recording(opened), opened.episode, names, window=window, models=models)

        async with self._comparing:
            return told(await asyncio.to_thread(work))

    def _about(
        self, look: Callable[[Library, Opened, Mapping[str, str]], Json]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """A question about one session. It is opened and asked in a thread, and no two threads ask at once."""

        async def answer(request: web.Request) -> web.Response:
            key, query = request.match_info["key"], request.query

            def work() -> Json:
                opened = self.library.open(key, self._setting(query))
                with opened.lock:
                    return look(self.library, opened, query)

            return told(await asyncio.to_thread(work))

        return answer

    def _setting(self, query: Mapping[str, str]) -> Setting:
        setting = self.library.setting
        policy = query.get("policy") or setting.policy
        if policy not in PRESETS:
            raise BadRequest(f"no policy is called {policy[:40]!r}; there are {', '.join(PRESETS)}")
        return replace(setting, policy=policy, window=number(query, "window", setting.window, most=10**9))

    def _changing(self, change: Callable[[Context, str], object]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            if not self.allow_undo:
                raise web.HTTPForbidden(text="read-only: start with --allow-undo")
            batch = str((await read_json(request)).get("batch") or "")
            return told(await asyncio.to_thread(self._change, request.match_info["key"], batch, change))

        return answer

    def _change(self, key: str, batch: str, change: Callable[[Context, str], object]) -> Json:
        opened = self.library.open(key)
        if opened.played is not None:
            raise BadRequest("a recorded file is only played here: there is nothing to undo")
        known = {one.id for one in opened.history.state.batches} - set(opened.history.state.undone)
        if change is Context.undo and batch not in known:
            raise Unknown("there is no such batch to undo")
        listed = opened.listed
        change(Context(store=self.library.store, session=listed.session, project=listed.project), batch)
        opened = self.library.open(key)
        return {"undone": list(opened.history.state.undone)}

    async def events(self, request: web.Request) -> web.StreamResponse:
        """How a session grows, for as long as somebody listens."""
        key, setting = request.match_info["key"], self._setting(request.query)
        opened = await asyncio.to_thread(self.library.open, key, setting)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        known, silent = _mark(opened), 0.0
        await _send(stream, known)
        with suppress(ConnectionError):
            while request.transport is not None and not request.transport.is_closing():
                await asyncio.sleep(_POLL)
                opened = await asyncio.to_thread(self.library.open, key, setting)
                now, silent = _mark(opened), silent + _POLL
                if now != known:
                    known, silent = now, 0.0
                    await _send(stream, known)
                elif silent >= _BEAT:
                    silent = 0.0
                    await stream.write(b": still here\n\n")
        return stream


def told(value: Json) -> web.Response:
    # ASCII: a lone surrogate in a tool's output is no valid UTF-8, and its escape is valid JSON.
    return web.Response(text=json.dumps(value, separators=(",", ":")), content_type="application/json")


def number(query: Mapping[str, str], name: str, default: int, *, most: int) -> int:
    given = query.get(name, "")
    if not given:
        return default
    if not (given.isascii() and given.isdecimal() and len(given) <= 12) or int(given) > most:
        raise BadRequest(f"{name} must be a whole number from 0 to {most:,}")
    return int(given)


@web.middleware
async def failing(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """An error is a sentence for the page, never a page of its own."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return web.json_response({"error": error.text or error.reason}, status=error.status)
    except BadRequest as error:
        return web.json_response({"error": str(error)}, status=404 if isinstance(error, Unknown) else 400)
    except (EbbtideError, OSError, ValueError) as error:
        return web.json_response({"error": str(error)}, status=500)


def _mark(opened: Opened) -> Json:
    """What changes whenever the session does: a bill, for one, comes after its call."""
    return {"calls": len(opened.history.turns), "place": opened.position.offset, "file": opened.stamp[0]}


async def _send(stream: web.StreamResponse, event: Json) -> None:
    await stream.write(f"event: grown\ndata: {json.dumps(event)}\n\n".encode())


def _redone(context: Context, _: str) -> object:
    return context.redo()


def _trace(opened: Opened) -> Trace:
    found = opened.kept.get("trace")
    if not isinstance(found, Trace):
        found = opened.kept["trace"] = opened.tracer.trace(opened.history)
    return found


def _accounts(opened: Opened) -> SessionCost:
    found = opened.kept.get("accounts")
    if not isinstance(found, SessionCost):
        found = opened.kept["accounts"] = session_cost(opened.history.records)
    return found


def _summary(library: Library, opened: Opened, _: Mapping[str, str]) -> Json:
    history, trace = opened.history, _trace(opened)
    accounts = _accounts(opened)
    costs = [cost for cost in accounts.call_costs() if cost is not None]
    booked = accounts.dollars
    window, policy = library.window(opened), library.policy(opened)
    output, overhead = (history.turns[-1].max_output, history.turns[-1].overhead) if history.turns else (0, (0, 0))
    return {
        **asdict(opened.listed),
        "played": opened.played is not None,
        "policy": policy.name,
        "window": window,
        "auto_at": policy.levels(window, output or policy.output_reserved, sum(overhead)).auto,
        "wire": history.wire,
        "models": list(dict.fromkeys(trace.model)),
        "calls": len(history.turns),
        "batches": len(history.steps),
        "edits": sum(len(step.batch.edits) for step in history.steps),
        "saved": max(0, sum(trace.untouched) - sum(trace.tokens)),
        "tokens": trace.tokens[-1] if trace.tokens else 0,
        "untouched": trace.untouched[-1] if trace.untouched else 0,
        "peak": max(trace.tokens, default=0),
        "hit_rate": trace.hit_rate,
        "breaks": len(trace.breaks),
        "diagnosis": trace.diagnosis,
        "cost": round(sum(costs), 6) if costs else None,
        "saved_usd": round(booked.told + booked.pending, 6) if booked else None,
        "estimated": not all(trace.billed),
        "prices": list(accounts.price_rows),
        "undone": list(history.state.undone),
        "pinned": len(history.state.pinned),
        "refusals": list(history.refusals),
        "recall": history.state.recall,
    }


def _calls(_: Library, opened: Opened, __: Mapping[str, str]) -> Json:
    return {**asdict(_trace(opened)), "cost": _accounts(opened).call_costs(), "batches": batch_marks(opened.history)}


def _at(opened: Opened, query: Mapping[str, str]) -> int:
    at = number(query, "at", 0, most=len(opened.history.turns))
    return at if opened.history.turns else 0


def _request(_: Library, opened: Opened, query: Mapping[str, str]) -> Json:
    at = _at(opened, query)
    view = opened.view(at)
    start = number(query, "start", 0, most=10**9)
    stop = start + number(query, "limit", 100, most=_ROWS)
    batches = {edit.id: batch.id for batch in opened.history.state.batches for edit in batch.edits}
    said: Json = {"at": at, "total": len(view.entries), "tokens": view.tokens, "messages": len(view.originals)}
    if at:
        turn = opened.history.turn(at)
        said |= {"warm": _warm(opened, at), "marks": list(turn.sent.breakpoints), "overhead": list(turn.overhead)}
    return {**said, "rows": rows_told(view, batches, start, stop)}


def _warm(opened: Opened, at: int) -> Json:
    now, sent = opened.history.turn(at).sent, [turn.sent for turn in opened.history.turns[: at - 1]]
    found = find_cached_prefix(sent, now=now.at, model=now.model, system=now.system, tools=now.tools, prefix=now.prefix)
    tokens = warm_tokens(found, opened.view(at), _overhead(opened, at))
    return {"messages": found.messages, "tokens": tokens, "reason": found.reason}


def _overhead(opened: Opened, at: int) -> int:
    return sum(opened.history.turn(at).overhead) or _trace(opened).parts["unrecorded"][at - 1]


def _under(_: Library, opened: Opened, query: Mapping[str, str]) -> Json:
    """The originals that a stub stands for."""
    view = opened.view(_at(opened, query))
    edit = next((one for one in view.edits if one.id == query.get("edit")), None)
    if edit is None:
        raise Unknown("there is no such edit in this request")
    start = number(query, "start", 0, most=10**9)
    items = covered(view, edit)
    shown = items[start : start + number(query, "limit", 100, most=_ROWS)]
    return {"total": len(items), "rows": [item_told(item) for item in shown]}


def _edits(_: Library, opened: Opened, __: Mapping[str, str]) -> Json:
    if "batches" not in opened.kept:
        opened.kept["batches"] = batches_told(opened.history, _accounts(opened))
    return {"batches": opened.kept["batches"]}


def _edit(_: Library, opened: Opened, query: Mapping[str, str]) -> Json:
    found = sides_told(opened.history, query.get("id", ""))
    if found is None:
        raise Unknown("there is no such edit")
    return found


def _cache(_: Library, opened: Opened, query: Mapping[str, str]) -> Json:
    """One call's map: each message that went out, by tokens, what was warm of it, and the marks."""
    at = _at(opened, query)
    if not at:
        raise BadRequest("which call?")
    turn, view, trace = opened.history.turn(at), opened.view(at), _trace(opened)
    groups = [
        {"tokens": sum(entry.tokens for entry in group), "role": group[0].role, "ours": any(map(view.is_ours, group))}
        for _, group in group_by_message(view.entries)
    ]
    return {
        "at": at,
        "overhead": _overhead(opened, at),
        "messages": groups,
        "warm": _warm(opened, at),
        "marks": list(turn.sent.breakpoints),
        "ttl": turn.ttl,
        "usage": asdict(turn.usage) if turn.usage else None,
        "break": next((one for one in trace.breaks if one["call"] == at), None),
        "pause": turn.at - opened.history.turns[at - 2].at if at > 1 else None,
    }


def _ledger(_: Library, opened: Opened, query: Mapping[str, str]) -> Json:
    at = _at(opened, query)
    name = f"ledger {at}"
    if name not in opened.kept:
        opened.kept[name] = ledger_told(opened.history, opened.view(at).originals)
    found = opened.kept[name]
    assert isinstance(found, dict)
    return found


def _recall(_: Library, opened: Opened, query: Mapping[str, str]) -> Json:
    words = query.get("q", "")[:400]
    hits = opened.recall.search(words, limit=_HITS, across=query.get("across") == "1")
    return {"query": words, "hits": [asdict(_hidden(opened, hit, words)) for hit in hits]}


def _hidden(opened: Opened, hit: Hit, words: str) -> Hit:
    """Masked as a whole and then cut anew, so that no cut hides the beginning of a secret from the mask."""
    text, masked = redact(opened.recall.read(hit.handle, 0, hit.total, session=hit.session).text)
    if not masked:
        return hit
    wanted = parse_query(words)
    shown = build_excerpt(text, wanted, wanted.terms)
    return replace(hit, line=shown.line, start=shown.start, snippet=shown.snippet, spans=shown.spans, total=len(text))


def _read(_: Library, opened: Opened, query: Mapping[str, str]) -> Json:
    """A page of the exact text behind a handle, but for what is masked."""
    handle, start = query.get("handle", ""), number(query, "start", 0, most=10**10)
    session = query.get("session", "")
    total = opened.recall.read(handle, 0, 0, session=session).total
    page = opened.recall.read(handle, 0, total, session=session)
    text, masked = redact(page.text)
    end = min(len(text), start + 4 * PAGE)
    return {
        **asdict(replace(page, text=text[start:end], start=start, end=end, total=len(text))),
        "next": end if end < len(text) else None,
        "masked": masked.total(),
    }
