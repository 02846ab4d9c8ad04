"""`ebb demo`: what it tells is what the engine did, and it leaves the terminal as it found it."""

import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest
from scripts import draw_film
from scripts.draw_demo import TARGET, frame, picture

from ebbtide import PRESETS, Context, load, preset
from ebbtide.example import path
from ebbtide.fronts.cli.main import main
from ebbtide.fronts.demo.command import _BREATH, pause
from ebbtide.fronts.demo.story import MIN_SAVINGS, QUERY, WINDOW, play_story, with_demo_savings
from ebbtide.passes import summarize
from fronts.cli.terminal import PROGRAM, on_a_terminal

PATIENCE = 120.0  # seconds: on a busy machine Python takes long to start


@pytest.fixture(scope="module")
def moments():
    return list(play_story(preset("default")))


def test_it_shows_everything_once_at_least(moments):
    events = [event for moment in moments for event in moment.events]

    assert {event.kind for event in events} == {"offload", "overflow", "removed", "summary", "recall"}
    assert events[-1].kind == "recall"
    assert QUERY in events[-1].text
    assert "found again" in events[-1].text


def test_an_event_says_how_many_results_were_moved():
    first = next(event.text for moment in play_story(preset("default"), window=1_000) for event in moment.events)

    assert re.fullmatch(r"2 results, \d+ tokens, moved to disk; \d+ stay", first)


def test_its_numbers_are_those_of_the_engine(moments):
    calls = list(load(path()).requests())
    now = [0.0]
    context = Context(model=calls[0].model, window=WINDOW, clock=lambda: now[0])
    for call, moment in zip(calls, moments, strict=True):
        now[0] = call.at
        report = context.prepare({**call.request, "cache_control": {"type": "ephemeral"}}).report
        # The engine estimates what an edit frees; the bill counts what is sent.
        assert report.tokens_after == pytest.approx(moment.sent, rel=0.02)
        assert report.tokens_untouched == pytest.approx(moment.raw, rel=0.02)
        assert sum(edit.saved for edit in report.edits) == sum(event.saved for event in moment.events)
    reported_share = report.savings.saved_share

    assert moments[-1].bill.saved_share == pytest.approx(reported_share, abs=0.02)


def test_it_takes_less_than_half_a_minute(moments):
    waits = sum(pause(moment) + _BREATH * (moment.before > moment.sent) for moment in moments)

    assert waits < 25


@pytest.mark.parametrize("name", PRESETS)
def test_a_compaction_needs_to_free_only_2000_tokens_whatever_the_policy_asks_for(name):
    """R284. learn-v5 asks for ten times that by itself."""
    asked = [leaf.keywords.get("min_savings", MIN_SAVINGS) for leaf in folding(with_demo_savings(preset(name)))]

    assert set(asked) <= {2_000}
    assert [leaf.keywords["min_savings"] for leaf in folding(preset("learn-v5"))] == [20_000]


def folding(policy):
    """The folds of a policy that summarize, with their settings."""
    return [one for one in policy.folds if getattr(one, "func", None) is summarize]


def test_in_a_pipe_it_is_lines_without_colour_and_nothing_is_written(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert main(["demo", "--ascii"]) == 0
    out = capfd.readouterr().out

    assert out.isascii()
    assert "\x1b" not in out
    assert re.search(r"^ +\d+  summary ", out, re.MULTILINE)
    assert re.search(r"the bill: \S+ .*instead of .* less", out)
    assert "ebb explain --example --window 80k" in out
    assert not list(tmp_path.iterdir())


def test_on_a_terminal_it_is_a_film_and_no_color_is_heeded(tmp_path):
    code, screen = on_a_terminal("demo", "--no-wait", env={"LINES": "40", "NO_COLOR": "1", "HOME": str(tmp_path)})

    assert code == 0
    assert len(set(re.findall(r"call (\d+) of 76", screen))) == 76
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", screen)
    assert screen.rindex("\x1b[?25h") > screen.rindex("\x1b[?25l")


def test_ctrl_c_ends_it_and_gives_the_cursor_back(tmp_path):
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", "HOME": str(tmp_path)}
    process = subprocess.Popen([*PROGRAM, "demo"], stdin=follower, stdout=follower, stderr=follower, env=env)
    os.close(follower)
    try:
        read_until(leader, "call 3 of 76")
        process.send_signal(signal.SIGINT)
        seen = read_until(leader, "nothing was written")
        assert process.wait(PATIENCE) == 130
    finally:
        process.kill()
        os.close(leader)

    assert "\x1b[?25h" in seen
    assert "Traceback" not in seen


def read_until(leader, words):
    seen, deadline = "", time.monotonic() + PATIENCE
    while words not in seen and time.monotonic() < deadline:
        if select.select([leader], [], [], 1.0)[0]:
            try:
                seen += os.read(leader, 65536).decode("utf-8", "replace")
            except OSError:  # the other side is gone
                break
    assert words in seen, seen[-500:]
    return seen


@pytest.mark.parametrize(
    "words", [["--speed", "0"], ["--speed", "nan"], ["--window", "many"], ["--speed", "2", "--no-wait"]]
)
def test_senseless_options_are_refused(words, capfd):
    assert main(["demo", *words]) == 2
    assert words[0] in capfd.readouterr().err


def test_the_picture_is_what_the_script_draws(moments):
    """After a change of the default: `python -m scripts.draw_demo`."""
    pytest.importorskip("genai_prices")

    assert picture(frame(moments)) == TARGET.read_text(encoding="utf-8")


def test_the_moving_picture_is_what_the_script_draws_and_ends_with_the_last_frame(moments):
    """After a change of the default: `python -m scripts.draw_film`."""
    pytest.importorskip("genai_prices")
    frames = draw_film.play(moments)
    drawn = draw_film.picture(frames)

    assert drawn == draw_film.TARGET.read_text(encoding="utf-8")
    assert len(frames) > 15
    assert all(row in drawn for row in frames[-1][1])
    still = drawn.replace('visibility="hidden"', "").count("<g ") - drawn.count('visibility="hidden"')
    assert still >= 1, "without the animation the last frame is seen"
