"""`/v1/compress` and `/v1/retrieve`: what gateways ask for, with the rows that LiteLLM sends."""

from __future__ import annotations

import json
import re

import pytest

from ebbtide import preset
from ebbtide.fronts.proxy.compressor import Compressor
from ebbtide.fronts.proxy.sessions import EngineSettings
from ebbtide.store import open_store
from fronts.proxy.proxy_runner import get, post, proxied
from store.stores import server

WINDOW = 20_000
KEY = "Bearer one-key-for-all"


def page(owner: str, n: int) -> str:
    return f"{owner} file {n}\n" + "\n".join(f"{n:3d} {owner} gauge {n * 40 + line} of {line}" for line in range(120))


def result(owner: str, n: int) -> dict:
    return {"role": "tool", "tool_call_id": f"call_{n}", "content": page(owner, n)}


def compressor(folder) -> Compressor:
    store = open_store(folder, durable=False)
    return Compressor(EngineSettings(policy=preset("default"), window_for=lambda model: WINDOW, store=store))


def talk(shortens: Compressor, owner: str, calls: int, credential: str = KEY) -> list[dict]:
    """A loop of so many tool calls. Returns the answers."""
    rows, answers = [], []
    for n in range(calls):
        rows.append(result(owner, n))
        answers.append(shortens.compress({"messages": rows, "model": "m"}, credential))
        assert [row["role"] for row in answers[-1]["messages"]] == [row["role"] for row in rows]
    return answers


def test_as_many_rows_come_back_and_fewer_tokens(tmp_path):
    answer = talk(compressor(tmp_path), "olga", 30)[-1]

    assert len(answer["messages"]) == 30
    assert answer["tokens_after"] < answer["tokens_before"]
    assert answer["tokens_saved"] == answer["tokens_before"] - answer["tokens_after"]
    assert answer["messages"][-1]["content"] == page("olga", 29), "the newest result is whole"
    assert len(answer["ccr_hashes"]) == sum("hash=" in row["content"] for row in answer["messages"]) > 10


def test_between_batches_each_answer_extends_the_last(tmp_path):
    answers = talk(compressor(tmp_path), "olga", 40)

    texts = [[row["content"] for row in answer["messages"]] for answer in answers]
    breaks = [n for n in range(1, 40) if texts[n][: len(texts[n - 1])] != texts[n - 1]]
    assert 1 <= len(breaks) <= 20
    for n in range(1, 40):
        known = {text for text in texts[n - 1] if "hash=" in text}
        assert known <= set(texts[n]), "a row that was shortened stays as it was"
        assert set(answers[n - 1]["ccr_hashes"]) <= set(answers[n]["ccr_hashes"])


def test_what_was_shortened_comes_back_whole_also_after_a_restart_and_elsewhere(tmp_path):
    answer = talk(compressor(tmp_path), "olga", 30)[-1]

    other_proxy = compressor(tmp_path)
    for row, n in zip(answer["messages"], range(30), strict=True):
        if "hash=" in row["content"]:
            hash = row["content"].rpartition("hash=")[2][:24]
            assert hash in answer["ccr_hashes"]
            assert other_proxy.retrieve(hash, KEY) == page("olga", n)


def test_two_proxies_in_turns_send_the_rows_that_one_sends(tmp_path):
    alone = talk(compressor(tmp_path / "alone"), "olga", 40)
    in_turns, rows = [], []
    proxies = compressor(tmp_path / "both"), compressor(tmp_path / "both")
    for n in range(40):
        rows.append(result("olga", n))
        in_turns.append(proxies[n % 2].compress({"messages": rows, "model": "m"}, KEY))

    def without_hashes(answers):
        return [[re.sub("hash=[0-9a-f]{24}", "", row["content"]) for row in answer["messages"]] for answer in answers]

    assert without_hashes(in_turns) == without_hashes(alone)


def test_two_users_behind_one_key_never_meet(tmp_path):
    """Their call ids are the same, and their first result is the same to the letter."""
    shortens = compressor(tmp_path)
    shared = {"role": "tool", "tool_call_id": "call_0", "content": page("shared", 0)}
    hashes = {"olga": [], "yusuf": []}
    for n in range(1, 40):
        for owner, other in (("olga", "yusuf"), ("yusuf", "olga")):
            rows = [shared, *(result(owner, k) for k in range(1, n + 1))]
            answer = shortens.compress({"messages": rows, "model": "m"}, KEY)
            hashes[owner] = answer["ccr_hashes"]
            assert other not in json.dumps(answer)
            for row, given in zip(answer["messages"], rows, strict=True):
                if row != given:
                    hash = row["content"].rpartition("hash=")[2][:24]
                    assert shortens.retrieve(hash, KEY) == given["content"]
    assert len(set(hashes["olga"]) & set(hashes["yusuf"])) <= 1, "only the result that both have"


def test_a_hash_belongs_to_the_key_that_got_it_and_cannot_be_guessed(tmp_path):
    shortens = compressor(tmp_path)
    hash = talk(shortens, "olga", 30)[-1]["ccr_hashes"][0]

    assert shortens.retrieve(hash, "Bearer another") is None
    assert shortens.retrieve(hash[:-1] + ("0" if hash[-1] != "0" else "1"), KEY) is None
    assert shortens.retrieve("0" * 24, KEY) is None
    assert shortens.retrieve("../../etc/passwd", KEY) is None
    elsewhere = compressor(tmp_path / "elsewhere")
    assert hash not in talk(elsewhere, "olga", 30)[-1]["ccr_hashes"], "another store has another secret"


@pytest.mark.parametrize(
    "rows",
    [
        [{"role": "user", "content": "Hello"}],
        [{"role": "tool", "content": "no id"}],
        [{"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "parts"}]}],
        [{"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}, {"role": "user", "content": ""}],
        [{"role": "tool", "tool_call_id": "a", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": "y"}],
        [{"role": "tool", "tool_call_id": "a\ud800", "content": "\ud800" * 50_000}],
        [{"role": "new", "strange": {"deep": []}}],
    ],
)
def test_what_it_cannot_shorten_comes_back_as_it_is(rows, tmp_path):
    answer = compressor(tmp_path).compress({"messages": rows, "model": "m"}, KEY)

    assert len(answer["messages"]) == len(rows)
    for row, given in zip(answer["messages"], rows, strict=True):
        assert len(str(row.get("content"))) <= len(str(given.get("content")))


def test_users_words_are_never_shortened(tmp_path):
    words = "Keep the datum of Brest. " * 4000
    rows = [{"role": "user", "content": words}, *(result("olga", n) for n in range(30))]

    answer = compressor(tmp_path).compress({"messages": rows, "model": "m"}, KEY)

    assert answer["messages"][0]["content"] == words


def test_rows_that_cannot_fit_come_back_as_small_as_they_can_be(tmp_path):
    """400 results first seen at once: their placeholders alone are over the window. The gateway decides what to do."""
    shortens = compressor(tmp_path)
    rows = [result("olga", n) for n in range(400)]

    answer = shortens.compress({"messages": rows, "model": "m"}, KEY)

    whole = [row for row, given in zip(answer["messages"], rows, strict=True) if row == given]
    assert whole == rows[-3:], "the newest results stay"
    assert WINDOW < answer["tokens_after"] < answer["tokens_before"] / 10
    hashes = [row["content"].rpartition("hash=")[2][:24] for row in answer["messages"][:-3]]
    assert hashes == answer["ccr_hashes"]
    other_proxy = compressor(tmp_path)
    assert [other_proxy.retrieve(hash, KEY) for hash in hashes] == [row["content"] for row in rows[:-3]]
    assert other_proxy.compress({"messages": rows, "model": "m"}, KEY)["messages"] == answer["messages"]


def test_a_conversation_that_outgrew_the_window_keeps_its_placeholders(tmp_path):
    shortens = compressor(tmp_path)
    rows = [result("olga", n) for n in range(200)]
    before = shortens.compress({"messages": rows, "model": "m"}, KEY)

    rows += [{"role": "user", "content": "And now the last one. " * 4000}, result("olga", 200)]
    after = shortens.compress({"messages": rows, "model": "m"}, KEY)

    shortened = len(before["ccr_hashes"])
    assert before["messages"][:shortened] == after["messages"][:shortened]
    assert len(after["ccr_hashes"]) > shortened > 190
    assert after["messages"][-2:] == rows[-2:]


def test_after_rows_that_could_not_fit_others_fit_the_window_of_their_model(tmp_path):
    shortens = compressor(tmp_path)
    shortens.compress({"messages": [result("olga", n) for n in range(400)], "model": "m"}, KEY)

    rows = [result("olga", 0), *(result("yusuf", n) for n in range(1, 25))]
    answer = shortens.compress({"messages": rows, "model": "m"}, KEY)

    assert answer["tokens_before"] > WINDOW > answer["tokens_after"]


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
def test_without_a_tool_result_all_rows_come_back_whole_however_large(role, tmp_path):
    rows = [{"role": role, "content": f"{n} Keep the datum of Brest. " * 2000} for n in range(20)]

    answer = compressor(tmp_path).compress({"messages": rows, "model": "m"}, KEY)

    assert answer["messages"] == rows
    assert answer["tokens_before"] == answer["tokens_after"] > WINDOW
    assert (answer["tokens_saved"], answer["compression_ratio"], answer["ccr_hashes"]) == (0, 1.0, [])


def test_over_http_with_the_token_in_the_path(tmp_path):
    token = "a-token-of-some-length"
    with proxied("http://127.0.0.1:9", store=str(tmp_path), token=token, window=WINDOW) as running:
        rows = [result("olga", n) for n in range(30)]
        body = {"messages": rows, "model": "gpt-4.1"}
        status, raw = post(running.port, f"/ebb/t/{token}/v1/compress", body, authorization=KEY)
        assert status == 200
        answer = json.loads(raw)
        assert answer["ccr_hashes"]
        retrieve = f"/ebb/t/{token}/v1/retrieve/{answer['ccr_hashes'][0]}"
        status, answer = get(running.port, retrieve, authorization=KEY)
        assert status == 200
        assert answer["original_content"] in {row["content"] for row in rows}
        assert get(running.port, retrieve, authorization="Bearer another")[0] == 404
        assert post(running.port, "/v1/compress", body)[0] == 401, "no token"
        assert get(running.port, f"/ebb/t/{token}/v1/compress")[0] == 405


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "messages must be a list"),
        ({"messages": []}, "not empty"),
        ({"messages": ["x"]}, "messages[0] is not a chat message"),
        ({"messages": [{"role": 1}]}, "messages[0]"),
        ([], "messages must be"),
    ],
)
def test_a_request_that_is_no_conversation_is_refused_with_a_sentence(body, says, tmp_path):
    with proxied("http://127.0.0.1:9", store=str(tmp_path)) as running:
        status, raw = post(running.port, "/v1/compress", body)

    assert status == 400
    assert says in json.loads(raw)["error"]["message"]


def test_a_whole_conversation_keeps_its_calls_and_all_that_is_no_result(tmp_path):
    """Portkey sends the system prompt and the model's messages, too."""
    rows = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Read all files."}]
    for n in range(30):
        function = {"name": "read", "arguments": json.dumps({"path": f"f{n}"})}
        calls = [{"id": f"call_{n}", "type": "function", "function": function}]
        rows += [{"role": "assistant", "content": None, "tool_calls": calls}, result("olga", n)]

    answer = compressor(tmp_path).compress({"messages": rows, "model": "m", "config": {"mode": "audit"}}, KEY)

    assert len(answer["ccr_hashes"]) > 10
    for row, given in zip(answer["messages"], rows, strict=True):
        if row["role"] == "tool":
            assert row["tool_call_id"] == given["tool_call_id"]
            assert len(row["content"]) <= len(given["content"])
        else:
            assert row == given


def test_a_question_beside_the_hash_gives_the_whole_text(tmp_path):
    """LiteLLM adds the model's question as `?query=`."""
    with proxied("http://127.0.0.1:9", store=str(tmp_path), window=WINDOW) as running:
        rows = [result("olga", n) for n in range(30)]
        _, raw = post(running.port, "/v1/compress", {"messages": rows}, authorization=KEY)
        hash = json.loads(raw)["ccr_hashes"][0]
        status, answer = get(running.port, f"/v1/retrieve/{hash}?query=gauge", authorization=KEY)

    assert status == 200
    assert answer["original_content"] in {row["content"] for row in rows}


def test_on_a_database_another_proxy_answers_with_the_same_rows_and_gives_the_texts_back(tmp_path):
    url = server().database_at(tmp_path)
    answer = talk(compressor(url), "olga", 30)[-1]

    elsewhere = compressor(url)
    again = elsewhere.compress({"messages": [result("olga", n) for n in range(30)], "model": "m"}, KEY)

    shortened = [row for row in answer["messages"] if "hash=" in row["content"]]
    assert len(shortened) == len(answer["ccr_hashes"]) > 10
    assert all(row in again["messages"] for row in shortened)
    assert set(answer["ccr_hashes"]) <= set(again["ccr_hashes"])
    for hash in answer["ccr_hashes"]:
        assert elsewhere.retrieve(hash, KEY) in {page("olga", n) for n in range(30)}
