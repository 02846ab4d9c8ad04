"""What LiteLLM does with our completions if something is wrong."""

from __future__ import annotations

from ebbtide.adapters.litellm import Completions

REQUEST = {"model": "anthropic/claude-sonnet-5", "api_key": "k", "max_tokens": 1024, "num_retries": 0}


def _ask(url: str, options: dict, messages: list, **more: object) -> str:
    request = {**REQUEST, "api_base": url, **more}
    return Completions(**options).completion(messages=messages, **request).choices[0].message.content


def no_session(url: str, options: dict) -> str:
    return _ask(url, options, [{"role": "user", "content": "Hello"}])


def orphan_result(url: str, options: dict) -> str:
    lost = {"role": "tool", "tool_call_id": "call_gone", "content": "lost"}
    messages = [{"role": "user", "content": "Hello"}, lost, {"role": "user", "content": "Go on."}]
    return _ask(url, options, messages, litellm_session_id="brest")
