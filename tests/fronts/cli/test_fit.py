"""`ebb fit`: what goes in comes out, smaller where it must be, untouched where it need not be."""

import json
import os

import pytest

from ebbtide.core.stub import parse
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations
from fronts.cli.terminal import PRESSED, recorded, request, run_program, written


def test_a_request_that_fits_is_written_byte_for_byte(ebb, tmp_path):
    path = written(tmp_path / "r.json", request(2), indent=3)

    result = ebb("fit", path)

    assert (result.code, result.err) == (0, "")
    assert result.out == path.read_bytes()


@pytest.mark.parametrize("file", [[], ["-"]])
def test_stdin_is_read_with_a_dash_and_without(ebb, file):
    raw = json.dumps(request(2)).encode()

    assert ebb("fit", *file, stdin=raw).out == raw


def test_the_real_program_in_a_pipe():
    result = run_program("fit", *PRESSED, stdin=json.dumps(request()).encode())

    assert result.returncode == 0
    assert violations(WIRES["anthropic"], json.loads(result.stdout)) == []
    assert len(result.stdout) < len(json.dumps(request()))


def test_a_request_that_does_not_fit_is_made_to_fit(ebb, tmp_path):
    result = ebb("fit", written(tmp_path / "r.json", request()), *PRESSED)

    assert result.code == 0
    assert len(result.out) < 90_000
    assert result.json["messages"][0]["content"] == "fix the gauge"


def test_a_request_that_cannot_fit_is_exit_code_3_and_says_what_it_consists_of(ebb, tmp_path):
    huge = {"model": "claude-opus-4-5", "max_tokens": 10, "system": "word " * 9000, "messages": request(1)["messages"]}

    result = ebb("fit", written(tmp_path / "r.json", huge), "--window", "4k")

    assert (result.code, result.out) == (3, b"")
    assert "system" in result.err


def test_when_nothing_can_be_saved_a_request_that_is_too_large_is_not_printed(ebb, tmp_path):
    path = written(tmp_path / "r.json", request())
    in_the_way = tmp_path / "projects" / "_" / "busy.lock"
    in_the_way.mkdir(parents=True)
    result = ebb("fit", path, *PRESSED, "--session", "busy")
    in_the_way.rmdir()

    assert (result.code, result.out) == (1, b"")
    assert "nothing could be removed" in result.err
    assert ebb("fit", path, *PRESSED, "--session", "busy").code == 0


def test_explain_writes_to_stderr_and_leaves_the_data_alone(ebb, tmp_path):
    path = written(tmp_path / "r.json", request())

    quiet, told = ebb("fit", path, *PRESSED), ebb("fit", path, *PRESSED, "--explain")

    assert told.out == quiet.out
    assert "clear_results" in told.err
    assert "context left until it acts" in told.err


@pytest.mark.parametrize("policy", ["default", "mini-claude"])
def test_explain_lists_only_the_edits_that_were_made(ebb, tmp_path, policy):
    path = written(tmp_path / "r.json", request(48))
    asked = ("fit", path, *PRESSED, "--policy", policy, "--explain")

    told, report = ebb(*asked), json.loads(ebb(*asked, "--json").err)

    assert f"\n{len(report['edits'])} edits in 1 batch" in told.err
    assert f"{report['held']} edits active" in told.err


def test_an_edit_that_only_removes_something_applies_too(ebb):
    report = json.loads(ebb("fit", "--example", "--window", "120k", "--explain", "--json").err.partition("\n")[2])

    assert "strip_thinking" in {edit["by"] for edit in report["edits"]}
    assert report["held"] == len(report["edits"])


def test_the_estimate_is_shown_and_the_margin_on_it_named(ebb, tmp_path):
    path = written(tmp_path / "r.json", request())

    told, stored = ebb("fit", path, "--explain"), ebb("fit", path, "--explain", "--session", "s", "--store", tmp_path)

    assert "counted 25% higher to be sure" in told.err
    assert "higher to be sure" not in stored.err


def test_explain_as_json_is_the_report(ebb, tmp_path):
    result = ebb("fit", written(tmp_path / "r.json", request()), *PRESSED, "--explain", "--json")

    report = json.loads(result.err)
    assert report["tokens_before"] > report["tokens_after"]
    assert {"by", "reason", "saved"} <= report["edits"][0].keys()


def test_the_last_request_of_a_recorded_session_is_fitted(ebb, tmp_path):
    result = ebb("fit", recorded(tmp_path / "s.jsonl", steps=3))

    assert result.code == 0
    assert "the last of its 3 requests" in result.err
    assert len(result.json["messages"]) == 5


def test_the_packaged_example_session_can_be_tried(ebb):
    result = ebb("fit", "--example", "--window", "60k")

    assert result.code == 0
    assert result.json["messages"]


class TestSession:
    def test_with_a_session_stubs_name_the_file_that_holds_the_original(self, ebb, tmp_path):
        body = request()
        result = ebb(
            "fit", written(tmp_path / "r.json", body), *PRESSED, "--session", "s", "--store", tmp_path / "kept"
        )

        blocks = [
            block for message in result.json["messages"] for block in message["content"] if isinstance(block, dict)
        ]
        stubs = [(b, parse(b["content"])) for b in blocks if b["type"] == "tool_result" and parse(b["content"])]
        block, stub = stubs[0]
        originals = {b["tool_use_id"]: b["content"] for m in body["messages"] for b in m["content"] if "content" in b}
        with open(stub.path, encoding="utf-8") as kept:
            assert kept.read() == originals[block["tool_use_id"]]

    def test_the_next_request_of_the_session_begins_as_the_last(self, ebb, tmp_path):
        body = request()
        longer = {**body, "messages": [*body["messages"], *request(25)["messages"][-2:]]}
        options = [*PRESSED, "--session", "s", "--store", tmp_path / "kept"]

        first = ebb("fit", written(tmp_path / "1.json", body), *options).json["messages"]
        second = ebb("fit", written(tmp_path / "2.json", longer), *options).json["messages"]

        bare = [json.dumps(one).replace('"cache_control": {"type": "ephemeral"}', "") for one in first[:-3]]
        again = [json.dumps(one).replace('"cache_control": {"type": "ephemeral"}', "") for one in second]
        assert again[: len(bare)] == bare

    def test_without_a_session_nothing_is_written(self, ebb, tmp_path):
        path = written(tmp_path / "r.json", request())

        ebb("fit", path, *PRESSED)

        assert [one.name for one in tmp_path.iterdir()] == ["r.json"]

    def test_a_store_without_a_session_is_refused(self, ebb, tmp_path):
        result = ebb("fit", written(tmp_path / "r.json", request(1)), "--store", tmp_path / "kept")

        assert result.code == 2
        assert "--session" in result.err


class TestLargeInput:
    def test_a_body_of_ten_megabytes_is_fitted(self, ebb, tmp_path):
        line = "src/tide/gauge.py:12: reading = level - datum\n" * 600
        body = request(0)
        for n in range(370):
            use = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": "x"}}
            back = {"type": "tool_result", "tool_use_id": f"t{n}", "content": line + str(n)}
            body["messages"] += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [back]}]
        path = written(tmp_path / "big.json", body)

        result = ebb("fit", path)

        assert path.stat().st_size > 10_000_000
        assert result.code == 0
        assert len(result.out) < 1_000_000

    def test_a_body_over_the_limit_is_refused_unread(self, ebb, tmp_path):
        path = written(tmp_path / "r.json", request(3))

        result = ebb("fit", path, "--max-bytes", "1k")

        assert (result.code, result.out) == (2, b"")
        assert "1.0 KB" in result.err
        assert "--max-bytes" in result.err

    def test_a_small_file_that_unpacks_to_a_large_one_is_refused(self, ebb, tmp_path):
        import gzip

        path = tmp_path / "bomb.gz"
        path.write_bytes(gzip.compress(b" " * 5_000_000))

        assert ebb("fit", path, "--max-bytes", "100k").code == 2


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that not even root can write to")
def test_when_a_session_cannot_be_written_the_disk_is_named(ebb, tmp_path):
    fits, large = (written(tmp_path / f"{n}.json", request(n)) for n in (2, 24))

    result = ebb("fit", fits, "--session", "s", "--store", "/proc/nope")
    refused = ebb("fit", large, *PRESSED, "--session", "s", "--store", "/proc/nope")

    assert (result.code, result.out) == (0, fits.read_bytes())
    assert (refused.code, refused.out) == (1, b"")
    assert all("/proc/nope cannot be written to: " in ran.err for ran in (result, refused))
