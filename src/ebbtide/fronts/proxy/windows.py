"""Asks a provider for the window of a model whose name says nothing: once, at the same upstream, for two seconds.

Where it is written: `/models` of gateways and of servers such as vLLM, Anthropic's and Gemini's own model pages,
`/props` of llama.cpp, `/api/show` of Ollama. The question carries the credentials of the request that it is asked for,
and goes to the same address, to no other.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

import aiohttp
from yarl import URL

from ebbtide.config import Settings
from ebbtide.fronts.proxy.meters import JsonLog
from ebbtide.fronts.proxy.upstream_client import question_headers

_TOTAL_SECONDS = 2.0
"""A first request may wait so long for a better number than a guess."""
_MAX_BYTES = 8 << 20
"""Of an answer: lists of gateways have a thousand models."""
_SMALLEST, _LARGEST = 1_000, 100_000_000
"""Tokens. Anything else is no window."""
_FIELDS = (
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
    "inputTokenLimit",
)
_ROUTE = re.compile(r"/(chat/completions|responses|messages|models/[^/:]+:\w+)\Z")
_VERSION = re.compile(r"/v\d\w*\Z")

Json = Mapping[str, object]
RawHeaders = Sequence[tuple[bytes, bytes]]


class ProviderWindows:
    """The windows that providers named, by model."""

    def __init__(self, settings: Settings, log: JsonLog, client: Callable[[], aiohttp.ClientSession]) -> None:
        self._named: dict[str, int] = {}
        self.settings = replace(settings, windows=ChainMap(self._named, dict(settings.windows)))
        """The user's settings, to which the windows that providers name are added."""
        self._log, self._client = log, client
        self._questions: dict[str, asyncio.Task[None]] = {}

    async def learn(self, model: str, url: str, headers: RawHeaders) -> None:
        """Ask for the window of an unknown model. Later requests for it wait for the same answer."""
        if not model or self.settings.known_window_for(model) is not None:
            return
        if model not in self._questions:
            self._questions[model] = asyncio.get_running_loop().create_task(self._ask(model, url, headers))
        await asyncio.shield(self._questions[model])

    async def _ask(self, model: str, url: str, headers: RawHeaders) -> None:
        window = None
        try:
            async with asyncio.timeout(_TOTAL_SECONDS):
                window = await self._find(model, _base_of(url), headers)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            pass  # it stays a guess
        if window is not None:
            self._named[model] = window
        source = "provider" if window else "guess"
        self._log.line("window", model=model, window=self.settings.window_for(model), source=source)

    async def _find(self, model: str, base: str, headers: RawHeaders) -> int | None:
        listing = await self._get(f"{base}/models", headers)
        entry = _entry(listing, model)
        server = str(entry.get("owned_by", "")) if entry else ""
        root = _VERSION.sub("", base)
        if server == "llamacpp" or listing is None:
            props = await self._get(f"{root}/props", headers)
            settings = props.get("default_generation_settings") if props else None
            window = _tokens(settings.get("n_ctx") if isinstance(settings, Mapping) else None)
            if window is not None:
                return window
        if server == "library" or listing is None:
            shown = await self._get(f"{root}/api/show", headers, {"model": model})
            if shown is not None:
                return _window_of_ollama(shown)
        window = _window_in(entry)
        if window is None and entry is None and listing is not None:
            window = _window_in(await self._get(f"{base}/models/{quote(model, safe='')}", headers))
        return window

    async def _get(self, url: str, headers: RawHeaders, body: Json | None = None) -> Json | None:
        """Return an answer that is a JSON object; None for any other."""
        method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
        async with self._client().request(
            method, URL(url, encoded=True), headers=question_headers(headers), data=data, allow_redirects=False
        ) as answer:
            raw = await answer.content.read(_MAX_BYTES) if answer.status == 200 else b""
            while raw and not answer.content.at_eof() and len(raw) < _MAX_BYTES:
                raw += await answer.content.read(_MAX_BYTES - len(raw))
        try:
            value = json.loads(raw or b"null")
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


def _base_of(url: str) -> str:
    """Return the address that its paths begin with, as in `https://host/v1`."""
    return _ROUTE.sub("", url.partition("?")[0])


def _entry(listing: Json | None, model: str) -> Json | None:
    rows = (listing or {}).get("data") or (listing or {}).get("models")
    entries = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    named = [row for row in entries if model in (row.get("id"), row.get("name"), row.get("model"))]
    gemini = [row for row in entries if row.get("name") == f"models/{model}"]
    # A server of one model serves it under any name.
    alone = entries if len(entries) == 1 and entries[0].get("owned_by") in ("llamacpp", "vllm") else []
    return next(iter((*named, *gemini, *alone)), None)


def _window_in(entry: Json | None) -> int | None:
    return next((window for field in _FIELDS if (window := _tokens((entry or {}).get(field))) is not None), None)


def _window_of_ollama(shown: Json) -> int | None:
    """Return what it serves: `num_ctx` if that is set, at most what the model was made for."""
    info = shown.get("model_info")
    limits = (
        [_tokens(value) for name, value in info.items() if name.endswith(".context_length")]
        if isinstance(info, dict)
        else []
    )
    match = re.search(r"(?m)^[ \t]*num_ctx[ \t]+(\d+)", str(shown.get("parameters", "")))
    known = [window for window in (*limits, _tokens(int(match[1])) if match else None) if window is not None]
    return min(known, default=None)


def _tokens(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and _SMALLEST <= value <= _LARGEST else None  # type: ignore[operator, return-value]
