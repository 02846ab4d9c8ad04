"""The providers' SDKs behind one class: build a request body, stream the reply, read it.

A stream is read in its own thread, so that a user who interrupts need not wait for the next word.
"""

from __future__ import annotations

import json
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ebbtide.config import Access, Account
from ebbtide.core.errors import BadConfig
from ebbtide.core.types import Usage
from ebbtide.fronts.chat.tools import Arguments, Tool
from ebbtide.wire import WIRES
from ebbtide.wire.replies import parse_event
from ebbtide.wire.sse import EventReader
from ebbtide.wire.summary_request import read_answer

if TYPE_CHECKING:
    import httpx2
    import openai

Body = dict[str, object]

MISSING_EXTRA = "ebb chat needs more packages. Install them with: pip install 'ebbtide[chat]'"
NO_KEY = """\
there is no model to talk to. Choose one of these:
  export ANTHROPIC_API_KEY=...          then: ebb chat
  export OPENAI_API_KEY=...             then: ebb chat
  export GEMINI_API_KEY=...             then: ebb chat
  ebb chat --base-url URL --model NAME  for your own server: llama.cpp, Ollama, vLLM
  ebb chat --local                      a small model on this machine; no key, no network"""
_TIMEOUT = 600.0  # seconds without a byte: thinking models are silent for minutes, and Esc ends it earlier
_RETRIES = 2  # as the SDKs of the other providers do
_TRANSIENT = frozenset((408, 429, 500, 502, 503, 504))
_LONGEST_PAUSE = 60  # seconds; the SDKs also ignore a longer one
_GEMINI_URL = "https://generativelanguage.googleapis.com"
_CHAT_FIELDS = ("role", "content", "refusal", "tool_calls")
_POLL_INTERVAL = 0.05  # seconds between checks whether the user interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    id: str
    name: str
    arguments: Arguments | None
    """None if they are not a JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    is_truncated: bool = False
    """It reached the output limit."""


Piece = str | Body
"""What a stream yields: text as it arrives, and at the end the response as it would be without streaming."""
_Events = AbstractContextManager[Iterable[Any]]
"""The events of one stream, as objects of the SDK or as JSON."""
_OpenStream = Callable[[Mapping[str, object]], _Events]


class IncompleteReply(Exception):
    def __init__(self) -> None:
        super().__init__("the provider closed the connection before the reply was complete")


class ProviderError(Exception):
    """The provider refused the request."""

    def __init__(self, status_code: int, body: bytes) -> None:
        text = body.decode("utf-8", "replace")
        super().__init__(text)
        self.status_code, self.body = status_code, _parse_object(text) or text


class Interruption(Exception):
    """The user interrupted the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One model behind one API."""

    model: str
    wire: str
    stream: Callable[[Mapping[str, object]], Iterator[Piece]] = field(repr=False)
    fixed_fields: Mapping[str, object] = field(default_factory=dict)
    """What this API needs in every request. It never changes, so that the cached prefix stays valid."""

    def build_body(self, request: Mapping[str, object]) -> Body:
        return {**request, **self.fixed_fields}

    def read(self, response: Mapping[str, object]) -> Reply:
        wire = WIRES[self.wire]
        answer = read_answer(wire, response)
        blocks = [
            block
            for message in wire.replies.as_messages(response)
            for block in wire.messages.split(message, wire.list_key)
        ]
        return Reply(
            text="".join(block.text for block in blocks if block.kind == "text"),
            calls=tuple(
                ToolCall(id=block.call_id, name=block.name, arguments=_parse_object(block.text))
                for block in blocks
                if block.kind == "call"
            ),
            usage=answer.usage or Usage(),
            is_truncated=answer.stopped == "length",
        )


def _parse_object(text: str) -> Arguments | None:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return Arguments(value) if isinstance(value, dict) else None


def define_tools(tools: Iterable[Tool], more: Iterable[Body], wire: str) -> list[Body]:
    """Define the tools of a request; `more` are definitions already. Gemini takes all functions as one tool."""
    requests = WIRES[wire].requests
    own = [requests.tool_definition(tool.name, tool.description, tool.schema()) for tool in tools]
    body = requests.add_tools({"tools": own[:1]}, [*own[1:], *more])
    assert body is not None, "nothing in this request keeps tools from being added"
    return list(body["tools"])


# --- streams -----------------------------------------------------------------------------------------------------


def wait_for_response(open_stream: Callable[[], Iterator[Piece]], stop: threading.Event) -> Body:
    """Read a stream to its end and return the response only."""
    for piece in stream_until_stopped(open_stream, stop):
        if not isinstance(piece, str):
            return piece
    raise IncompleteReply


def stream_until_stopped(open_stream: Callable[[], Iterator[Piece]], stop: threading.Event) -> Iterator[Piece]:
    """Yield the pieces of a stream. Raise `Interruption` once `stop` is set; the thread that reads then ends too."""
    pieces: queue.Queue[Piece | BaseException | None] = queue.Queue()

    def pump() -> None:
        try:
            for piece in open_stream():
                pieces.put(piece)
                if stop.is_set():
                    return
            pieces.put(None)
        except BaseException as error:  # noqa: BLE001  # Raised again in the thread that reads the queue.
            pieces.put(error)

    if stop.is_set():
        raise Interruption
    threading.Thread(target=pump, daemon=True).start()
    while True:
        if stop.is_set():
            raise Interruption
        try:
            piece = pieces.get(timeout=_POLL_INTERVAL)
        except queue.Empty:
            continue
        if piece is None:
            return
        if isinstance(piece, BaseException):
            raise piece
        yield piece


def make_provider(name: str, model: str, url: str, access: Access) -> Provider:
    """`name` is one of `APIS`. Without a `url`, that of the environment or the SDK is used."""
    api = APIS[name]
    account = access.accounts[api.account]
    stream = partial(_stream, api, api.connect(replace(account, url=url or account.url)))
    return Provider(model=model, wire=api.wire, stream=stream, fixed_fields=api.fixed_fields)


def _stream(api: Api, open_stream: _OpenStream, body: Mapping[str, object]) -> Iterator[Piece]:
    assembler = WIRES[api.wire].replies.stream_assembler()
    with open_stream(body) as events:
        for event in events:
            is_json = isinstance(event, dict)
            data = event if is_json else event.model_dump(mode="json", exclude_unset=True, warnings=False)
            if text := assembler.add(data):
                yield text
    response = assembler.response()
    if not assembler.is_complete:
        raise RuntimeError(str(response["error"])) if response.get("error") else IncompleteReply
    yield api.clean(response)


def _clean_chat_completion(response: Body) -> Body:
    """Servers differ: some add fields that a later request may not carry, some leave out a call's id or arguments."""
    (choice,) = cast("list[dict[str, Any]]", response["choices"])
    message = {key: value for key, value in choice["message"].items() if key in _CHAT_FIELDS}
    for n, call in enumerate(message.get("tool_calls", ())):
        call["id"] = call["id"] or f"call_{response.get('id') or ''}_{n}"
        call["function"]["arguments"] = call["function"]["arguments"] or "{}"
    return {**response, "choices": [{**choice, "message": message}]}


def _clean_gemini(response: Body) -> Body:
    """Many calls have no id, but a result is recorded under the id of its call."""
    for message in WIRES["gemini"].replies.as_messages(response):
        for part in message["parts"]:
            if "functionCall" in part:
                part["functionCall"].setdefault("id", f"call_{secrets.token_hex(6)}")
    return response


def _connect_anthropic(account: Account) -> _OpenStream:
    try:
        import anthropic  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig(MISSING_EXTRA) from error
    client = anthropic.Anthropic(**_options(account), timeout=_TIMEOUT)
    return partial(_create, client.messages.create)


def _connect_chat_completions(account: Account) -> _OpenStream:
    return partial(_create, openai_client(account).chat.completions.create, stream_options={"include_usage": True})


def _connect_responses(account: Account) -> _OpenStream:
    return partial(_create, openai_client(account).responses.create)


def _create(create: Callable[..., Any], body: Mapping[str, object], **options: object) -> _Events:
    return cast(_Events, create(**{**body, **options, "stream": True}))


def _connect_gemini(account: Account) -> _OpenStream:
    """Send JSON as it is: Google's SDK would write signatures in another alphabet than the one they came in."""
    try:
        import httpx2  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig(MISSING_EXTRA) from error
    options = _options(account)
    client = httpx2.Client(
        base_url=options["base_url"] or _GEMINI_URL,
        headers={"x-goog-api-key": options["api_key"]},
        timeout=_TIMEOUT,
        transport=httpx2.HTTPTransport(retries=_RETRIES),
    )
    return partial(_post_gemini, client)


@contextmanager
def _post_gemini(client: httpx2.Client, body: Mapping[str, object]) -> Iterator[Iterable[Body]]:
    rest = {key: value for key, value in body.items() if key != "model"}
    url = f"/v1beta/models/{body['model']}:streamGenerateContent?alt=sse"
    for retries_left in reversed(range(_RETRIES + 1)):
        with client.stream("POST", url, json=rest) as response:
            if not response.is_error:
                yield _read_events(response.iter_bytes())
                return
            error = ProviderError(response.status_code, response.read())
            pause = _pause_before_retry(response.headers, _RETRIES - retries_left)
        if error.status_code not in _TRANSIENT or not retries_left:
            raise error
        time.sleep(pause)


def _pause_before_retry(headers: Mapping[str, str], retries: int) -> float:
    """Return the seconds that the provider asks to wait; without a reasonable number, half a second, then a second."""
    asked = headers.get("retry-after", "")
    return float(asked) if asked.isdecimal() and int(asked) <= _LONGEST_PAUSE else 0.5 * 2**retries


def _read_events(chunks: Iterable[bytes]) -> Iterator[Body]:
    reader = EventReader()
    for chunk in chunks:
        yield from map(parse_event, reader.feed(chunk))
    yield from map(parse_event, reader.close())


def openai_client(account: Account) -> openai.OpenAI:
    try:
        import openai  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig(MISSING_EXTRA) from error
    return openai.OpenAI(**_options(account), timeout=_TIMEOUT)


def _options(account: Account) -> dict[str, Any]:
    if not account.key and not account.url:
        raise BadConfig(NO_KEY)
    # Local servers need no key, but the SDKs do.
    return {"api_key": account.key or "none", "base_url": account.url or None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A provider's API, through its SDK."""

    wire: str
    account: str
    """One of `Access.accounts`."""
    default_model: str
    connect: Callable[[Account], _OpenStream]
    lists_models: bool = False
    """Whether a server of the user's own says which models it has."""
    fixed_fields: Mapping[str, object] = field(default_factory=dict)
    clean: Callable[[Body], Body] = lambda response: response
    """Make a response one that can be sent back."""


APIS: Mapping[str, Api] = {
    "anthropic": Api(
        wire="anthropic", account="anthropic", default_model="claude-sonnet-5", connect=_connect_anthropic
    ),
    "gemini": Api(
        wire="gemini", account="gemini", default_model="gemini-2.5-pro", connect=_connect_gemini, clean=_clean_gemini
    ),
    "openai": Api(
        wire="openai_chat",
        account="openai",
        default_model="gpt-5",
        connect=_connect_chat_completions,
        lists_models=True,
        clean=_clean_chat_completion,
    ),
    "responses": Api(
        wire="openai_responses",
        account="openai",
        default_model="gpt-5",
        connect=_connect_responses,
        lists_models=True,
        # The log is the only copy of the conversation: the provider keeps nothing, and sends reasoning encrypted.
        fixed_fields={"store": False, "include": ["reasoning.encrypted_content"]},
    ),
}
"""By the names of `--provider`."""
