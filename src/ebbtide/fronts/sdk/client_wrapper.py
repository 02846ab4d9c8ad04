"""`wrap`: a client of an official SDK, kept inside the window. It keeps its type, its settings and its connections."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar, cast

from ebbtide.compaction.answer_sources import SummarizeFunction
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.sdk.by_middleware import AsyncMiddleware, Middleware, in_the_middle
from ebbtide.fronts.sdk.by_request import is_wrapped, through
from ebbtide.fronts.sdk.gate import Ask, Gate, OnReport
from ebbtide.fronts.sdk.lanes import Body, Call
from ebbtide.policy import Policy, preset
from ebbtide.runtime import Context
from ebbtide.runtime.validation import check_settings
from ebbtide.store import open_store

T = TypeVar("T")

_KNOWN = "anthropic.Anthropic, AsyncAnthropic, openai.OpenAI or AsyncOpenAI"


class Client(Protocol):
    """What the clients of both SDKs have."""

    def post(self, path: str, *, cast_to: object, body: Body, options: Mapping[str, object]) -> object: ...


def wrap(
    client: T,
    *,
    session: str = "",
    policy: str | Policy = "default",
    store: object = None,
    durable: bool = True,
    summarizer: str | SummarizeFunction | None = None,
    on_report: OnReport | None = None,
    **options: object,
) -> T:
    """A copy of the client whose model calls fit the window, whichever of its methods makes them.

    `options` are those of `Context`. `session` names the conversation of all calls; without it each is told by how it
    begins, or by `with ebbtide.session(...)`. `summarizer` may be the name of a model, which is then asked through this
    client. `on_report` gets the session and the report of each request that the provider took; what a call returns
    carries the report too, as `_ebbtide`.
    """
    root = _root(client)
    check_settings(session=session)
    is_async = inspect.iscoroutinefunction(getattr(client, "request", None))
    opened = open_store(store, durable=durable) if isinstance(store, str) or hasattr(store, "__fspath__") else store
    chosen = preset(policy, model=str(options.get("model", ""))) if isinstance(policy, str) else policy
    given = {**options, "policy": policy, "store": opened}
    if isinstance(summarizer, str):
        given["summarizer_model"] = summarizer
    gate = Gate(
        partial(_context, _checked(given)),
        policy=chosen,
        session=session,
        ask=_ask(cast(Client, client), summarizer, is_async=is_async),
        on_report=on_report,
    )
    if root == "anthropic" and hasattr(client, "with_middleware"):
        return in_the_middle(client, gate, is_async=is_async)
    return through(client, gate, is_async=is_async)


def _root(client: object) -> str:
    """The SDK that the client comes from, perhaps by way of a class of the caller's."""
    roots = {kind.__module__.partition(".")[0] for kind in type(client).__mro__}
    found = next((name for name in ("anthropic", "openai") if name in roots), "")
    if not found or not callable(getattr(client, "post", None)) or not hasattr(client, "copy"):
        raise TypeError(f"wrap() takes {_KNOWN}, not {type(client).__name__}")
    middleware = getattr(client, "_middleware", None) or ()
    ours = (Middleware, AsyncMiddleware)
    if is_wrapped(client) or any(isinstance(one, ours) for one in middleware):
        raise BadConfig("this client is wrapped already: wrap the one it was made from")
    return found


def _checked(options: Mapping[str, object]) -> Mapping[str, object]:
    """A wrong option is said here, not at the first call, where nothing of ours may fail."""
    known = inspect.signature(Context).parameters
    unknown = [name for name in options if name not in known or name == "wire"]  # The endpoint tells the wire.
    if unknown:
        there = ", ".join(name for name in known if name != "wire")
        raise TypeError(f"wrap() got an unknown option {unknown[0]!r}; there are {there}")
    check_settings(store=options["store"])
    cast(Callable[..., Context], Context)(**{**options, "store": None})  # it says what is wrong with a value
    return options


def _context(given: Mapping[str, object], **told: object) -> Context:
    """What the caller set stands above what the call tells."""
    return cast(Callable[..., Context], Context)(**{**told, **given})


def _ask(client: Client, summarizer: str | SummarizeFunction | None, *, is_async: bool) -> Ask | None:
    if summarizer is None:
        return None
    if isinstance(summarizer, str):
        return partial(_aposted, client) if is_async else partial(_posted, client)
    if inspect.iscoroutinefunction(summarizer):

        async def awaited(_: Call, request: Body) -> object:
            return await summarizer(dict(request))

        return awaited
    return lambda _, request: summarizer(dict(request))


def _posted(client: Client, call: Call, request: Body) -> object:
    """The question by the way of the call it is about: the same endpoint, the same betas."""
    return client.post(call.url, cast_to=object, body=request, options={"headers": dict(call.headers)})


async def _aposted(client: Client, call: Call, request: Body) -> object:
    return await cast(Awaitable[object], _posted(client, call, request))
