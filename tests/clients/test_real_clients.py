"""Real clients, unmodified, in a tool loop that passes a small window several times.

The provider is a server of its own that checks every request by its own reading of the rules and counts by itself; the
clients really run their tools. Which clients: `scripts/install_clients.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clients.guided_provider import DONE, Walk, file_name, marker, sent, text, tokens_of
from clients.programs import PROGRAMS, run_program
from fronts.proxy.proxy_runner import get, proxied
from upstream.server import Upstream

PARTS = 48
"""Tool calls."""
PASSED = 3
"""Times that what the tools print would fill the window."""


def recorded(store):
    """The turns of the loop, as the proxy wrote them down: its log is the one with the most of them."""
    logs = [[json.loads(line) for line in log.open("rb")] for log in store.rglob("*.jsonl")]
    turns = [[record for record in records if record.get("kind") == "turn"] for records in logs]
    return max(turns, key=len)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_a_real_client_works_on_in_a_window_that_its_work_passes_several_times(
    program, client_file, tmp_path, record_testsuite_property
):
    file = client_file(program.name)
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    lines = program.window * PASSED // PARTS // 12  # a line of a part has some 36 characters, 12 tokens upstream
    for part in range(1, PARTS + 1):
        (work / file_name(part)).write_text(text(part, lines), encoding="utf-8")
    walk = Walk(PARTS, opens=program.opens)
    with (
        Upstream(walk, window=program.window) as upstream,
        proxied(upstream.url, store=tmp_path / "store", window=program.window) as running,
    ):
        code, output, complaints = run_program(program.start(file, running.url, home), work, home)
        running.settle()
        summary = get(running.port, "/ebb/summary")[1]

    assert (code, DONE in output) == (0, True), f"{output[-2000:]}\n{complaints[-2000:]}"
    assert [one.refused for one in upstream.requests if one.refused] == []
    lane = walk.lane(upstream)
    assert len(lane) == PARTS + 1 + program.opens, "one request for each call, and the last answer"
    if program.opens:
        rows = [row for row in Path(walk.opened).read_text(encoding="utf-8").splitlines() if "gauge" in row]
        assert any(row in sent(lane[-1])[-1] for row in rows), "the client's own tool opened what left"
    assert [n for n in range(1, PARTS + 1) if marker(n) not in lane[n].raw.decode()] == [], "the client ran each call"
    assert [n for n, one in enumerate(lane) if tokens_of(one) > program.window] == []
    assert (summary["fallbacks"], summary["overflows"]) == (0, 0)
    assert summary["edits"] > 0
    assert summary["folds"] >= program.folds
    assert summary["tokens_untouched"] > summary["tokens_sent"]
    texts, turns = [sent(one) for one in lane], recorded(tmp_path / "store")
    assert len(turns) == len(lane)
    edited = [n for n, turn in enumerate(turns) if turn["edited"]]
    broken = [n for n in range(1, len(lane)) if texts[n][: len(texts[n - 1])] != texts[n - 1]]
    seen = f"{len(broken)} of {len(lane)} broke the prefix, {len(edited)} had new edits; {summary}"
    record_testsuite_property(f"figures of {program.name}", seen)  # shown by --junitxml
    assert sorted(set(broken) - set(edited)) == [], "between edits each request extends the last, byte for byte"
    # Not vacuous where each turn has an edit: one on arrival breaks nothing, and a batch makes room for some turns.
    assert len(broken) <= program.broken
