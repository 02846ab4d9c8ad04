"""`ebb proxy` as a process: where it listens, what it tells, how it ends."""

from __future__ import annotations

import http.client
import io
import json
import logging
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from ebbtide.fronts.cli.main import main
from ebbtide.fronts.proxy.command import build_options, command_line
from ebbtide.fronts.proxy.meters import JsonLog, LibraryLogHandler
from fronts.proxy.proxy_runner import WAIT, exchange, get, until
from fronts.proxy.raw_upstream import END, STREAM, RawUpstream, answer, chunks

BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}'
SECRET = "sk-ant-canary-0123456789abcdef"


@contextmanager
def started(upstream, tmp_path, *more):
    command = [sys.executable, "-m", "ebbtide.fronts.cli.main", "proxy", "--port", "0", "--announce"]
    command += ["--upstream", upstream, "--store", str(tmp_path / "store"), *more]
    environ = {**os.environ, "HOME": str(tmp_path), "EBB_HOME": str(tmp_path / "home")}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, cwd=tmp_path
    )
    try:
        line = json.loads(process.stdout.readline())
        yield process, int(line["listening"].rpartition(":")[2])
    finally:
        process.kill()
        process.communicate(timeout=WAIT)


def test_the_first_line_has_the_address_and_the_summary_the_totals(tmp_path):
    told = b'{"choices":[{"message":{"role":"assistant","content":"yo"}}],"usage":{"prompt_tokens":12,"completion_tokens":3}}'
    headers = [("Content-Type", "application/json")]
    with (
        RawUpstream(lambda n, seen: [answer(told, headers=headers)]) as upstream,
        started(upstream.url, tmp_path) as (process, port),
    ):
        for _ in range(2):
            exchange(port, "POST", "/v1/chat/completions", BODY, {"authorization": f"Bearer {SECRET}"})
        assert get(port, "/healthz")[1]["status"] == "ok"
        sessions = get(port, "/ebb/sessions")[1]["sessions"]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=WAIT)

    assert process.returncode == 0
    assert out == ""
    lines = [json.loads(line) for line in err.splitlines()]
    # On a busy machine the engine may be late; that is told too.
    events = [line["event"] for line in lines if line["event"] != "fallback"]
    assert events == ["listening", "window", "request", "request", "stopping"]
    assert [(session["requests"], session["model"], session["wire"]) for session in sessions] == [
        (2, "m", "openai_chat")
    ]
    assert SECRET not in err


def test_the_summary_adds_up_all_sessions(tmp_path):
    told = (
        b'{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}'
    )
    with RawUpstream(lambda n, seen: [answer(told)]) as upstream, started(upstream.url, tmp_path) as (_, port):
        for words in ("one", "two", "one"):
            body = {"model": "m", "messages": [{"role": "user", "content": words}]}
            exchange(port, "POST", "/v1/chat/completions", json.dumps(body).encode())
        until(lambda: get(port, "/ebb/summary")[1]["input_tokens"] == 36)
        summary = get(port, "/ebb/summary")[1]

    assert (summary["requests"], summary["sessions"], summary["edits"]) == (3, 2, 0)
    assert (summary["input_tokens"], summary["output_tokens"], summary["cache_hit_rate"]) == (36, 9, 0.6667)
    assert summary["listening"] == f"http://127.0.0.1:{port}"
    assert summary["tokens_saved"] == 0


def test_sigterm_lets_a_stream_end_and_accepts_no_new_one(tmp_path):
    go = threading.Event()

    def script(n, seen):
        yield STREAM + chunks(b"data: {}\n\n")[0]
        assert go.wait(WAIT)
        yield chunks(b"data: [DONE]\n\n")[0] + END

    with RawUpstream(script) as upstream, started(upstream.url, tmp_path) as (process, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
        connection.request("POST", "/v1/chat/completions", BODY)
        reply = connection.getresponse()
        assert reply.read1(100) == b"data: {}\n\n"
        process.send_signal(signal.SIGTERM)
        while json.loads(process.stderr.readline())["event"] != "stopping":
            pass
        with pytest.raises(OSError):  # the listener closes a moment later
            until(lambda: exchange(port, "GET", "/healthz") is None)
        go.set()
        assert reply.read() == b"data: [DONE]\n\n"
        connection.close()
        assert process.wait(WAIT) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--host", "0.0.0.0"], "set --token"),
        (["--token", "short"], "at least 16 characters"),
        (["--upstream", "ftp://x"], "is not an address"),
        (["--upstream", "https://key@host"], "is not an address"),
        (["--upstream", "https://a", "--upstream", "b=https://b"], "one address for everything"),
        (["--port", "99999"], "99999 is not a port"),
    ],
)
def test_a_wrong_option_is_refused_with_a_sentence(arguments, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert main(["proxy", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_port_in_use_is_reported(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with RawUpstream(lambda n, seen: []) as taken:
        assert main(["proxy", "--port", str(taken.port), "--store", str(tmp_path)]) == 2

    assert f"cannot listen on 127.0.0.1:{taken.port}" in capsys.readouterr().err


def test_stubs_name_files_only_for_clients_that_can_open_them():
    """Whoever is on another machine cannot."""
    loopback, other = (["--host", host, "--token", "0123456789abcdef"] for host in ("127.0.0.1", "0.0.0.0"))

    assert build_options(command_line().parse_args(loopback)).recall == "path"
    assert build_options(command_line().parse_args(other)).recall == "off"
    assert build_options(command_line().parse_args([*other, "--recall", "path"])).recall == "path"


def test_library_logs_are_json_without_message_texts(tmp_path):
    out = io.StringIO()
    logger = logging.getLogger("aiohttp.server.test")
    logger.addHandler(LibraryLogHandler(JsonLog(out)))
    try:
        raise ValueError("canary in an error")
    except ValueError:
        logger.exception("Error handling request from %s", "canary")

    data = json.loads(out.getvalue())
    assert (data["logger"], data["error"]) == ("aiohttp.server.test", "ValueError")
    assert "canary" not in out.getvalue()


def test_only_a_terminal_shows_what_to_do_next(tmp_path):
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "ebbtide.fronts.cli.main", "proxy", "--port", "0", "--store", str(tmp_path)]
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    seen = b""
    try:
        while not (b'"listening"' in seen and seen.endswith(b"\n")):
            seen += os.read(leader, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT) == 0
    finally:
        process.kill()
        os.close(leader)

    address = re.search(rb'"url": "(http://[^"]+)"', seen)[1]
    assert b"ANTHROPIC_BASE_URL=" + address + b" " in seen
    with RawUpstream(lambda n, told: [answer(b"{}")]) as upstream, started(upstream.url, tmp_path) as (quiet, _):
        quiet.send_signal(signal.SIGTERM)
        _, err = quiet.communicate(timeout=WAIT)
    assert all(json.loads(line) for line in err.splitlines())
