"""A loop whose requests go through LiteLLM's proxy, as two of its settings let us in: a callback, and its guardrail `headroom`.

The guardrail sends a conversation to `ebb proxy` and gets it back shorter.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from frameworks.scenario import STEPS, SYSTEM, WINDOW, read_page, task

MASTER_KEY = "sk-made-up-for-a-test-1234567890"
START_SECONDS = 300
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOL = {"type": "function", "function": {"name": "read_file", "description": "Reads.", "parameters": PARAMETERS}}
HOOK = """
from ebbtide.adapters.litellm import ProxyHook

hook = ProxyHook(store={store!r}, window={window}, durable=False)
"""
QUIET = {"LITELLM_MODE": "PRODUCTION", "NO_DOCS": "True", "DISABLE_ADMIN_UI": "True"}


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings: dict[str, object] = {}
        if options is not None and mode == "hook":
            (folder / "our_hook.py").write_text(HOOK.format(store=options["store"], window=WINDOW), encoding="utf-8")
            settings["litellm_settings"] = {"num_retries": 0, "callbacks": "our_hook.hook"}
        elif options is not None:
            ours = stack.enter_context(_compressor(options["store"], url))
            guardrail = {"guardrail": "headroom", "mode": ["pre_call", "post_call"], "api_base": ours}
            guardrail |= {"api_key": "one", "default_on": True}
            settings["guardrails"] = [{"guardrail_name": "ebbtide", "litellm_params": guardrail}]
        _talk(stack.enter_context(litellm_proxy(folder, url, settings)), wire, conversation)


@contextmanager
def _compressor(store: str, upstream: str) -> Iterator[str]:
    """Run `ebb proxy`, which serves `/v1/compress`. Yield its address."""
    command = [sys.executable, "-m", "ebbtide", "proxy", "--port", "0", "--announce", "--store", store]
    command += ["--window", str(WINDOW), "--upstream", upstream]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield json.loads(process.stdout.readline())["listening"]
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def litellm_proxy(folder: Path, upstream_url: str, settings: dict[str, object]) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    provider = {"model": "anthropic/claude-sonnet-4-5", "api_base": upstream_url, "api_key": "k"}
    config = {
        "model_list": [{"model_name": "m", "litellm_params": provider}],
        "general_settings": {"master_key": MASTER_KEY},
        "litellm_settings": {"num_retries": 0},
        **settings,
    }
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    command = [Path(sys.executable).parent / "litellm", "--config", "config.yaml"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with open(folder / "log.txt", "w") as log:
        environ = {**os.environ, **QUIET}
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT)
        try:
            base = f"http://127.0.0.1:{port}"
            end = time.monotonic() + START_SECONDS
            while not _is_alive(base):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"LiteLLM's proxy did not start: {(folder / 'log.txt').read_text()[-2000:]}")
                time.sleep(0.5)
            yield base
        finally:
            process.terminate()
            process.wait(60)


def _is_alive(base: str) -> bool:
    try:
        urllib.request.urlopen(f"{base}/health/liveliness", timeout=5).close()
    except OSError:
        return False
    return True


def _talk(base: str, wire: str, conversation: str) -> None:
    messages = [{"role": "system", "content": SYSTEM}]
    for text in (task(conversation), "Go on."):
        messages.append({"role": "user", "content": text})
        for _ in range(STEPS + 5):
            message = _ask(base, messages)
            fields = ("role", "content", "tool_calls")
            messages.append({name: message[name] for name in fields if message.get(name)})
            calls = message.get("tool_calls") or ()
            if not calls:
                break
            for call in calls:
                path = json.loads(call["function"]["arguments"])["path"]
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": read_page(path)})


def _ask(base: str, messages: list[dict]) -> dict:
    body = {"model": "m", "messages": messages, "tools": [TOOL], "max_tokens": 1024}
    body["metadata"] = {"session_id": "brest"}
    headers = {"content-type": "application/json", "authorization": f"Bearer {MASTER_KEY}"}
    request = urllib.request.Request(f"{base}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["choices"][0]["message"]
