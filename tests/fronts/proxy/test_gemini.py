"""The Gemini API through the proxy: its addresses, keys and streams, of Google AI Studio and of Vertex AI."""

from __future__ import annotations

import json

import pytest

from fronts.proxy.agent import Agent, looping
from fronts.proxy.proxy_runner import beside, exchange, get, proxied
from fronts.proxy.raw_upstream import answer as reply
from upstream.prefix import units
from upstream.script import Say, Use
from upstream.server import Upstream

STUDIO = "/v1beta/models/gemini-3-pro-preview"
VERTEX = "/v1/projects/p/locations/europe-west1/publishers/google/models/gemini-3-pro-preview"
RECALL = Use("ebb_recall", {"query": "harbour"})
FORMS = [":generateContent", ":streamGenerateContent?alt=sse", ":streamGenerateContent"]
KEYS = [
    ("key=AIza-mine", {}),
    ("", {"x-goog-api-key": "AIza-mine"}),
    ("", {"authorization": "Bearer ya29.mine"}),
]


def post(running, path, body, query="", **headers):
    path = f"{path}{'&' if '?' in path else '?'}{query}" if query else path
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    status, got, answer = exchange(running.port, "POST", path, raw, headers)
    return status, got, answer


def chunks(form, raw):
    """The responses of an answer, in each of its forms."""
    if "alt=sse" in form:
        return [json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: ")]
    return json.loads(raw) if "stream" in form else [json.loads(raw)]


def said(answers):
    parts = [part for one in answers for part in one["candidates"][0]["content"]["parts"]]
    return "".join(part.get("text", "") for part in parts)


@pytest.mark.parametrize("place", [STUDIO, VERTEX], ids=["studio", "vertex"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("query", "headers"), KEYS, ids=["query", "header", "bearer"])
def test_a_request_of_each_form_arrives_and_is_recorded_with_its_bill(place, form, query, headers, tmp_path):
    with Upstream(["The gauge stands at 7."]) as upstream, proxied(upstream.url, store=tmp_path) as running:
        agent = Agent("gemini", running.port, upstream)
        body = {name: value for name, value in agent.request().items() if name != "model"}
        status, _, raw = post(running, f"{place}{form}", body, query, **headers)
        running.settle()
        summary, sessions = get(running.port, "/ebb/summary")[1], get(running.port, "/ebb/sessions")[1]["sessions"]

    (request,) = upstream.requests
    assert (status, said(chunks(form, raw))) == (200, "The gauge stands at 7.")
    assert (request.refused, request.path) == (
        (),
        f"{place}{form}" + (f"{'&' if '?' in form else '?'}{query}" if query else ""),
    )
    assert [(one["wire"], one["model"]) for one in sessions] == [("gemini", "gemini-3-pro-preview")]
    assert summary["input_tokens"] == request.usage.prompt
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"The gauge stands at 7." in written
    assert b"mine" not in written + json.dumps([summary, sessions]).encode(), "no key is written anywhere"


@pytest.mark.parametrize("form", FORMS)
def test_forty_calls_on_vertex_keep_every_rule_and_the_prefix(form, tmp_path):
    window, edits = 20_000, []
    with (
        Upstream(looping("gemini"), window=window) as upstream,
        proxied(upstream.url, store=tmp_path, window=window) as running,
    ):
        agent = Agent("gemini", running.port, upstream)
        for n in range(40):
            body = {name: value for name, value in agent.request().items() if name != "model"}
            status, _, raw = post(running, f"{VERTEX}{form}", body, authorization="Bearer ya29.mine")
            assert status == 200, raw[:500]
            agent.history += agent._heard(upstream.requests[-1].response, n)
            running.settle()
            edits.append(get(running.port, "/ebb/summary")[1]["edits"])
        summary = get(running.port, "/ebb/summary")[1]

    assert [one.refused for one in upstream.requests if one.refused] == []
    sent = [[unit.text for unit in units("gemini", one.parsed)] for one in upstream.requests]
    calm = [n for n in range(1, 40) if edits[n] == edits[n - 1]]
    assert [n for n in calm if sent[n][: len(sent[n - 1])] != sent[n - 1]] == []
    assert summary["edits"] > 3
    assert (summary["fallbacks"], summary["overflows"], summary["requests"]) == (0, 0, 40)


@pytest.mark.parametrize("other", [{"query": "key=AIza-other"}, {"x_goog_api_key": "AIza-mine"}, {}])
def test_the_same_conversation_under_another_key_is_another_session(other, tmp_path):
    with Upstream(lambda _: "Fine.") as upstream, proxied(upstream.url, store=tmp_path) as running:
        body = Agent("gemini", running.port, upstream).request()
        del body["model"]
        for credential in ({"query": "key=AIza-mine"}, other, {"query": "key=AIza-mine"}):
            assert post(running, f"{STUDIO}:generateContent", body, **credential)[0] == 200
            running.settle()
        sessions = get(running.port, "/ebb/sessions")[1]["sessions"]

    assert sorted(one["requests"] for one in sessions) == [1, 2]
    assert len({one["project"] for one in sessions}) == 2


def test_recall_in_a_stream_without_events_is_one_list_with_one_answer(tmp_path):
    """Nothing of our call is in it, and the bill is that of both."""
    script = [[Say("Let me look. "), RECALL], [Say("It was the harbour.")], [Say("Bye.")]]
    with Upstream(script) as upstream, proxied(upstream.url, store=tmp_path, recall="tool") as running:
        agent = Agent("gemini", running.port, upstream)
        body = {name: value for name, value in agent.request().items() if name != "model"}
        status, _, raw = post(running, f"{STUDIO}:streamGenerateContent", body, "key=AIza-mine")
        answers = json.loads(raw)
        agent.history += [answers[0]["candidates"][0]["content"], {"role": "user", "content": "Thanks."}]
        body["contents"] = agent.request()["contents"]
        again = post(running, f"{STUDIO}:streamGenerateContent", body, "key=AIza-mine")

    assert (status, len(answers), said(answers)) == (200, 1, "Let me look. It was the harbour.")
    assert (again[0], said(json.loads(again[2]))) == (200, "Bye.")
    assert b"ebb_recall" not in raw
    outputs = [one.response["usageMetadata"]["candidatesTokenCount"] for one in upstream.requests[:2]]
    assert answers[0]["usageMetadata"]["candidatesTokenCount"] == sum(outputs)
    assert [one.refused for one in upstream.requests if one.refused] == []


def test_a_count_has_the_edits_of_its_session_and_caches_pass_untouched(tmp_path):
    window = 20_000
    with (
        Upstream(looping("gemini"), window=window) as upstream,
        proxied(upstream.url, store=tmp_path, window=window) as running,
    ):
        agent = Agent("gemini", running.port, upstream, x_goog_api_key="AIza-mine")
        for n in range(40):
            agent.turn(n, stream=True)
            running.settle()
        counted = agent.request()
        del counted["model"]
        status, _, raw = post(running, f"{STUDIO}:countTokens", counted, x_goog_api_key="AIza-mine")
    cached = json.dumps(
        {"model": "models/gemini-3-pro-preview", "contents": counted["contents"], "ttl": "60s"}
    ).encode()
    with beside(lambda *_: [reply(b"{}")], tmp_path / "other", window=window) as (raw_upstream, running):
        made = post(running, "/v1beta/cachedContents?key=AIza-mine", cached)[0]
        batch = post(running, f"{STUDIO}:batchGenerateContent?key=AIza-mine", cached)[0]

    assert status == 200
    assert json.loads(raw)["totalTokens"] < window < len(json.dumps(counted)) // 4
    assert (made, batch, [one.body for one in raw_upstream.seen]) == (200, 200, [cached, cached])


def test_errors_of_the_proxy_have_googles_form(tmp_path):
    tools = [{"functionDeclarations": [{"name": "read", "description": "Reads a file. " * 30_000}]}]
    with beside(lambda *_: [reply(b"{}")], tmp_path, window=20_000) as (upstream, running):
        body = {**Agent("gemini", running.port, upstream).request(), "tools": tools}
        refused = post(running, f"{STUDIO}:generateContent", body)
    with proxied("http://127.0.0.1:9", store=tmp_path) as running:
        unreachable = post(running, f"{STUDIO}:generateContent", body)

    assert upstream.seen == []
    for (status, headers, raw), expected in ((refused, (400, "INVALID_ARGUMENT")), (unreachable, (502, "UNAVAILABLE"))):
        error = json.loads(raw)["error"]
        assert (status, error["status"], error["code"]) == (*expected, expected[0])
        assert headers["x-ebb-proxy"] == "refused"
        assert error["message"]


@pytest.mark.parametrize("place", [STUDIO, VERTEX], ids=["studio", "vertex"])
def test_another_model_is_asked_for_summaries_at_its_own_path(place, tmp_path):
    summary = "<summary>\n## Intent\nMend the gauges.\n## State of work\nThe gauges of the quay are read.\n</summary>"
    window = 8_000

    def script(body):
        return [Say(summary)] if "<summary>" in json.dumps(body["contents"][-1]) else [Say("It is well. " * 60)]

    with (
        Upstream(script, window=window) as upstream,
        proxied(upstream.url, store=tmp_path, window=window, summarizer="gemini-2.5-flash") as running,
    ):
        agent = Agent("gemini", running.port, upstream)
        for n in range(24):
            agent.history.append({"role": "user", "content": f"Turn {n}: the gauge of quay {n} stood at {n} mm. " * 4})
            body = {name: value for name, value in agent.request().items() if name != "model"}
            status, _, raw = post(running, f"{place}:streamGenerateContent?alt=sse", body, "key=AIza-mine")
            assert status == 200, raw[:300]
            agent.history += agent._heard(upstream.requests[-1].response, n)
            running.settle()
        answered = running.proxy.meters.value("ebb_summaries_total", outcome="answered")

    asked = [one for one in upstream.requests if "gemini-2.5-flash" in one.path]
    assert 0 < answered <= len(asked)
    path = f"{place.rpartition('/')[0]}/gemini-2.5-flash:streamGenerateContent?alt=sse&key=AIza-mine"
    assert {one.path for one in asked} == {path}
    assert not any(b'"model":' in one.raw or b'"stream":' in one.raw for one in asked)


@pytest.mark.parametrize("form", FORMS)
def test_signatures_of_another_host_are_left_out_once_they_are_refused(form, tmp_path):
    """The server checks them. The client knows nothing of it, and its next request has no second refusal."""
    call = {"functionCall": {"name": "read", "args": {}}, "thoughtSignature": "b2xkaG9zdA=="}
    result = {"functionResponse": {"name": "read", "response": {"output": "ok"}}}
    contents = [{"role": "user", "parts": [{"text": "Read it."}]}, {"role": "model", "parts": [call]}]
    contents.append({"role": "user", "parts": [result]})
    with (
        Upstream(["Well.", "Bye."]) as upstream,
        proxied(upstream.url, store=str(tmp_path), durable=False) as running,
    ):
        first = post(running, VERTEX + form, {"contents": contents}, authorization="Bearer ya29.mine")
        running.settle()
        contents += [{"role": "model", "parts": [{"text": "Well."}]}, {"role": "user", "parts": [{"text": "And?"}]}]
        second = post(running, VERTEX + form, {"contents": contents}, authorization="Bearer ya29.mine")

    assert [first[0], second[0]] == [200, 200], (first, second)
    assert [exchange.status for exchange in upstream.requests] == [400, 200, 200]
    assert [b"b2xkaG9zdA==" in exchange.raw for exchange in upstream.requests] == [True, False, False]
