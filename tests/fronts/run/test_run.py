"""`ebb run` as its users have it: real processes, a real terminal, a real SDK before a real server."""

from __future__ import annotations

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

from ebbtide.fronts.run.command import format_summary
from fronts.run.programs import AGENT, EBB, PATIENCE, ebb_run, environment, python
from fronts.sdk.agents import script
from upstream.server import Upstream

pytestmark = pytest.mark.timeout(290)
WINDOW = 16_000


@pytest.fixture
def upstream():
    with Upstream(script("anthropic", ends=False), window=WINDOW) as up:
        yield up


def test_an_unchanged_program_works_in_a_smaller_window(upstream, tmp_path):
    """It would be refused at its fifth request. Its words, its exit code and the user's own address stay what they are."""
    pytest.importorskip("anthropic")
    environ = environment(tmp_path, ANTHROPIC_BASE_URL=upstream.url)
    done = ebb_run("--window", "16k", "--", *python(AGENT, "0"), environ=environ)

    assert (done.returncode, done.stdout) == (7, "done\n"), done.stderr
    assert [exchange.status for exchange in upstream.requests] == [200] * 12
    assert f"ebb run: {Path(sys.executable).name} -> ebbtide -> {upstream.url[7:]} or the provider" in done.stderr
    assert re.search(r"12 requests in 1 conversation, the largest 1\d\.\dk tokens\n", done.stderr)
    (name,) = [log.stem for log in (tmp_path / "store").rglob("*.jsonl")]
    assert f"session    {name}\n  for more   ebb report {name}\n" in done.stderr

    report = subprocess.run([*EBB, "report", name, "--json"], env=environ, capture_output=True, text=True, check=True)
    savings = json.loads(report.stdout)[0]["savings"]
    spoken = subprocess.run([*EBB, "report", name], env=environ, capture_output=True, text=True, check=True).stdout
    (largest,) = re.findall(r"the largest request has (\S+)\.\n", spoken)
    assert f"the largest {largest} tokens\n" in done.stderr
    assert "removed" in done.stderr
    told = re.search(r"removed +([\d.]+)k tokens, by \d+ edit", done.stderr)
    assert float(told[1]) == round(savings["tokens_out"] / 1000, 1), "the same figures as in the report"
    paid = re.search(r"(saved|not paid back yet:) +\$([\d.]+) \(.* after cache prices and our own calls", done.stderr)
    assert (float(paid[2]), paid[1] == "saved") == (
        pytest.approx(abs(savings["saved_usd"]), abs=0.006), savings["saved_usd"] >= 0,
    )  # fmt: skip


def test_refused_and_unanswered_requests_are_in_the_summary(tmp_path):
    pytest.importorskip("anthropic")
    with Upstream(script("anthropic", ends=False), window=2_000) as small:
        environ = environment(tmp_path, ANTHROPIC_BASE_URL=small.url)
        refused = ebb_run("--shadow", "--", *python(AGENT, "0"), environ=environ)
    dead = ebb_run("--", *python(AGENT, "0"), environ=environment(tmp_path, ANTHROPIC_BASE_URL=small.url))

    assert re.search(r"refused +1 request answered with an error", refused.stderr), refused.stderr
    assert re.search(r"unanswered +1 request that the provider did not answer", dead.stderr), dead.stderr


def test_a_wrong_option_is_explained_and_starts_nothing(tmp_path):
    done = ebb_run("--window", "wide", "--", *python("print('started')"), environ=environment(tmp_path))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("'wide' is not a number of tokens; write it like 200000, 200k or 1M\n")
    assert "Traceback" not in done.stderr


def test_shadow_mode_changes_nothing_and_says_so(upstream, tmp_path):
    pytest.importorskip("anthropic")
    environ = environment(tmp_path, ANTHROPIC_BASE_URL=upstream.url)
    done = ebb_run("--shadow", "--window", "16k", "--", *python(AGENT, "0"), environ=environ)

    assert done.returncode == 1
    assert "prompt is too long" in done.stderr
    assert "what would have been" in done.stderr


def test_the_program_gets_its_arguments_and_our_messages_are_on_stderr(tmp_path):
    code = "import sys; print(sys.argv[1:]); print(sys.stdin.read())"
    command = [*EBB, "run", "--", *python(code, "--window", "-x", "--", "a b")]
    done = subprocess.run(
        command, env=environment(tmp_path), input="typed", capture_output=True, text=True, timeout=PATIENCE
    )

    assert done.returncode == 0
    assert done.stdout == "['--window', '-x', '--', 'a b']\ntyped\n"
    assert "the proxy saw no request to a model" in done.stderr


@pytest.mark.parametrize(
    ("code", "expected"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_the_exit_code_is_the_programs(code, expected, tmp_path):
    ours = ("--quiet", "--recall", "tool", "--summarizer", "own")  # the proxy's own, passed on to it
    done = ebb_run(*ours, "--", *python(code), environ=environment(tmp_path))

    assert (done.returncode, done.stderr) == (expected, "")


def test_a_program_that_ends_at_once_costs_no_proxy_and_bad_settings_start_nothing(tmp_path):
    quick = ebb_run("--", "true", environ=environment(tmp_path))
    assert (quick.returncode, "saw no request" in quick.stderr) == (0, True)
    assert not list((tmp_path / "store").rglob("*.jsonl"))

    (tmp_path / "config.toml").write_text("levels = 3\n")
    for more in (
        {"EBB_WINDOW": "wide"},
        {"EBB_WINDOW": "100"},
        {"EBB_CONFIG": str(tmp_path / "config.toml")},
        {"EBB_POLICY": "no-such"},
    ):
        done = ebb_run("--", *python("print('started')"), environ=environment(tmp_path, **more))
        assert (done.returncode, done.stdout) == (2, ""), more
        assert done.stderr.startswith("ebb: ")


def test_a_token_of_the_users_own_proxy_is_not_asked_of_the_program(upstream, tmp_path):
    pytest.importorskip("anthropic")
    environ = environment(tmp_path, ANTHROPIC_BASE_URL=upstream.url, EBB_PROXY_TOKEN="a-token-of-20-letters")
    done = ebb_run("--", *python(AGENT, "0"), environ=environ)

    assert done.returncode == 7, done.stderr


def test_a_program_that_cannot_start_gives_125_and_a_reason(tmp_path):
    done = ebb_run("--", "no-such-program-anywhere", environ=environment(tmp_path))

    assert done.returncode == 125
    assert "no-such-program-anywhere: No such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_program_it_is_bad_input(tmp_path):
    done = ebb_run("--window", "8k", environ=environment(tmp_path))

    assert done.returncode == 2
    assert "ebb run -- claude" in done.stderr


def test_the_list_shows_what_is_set_for_each_program(tmp_path):
    environ = environment(tmp_path, ANTHROPIC_BASE_URL="https://gate.example")
    listed, as_json = ebb_run("--list", environ=environ), ebb_run("--list", "--json", environ=environ)
    rows = {row["client"]: row for row in json.loads(as_json.stdout)}

    assert re.search(r"Claude Code \(claude\) +ANTHROPIC_BASE_URL +https://gate\.example", listed.stdout)
    assert re.search(r"aider \(aider\) +ANTHROPIC_BASE_URL +https://gate\.example", listed.stdout)
    assert re.search(r"Codex \(codex\) +-c openai_base_url +https://api\.openai\.com/v1", listed.stdout)
    assert rows["Claude Code"]["sets"] == {"ANTHROPIC_BASE_URL": "http://127.0.0.1:PORT/anthropic"}
    assert rows["Claude Code"]["upstreams"] == {"ANTHROPIC_BASE_URL": "https://gate.example"}
    assert {"Codex", "OpenCode", "Gemini CLI", "Qwen Code", "Mistral Vibe", "Kimi CLI", "llm"} <= set(rows)


# --- a terminal -------------------------------------------------------------------------------------------------------


class Terminal:
    """`ebb run` on a terminal of its own, as its foreground program."""

    def __init__(self, environ: dict[str, str], *arguments: str) -> None:
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, [*EBB, "run", *arguments], environ)
        self.shown = ""

    def until(self, text: str) -> None:
        end = time.monotonic() + PATIENCE
        while text not in self.shown and time.monotonic() < end:
            if select.select([self._end], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self._end, 4096).decode("utf-8", "replace")
                except OSError:
                    break
        assert text in self.shown, self.shown

    def type(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def code(self) -> int:
        self.until("no request to a model")
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._end)
        return code


ON_TERMINAL = """
import os, signal, sys, time
print("tty", all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)), flush=True)
print("foreground", os.tcgetpgrp(0) == os.getpgrp(), flush=True)
try:
    print("you said", input(), flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print("interrupted once", flush=True)
    sys.exit(42)
"""


def test_the_program_has_the_terminal_and_handles_ctrl_c(tmp_path):
    terminal = Terminal(environment(tmp_path, TERM="xterm"), "--", *python(ON_TERMINAL))
    terminal.until("foreground True")
    assert "tty True" in terminal.shown
    terminal.type("grüß dich\n".encode())
    terminal.until("you said grüß dich")
    terminal.type(b"\x03")

    assert terminal.code() == 42
    assert terminal.shown.count("interrupted once") == 1
    assert "Traceback" not in terminal.shown


# --- signals, and a proxy that falls ----------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    threads = list(Path(f"/proc/{pid}/task").glob("*/children"))
    if not threads:
        pytest.skip("this system does not tell a process's children")
    return [int(pid) for children in threads for pid in children.read_text().split()]


def proxy_of(pid: int) -> int:
    """The proxy's process, which starts beside the program."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for child in children(pid):
            if b"proxy" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                return child
        time.sleep(0.05)
    raise AssertionError("no proxy was started")


def gone(pid: int) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or ") Z " in state.read_text():
            return True
        time.sleep(0.05)
    return False


def started(environ: dict[str, str], *command: str) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*EBB, "run", *command], env=environ, text=True, **pipes)


def test_a_supervisors_signal_reaches_the_program_and_stops_the_proxy(tmp_path):
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(9)); print('up', flush=True); signal.pause()"
    with started(environment(tmp_path), "--", *python(code)) as process:
        assert process.stdout.readline() == "up\n"
        proxy = proxy_of(process.pid)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)

    assert process.returncode == 9
    assert gone(proxy)


def test_the_proxy_ends_with_ebb_run_even_if_that_is_killed(tmp_path):
    code = "import os; print(os.getpid(), flush=True); import time; time.sleep(600)"
    with started(environment(tmp_path), "--", *python(code)) as process:
        program = int(process.stdout.readline())
        proxy = proxy_of(process.pid)
        process.kill()
        process.wait(PATIENCE)
        ended = gone(proxy)
        os.kill(program, signal.SIGKILL)

    assert ended


def test_a_crashed_proxy_is_started_again_at_the_same_address(upstream, tmp_path):
    """Killed in the middle. The program's next call finds it at the same address, with all that was recorded."""
    pytest.importorskip("anthropic")
    environ = environment(tmp_path, ANTHROPIC_BASE_URL=upstream.url)
    with started(environ, "--window", "16k", "--", *python(AGENT, "8", "wait")) as process:
        assert process.stdout.readline() == "half\n"
        os.kill(proxy_of(process.pid), signal.SIGKILL)
        out, err = process.communicate("\n", timeout=PATIENCE)

    assert (process.returncode, out) == (7, "done\n"), err
    assert [exchange.status for exchange in upstream.requests] == [200] * 12
    assert "crashed 1 time and was started again" in err


def test_the_summary_says_if_the_proxy_does_not_answer():
    assert "the proxy does not answer" in format_summary({}, "claude")


def test_a_client_that_only_says_its_version_is_left_alone(tmp_path):
    """As 'claude --version' in a shell where it was installed: nothing of ours stands around the answer."""
    (tmp_path / "claude").write_text("#!/bin/sh\necho 9.9.9 $#\n")
    (tmp_path / "claude").chmod(0o755)
    done = ebb_run("--", str(tmp_path / "claude"), "--version", environ=environment(tmp_path))

    assert (done.returncode, done.stdout, done.stderr) == (0, "9.9.9 1\n", "")


def test_the_next_command_finds_the_session_where_it_was_put():
    session = {"session": "s", "removed_tokens": 0}

    assert "ebb report s --store '/a b'" in format_summary({"requests": 1}, "claude", receipts=[session], store="/a b")
    assert "secret" not in format_summary(
        {"requests": 1}, "claude", receipts=[session], store="postgresql://u:secret@h/d"
    )


def test_the_summary_names_overflows_and_fallbacks_only_if_there_were_any():
    assert "rescued    2 requests refused" in format_summary({"requests": 9, "overflows": 2}, "claude")
    assert "fell back  3 requests sent" in format_summary({"requests": 9, "fallbacks": 3}, "claude")
    assert "fell back" not in format_summary({"requests": 9, "fallbacks": 0}, "claude")
