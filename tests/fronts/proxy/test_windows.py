"""The window of an unknown model is asked of its provider, in each form that servers have; else it is a guess."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fronts.proxy.proxy_runner import get, post, proxied

MODEL = "anything-7b"
ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]}
LLAMA = {"id": MODEL, "owned_by": "llamacpp", "meta": {"n_ctx_train": 131_072}}
PROPS = {"default_generation_settings": {"n_ctx": 8_192}}
OLLAMA = {"model_info": {"qwen3.context_length": 40_960}, "parameters": "temperature 0.6\nnum_ctx   16384"}
CASES = {
    "vLLM": ({"GET /v1/models": {"data": [{"id": MODEL, "max_model_len": 32_768}]}}, 32_768),
    "a gateway": ({"GET /v1/models": {"data": [{"id": "x", "context_length": 1}, {"id": MODEL, "context_length": 65_536}]}}, 65_536),
    "llama.cpp": ({"GET /v1/models": {"data": [LLAMA]}, "GET /props": PROPS}, 8_192),
    "llama.cpp under another name": ({"GET /v1/models": {"data": [{**LLAMA, "id": "/m.gguf"}]}, "GET /props": PROPS}, 8_192),
    "Ollama": ({"GET /v1/models": {"data": [{"id": MODEL, "owned_by": "library"}]}, "POST /api/show": OLLAMA}, 16_384),
    "Ollama, without its list": ({"POST /api/show": {**OLLAMA, "parameters": ""}}, 40_960),
    "a page for the model": ({"GET /v1/models": {"data": []}, f"GET /v1/models/{MODEL}": {"max_input_tokens": 50_000}}, 50_000),
    "nobody says": ({"GET /v1/models": {"data": [{"id": MODEL}]}}, 200_000),
    "no window": ({"GET /v1/models": {"data": [{"id": MODEL, "context_length": -1}]}}, 200_000),
    "no such page": ({}, 200_000),
    "no JSON": ({"GET /v1/models": "<html>"}, 200_000),
}  # fmt: skip


@contextmanager
def provider(pages: dict[str, object], delay: float = 0.0):
    """Yield its address and the requests that came."""
    requests: list[tuple[str, str, str]] = []

    class Provider(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            key = f"{self.command} {self.path}"
            requests.append((self.command, self.path, self.headers.get("authorization", "")))
            self.rfile.read(int(self.headers.get("content-length") or 0))
            is_chat = self.path.endswith("/chat/completions")
            time.sleep(0 if is_chat else delay)
            page = ANSWER if is_chat else pages.get(key)
            raw = (page if isinstance(page, str) else json.dumps(page)).encode()
            self.send_response(200 if page is not None else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_POST = do_GET

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(port: int, model: str = MODEL) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello."}]}
    return post(port, "/v1/chat/completions", body, authorization="Bearer mine")[0]


@pytest.mark.parametrize("case", CASES)
def test_a_window_is_the_one_that_the_provider_names(case, tmp_path):
    pages, window = CASES[case]
    with provider(pages) as (url, requests), proxied(url, store=tmp_path, asks_for_windows=True) as running:
        assert [ask(running.port), ask(running.port)] == [200, 200]
        running.settle()
        (session,) = get(running.port, "/ebb/sessions")[1]["sessions"]
        asked = [path for _, path, _ in requests if not path.endswith("/chat/completions")]

    assert session["window"] == window
    assert {key for *_, key in requests} == {"Bearer mine"}
    assert len(asked) == len(set(asked)) <= 3, "each page once"


def test_a_known_model_and_a_window_that_was_set_ask_nobody(tmp_path):
    with provider({}) as (url, requests):
        with proxied(url, store=tmp_path, asks_for_windows=True) as running:
            ask(running.port, "gpt-5-codex")
        with proxied(url, store=tmp_path, window=9_000, asks_for_windows=True) as running:
            ask(running.port)

    assert {path for _, path, _ in requests} == {"/v1/chat/completions"}


def test_a_provider_that_does_not_answer_the_question_does_not_stop_the_request(tmp_path):
    pages = {"GET /v1/models": {"data": [{"id": MODEL, "context_length": 9_000}]}}
    with provider(pages, delay=4.0) as (url, _), proxied(url, store=tmp_path, asks_for_windows=True) as running:
        assert ask(running.port) == 200
        (line,) = [line for line in running.lines if line["event"] == "window"]

    assert (line["source"], line["window"]) == ("guess", 200_000)
