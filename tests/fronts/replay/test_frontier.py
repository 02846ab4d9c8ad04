"""`ebb replay --frontier`: three settings on your own sessions, and one that it chooses."""

import io
import os
import re

import pytest

from ebbtide.fronts.replay.frontier_chart import print_frontier
from ebbtide.replay.frontier import build_frontier
from ebbtide.replay.score import Score
from fronts.cli.terminal import Ebb, recorded

SMALL = ["--window", "30k", "--workers", "1", "--no-recall"]
"""A window in which `session` does not fit."""
POINTS = ("raw", "recorded", "keep-more", "balanced", "spend-less")


@pytest.fixture
def ebb(monkeypatch, tmp_path):
    return Ebb(monkeypatch, tmp_path)


@pytest.fixture
def session(tmp_path):
    return recorded(tmp_path / "session.jsonl", steps=40)


def test_on_a_terminal_the_chart_has_every_point_and_one_sentence_says_which_to_choose(ebb):
    result = ebb.on_a_terminal("replay", "--frontier", "--example", "--window", "60k", "--workers", "1", "--no-recall")

    assert result.code == 0, result.err
    assert "\x1b[1;32m" in result.text
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.text)
    chart, _, answer = text.partition("available when needed")[2].partition("For these sessions, choose ")
    assert all(name in chart for name in POINTS)
    assert all(len(line) <= 100 for line in text.splitlines())
    choice, _, reason = answer.partition(": ")
    assert choice in POINTS[2:]
    assert f"To use it: --policy {choice}" in reason


def test_points_that_are_near_each_other_all_have_a_name(capsys):
    def score(bill: float, available: int) -> Score:
        return Score(calls=9, bill=bill, used=100, available=available, in_context=available)

    scores = (score(9, 100), score(5, 90), score(4.01, 91), score(4, 91), score(3.99, 91))
    print_frontier(build_frontier(dict(zip(POINTS, scores, strict=True))))

    chart = capsys.readouterr().out.partition("available when needed")[2]
    assert all(name in chart for name in POINTS)


def test_where_raw_costs_many_times_more_it_is_outside_and_the_others_have_the_room(capsys):
    def score(bill: float, available: int) -> Score:
        return Score(calls=9, bill=bill, used=100, available=available, in_context=available)

    scores = (score(100, 100), score(18, 83), score(25, 93), score(20, 92), score(15, 90))
    print_frontier(build_frontier(dict(zip(POINTS, scores, strict=True))))

    chart = capsys.readouterr().out.partition("available when needed")[2]
    assert chart.splitlines()[1].endswith("raw, at 1.00 →")
    places = [line.index("●") for line in chart.splitlines() if line.count("●") == 1 and "the bill" not in line]
    assert max(places) - min(places) > 15


@pytest.mark.parametrize(("columns", "titles"), [(50, 4), (60, 6), (90, 8)])
def test_a_narrow_terminal_leaves_out_columns_and_cuts_no_figure(columns, titles, monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    def score(bill: float, available: int) -> Score:
        return Score(calls=9, bill=bill, used=1200, available=available, in_context=available)

    stream = Terminal(io.BytesIO(), "utf-8")
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))
    scores = (score(60, 1200), score(44, 1110), score(40, 1160), score(36, 1140), score(30, 1120))
    print_frontier(build_frontier(dict(zip(POINTS, scores, strict=True))))
    stream.seek(0)
    text = re.sub(r"\x1b\[[0-9;]*m", "", stream.read())

    assert "…" not in text
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()[1:6]]
    assert [(row[0], len(row)) for row in rows] == [(name, titles) for name in POINTS]


def test_without_a_name_that_was_used_again_there_is_no_chart_but_an_answer(ebb, session):
    result = ebb("replay", "--frontier", session, *SMALL)

    assert "so there is nothing to draw" in result.text
    assert result.text.partition("For these sessions, choose ")[2].startswith(POINTS[2:])


def test_json_has_what_each_point_costs_and_misses(ebb, session):
    frontier = ebb("replay", "--frontier", session, *SMALL, "--json").json["frontier"]

    assert tuple(frontier["points"]) == POINTS
    assert frontier["choice"] in POINTS
    for point in frontier["points"].values():
        assert point["total"] == point["bill"] + point["repairs"]
        assert point["bill"] > 0
    assert frontier["points"]["raw"]["missed"] == 0
    assert frontier["points"]["spend-less"]["bill"] < frontier["points"]["raw"]["bill"]


def test_a_picture_is_drawn_beside_the_chart(ebb, session, tmp_path):
    result = ebb("replay", "--frontier", session, *SMALL, "--plot", "frontier.svg")

    assert result.code == 0, result.err
    assert "frontier.svg" in result.err
    assert (tmp_path / "frontier.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["session.jsonl", "--policies", "sage"], "leave --policies out"),
        (["nowhere.jsonl"], "nowhere.jsonl"),
        (["--claude", "last"], "Claude Code"),
        ([], "give the files or folders"),
        (["session.jsonl", "--plot", "out.gif"], "a plot ends in .png"),
        (["empty.jsonl", "--plot", "out.png"], "empty.jsonl"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(options, said, ebb, session, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    before = sorted(os.listdir(tmp_path))
    result = ebb("replay", "--frontier", *options, "--workers", "1")

    assert result.code == 2
    assert said in result.err
    assert result.out == b""
    assert sorted(os.listdir(tmp_path)) == before
