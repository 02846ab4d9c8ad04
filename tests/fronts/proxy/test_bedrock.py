"""Bedrock's Converse API through the proxy: with an API key it is edited, with a signature it is left alone."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from fronts.proxy.proxy_runner import exchange, proxied
from fronts.sdk.test_bedrock_converse import MODEL, SYSTEM, TOOLS, Joined, client, results, user
from fronts.sdk.test_loops import usage_in
from upstream.prefix import units
from upstream.script import Failure, Say, Use
from upstream.server import Upstream

EventStreamBuffer = pytest.importorskip("botocore.eventstream").EventStreamBuffer
WINDOW = 12_000
STEPS = 44


def turns():
    return [*([Say(f"step {n}"), Use("read", {"path": f"src/f{n}.py"})] for n in range(STEPS)), "Done."]


def post(running, body, *, streams=False):
    """With an API key. boto3 itself sends one over TLS only."""
    headers = {"content-type": "application/json", "authorization": "Bearer bedrock-api-key-of-a-test"}
    path = f"/model/{quote(MODEL)}/converse{'-stream' if streams else ''}"
    status, _, raw = exchange(running.port, "POST", path, json.dumps(body).encode(), headers)
    assert status == 200, raw
    if not streams:
        return json.loads(raw)["output"]["message"]
    joined, buffer = Joined(), EventStreamBuffer()
    buffer.add_data(raw)
    for event in buffer:
        joined.add({event.headers[":event-type"]: json.loads(event.payload)})
    return joined.message()


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_a_loop_with_an_api_key_is_never_refused(streams, tmp_path):
    history = [user("Read them all.")]
    with Upstream(turns(), window=WINDOW) as upstream, proxied(upstream.url, store=tmp_path, window=WINDOW) as running:
        for _ in range(STEPS + 1):
            body = {"messages": history, "system": [{"text": SYSTEM}], "toolConfig": TOOLS}
            message = post(running, body, streams=streams)
            history += [message, *results(message)]
        running.settle()

    assert history[-1]["content"][0]["text"] == "Done."
    assert [one.refused for one in upstream.requests if one.refused] == []
    assert [one.warned for one in upstream.requests if one.warned] == []
    sent = [[unit.text for unit in units("bedrock_converse", one.parsed)] for one in upstream.requests]
    broken = [n for n in range(1, len(sent)) if sent[n][: len(sent[n - 1])] != sent[n - 1]]
    assert 2 <= len(broken) <= 15, "only at edits"
    assert usage_in(tmp_path) == [one.usage.prompt for one in upstream.requests]


def test_a_signed_request_is_sent_as_it_came(tmp_path):
    with Upstream(["Well."]) as upstream, proxied(upstream.url, store=tmp_path) as running:
        sdk = client(upstream, endpoint_url=f"http://127.0.0.1:{running.port}")
        blank = {"role": "user", "content": [{"text": "Hello. " * 4_000}]}
        answer = sdk.converse(modelId=MODEL, messages=[blank])

    assert answer["output"]["message"]["content"][0]["text"] == "Well."
    (request,) = upstream.requests
    assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256")
    assert json.loads(request.raw) == {"messages": [blank]}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_recall_calls_are_answered_inside_the_one_answer_that_the_client_gets(streams, tmp_path):
    turns = [[Say("Let me see."), Use("ebb_recall", {"query": "old server port"})], [Say("It was 8123.")], "Bye."]
    history = [user("Remember: the port of the old server was 8123. Then look.")]
    with Upstream(turns) as upstream, proxied(upstream.url, store=tmp_path, recall="tool") as running:
        message = post(running, {"messages": history, "toolConfig": TOOLS}, streams=streams)
        history += [message, user("Thanks.")]
        post(running, {"messages": history, "toolConfig": TOOLS}, streams=streams)

    assert [block["text"] for block in message["content"]] == ["Let me see.", "It was 8123."]
    assert [one.refused for one in upstream.requests if one.refused] == []
    first, second, third = [[unit.text for unit in units("bedrock_converse", one.parsed)] for one in upstream.requests]
    assert second[: len(first)] == first
    assert third[: len(second)] == second


def test_calls_of_the_clients_own_tools_in_a_stream_come_first(tmp_path):
    turns = [[Use("ebb_recall", {"query": "old server port"}), Use("read", {"path": "src/a.py"})], "It was 8123."]
    history = [user("Remember: the port of the old server was 8123. Then look.")]
    with Upstream(turns) as upstream, proxied(upstream.url, store=tmp_path, recall="tool") as running:
        message = post(running, {"messages": history, "toolConfig": TOOLS}, streams=True)
        assert [block["toolUse"]["name"] for block in message["content"]] == ["read"]
        history += [message, *results(message)]
        post(running, {"messages": history, "toolConfig": TOOLS}, streams=True)

    assert [one.refused for one in upstream.requests if one.refused] == []
    assert "recalled" in upstream.requests[-1].raw.decode()


def test_a_failure_after_a_recall_is_an_exception_in_amazons_stream(tmp_path):
    turns = [[Use("ebb_recall", {"query": "old server port"})], Failure(status=403, message="no access")]
    history = [user("Remember: the port of the old server was 8123. Then look.")]
    with Upstream(turns) as upstream, proxied(upstream.url, store=tmp_path, recall="tool") as running:
        headers = {"content-type": "application/json", "authorization": "Bearer key"}
        body = json.dumps({"messages": history, "toolConfig": TOOLS}).encode()
        status, _, raw = exchange(running.port, "POST", f"/model/{quote(MODEL)}/converse-stream", body, headers)

    assert status == 200
    buffer = EventStreamBuffer()
    buffer.add_data(raw)  # Amazon's own reader, which checks the checksums
    last = list(buffer)[-1]
    assert last.headers[":message-type"] == "exception"
    assert last.headers[":exception-type"] == "modelStreamErrorException"
