"""What people see while an agent works: Claude Code's status line, and `ebb top`, of a real proxy and of its store."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ebbtide.fronts.run.clients import plan_launch
from ebbtide.fronts.run.clients.claude import status_line
from ebbtide.fronts.run.launch import recognize
from ebbtide.fronts.run.plan import Surroundings
from ebbtide.live import describe, find_session, read_status
from fronts.proxy.agent import Agent, looping
from fronts.proxy.proxy_runner import proxied
from upstream.server import Upstream

EBB = [sys.executable, "-m", "ebbtide"]
WAIT = 120.0


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def proxy(store):
    with Upstream(looping("anthropic")) as upstream, proxied(upstream.url, store=store, window="16k") as behind:
        agent = Agent("anthropic", behind.port, upstream, x_claude_code_session_id="5e55-abc")
        for n in range(16):
            agent.turn(n)
        behind.settle()
        yield behind


def ebb(*arguments, stdin="", env=None):
    return subprocess.run(
        [*EBB, *arguments], input=stdin, capture_output=True, text=True, timeout=WAIT, check=False,
        env={**os.environ, **(env or {})},
    )  # fmt: skip


def status_with_money(proxy):
    """The proxy adds up the money behind the page, so the first page may not have it yet."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        (session,) = read_status(proxy.url)
        if session["saved_usd"] is not None:
            return session
        time.sleep(0.05)
    raise AssertionError("no money was added up")


def test_the_proxy_says_what_its_session_holds_and_saved(proxy):
    session = status_with_money(proxy)

    assert session["calls"] == 16
    assert 0 < session["tokens"] < session["tokens_without"]
    assert session["now"] == "idle"


def test_the_status_line_shows_the_context_with_and_without_us(proxy):
    session = status_with_money(proxy)

    shown = ebb("statusline", proxy.url, stdin=json.dumps({"session_id": "5e55-abc"}))

    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == describe(session, time.time()) + "\n"
    assert re.match(r"ebb [\d.]+k, without [\d.]+k \(-\d+%\)", shown.stdout)


@pytest.mark.parametrize("stdin", ["", "no json", "[]", '{"session_id": 7}', '{"session_id": null}'])
def test_the_status_line_never_fails(stdin):
    shown = ebb("statusline", "http://127.0.0.1:1", stdin=stdin)

    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", "")


@pytest.mark.parametrize("address", ["", "nonsense", "http://", "http://[::1", "https://127.0.0.1:8787", "http://a:b"])
def test_an_odd_address_is_a_proxy_that_does_not_answer(address):
    assert read_status(address) == []


def test_an_unknown_option_is_bad_input():
    shown = ebb("statusline", "--wrong")

    assert shown.returncode == 2
    assert "there is no option --wrong" in shown.stderr


def test_another_session_is_never_shown_for_the_one_that_was_asked_for():
    two = [{"session": "a-1"}, {"session": "b-2"}]

    assert find_session(two, "b-2") == two[1]
    assert find_session(two, "c-3") is None
    assert find_session(two, "") == two[0]


def test_money_that_is_not_paid_back_is_not_called_saved():
    assert "saved" not in describe({"tokens": 5, "tokens_without": 9, "window": 9, "saved_usd": -2.0}, 0.0)


def test_claude_code_gets_the_status_line_unless_its_user_has_one(tmp_path):
    around = Surroundings(environ={"HOME": str(tmp_path)}, cwd=tmp_path, home=tmp_path)
    command = plan_launch(around, recognize(["claude"])).command_for("http://127.0.0.1:7")

    settings = json.loads(command[command.index("--settings") + 1])

    assert settings["statusLine"]["command"].endswith("-m ebbtide statusline http://127.0.0.1:7")
    assert status_line("http://a", {"statusLine": {"command": "mine"}}) == {}


def test_top_shows_a_running_proxy_and_its_store_alone(proxy, store):
    live = json.loads(ebb("top", "--json", "--store", str(store), "--proxy", proxy.url).stdout)
    alone = json.loads(ebb("top", "--json", "--store", str(store)).stdout)

    assert [row["now"] for row in live] == ["idle"]
    assert [row["now"] for row in alone] == ["not running"]
    for row in (*live, *alone):
        assert row["calls"] == 16
        assert 0 < row["tokens"] < row["tokens_without"]
    assert live[0]["saved_usd"] == alone[0]["saved_usd"]


def test_top_prints_one_table_into_a_pipe(proxy, store):
    shown = ebb("top", "--store", str(store), "--proxy", proxy.url)

    assert shown.returncode == 0
    assert re.search(r"session +calls +context +now +without +cache +saved", shown.stdout)


def test_top_without_any_session_says_what_to_start(tmp_path):
    assert "'ebb run -- claude' or 'ebb proxy' starts one" in ebb("top", "--store", str(tmp_path)).stdout


def test_top_refuses_what_is_no_address_or_time(tmp_path):
    for options in (["--proxy", "here"], ["--every", "soon"]):
        assert ebb("top", "--store", str(tmp_path), *options).returncode == 2
    assert list(Path(tmp_path).iterdir()) == []


def test_top_redraws_on_a_terminal_and_ends_with_ctrl_c(proxy, store):
    del proxy
    main, side = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "24", "PYTHONUTF8": "1"}
    with subprocess.Popen([*EBB, "top", "--store", str(store), "--every", "0.1"], stdout=side, env=env) as top:
        os.close(side)
        seen, deadline = b"", time.monotonic() + WAIT
        while seen.count(b"without") < 2 and time.monotonic() < deadline:
            if select.select([main], [], [], 1.0)[0]:
                seen += os.read(main, 1 << 16)
        top.send_signal(signal.SIGINT)
        while time.monotonic() < deadline and top.poll() is None:
            if select.select([main], [], [], 0.2)[0]:
                try:
                    os.read(main, 1 << 16)
                except OSError:
                    break
        assert top.wait(WAIT) == 130
    os.close(main)
    assert seen.count(b"without") >= 2
    assert "░".encode() in seen, "bars, as without a terminal"
