"""The recorded sessions themselves: all of them load, and add up to what the manifest counted."""

import csv
import gzip
import json
from itertools import pairwise

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.formats import load
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations

pytestmark = pytest.mark.data

COUNTED = ("input_uncached", "cache_read", "cache_write", "output_tokens")


@pytest.fixture(scope="module")
def manifest(data):
    with (data / "MANIFEST.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def recordings(data, manifest):
    return {row["file"]: load(data / row["file"]) for row in manifest if row["kind"] != "qa"}


def billed(calls):
    usages = [call.usage for call in calls if call.usage]
    return [sum(getattr(usage, name) for usage in usages) for name in ("input", "cache_read", "cache_write", "output")]


def token_counts(path):
    """Every token count of a rollout, as the manifest took them: each row with figures is one."""
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines() if line.strip()]
    found = [row["payload"].get("info") for row in rows if row["payload"].get("type") == "token_count"]
    return [info for info in found if info]


def test_calls_and_tokens_are_the_manifests_for_every_format_but_codex(manifest, recordings):
    for row in manifest:
        if row["kind"] != "session" or row["format"] == "codex_rollout_jsonl" or not row["api_calls"]:
            continue
        calls = list(recordings[row["file"]].requests())
        assert len(calls) == int(row["api_calls"]), row["file"]
        if row["input_uncached"]:
            assert billed(calls) == [int(row[name]) for name in COUNTED], row["file"]


def test_codex_calls_are_the_manifests_less_the_counts_that_are_written_twice(data, manifest, recordings):
    """The manifest counts every token count; Codex repeats the last one when a turn ends or the client compacts."""
    for row in manifest:
        if row["format"] != "codex_rollout_jsonl":
            continue
        counts = token_counts(data / row["file"])
        assert len(counts) == int(row["api_calls"])
        totals = [info["total_token_usage"] for info in counts]
        fresh = [info for at, info in enumerate(counts) if at == 0 or totals[at] != totals[at - 1]]
        calls = [call for call in recordings[row["file"]].requests() if call.usage]
        assert [call.usage.prompt for call in calls] == [info["last_token_usage"]["input_tokens"] for info in fresh]
        # Codex's own sum may be larger: a call that was interrupted can be in it without a row of its own.
        assert sum(call.usage.prompt for call in calls) <= totals[-1]["input_tokens"]


def test_compactions_are_the_manifests(manifest, recordings):
    for row in manifest:
        if row["compactions"]:
            calls = recordings[row["file"]].requests()
            assert sum(call.compacted for call in calls) == int(row["compactions"]), row["file"]


def test_without_compaction_the_history_only_grows(manifest, recordings):
    """Where the user never went back: each request begins with all of the one before."""
    row = next(row for row in manifest if row["file"].startswith("badlogic-pi-mono/before"))
    calls = list(recordings[row["file"]].uncompacted())

    lengths = [len(call.request["messages"]) for call in calls]
    assert lengths == sorted(lengths)
    assert lengths[-1] > max(len(call.request["messages"]) for call in recordings[row["file"]].requests())


def test_providers_would_accept_the_requests(recordings):
    """The call in the middle and the last one of each session, and the last one had it never compacted."""
    for name, recording in recordings.items():
        calls = list(recording.requests())
        for call in (calls[len(calls) // 2], calls[-1], list(recording.uncompacted())[-1]):
            assert violations(WIRES[recording.wire], call.request) == [], (name, call.row)


def test_consecutive_calls_share_their_messages(recordings):
    for recording in recordings.values():
        calls = list(recording.requests())
        key = "input" if recording.wire == "openai_responses" else "messages"
        for one, two in pairwise(calls):
            if one.episode != two.episode or two.compacted:
                continue
            pairs = list(zip(one.request[key], two.request[key], strict=False))
            # Equal and not the same would be read, hashed and counted anew every turn.
            assert not [a for a, b in pairs if a is not b and a == b]


def test_a_list_of_questions_is_not_a_session(data, manifest):
    for row in manifest:
        if row["kind"] == "qa":
            with pytest.raises(BadRequest, match="no session that we know"):
                load(data / row["file"])
