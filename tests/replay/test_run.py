"""Files in, scores out: the same on one process, on two and on Ray."""

import csv
import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.fronts.replay.output import build_document
from ebbtide.replay.measures import calibrate
from ebbtide.replay.run import ReplayOptions, replay, replay_file, replay_on_ray
from ebbtide.replay.sources import find_sessions
from fronts.cli.terminal import recorded, stored
from store.stores import server

TERMS = ReplayOptions(policies=("raw", "default", "claude-code"), window=30_000)


@pytest.fixture
def sessions(tmp_path):
    return [recorded(tmp_path / f"{n}.jsonl", steps=steps) for n, steps in enumerate((6, 24, 12))]


def test_two_runs_give_the_same_to_the_last_digit(sessions):
    first, second = (replay(sessions, TERMS, workers=1) for _ in range(2))

    assert first == second
    assert json.dumps(build_document(first, TERMS)) == json.dumps(build_document(second, TERMS))


def test_two_processes_give_the_result_of_one_in_the_order_of_the_paths(sessions):
    progress = []
    two = replay(sessions, TERMS, workers=2, on_progress=lambda *counts: progress.append(counts))

    assert two == replay(sessions, TERMS, workers=1)
    assert [one.path for one in two] == list(map(str, sessions))
    assert progress == sorted(progress)
    assert progress[-1] == (3, 3, sum(len(TERMS.policies) * calls for calls in (6, 24, 12)))


def test_one_process_counts_every_call_while_it_replays(sessions):
    progress = []
    replay(sessions[:1], TERMS, workers=1, on_progress=lambda *counts: progress.append(counts))

    calls = 6 * len(TERMS.policies)
    assert progress == [*((0, 1, n) for n in range(1, calls + 1)), (1, 1, calls)]


@pytest.mark.timeout(900)
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_ray_gives_the_result_of_one_process(sessions, tmp_path):
    """In a process of its own, which ends whatever Ray starts. Files, a folder of our logs, and a database of them."""
    url = server().database_at(tmp_path)
    for store in (tmp_path / "folder", url):
        stored(store)
    program = (
        "import sys; from ebbtide.replay.sources import find_sessions\n"
        "from ebbtide.replay.run import ReplayOptions, replay, replay_on_ray\n"
        "options = ReplayOptions(policies=('raw', 'default', 'claude-code'), window=30_000)\n"
        "paths = find_sessions(sys.argv[1:])\n"
        "print(replay_on_ray(paths, options, 'local') == replay(paths, options, workers=1))\n"
    )

    for _ in range(3):
        result = subprocess.run(
            [sys.executable, "-c", program, *map(str, sessions), tmp_path / "folder", url],
            capture_output=True,
            text=True,
            timeout=280,
        )
        # Ray gives its own processes thirty seconds to come up, and on a busy machine that may be too short.
        if "timed out during startup" not in result.stderr:
            break

    assert result.stdout.strip().splitlines()[-1:] == ["True"], result.stderr[-2000:]


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_a_cluster_that_does_not_answer_is_bad_input(sessions):
    with pytest.raises(BadRequest, match=r"no Ray cluster answers at 127\.0\.0\.1:9"):
        replay_on_ray(sessions, TERMS, "127.0.0.1:9")


def test_an_unreadable_file_is_reported_and_the_others_are_replayed(sessions, tmp_path):
    (tmp_path / "torn.jsonl").write_text("{")

    good, bad = replay([sessions[0], tmp_path / "torn.jsonl"], TERMS, workers=1)

    assert good.scores["raw"].calls == 6
    assert bad.error
    assert not bad.scores


def test_a_folder_means_the_sessions_in_it_by_name_and_each_once(sessions, tmp_path):
    (tmp_path / "notes.md").write_text("not a session")
    (tmp_path / "deep").mkdir()
    deep = recorded(tmp_path / "deep" / "x.jsonl", steps=1)

    assert find_sessions([tmp_path, sessions[0]]) == [*sessions, deep]
    with pytest.raises(BadRequest, match="there is no file"):
        find_sessions([tmp_path / "gone"])


def test_a_custom_model_changes_prices_and_not_what_is_kept(sessions):
    dear, cheap = (
        replay_file(sessions[1], ReplayOptions(policies=("raw",), model=model))
        for model in ("claude-opus-4-1", "gpt-5-mini")
    )

    assert dear.models == ("claude-opus-4-1",)
    assert dear.scores["raw"].bill > cheap.scores["raw"].bill > 0
    assert cheap.scores["raw"].written == 0
    assert dear.scores["raw"].used == cheap.scores["raw"].used


@pytest.mark.data
def test_claude_codes_recorded_requests_cost_what_they_were_billed_within_two_percent(data):
    """All of them together. Single files differ by more, in both directions: see docs/reference/replay.md."""
    with (data / "MANIFEST.csv").open(newline="", encoding="utf-8") as file:
        paths = [data / row["file"] for row in csv.DictReader(file) if row["format"] == "claude_code_jsonl"]

    found = calibrate(replay(paths, ReplayOptions(policies=()), workers=1), "claude-code")

    assert found.files == 48
    assert abs(found.drift or 1.0) <= 0.02, f"{found.drift:+.1%} of {found.billed:.2f}"
