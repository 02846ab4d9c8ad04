"""The commands on real recorded sessions, one of each format."""

import pytest

FILES = {
    "claude-code": "claude-code-log/edge_cases.jsonl",
    "codex": "entireio-skills/019d78fc-c449-7300-92a1-1e92604a4f6a.jsonl.gz",
    "kimi": "moonshot-kimi-cli",
    "swe-agent": "swe-agent-demos",
    "chat": "hindsight-zh-en",
}


@pytest.fixture(params=FILES)
def file(request, data):
    path = data / FILES[request.param]
    return path if path.is_file() else min(path.iterdir(), key=lambda one: one.stat().st_size)


@pytest.mark.data
def test_the_window_of_any_recorded_session_can_be_shown(ebb, file):
    told = ebb("context", file, "--json")

    assert told.code == 0, told.err
    assert told.json["tokens"] > 0
    assert len(told.json["cells"]) == 100


@pytest.mark.data
def test_any_recorded_session_can_be_explained(ebb, file):
    told = ebb("explain", file, "--window", "16k", "--json")

    assert told.code == 0, told.err
    assert sum(history["requests"] + len(history["refusals"]) for history in told.json) > 0
