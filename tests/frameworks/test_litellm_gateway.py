"""LiteLLM's real proxy with its guardrail `headroom`, whose address is that of `ebb proxy`. Opt-in: 800 MB."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager

import pytest

from frameworks.environments import CannotInstall, environ_of, python_of
from frameworks.scenario import STEPS, SYSTEM, WINDOW, Script, judge, read_page, task
from fronts.proxy.proxy_runner import proxied
from upstream.server import Upstream

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.environ.get("EBB_FRAMEWORKS") != "all", reason="EBB_FRAMEWORKS=all runs it"),
]
MASTER_KEY = "sk-made-up-for-a-test-1234567890"
START_SECONDS = 300
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOL = {"type": "function", "function": {"name": "read_file", "description": "Reads.", "parameters": PARAMETERS}}


@contextmanager
def litellm_proxy(folder, upstream_url: str, compressor_url: str):
    try:
        python = python_of("litellm")
    except CannotInstall as problem:
        pytest.skip(f"LiteLLM cannot be installed here: {str(problem)[-300:]}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    provider = {"model": "anthropic/claude-sonnet-4-5", "api_base": upstream_url, "api_key": "k"}
    guardrail = {"guardrail": "headroom", "mode": ["pre_call", "post_call"], "api_base": compressor_url}
    config = {
        "model_list": [{"model_name": "m", "litellm_params": provider}],
        "guardrails": [
            {"guardrail_name": "ebbtide", "litellm_params": {**guardrail, "api_key": "one", "default_on": True}}
        ],
        "general_settings": {"master_key": MASTER_KEY},
        "litellm_settings": {"num_retries": 0},
    }
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    environ = {**environ_of(), "LITELLM_MODE": "PRODUCTION", "NO_DOCS": "True", "DISABLE_ADMIN_UI": "True"}
    command = [python.parent / "litellm", "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with open(folder / "log.txt", "w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT)
        try:
            base = f"http://127.0.0.1:{port}"
            end = time.monotonic() + START_SECONDS
            while not _is_alive(base):
                is_hopeless = process.poll() is not None or time.monotonic() > end
                assert not is_hopeless, (folder / "log.txt").read_text()[-2000:]
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


def run_agent(base: str, conversation: str) -> None:
    messages = [{"role": "system", "content": SYSTEM}]
    for text in (task(conversation), "Go on."):
        messages.append({"role": "user", "content": text})
        for _ in range(STEPS + 5):
            body = {"model": "m", "messages": messages, "tools": [TOOL], "max_tokens": 1024}
            headers = {"content-type": "application/json", "authorization": f"Bearer {MASTER_KEY}"}
            request = urllib.request.Request(f"{base}/v1/chat/completions", json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=120) as answer:
                message = json.load(answer)["choices"][0]["message"]
            fields = ("role", "content", "tool_calls")
            messages.append({name: message[name] for name in fields if message.get(name)})
            calls = message.get("tool_calls") or ()
            if not calls:
                break
            for call in calls:
                path = json.loads(call["function"]["arguments"])["path"]
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": read_page(path)})


def test_an_agent_behind_litellm_works_on_and_what_left_is_retrieved(tmp_path):
    with (
        Upstream(Script(), window=WINDOW) as upstream,
        proxied(upstream.url, store=str(tmp_path / "store"), window=WINDOW) as ours,
        litellm_proxy(tmp_path, upstream.url, ours.url) as base,
    ):
        run_agent(base, "main")
        verdict = judge(upstream.requests, [])

    assert verdict.too_long + verdict.invalid == 0, verdict.examples
    assert verdict.is_finished
    assert verdict.keeps_words
    assert verdict.recalled
    assert verdict.breaks <= STEPS // 3, "a batch frees several results at once"
