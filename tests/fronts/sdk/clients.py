"""Clients of the official SDKs that are installed, before a scripted provider."""

from __future__ import annotations

import pytest

from upstream.server import Upstream

WINDOW = 16_000


def client(wire: str, upstream: Upstream, *, is_async: bool = False, **options):
    """`wire` is `anthropic`, `chat`, `responses` or `gemini`."""
    if wire == "gemini":
        sdk = pytest.importorskip("google.genai")
        http = sdk.types.HttpOptions(
            base_url=upstream.url, timeout=120_000, retry_options=sdk.types.HttpRetryOptions(attempts=1)
        )
        return sdk.Client(**{"api_key": "key-of-a-test", **options}, http_options=http)
    if wire == "anthropic":
        sdk = pytest.importorskip("anthropic")
        kind, url = (sdk.AsyncAnthropic if is_async else sdk.Anthropic), upstream.url
    else:
        sdk = pytest.importorskip("openai")
        kind, url = (sdk.AsyncOpenAI if is_async else sdk.OpenAI), upstream.url + "/v1"
    return kind(
        api_key="key-of-a-test", base_url=url, max_retries=options.pop("max_retries", 0), timeout=120, **options
    )
