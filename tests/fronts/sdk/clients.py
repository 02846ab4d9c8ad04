"""Clients of the official SDKs that are installed, before a scripted provider."""

from __future__ import annotations

import pytest

from upstream.server import Upstream

WINDOW = 16_000


def client(wire: str, upstream: Upstream, *, is_async: bool = False, **options):
    """`wire` is `anthropic`, `chat`, `responses`, `gemini` or `bedrock`."""
    if wire == "bedrock":
        return pytest.importorskip("boto3").client("bedrock-runtime", **amazon_options(upstream, **options))
    if wire == "gemini":
        sdk = pytest.importorskip("google.genai")
        http = sdk.types.HttpOptions(
            base_url=upstream.url,
            timeout=120_000,
            retry_options=sdk.types.HttpRetryOptions(attempts=options.pop("max_retries", 0) + 1, initial_delay=0.01),
        )
        whole = sdk.Client(**{"api_key": "key-of-a-test", **options}, http_options=http)
        return whole.aio if is_async else whole
    if wire == "anthropic":
        sdk = pytest.importorskip("anthropic")
        kind, url = (sdk.AsyncAnthropic if is_async else sdk.Anthropic), upstream.url
    else:
        sdk = pytest.importorskip("openai")
        kind, url = (sdk.AsyncOpenAI if is_async else sdk.OpenAI), upstream.url + "/v1"
    return kind(**{"api_key": "key-of-a-test", "base_url": url, "max_retries": 0, "timeout": 120, **options})


def amazon_options(upstream: Upstream, **more):
    """What boto3 and aioboto3 need to open a client before a scripted provider."""
    retries = {"total_max_attempts": more.pop("max_retries", 0) + 1}
    config = pytest.importorskip("botocore.config").Config(retries=retries, read_timeout=120)
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "secret"}
    return {"region_name": "us-east-1", "endpoint_url": upstream.url, "config": config, **keys, **more}
