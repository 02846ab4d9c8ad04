"""`POST /v1/compress` and `GET /v1/retrieve/{hash}`: how a gateway lets another service shorten its requests.

LiteLLM's guardrail `headroom` speaks this contract, and others do. The gateway sends the rows of a conversation that
may be shortened: it may keep back the system prompt, the model's own messages and the newest turn. It gets as many
rows back. A row that was shortened carries `hash=` and 24 hex digits, and the gateway asks for the whole text by them.

Conversations have no names here. One is known by its first tool result, and an edit is active only where all rows that
it was made of are present. So two users behind one gateway never see each other's text, also if they begin alike.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbtide.core import texts
from ebbtide.core.errors import BadRequest, Busy, EbbtideError, WontFit
from ebbtide.core.stub import parse, stored_names
from ebbtide.fronts.proxy.sessions import EngineSettings
from ebbtide.policy.keep_rows import keep_rows
from ebbtide.runtime import Context, Ready, Recall
from ebbtide.state.session_state import ebb_record
from ebbtide.store import MemoryStore, Store

Rows = Sequence[Mapping[str, Any]]
_RESERVE = 0.3
"""Share of the window for what we do not see: prompt, tools, the model's messages, the newest turn, the reply."""
_MAX_SESSIONS = 256
"""Conversations kept in memory. An older one is read from the store."""
_KEY_SESSION = "gateway-key"
_SESSION_DIGITS = 8
_HASH = re.compile(r"[0-9a-f]{24}")
_MAX_WINDOWS = 4
"""How many windows a request is planned for that does not fit its model's."""


@dataclass(slots=True)
class _Conversation:
    context: Context
    lock: threading.Lock = field(default_factory=threading.Lock)
    least_window: int = 0
    """Tokens that a request needs which does not fit its model's window."""


class Compressor:
    """Shortens the tool results of conversations that a gateway sends, and gives them back."""

    def __init__(self, settings: EngineSettings) -> None:
        self._store: Store = settings.store or MemoryStore()
        self._window_for = settings.window_for
        self._policy = keep_rows(settings.policy)
        self._key: bytes = b""
        self._conversations: OrderedDict[str, _Conversation] = OrderedDict()
        self._lock = threading.Lock()

    def compress(self, request: object, credential: str) -> dict[str, object]:
        """Return the answer to a request as the contract has it. Raises BadRequest with what is wrong."""
        rows, model = _read_request(request)
        first = next((row for row in rows if _is_result(row)), None)
        if first is None:
            return self._leave(rows)
        session = self._name_session(credential, first)
        conversation = self._find(session)
        messages, places = _with_calls(rows)
        body = {"model": model, "max_tokens": int(self._window_for(model) * _RESERVE), "messages": messages}
        with conversation.lock:
            try:
                ready = _prepare(conversation, body)
            except EbbtideError:
                return self._leave(rows)
        sent: list[Mapping[str, Any]] = list(ready.body["messages"])
        if len(sent) != len(messages):
            return self._leave(rows)
        hashes: list[str] = []
        shortened = [
            row if place is None else self._shorten(row, sent[place], session, credential, hashes)
            for row, place in zip(rows, places, strict=True)
        ]
        return _answer(rows, shortened, ready.report.tokens_untouched, ready.report.tokens_after, hashes)

    def retrieve(self, hash: str, credential: str) -> str | None:
        """Return the whole text behind a hash; None if this credential never got it."""
        if not _HASH.fullmatch(hash):
            return None
        session = f"gateway-{hash[:_SESSION_DIGITS]}"
        if session not in self._conversations and not self._store.peek(session).read().records:
            return None  # opening it would leave files
        conversation = self._find(session)
        with conversation.lock:
            context = conversation.context
            for name in [name for edit in context.edits() for name in stored_names(edit)]:
                if hmac.compare_digest(self._hash(session, name, credential), hash):
                    return context.read(name).text
        return None

    def _leave(self, rows: Rows) -> dict[str, object]:
        known = [row["content"] for row in rows if isinstance(row.get("content"), str)]
        tokens = sum(self._policy.estimator.text(text) for text in known)
        return _answer(rows, rows, tokens, tokens, [])

    def _shorten(
        self, row: Mapping[str, Any], sent: Mapping[str, Any], session: str, credential: str, hashes: list[str]
    ) -> Mapping[str, Any]:
        """Return the row with its placeholder, if it has one and is shorter with it. Add its hash."""
        if not _is_result(row) or sent.get("content") == row.get("content"):
            return row
        text = sent["content"] if isinstance(sent["content"], str) else ""
        stub = parse(text)
        if stub is None or not stub.handle:
            return row
        hash = self._hash(session, stub.handle, credential)
        change = texts.SHORTENED if stub.preview else texts.REMOVED
        marked = "\n".join(filter(None, (texts.gateway_marker(change, stub.tokens, stub.lines, hash), stub.preview)))
        if len(marked) >= len(str(row.get("content") or "")):
            return row
        hashes.append(hash)
        return {**row, "content": marked}

    def _name_session(self, credential: str, first: Mapping[str, Any]) -> str:
        return f"gateway-{self._mac(credential, _call_id(first), _text(first))[:_SESSION_DIGITS]}"

    def _hash(self, session: str, name: str, credential: str) -> str:
        """The session's own digits, so that it is found again, and a code that only we can compute."""
        digits = session.removeprefix("gateway-")
        return digits + self._mac(credential, session, name)[: 24 - _SESSION_DIGITS]

    def _mac(self, *parts: str) -> str:
        content = b"".join(hashlib.sha256(part.encode("utf-8", "surrogatepass")).digest() for part in parts)
        return hmac.new(self._secret(), content, hashlib.sha256).hexdigest()

    def _secret(self) -> bytes:
        """The key of this store, made once: all proxies on the store give the same hashes, today and tomorrow."""
        with self._lock:
            if not self._key:
                self._key = _read_or_make_key(self._store)
            return self._key

    def _find(self, session: str) -> _Conversation:
        with self._lock:
            if session not in self._conversations:
                self._conversations[session] = self._open(session)
            self._conversations.move_to_end(session)
            while len(self._conversations) > _MAX_SESSIONS:
                self._conversations.popitem(last=False)
            return self._conversations[session]

    def _open(self, session: str) -> _Conversation:
        def find_window(model: str) -> int:
            return max(self._window_for(model), conversation.least_window)

        context = Context(
            session=session, store=self._store, window=find_window, policy=self._policy,
            wire="openai_chat", marks=None, recall=Recall("tool"),
        )  # fmt: skip
        conversation = _Conversation(context)
        return conversation


def _prepare(conversation: _Conversation, body: Mapping[str, Any]) -> Ready:
    """Return the rows as small as they can be, also if they do not fit: the gateway knows what it holds back.

    A request that does not fit is planned again in the window that it needs: then all that may go is removed.
    """
    conversation.least_window = 0
    for _ in range(_MAX_WINDOWS):
        try:
            return conversation.context.prepare(body)
        except WontFit as error:
            # Without the session's lock nothing is planned in any window: leave it room, and do not wait once more.
            room = error.tokens if isinstance(error, Busy) else error.tokens // 20
            conversation.least_window = error.tokens + room
    return conversation.context.prepare(body)


def _read_or_make_key(store: Store) -> bytes:
    log = store.open(_KEY_SESSION, now=time.time())
    with log.lock() as fence:
        records = log.read().records
        key = next((str(record["key"]) for record in records if record.get("kind") == "gateway_key"), "")
        if not key:
            key = secrets.token_hex(32)
            log.commit([ebb_record("gateway_key", key=key)], at=time.time(), fence=fence)
    return bytes.fromhex(key)


def _read_request(request: object) -> tuple[list[Mapping[str, Any]], str]:
    rows = request.get("messages") if isinstance(request, Mapping) else None
    if not isinstance(rows, list) or not rows:
        raise BadRequest("messages must be a list of chat messages that is not empty")
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping) or not isinstance(row.get("role"), str):
            raise BadRequest(f"messages[{index}] is not a chat message: it needs a role")
    model = request.get("model") if isinstance(request, Mapping) else ""
    return rows, model if isinstance(model, str) else ""


def _with_calls(rows: Rows) -> tuple[list[Mapping[str, Any]], list[int | None]]:
    """Return a conversation in which every result has its call, and the place of each row in it.

    Gateways keep the model's messages back, and a result without its call is no conversation. Rows that are neither
    results nor text have no place: they are never changed.
    """
    messages: list[Mapping[str, Any]] = []
    places: list[int | None] = []
    uses: dict[str, int] = {}
    for row in rows:
        content = row.get("content")
        if not isinstance(content, str) or not content:
            places.append(None)
            continue
        message: dict[str, Any] = {"role": "tool" if _is_result(row) else row["role"], "content": content}
        if _is_result(row):
            # The same id twice means two results: the second gets an id of its own, the same one each time.
            call_id = _call_id(row)
            uses[call_id] = uses.get(call_id, 0) + 1
            call_id = f"{call_id}-{uses[call_id]}" if uses[call_id] > 1 else call_id
            function = {"name": str(row.get("name") or "tool"), "arguments": "{}"}
            call = {"id": call_id, "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            message["tool_call_id"] = call_id
        places.append(len(messages))
        messages.append(message)
    return messages, places


def _is_result(row: Mapping[str, Any]) -> bool:
    return row.get("role") in ("tool", "function") and isinstance(row.get("content"), str) and bool(row["content"])


def _call_id(row: Mapping[str, Any]) -> str:
    return str(row.get("tool_call_id") or "call")


def _text(row: Mapping[str, Any]) -> str:
    return str(row.get("content") or "")


def _answer(
    rows: Sequence[Mapping[str, Any]],
    shortened: Sequence[Mapping[str, Any]],
    before: int,
    after: int,
    hashes: list[str],
) -> dict[str, object]:
    changed = [row for row, short in zip(rows, shortened, strict=True) if short is not row]
    after = after if changed else before
    return {
        "messages": list(shortened),
        "tokens_before": before,
        "tokens_after": after,
        "tokens_saved": before - after,
        "compression_ratio": round(after / before, 4) if before else 1.0,
        "transforms_applied": ["ebbtide"] if changed else [],
        "ccr_hashes": hashes,
    }
