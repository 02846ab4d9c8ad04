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
    result = ebb("context", file, "--json")

    assert result.code == 0, result.err
    assert result.json["tokens"] > 0
    assert len(result.json["cells"]) == 100


@pytest.mark.data
def test_any_recorded_session_can_be_explained(ebb, file):
    result = ebb("explain", file, "--window", "16k", "--json")

    assert result.code == 0, result.err
    assert sum(history["requests"] + len(history["refusals"]) for history in result.json) > 0
