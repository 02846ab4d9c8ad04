"""Terminals as people have them: narrow, without Unicode, closed, full, and left by Ctrl-C."""

import os
import re
import signal
import subprocess

import pytest

from fronts.cli.terminal import PRESSED, PROGRAM, on_a_terminal, recorded, run_program, stored

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def _seen(*args, columns):
    """What stands on a terminal of that width in the end: progress that was wiped away is left out."""
    _, text = on_a_terminal(*args, env={"COLUMNS": str(columns), "NO_COLOR": "1"})
    return [row.rpartition("\r")[2].rstrip() for row in ESCAPES.sub("", text).replace("\r\n", "\n").splitlines()]


@pytest.fixture
def session(tmp_path):
    return recorded(tmp_path / "s.jsonl")


@pytest.mark.parametrize("command", ["explain", "report"])
@pytest.mark.parametrize("columns", [60, 80, 100, 140])
def test_no_column_of_a_table_is_lost_or_cut_on_a_narrow_terminal(ebb, session, command, columns):
    text = ebb(command, session, *PRESSED).text
    rows = _seen(command, session, *PRESSED, columns=columns)
    told = " ".join(" ".join(rows).split())

    checked = 0
    for row in text.splitlines():
        if re.match(r"(?:\s*\d+  )?clear_results ", row):
            words = row.split()  # a cell may fold between them
            assert all(word in told for word in words), words
            checked += 1
    assert checked


def test_a_list_of_sessions_clips_titles_before_it_gives_up_its_columns(tmp_path):
    stored(tmp_path, "nightly-run-of-the-week")

    rows = _seen("sessions", "--store", tmp_path, columns=84)

    assert re.fullmatch(r"nightly-run-of-the-week +fix the gau… .* KB  2\d{3}-\d\d-\d\d \d\d:\d\d", rows[-1])


def test_a_narrow_terminal_has_the_legend_below_the_grid(session):
    narrow, wide = (_seen("context", session, columns=columns) for columns in (50, 100))

    assert narrow[1].count("·") == 10 or narrow[1].count("■") > 0
    assert not any(set(row) & set("■·▒") and "tokens" in row for row in narrow[1:11])
    assert any(row.startswith("  ▒ Autocompact buffer") for row in narrow)
    assert "tokens" in wide[1]


def test_sentences_beside_a_table_wrap_between_words(ebb, session):
    whole = ebb("report", session, *PRESSED).text.splitlines()[1]

    rows = _seen("report", session, *PRESSED, columns=60)

    assert whole.startswith(("Saved ", "Not paid back yet: "))
    assert len(whole) > 60
    assert whole in " ".join(row.rstrip() for row in rows)


def test_a_dumb_terminal_keeps_its_real_width():
    _, screen = on_a_terminal(env={"TERM": "dumb", "COLUMNS": "60"})

    rows = screen.replace("\r", "").splitlines()
    assert max(map(len, rows)) <= 60
    assert "\x1b" not in screen


def test_the_overview_keeps_what_a_command_does_beside_its_name():
    rows = _seen("help", columns=60)
    at = next(n for n, row in enumerate(rows) if row.startswith("  report "))

    assert rows[at + 1].startswith(" " * 14)


def test_a_terminal_without_our_signs_gets_plain_ones_and_never_an_escape_of_them(session):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    shown = run_program("show", session, *PRESSED, env=plain)
    told = run_program("explain", session, *PRESSED, "--all", env=plain)

    assert shown.returncode == told.returncode == 0
    assert b"-- user ------" in shown.stdout
    assert b" -> " in told.stdout
    assert b"\\u" not in shown.stdout + told.stdout


def test_messages_on_stderr_never_mix_with_the_data(session):
    """Python prints to stdout what was meant for a stderr that is closed."""
    both = run_program("fit", session)
    alone = subprocess.run(
        ["sh", "-c", '"$@" 2>&-', "sh", *PROGRAM, "fit", session], stdout=subprocess.PIPE, check=True, timeout=240
    )

    assert b"is a recorded session" in both.stderr
    assert alone.stdout == both.stdout


def test_a_closed_stdout_is_not_an_error(session):
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *PROGRAM, "context", session], stderr=subprocess.PIPE, check=False, timeout=240
    )

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    "words", [[], ["help"], ["doctor"], ["--help"], ["--version"], ["show", "--help"], ["demo", "--help"]]
)
def test_a_full_disk_behind_stdout_is_reported_as_such(words):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, check=False, timeout=240)

    assert done.returncode == 1
    assert done.stderr == b"ebb: the output cannot be written: No space left on device\n"


def test_ctrl_c_while_commands_are_loaded_is_no_traceback():
    code = """
import sys, time
class Slow:
    def find_spec(self, name, *_):
        if name == "ebbtide.fronts.cli.command_line":
            print("loading", flush=True)
            time.sleep(600)
sys.meta_path.insert(0, Slow())
from ebbtide.fronts.cli.main import main
sys.exit(main(["context", "--example"]))
"""
    process = subprocess.Popen([PROGRAM[0], "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"loading\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)

    assert (process.returncode, err) == (130, b"")


@pytest.mark.parametrize(
    ("loading", "words", "code"),
    [
        ("ebbtide.core.types", ["demo"], -signal.SIGINT),
        ("ebbtide.fronts.cli.fit", ["context"], -signal.SIGINT),
        ("ebbtide.fronts.demo.story", ["demo"], -signal.SIGINT),
        ("rich.console", ["context", "--example"], 130),
    ],
)
def test_ctrl_c_at_any_moment_is_no_traceback(loading, words, code):
    """While modules load it ends the program as it ends any; a class that is being made would turn it into an error."""
    press = f"""
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Press:
    def find_spec(self, name, *_):
        if name == {loading!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
sys.argv = {["ebb", *words]!r}
runpy.run_module("ebbtide", run_name="__main__", alter_sys=True)
"""
    done = subprocess.run([PROGRAM[0], "-c", press], capture_output=True, check=False, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


@pytest.mark.parametrize(
    ("words", "as_well_as"),
    [(["help"], ["--help"]), (["help", "fit"], ["fit", "--help"]), (["help", "demo"], ["demo", "--help"])],
)
def test_help_is_a_word_too(ebb, words, as_well_as):
    result = ebb(*words)

    assert result.code == 0
    assert result.out == ebb(*as_well_as).out


def test_the_word_version_is_answered_with_the_option(ebb):
    assert "did you mean --version?" in ebb("version").err


def test_repeating_plans_shows_progress_to_a_person_and_nothing_to_a_pipe(tmp_path):
    for session in ("nightly", "weekly"):
        stored(tmp_path, session)
    words = ("verify", "--replan", "--store", tmp_path)

    code, screen = on_a_terminal(*words)
    piped = run_program(*words)

    assert (code, piped.returncode, piped.stderr) == (0, 0, b"")
    assert "planning nightly again" in screen
    assert "planning weekly again" in screen
    assert b"planning" not in piped.stdout
