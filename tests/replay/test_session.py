"""What is put back into a recording: what each message took, and what stood before all of them."""

import json

import pytest

from ebbtide.formats import load
from ebbtide.replay.session import sessions_in


def session(path, bills, *, models=None, times=None, thoughts=()):
    """A Claude Code file: the user speaks, the agent answers, and each answer has a bill."""
    rows, parent = [], None
    for n, bill in enumerate(bills):
        for role in ("user", "assistant"):
            words = [{"type": "text", "text": f"{role} says the words of step {n} " * 40}]
            if role == "assistant" and n in thoughts:
                words.insert(0, {"type": "thinking", "thinking": "so", "signature": "s"})
            row = {
                "type": role, "uuid": f"{role}{n}", "parentUuid": parent, "sessionId": "s",
                "timestamp": times[n] if times else f"2026-01-01T10:{n:02}:00.000Z",
                "message": {"role": role, "content": words},
            }  # fmt: skip
            if role == "assistant":
                usage = {"input_tokens": 3, "cache_read_input_tokens": bill - 3, "output_tokens": 9}
                row["message"] |= {"id": f"m{n}", "model": (models or {}).get(n, "claude-opus-4-5"), "usage": usage}
            parent = row["uuid"]
            rows.append(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return next(iter(sessions_in(load(path), "tape")))


def total(tape, n):
    return tape.messages.overhead + sum(map(tape.messages.tokens, tape.calls[n].raw["messages"]))


def test_messages_take_what_two_bills_differ_by(tmp_path):
    """10,500 less 10,000: the answer of the first call and the question of the second took 500 together."""
    tape = session(tmp_path / "a.jsonl", [10_000, 10_500, 11_100])

    assert total(tape, 1) - total(tape, 0) == pytest.approx(500, abs=1)
    assert total(tape, 2) - total(tape, 1) == pytest.approx(600, abs=1)


def test_the_system_prompt_takes_what_the_first_bill_has_besides_the_messages(tmp_path):
    tape = session(tmp_path / "a.jsonl", [10_000, 10_500, 11_100])

    assert total(tape, 0) == pytest.approx(10_000, abs=2)
    assert tape.messages.overhead > 9_000
    (filler,) = tape.calls[0].raw["system"]
    assert tape.messages.estimator.text(filler["text"]) == pytest.approx(tape.messages.overhead, rel=0.01)


def test_a_step_that_was_billed_out_of_all_proportion_is_estimated_instead(tmp_path):
    """A bill of another conversation, or of something that is not in the file, says nothing about these messages."""
    tape = session(tmp_path / "a.jsonl", [10_000, 10_500, 90_000])

    assert total(tape, 2) - total(tape, 1) < 1_500


def test_a_reply_that_claude_code_wrote_itself_is_no_call(tmp_path):
    tape = session(tmp_path / "a.jsonl", [10_000, 10_500, 11_100], models={1: "<synthetic>"})

    assert [take.model for take in tape.calls] == ["claude-opus-4-5"] * 2
    assert len(tape.calls[1].raw["messages"]) == len(tape.calls[0].raw["messages"]) + 4


def test_a_request_of_claude_code_thinks_if_its_reply_does_on_models_whose_thinking_is_switched(tmp_path):
    models = {2: "claude-opus-4-6"}
    tape = session(tmp_path / "a.jsonl", [10_000, 10_500, 11_100], models=models, thoughts=(1, 2))

    assert [take.thinks for take in tape.calls] == [False, True, False]


def test_time_never_runs_backwards(tmp_path):
    times = ["2026-01-01T10:00:00.000Z", "2026-01-01T09:00:00.000Z", "2026-01-01T11:00:00.000Z"]
    tape = session(tmp_path / "a.jsonl", [10_000, 10_500, 11_100], times=times)

    at = [take.at for take in tape.calls]
    assert at[2] - at[0] == 3_600
    assert at == sorted(at)
