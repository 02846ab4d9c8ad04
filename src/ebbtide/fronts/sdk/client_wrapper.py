"""`wrap`: keep a client of an official SDK inside the window. It keeps its type, its settings and its connections."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from ebbtide.compaction.answer_sources import SummarizeFunction, Summarizer
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.sdk.by_botocore import aask_bedrock, ask_bedrock, is_async_client, is_bedrock, wrap_bedrock
from ebbtide.fronts.sdk.by_genai import ask_model, find_genai_gate, is_genai, wrap_genai, write_back
from ebbtide.fronts.sdk.by_middleware import find_middleware_gate, wrap_by_middleware
from ebbtide.fronts.sdk.by_request import can_answer_recalls, find_request_gate, wrap_by_request
from ebbtide.fronts.sdk.call_gate import AskModel, CallGate, OnReport, WriteBack
from ebbtide.fronts.sdk.sessions import Body, ModelCall, SessionName
from ebbtide.policy import Policy, preset
from ebbtide.runtime import Context
from ebbtide.runtime.validation import (
    Cache,
    Recall,
    RecallBy,
    RecallScope,
    check_settings,
    refuse_moved,
    wrong_type,
)
from ebbtide.store import find_store

T = TypeVar("T")

_CLIENTS = (
    "a client of an SDK, such as anthropic.Anthropic, openai.AsyncOpenAI, google.genai.Client "
    'or boto3.client("bedrock-runtime")'
)


class Client(Protocol):
    """What the clients of both SDKs share."""

    def post(self, path: str, *, cast_to: object, body: Body, options: Mapping[str, object]) -> object: ...


def wrap(
    client: T,
    *,
    session: SessionName = "",
    parent: SessionName = "",
    policy: str | Policy = "default",
    store: object = None,
    durable: bool = True,
    summarizer: str | SummarizeFunction | Summarizer | None = None,
    on_report: OnReport | None = None,
    **options: object,
) -> T:
    """Return a copy of the client whose model calls fit the window, whichever of its methods makes them.

    `options` are those of `Context`. `session` names the session of all calls, or is a function that names the session
    of each call; without it each call's session is found by how its conversation begins. `with ebbtide.session(...)`
    overrides it. `parent` names the session that a sub-agent works for, in the same way. `summarizer` may be the name
    of a model to ask through this client. `on_report` gets the session and the report of each request that the provider
    accepted; what a call returns has the report too, as `_ebbtide`. The client's sessions are at `client.ebbtide`.

    A wrapped client is returned as it is, unless these settings differ from its own.
    """
    settings = {
        "session": session, "parent": parent, "policy": policy, "store": store, "durable": durable,
        "summarizer": summarizer, "on_report": on_report, **options,
    }  # fmt: skip
    sdk = _check_client(client)
    wrapped_gate = find_request_gate(client) or find_genai_gate(client) or find_middleware_gate(client)
    if wrapped_gate is not None:
        _check_same_settings(wrapped_gate.settings, settings)
        return client
    _check_names(session=session, parent=parent)
    is_async = _is_async(client)
    has_middleware = sdk == "anthropic" and hasattr(client, "with_middleware")
    store = find_store(store, durable=durable, tenant=str(options.pop("tenant", "")))
    chosen_policy = preset(policy, model=str(options.get("model", ""))) if isinstance(policy, str) else policy
    options = {**options, "cache": _cache_options(client, options)}
    asking: dict[str, object] = {}
    if isinstance(summarizer, Summarizer):
        asking = {"model": summarizer.model, "timeout": summarizer.timeout, "background": summarizer.background}
        summarizer = summarizer.ask
    elif isinstance(summarizer, str):
        asking = {"model": summarizer}
    gate = CallGate(
        partial(_new_context, _check_options({**options, "policy": policy, "store": store}), asking),
        settings=settings,
        policy=chosen_policy,
        session=session,
        parent=parent,
        adds_recall_tools=_recall_mode(options) == "tool" and _can_hold_back(client, has_middleware),
        write_back=_WRITE_BACK.get(sdk, list),
        ask=_ask_model(client, sdk, summarizer, is_async=is_async),
        on_report=on_report,
    )
    if sdk in _WRAP:
        return cast(T, _WRAP[sdk](client, gate))
    if has_middleware:
        return wrap_by_middleware(client, gate, is_async=is_async)
    return wrap_by_request(client, gate, is_async=is_async)


_OPENAI_HOSTS = ("api.openai.com", "openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com")


def _cache_options(client: object, options: Mapping[str, object]) -> Cache:
    """Return the caller's `Cache`. If it says nothing of keys, only OpenAI's own servers get any."""
    cache = options.get("cache", Cache())
    if not isinstance(cache, Cache):
        raise wrong_type("cache", "an ebbtide.Cache", cache)
    if cache.key is not None or not options.get("marks", True):
        return cache
    host = str(getattr(getattr(client, "base_url", ""), "host", ""))
    return replace(cache, key=any(host == name or host.endswith(f".{name}") for name in _OPENAI_HOSTS))


_WRAP: Mapping[str, Callable[[Any, CallGate], Any]] = {"google": wrap_genai, "bedrock": wrap_bedrock}


def _is_async(client: object) -> bool:
    return inspect.iscoroutinefunction(getattr(client, "request", None)) or is_async_client(client)


def _check_client(client: object) -> str:
    """Return the SDK that the client's class, or one it derives from, comes from. Raises if it cannot be wrapped."""
    if is_genai(client):
        return "google"
    if is_bedrock(client):
        return "bedrock"
    packages = {kind.__module__.partition(".")[0] for kind in type(client).__mro__}
    sdk = next((name for name in ("anthropic", "openai") if name in packages), "")
    if not sdk or not callable(getattr(client, "post", None)) or not hasattr(client, "copy"):
        raise TypeError(f"wrap() takes {_CLIENTS}, not {type(client).__name__}")
    return sdk


def _check_same_settings(own: Mapping[str, object], new: Mapping[str, object]) -> None:
    """Raise if a wrapped client is wrapped with other settings. Those left at their defaults are not compared."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(wrap).parameters.items()}
    for name, value in new.items():
        if name in defaults and value is defaults[name]:
            continue
        if name not in own or not _is_same(own[name], value):
            raise BadConfig(
                f"this client is wrapped already, with another value of {name!r}: wrap the client it was made from"
            )


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, str | os.PathLike) and isinstance(other, str | os.PathLike):
        return os.fspath(one) == os.fspath(other)
    return one is other or bool(one == other)


def _check_names(**names: SessionName) -> None:
    for option, name in names.items():
        if inspect.iscoroutinefunction(name):
            raise BadConfig(f"{option} must be a name or a plain function that returns one, not a coroutine function")
        if not callable(name):
            check_settings(**{option: name})


def _check_options(options: Mapping[str, object]) -> Mapping[str, object]:
    """Raise for a wrong option now: at the first call nothing of ours may fail."""
    known = inspect.signature(Context).parameters
    hidden = {"wire", "unknown"}  # the endpoint decides the wire
    unknown = [name for name in options if name not in known or name in hidden]
    if unknown:
        refuse_moved(unknown)
        names = ", ".join(name for name in known if name not in hidden)
        raise TypeError(f"wrap() got an unknown option {unknown[0]!r}; the options are {names}")
    check_settings(store=options["store"])
    cast(Callable[..., Context], Context)(**{**options, "store": None})  # raises for a wrong value
    return options


def _can_hold_back(client: object, has_middleware: bool) -> bool:
    """Tell whether we can change this client's answers before it reads them."""
    if is_bedrock(client):
        return True
    # Anthropic's client for Bedrock decodes Amazon's streams itself, and we write none for it.
    is_anthropics = any(kind.__name__ == "BaseBedrockClient" for kind in type(client).__mro__)
    return not is_anthropics and (has_middleware or is_genai(client) or can_answer_recalls(client))


def _recall_mode(options: Mapping[str, object]) -> object:
    recall = options.get("recall", "path")
    return recall.by if isinstance(recall, Recall) else recall


def _new_context(
    options: Mapping[str, object],
    asking: Mapping[str, object],
    *,
    scope: RecallScope,
    ask: SummarizeFunction | None,
    **call_options: object,
) -> Context:
    """Open a context. The caller's options override those of the call."""
    recall = options.get("recall", "path")
    recall = recall if isinstance(recall, Recall) else Recall(cast(RecallBy, recall))
    if ask is not None:
        call_options["summarizer"] = cast(Callable[..., Summarizer], Summarizer)(ask, **asking)
    call_options |= {**options, "recall": recall if recall.scope else replace(recall, scope=scope)}
    return cast(Callable[..., Context], Context)(**call_options)


def _ask_model(
    client: object, sdk: str, summarizer: str | SummarizeFunction | None, *, is_async: bool
) -> AskModel | None:
    if summarizer is None:
        return None
    if isinstance(summarizer, str) and sdk == "google":
        return partial(ask_model, client)
    if isinstance(summarizer, str) and sdk == "bedrock":
        return partial(aask_bedrock if is_async else ask_bedrock, client)
    if isinstance(summarizer, str):
        return partial(_apost, cast(Client, client)) if is_async else partial(_post, cast(Client, client))
    if inspect.iscoroutinefunction(summarizer):

        async def ask(_: ModelCall, request: Body) -> object:
            return await summarizer(dict(request))

        return ask
    return lambda _, request: summarizer(dict(request))


def _write_back(messages: list[object]) -> list[object]:
    """Write answers with the objects of Anthropic's SDK, as its callers do: the fields have another order there."""
    construct = getattr(getattr(sys.modules.get("anthropic.types"), "Message", None), "construct", None)
    if construct is None:
        return messages
    return [{**message, "content": construct(**message).content} for message in cast(list[dict[str, Any]], messages)]


_WRITE_BACK: Mapping[str, WriteBack] = {"anthropic": _write_back, "google": write_back}


def _post(client: Client, call: ModelCall, request: Body) -> object:
    """Send a question with the endpoint and the betas of the call that it is about."""
    return client.post(call.url, cast_to=object, body=request, options={"headers": dict(call.headers)})


async def _apost(client: Client, call: ModelCall, request: Body) -> object:
    return await cast(Awaitable[object], _post(client, call, request))
