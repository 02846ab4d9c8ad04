"""`ebb replay` as a person or a script uses it: what is asked for is printed, what cannot be done is said at once."""

import csv
import io
import json
import os
import re
import shlex
import signal
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ebbtide.fronts.replay.command import command_line
from ebbtide.fronts.replay.policy_names import ABOUT, parse_policies
from ebbtide.fronts.replay.verdict import comparable, describe_result
from ebbtide.replay.measures import MEASURES
from ebbtide.replay.policies import NAMES
from ebbtide.replay.run import ReplayOptions
from ebbtide.replay.score import Score
from fronts.cli.terminal import PROGRAM, Ebb, on_a_terminal, recorded, written

SMALL = ["--window", "30k", "--workers", "1"]
"""A window in which `session` does not fit."""


@pytest.fixture
def ebb(monkeypatch, tmp_path):
    return Ebb(monkeypatch, tmp_path)


@pytest.fixture
def session(tmp_path):
    return recorded(tmp_path / "session.jsonl", steps=40, usage=20_000)


def test_the_tables_name_every_policy_that_was_asked_for_and_raw(ebb, session):
    result = ebb("replay", session, "--policies", "default,masking", *SMALL)

    assert result.code == 0
    tables = result.text[result.text.index("What it costs") :]
    for name in ("raw", "default", "masking"):
        assert sum(line.startswith(f"{name} ") for line in tables.splitlines()) == 3
    assert "1 session, 40 calls" in result.text


def test_the_cheapest_is_marked_and_raw_never_is(ebb, session):
    result = ebb("replay", session, "--policies", "recorded,default", *SMALL)

    table = result.text.partition("What it costs")[2].splitlines()
    cost = {row.split()[0]: row for row in table[1:4]}
    assert "*" in cost["default"].split()[1]
    assert "*" not in cost["raw"]
    assert "*" not in cost["recorded"].split()[1]


def test_the_first_lines_say_what_the_default_costs_and_keeps(ebb, session):
    result = ebb("replay", session, "--policies", "default", *SMALL)
    totals = ebb("replay", session, "--policies", "default", "--json", *SMALL).json["totals"]
    raw, ours = (totals[name]["sums"] for name in ("raw", "default"))

    _, costs, over, *_ = result.text.splitlines()
    assert costs.startswith(f"default costs ${ours['bill']:,.2f} instead of ${raw['bill']:,.2f} without Ebbtide, ")
    assert f"{1 - ours['bill'] / raw['bill']:.0%} less" in costs
    assert f"{raw['over']} of 40 calls are over the window of 30k" in over


def test_a_star_goes_to_no_policy_that_loses_more_or_does_not_fit():
    """`careless` is cheap because it loses names, and `patient` keeps them all because it sends what does not fit."""
    used = {"used": 100, "calls": 10}
    scores = {
        "raw": Score(bill=4, over=5, available=100, **used),
        "default": Score(bill=2, available=90, recoverable=10, **used),
        "careless": Score(bill=1, available=95, **used),
        "patient": Score(bill=1.5, over=5, available=100, **used),
    }
    cost, kept = (next(one for one in MEASURES if one.key == key) for key in ("bill", "available"))

    assert comparable(cost, scores) == ["default"]
    assert comparable(kept, scores) == ["default", "careless"]
    lines = list(describe_result(scores, ReplayOptions()))
    assert lines[0].endswith("90.0% were still there; a search finds the others.")
    assert lines[-1].startswith("careless costs less, $1.00.")
    assert lines[-1].endswith("the others are lost.")


def test_the_check_of_our_bill_against_the_providers_is_printed(ebb, session):
    """20,000 tokens were billed for each call, whatever it held: ours must differ, and that is said."""
    result = ebb("replay", session, "--policies", "recorded", *SMALL)

    (line,) = [one for one in result.text.splitlines() if one.startswith("Calibration, Claude Code as recorded")]
    assert "NOT within 5 %" in line


def test_json_has_each_file_the_totals_and_what_they_were_made_on(ebb, session, tmp_path):
    recorded(tmp_path / "more.jsonl", steps=12)

    result = ebb("replay", session, tmp_path / "more.jsonl", "--policies", "default", "--json", "--ttl", "1h", *SMALL)

    told = result.json
    assert told["terms"] == {
        "policies": ["raw", "default"], "window": 30_000, "ttl": 3600.0, "model": "", "recall": True,
    }  # fmt: skip
    assert [one["file"] for one in told["files"]] == [str(session), str(tmp_path / "more.jsonl")]
    calls = [one["scores"]["default"]["sums"]["calls"] for one in told["files"]]
    assert calls == [40, 12]
    assert told["totals"]["default"]["sums"]["calls"] == 52
    assert told["totals"]["raw"]["measures"]["against_raw"] == 1
    assert set(told["totals"]["default"]["measures"]) == {one.key for one in MEASURES}
    assert told["failed"] == []


def test_csv_has_a_row_for_each_file_and_policy_and_the_totals_last(ebb, session):
    result = ebb("replay", session, "--policies", "default", "--csv", *SMALL)

    rows = list(csv.DictReader(io.StringIO(result.text)))
    assert [(row["file"], row["policy"]) for row in rows] == [
        (str(session), "raw"), (str(session), "default"), ("TOTAL", "raw"), ("TOTAL", "default"),
    ]  # fmt: skip
    assert float(rows[1]["against_raw"]) < 1
    assert {f"sum_{name}" for name in Score().as_dict()} < set(rows[0])


def test_a_plot_is_a_picture_on_disk(ebb, session, tmp_path):
    result = ebb("replay", session, "--policies", "default,claude-code", "--plot", tmp_path / "out.png", *SMALL)

    data = (tmp_path / "out.png").read_bytes()
    assert result.code == 0
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    wide, high = struct.unpack(">II", data[16:24])
    assert wide > 1200
    assert high > 600
    assert "out.png" in result.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--policies", "default,nosuch"],
            "no policy is called 'nosuch'; there are keep-more, balanced, spend-less, raw",
        ),
        (["--policies", ","], "--policies names none"),
        (["--policies", "raw+model"], "no policy is called 'raw+model'"),
        (["--plot", "out.gif"], "a plot ends in .png"),
        (["--plot", "nowhere/out.png"], "there is no folder for it"),
        (["--model", "nosuch-model"], "knows neither 'nosuch-model'"),
        (["--window", "many"], "'many' is not a number of tokens"),
        (["--window", "200"], "did you mean 200k?"),
        (["--ttl", "2h"], "'2h' is not one of 5m, 1h"),
        (["--workers", "-3"], "is not a number of processes"),
        (["--json", "--csv"], "not allowed with"),
    ],
)
def test_an_impossible_request_is_refused_with_the_possible_values(ebb, session, options, said):
    result = ebb("replay", session, *options)

    assert result.code == 2
    assert said in result.err
    assert result.out == b""


def test_no_path_is_answered_with_a_hint(ebb):
    result = ebb("replay")

    assert result.code == 2
    assert "--example" in result.err


def test_a_file_that_is_not_there_is_named(ebb):
    result = ebb("replay", "gone.jsonl")

    assert result.code == 2
    assert "there is no file gone.jsonl" in result.err


def test_a_file_that_is_no_session_is_bad_input(ebb, tmp_path):
    result = ebb("replay", written(tmp_path / "list.json", [1, 2, 3]))

    assert result.code == 2
    assert "list.json" in result.err


def test_unreadable_files_in_a_folder_are_reported_and_the_rest_is_scored(ebb, session, tmp_path):
    (tmp_path / "torn.json").write_text("{")

    result = ebb("replay", tmp_path, "--policies", "raw", *SMALL)

    assert result.code == 0
    assert "1 session, 40 calls" in result.text
    assert "Left out, 1 of 2 files:" in result.text
    assert "torn.json" in result.text


def test_the_list_has_a_line_for_each_policy(ebb):
    result = ebb("replay", "--list")

    assert result.code == 0
    assert [row.split()[0] for row in result.text.splitlines() if row][: len(NAMES)] == list(NAMES)
    assert list(ABOUT) == list(NAMES)


def test_all_means_all_and_each_name_counts_once():
    assert parse_policies("all,default") == NAMES
    assert parse_policies("default, default") == ("raw", "default")
    assert parse_policies("sage+model") == ("raw", "sage+model")


def test_the_example_runs_with_no_file(ebb):
    result = ebb("replay", "--example", "--policies", "raw", "--json", "--no-recall")

    assert result.code == 0
    assert result.json["totals"]["raw"]["sums"]["calls"] == 76


def test_text_from_a_path_cannot_move_the_cursor(ebb, tmp_path):
    recorded(tmp_path / "ok.jsonl", steps=3)
    (tmp_path / "a\x1b[2J.json").write_text("{")

    result = ebb("replay", tmp_path, "--policies", "raw", *SMALL)

    assert "\x1b" not in result.text
    assert r"a\x1b[2J.json" in result.text


def test_a_bar_is_drawn_on_a_terminal_only(session):
    """And it goes to stderr, so that what is piped away is the data alone."""
    code, screen = on_a_terminal("replay", session, "--policies", "raw", "--workers", "1")

    assert code == 0
    assert "replaying" in screen


def test_json_is_the_same_with_one_process_and_with_two(ebb, session, tmp_path):
    recorded(tmp_path / "second.jsonl", steps=20)
    asked = ["replay", session, tmp_path / "second.jsonl", "--policies", "default,lean", "--json", "--window", "30k"]

    one, two = ebb(*asked, "--workers", "1"), ebb(*asked, "--workers", "2")

    assert json.loads(one.out) == json.loads(two.out)
    assert one.out == two.out


@pytest.mark.parametrize("page", ["how-to/replay.md", "help"])
def test_the_commands_on_the_page_and_in_the_help_can_be_typed(page):
    docs = Path(__file__).resolve().parents[3] / "docs"
    text = command_line().epilog if page == "help" else (docs / page).read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("ebb replay -") or " --p" in line]
    typed = [shlex.split(re.split(r"\s{3,}|\s>", line)[0])[2:] for line in lines if line.startswith("ebb replay")]

    assert len(typed) >= 3
    for words in typed:
        assert command_line().parse_args(words)


def test_a_narrow_terminal_gets_the_columns_in_parts_and_no_figure_is_cut(ebb, session):
    text = ebb("replay", session, "--policies", "default", *SMALL).text
    _, screen = on_a_terminal(
        "replay", session, "--policies", "default", *SMALL, env={"COLUMNS": "60", "NO_COLOR": "1"}
    )
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen)
    told, cells = (
        [row for row in shown[shown.index("What it costs") :].splitlines() if row.startswith("default ")]
        for shown in (plain, text)
    )
    cells = [cell for row in cells for cell in row.split()[1:]]

    assert max(map(len, told)) <= 60
    assert [cell for row in told for cell in row.split()[1:]] == cells


def test_ctrl_c_ends_the_workers_at_once_and_in_silence(tmp_path):
    for n in range(4):
        recorded(tmp_path / f"{n}.jsonl", steps=400, usage=20_000)
    words = [*PROGRAM, "replay", tmp_path, "--policies", "all", "--workers", "2", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        _wait_for_workers(process)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=240)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    assert (process.returncode, out, err) == (130, b"", b"")


def _wait_for_workers(process):
    for _ in range(4_800):
        workers = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not workers.exists():
            pytest.skip("needs /proc")
        # Two workers, and the process that looks after their semaphores.
        if len(workers.read_text().split()) >= 3:
            return
        time.sleep(0.05)
    raise AssertionError("no worker was begun")
