"""The commands on a chat that gemini-cli recorded: 20 files read, each of some thousand tokens."""

import json

import pytest

from ebbtide.formats import load
from fronts.ui.inspector import library, page

WINDOW = "24k"


@pytest.fixture
def chat(tmp_path):
    rows = [{"sessionId": "c0e6", "projectHash": "709a", "kind": "main"}]
    rows.append({"id": "u", "type": "user", "content": [{"text": "read all the gauges"}]})
    for n in range(20):
        tokens = {"input": 1_000 + 1_500 * n, "output": 20, "cached": 1_000 + 1_500 * (n - 1) if n else 0}
        reply = {"id": f"r{n}", "type": "gemini", "content": "Next.", "model": "gemini-2.5-pro", "tokens": tokens}
        reply["timestamp"] = f"2026-11-18T20:{n:02}:00.000Z"
        call = {"id": f"read_file__{n}", "name": "read_file", "args": {"file_path": f"gauge{n}.txt"}}
        output = {"output": f"gauge {n}: " + "the level is off by a hand\n" * 240}
        response = {"functionResponse": {"id": call["id"], "name": "read_file", "response": output}}
        rows += [reply, {**reply, "toolCalls": [{**call, "result": [response]}]}]
        rows.append({"id": f"f{n}", "type": "user", "content": [response]})
    path = tmp_path / "session-2026-11-18T20-58-c0e6.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert len(list(load(path).requests())) == 20
    return path


def test_context_says_what_filled_the_window(ebb, chat):
    result = ebb("context", chat, "--window", WINDOW, "--json")

    assert result.code == 0, result.err
    assert (result.json["model"], result.json["tokens"], result.json["billed"]) == ("gemini-2.5-pro", 29_500, True)
    assert {"tool calls", "tool results"} <= {part["name"] for part in result.json["messages"]}


def test_explain_shows_what_would_have_been_removed(ebb, chat):
    (history,) = ebb("explain", chat, "--window", WINDOW, "--json").json

    assert history["requests"] == 20
    assert any("read_file" in edit["what"] for batch in history["batches"] for edit in batch["edits"])


def test_replay_keeps_every_request_inside_the_window(ebb, chat):
    result = ebb("replay", str(chat), "--window", WINDOW, "--policies", "default", "--json")

    assert result.code == 0, result.err
    scores = {policy: total["sums"] for policy, total in result.json["totals"].items()}
    assert (scores["default"]["over"], scores["default"]["invalid"]) == (0, 0)
    assert scores["raw"]["over"] > 0


async def test_the_inspector_plays_it(chat, tmp_path):
    async with page(library(tmp_path / "store", str(chat), window=24_000)) as ask:
        (row,) = (await ask.get("sessions"))["sessions"]
        summary = await ask.get(f"session/{row['key']}")

    assert (row["title"], summary["calls"], summary["wire"]) == ("read all the gauges", 20, "gemini")
    assert summary["edits"] > 0
