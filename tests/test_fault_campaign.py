"""The fault campaign does not rot: its quick form runs, its oracle sees damage, and its page tells what it found.

Which damage the store survives is tested beside the store; the whole campaign is `python -m benchmarks.faults`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.faults import disk, table
from benchmarks.faults.campaign import CLASSES
from benchmarks.faults.sessions import STEPS, Place, Tally, check_kept, check_ready, check_sound, generated, go_on

ROOT = Path(__file__).resolve().parents[1]
OWN = [name for name in CLASSES if not name.startswith(table.RECORDED)]
TIMED = {"two-proxies"}
"""What comes of it depends on who is faster: that it runs is all that is asked here."""


def test_the_quick_form_tries_every_class_and_finds_nothing_wrong(tmp_path):
    results = tmp_path / "faults.json"
    command = [sys.executable, "-m", "benchmarks.faults", "--quick", "--jobs", "1", "--results", str(results)]
    done = subprocess.run(
        [*command, "--only", ",".join(OWN)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=280,
    )
    result = json.loads(results.read_text(encoding="utf-8"))["result"]

    assert set(result) == set(OWN), done.stderr
    assert [name for name, one in result.items() if not one["points"]] == []
    assert [one["examples"] for name, one in result.items() if any(one["bad"].values()) and name not in TIMED] == []


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp("faults"), generated("anthropic", 12_000, 0))
    disk.check_unfaulted(made)
    return made


def finished(place):
    place.restore()
    with place.context() as ctx:
        return [place.step(ctx, at) for at in disk.steps(place)][-1]


def wrong(check, *arguments):
    tally = Tally()
    check(tally, *arguments, "here")
    return [kind for kind, count in tally.bad.items() if count]


def test_the_oracle_misses_a_record_that_was_acknowledged(place):
    finished(place)
    data = place.log.read_bytes()
    place.log.write_bytes(data[: data.rindex(b'\n{"', 0, -2) + 1])

    assert wrong(check_kept, place) == ["lost"]
    assert wrong(check_sound, place) == ["lost"]


def test_the_oracle_misses_a_result_that_a_request_names(place):
    ready = finished(place)
    for path in (place.log.parent / "s" / "tool-results").iterdir():
        path.unlink()

    assert wrong(check_ready, place, place.story.start + STEPS - 1, ready) == ["dangling"]
    assert wrong(check_kept, place) == ["lost"]


def test_the_oracle_detects_a_session_that_cannot_continue(place):
    finished(place)
    place.log.unlink()
    place.log.mkdir()

    assert wrong(go_on, place, place.story.start) == ["unusable"]
    place.log.rmdir()


def test_the_page_reports_what_was_measured():
    page = (ROOT / "docs" / "explanation" / "faults.md").read_text(encoding="utf-8")
    result = json.loads(table.RESULTS.read_text(encoding="utf-8"))["result"]

    assert table.table(result) in page
    assert set(result) == set(CLASSES)
    assert result["kill"]["points"] >= 2_000
