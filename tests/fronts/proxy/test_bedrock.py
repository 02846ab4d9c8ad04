"""Bedrock's Converse API through the proxy: with an API key it is edited, with a signature it is left alone."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from fronts.proxy.proxy_runner import exchange, proxied
from fronts.sdk.test_bedrock_converse import MODEL, SYSTEM, TOOLS, Joined, client, results, user
from fronts.sdk.test_loops import usage_in
from upstream.prefix import units
from upstream.script import Say, Use
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


def test_recall_tools_are_not_added_to_a_stream_of_amazons(tmp_path):
    body = json.dumps({"messages": [user("Hello.")], "toolConfig": TOOLS}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer key"}
    with Upstream(["Well."] * 2) as upstream, proxied(upstream.url, store=tmp_path, recall="tool") as running:
        for end in ("converse", "converse-stream"):
            status, _, _ = exchange(running.port, "POST", f"/model/{quote(MODEL)}/{end}", body, headers)
            assert status == 200

    whole, stream = upstream.requests
    assert len(whole.parsed["toolConfig"]["tools"]) == 3
    assert len(stream.parsed["toolConfig"]["tools"]) == 1
