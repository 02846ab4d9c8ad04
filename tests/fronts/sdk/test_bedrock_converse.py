"""`wrap(boto3.client("bedrock-runtime"))`: Amazon's own client before a scripted Converse server, in a window that is too small."""

from __future__ import annotations

import base64
import json
from functools import partial

import pytest

import ebbtide
from ebbtide.store import MemoryStore
from fronts.sdk.clients import amazon_options
from fronts.sdk.clients import client as sdk_client
from fronts.sdk.test_loops import usage_in
from upstream.pixels import png
from upstream.prefix import units
from upstream.script import Cut, Failure, Redacted, Say, Think, Use
from upstream.server import Upstream

boto3 = pytest.importorskip("boto3")
botocore = pytest.importorskip("botocore")

WINDOW = 12_000
MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
SYSTEM = "You are a careful engineer. Read before you write. " * 20
CALLS = 44
RECALL = Use("ebb_recall", {"query": "old server port"})
SECRET = "the port of the old server was 8123"
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
TOOLS = {"tools": [{"toolSpec": {"name": "read", "inputSchema": {"json": {"type": "object"}}}}]}


client = partial(sdk_client, "bedrock")


def script(count: int = CALLS):
    turns = [[Think(f"thought {n}"), Say(f"step {n}"), Use("read", {"path": f"src/f{n}.py"})] for n in range(count)]
    turns[3] = [Redacted(), *turns[3][1:]]
    return [*turns, "Done."]


def user(text: str):
    return {"role": "user", "content": [{"text": text}]}


def request(history, **more):
    return {
        "modelId": MODEL,
        "messages": history,
        "system": [{"text": SYSTEM}],
        "toolConfig": TOOLS,
        "inferenceConfig": {"maxTokens": 2_000},
        "additionalModelRequestFields": THINKING,
        **more,
    }


def results(message) -> list:
    """The message that follows an answer: the results of its calls."""
    calls = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    outputs = [f"{call['input']['path']}: def step(queue, lock): return queue.take()\n" * 40 for call in calls]
    given = [
        {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": output}]}}
        for call, output in zip(calls, outputs, strict=True)
    ]
    return [{"role": "user", "content": given}] if given else []


class Joined:
    """The message of a stream, as an agent puts it together."""

    def __init__(self) -> None:
        self.blocks: dict[int, dict] = {}
        self.stop = ""

    def add(self, event) -> None:
        ((kind, value),) = event.items()
        if kind == "contentBlockStart":
            self.blocks[value["contentBlockIndex"]] = {"toolUse": {**value["start"]["toolUse"], "input": ""}}
        elif kind == "contentBlockDelta":
            self._add_delta(self.blocks.setdefault(value["contentBlockIndex"], {}), value["delta"])
        elif kind == "messageStop":
            self.stop = value["stopReason"]

    def _add_delta(self, block, delta) -> None:
        if "text" in delta:
            block["text"] = block.get("text", "") + delta["text"]
        elif "toolUse" in delta:
            block["toolUse"]["input"] += delta["toolUse"]["input"]
        elif "redactedContent" in delta["reasoningContent"]:
            block["reasoningContent"] = delta["reasoningContent"]
        else:
            text = block.setdefault("reasoningContent", {}).setdefault("reasoningText", {})
            for name, piece in delta["reasoningContent"].items():
                text[name] = text.get(name, "") + piece

    def message(self):
        assert self.stop
        for block in self.blocks.values():
            if "toolUse" in block:
                block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
        return {"role": "assistant", "content": [self.blocks[at] for at in sorted(self.blocks)]}


class Sync:
    def __init__(self, upstream, **settings):
        self.client = ebbtide.wrap(client(upstream), **settings)

    async def ask(self, history):
        return self._ask(history)


class Whole(Sync):
    def _ask(self, history):
        response = self.client.converse(**request(history))
        return response["output"]["message"], response._ebbtide


class Stream(Sync):
    def _ask(self, history):
        response, joined = self.client.converse_stream(**request(history)), Joined()
        for event in response["stream"]:
            joined.add(event)
        return joined.message(), response._ebbtide


class Awaited:
    """With aioboto3, which wants another version of boto3: `scripts/check_sdks` has an environment for it."""

    def __init__(self, upstream, **settings):
        self.session = pytest.importorskip("aioboto3").Session()
        self.upstream, self.settings, self.wrapped = upstream, settings, None

    async def ask(self, history):
        async with self.session.client("bedrock-runtime", **self._options()) as raw:
            # The wrapped client keeps its sessions; only the connections are new.
            self.client = ebbtide.wrap(raw, **self.settings)
            return await self._ask(history)

    def _options(self):
        return {name: value for name, value in amazon_options(self.upstream).items() if name != "config"}


class AwaitedWhole(Awaited):
    async def _ask(self, history):
        response = await self.client.converse(**request(history))
        return response["output"]["message"], response._ebbtide


class AwaitedStream(Awaited):
    async def _ask(self, history):
        response, joined = await self.client.converse_stream(**request(history)), Joined()
        async for event in response["stream"]:
            joined.add(event)
        return joined.message(), response._ebbtide


WAYS = pytest.mark.parametrize("way", [Whole, Stream, AwaitedWhole, AwaitedStream], ids=lambda way: way.__name__)


async def ask(agent, history):
    message, report = await agent.ask(history)
    history += [message, *results(message)]
    return report


def check_prefix(upstream, reports) -> None:
    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    sent = [[unit.text for unit in units("bedrock_converse", exchange.parsed)] for exchange in upstream.requests]
    assert len(sent) == len(reports)
    for n in range(1, len(sent)):
        if not reports[n].edits:
            assert sent[n][: len(sent[n - 1])] == sent[n - 1], f"request {n} does not extend the one before"


@WAYS
async def test_a_long_loop_is_never_refused(way, tmp_path):
    reports, history = [], [user("Read them all.")]
    with Upstream(script(), window=WINDOW) as upstream:
        agent = way(upstream, window=WINDOW, store=tmp_path, durable=False)
        for _ in range(CALLS + 1):
            reports.append(await ask(agent, history))

    check_prefix(upstream, reports)
    assert sum(bool(report.edits) for report in reports) >= 2, "the window was passed only once"
    assert [exchange.warned for exchange in upstream.requests if exchange.warned] == []
    assert history[-1]["content"][-1]["text"] == "Done."
    assert usage_in(tmp_path) == [exchange.usage.prompt for exchange in upstream.requests]
    read = sum(exchange.usage.read for exchange in upstream.requests)
    assert read > sum(exchange.usage.prompt for exchange in upstream.requests) / 2, "cache points were placed"


def test_without_us_the_same_loop_dies():
    history = [user("Read them all.")]
    with Upstream(script(), window=WINDOW) as upstream:
        raw = client(upstream)

        def loop() -> None:
            for _ in range(CALLS):
                message = raw.converse(**request(history))["output"]["message"]
                history.extend([message, *results(message)])

        with pytest.raises(botocore.exceptions.ClientError, match="too long"):
            loop()


@WAYS
async def test_the_caller_gets_one_answer_without_the_recall(way, tmp_path):
    turns = [[Think("Hm."), Say("Let me see."), RECALL], [Think("Ah."), Say("It was 8123.")], "Bye."]
    history = [user(f"Remember: {SECRET}. Then look.")]
    with Upstream(turns) as upstream:
        agent = way(upstream, recall="tool", store=tmp_path, durable=False, session="one")
        await ask(agent, history)
        history.append(user("Thanks."))
        await ask(agent, history)

    answer = str(history[1])
    assert "Let me see." in answer
    assert "It was 8123." in answer
    assert "ebb_recall" not in answer
    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    first, second, third = [[unit.text for unit in units("bedrock_converse", one.parsed)] for one in upstream.requests]
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert usage_in(tmp_path) == [exchange.usage.prompt for exchange in upstream.requests]


@WAYS
async def test_calls_of_the_callers_own_tools_come_first(way):
    turns = [[Think("Hm."), Say("Both."), RECALL, Use("read", {"path": "src/a.py"})], "It was 8123."]
    history = [user(f"Remember: {SECRET}. Then look.")]
    with Upstream(turns) as upstream:
        agent = way(upstream, recall="tool", store=MemoryStore(), session="one")
        await ask(agent, history)
        assert len(upstream.requests) == 1
        await ask(agent, history)

    assert "ebb_recall" not in str(history[1])
    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    last = upstream.requests[-1].raw.decode()
    assert "recalled" in last
    assert "def step" in last


@pytest.mark.parametrize("way", [Whole, Stream], ids=lambda way: way.__name__)
async def test_errors_reach_the_caller_as_boto3s_own(way):
    with Upstream([Failure(status=403, message="no access"), Failure(status=429), "Well."]) as upstream:
        agent, history = way(upstream), [user("Hello.")]
        for code in ("AccessDeniedException", "ThrottlingException"):
            with pytest.raises(botocore.exceptions.ClientError) as caught:
                await ask(agent, history)
            assert caught.value.response["Error"]["Code"] == code
        await ask(agent, history)

    assert history[-1]["content"][0]["text"] == "Well."


def test_a_stream_that_breaks_is_the_callers_error_and_no_reply(tmp_path):
    turns = [Failure(status=500, message="down", in_stream=True), Cut([Say("Half of it")], events=3), "Well."]
    with Upstream(turns) as upstream:
        wrapped = ebbtide.wrap(client(upstream), store=tmp_path, durable=False, session="one")
        with pytest.raises(botocore.exceptions.EventStreamError):
            list(wrapped.converse_stream(**request([user("Hello.")]))["stream"])
        assert list(wrapped.converse_stream(**request([user("Hello.")]))["stream"])
        assert usage_in(tmp_path) == []
        wrapped.converse(**request([user("Hello.")]))

    assert len(usage_in(tmp_path)) == 1


def test_a_window_that_is_smaller_than_it_seemed_is_learned():
    history = []
    for n in range(12):
        line = "Mind the gauge of Brest, and leave the offset alone. " * 20
        history += [user(f"{n}: {line}"), {"role": "assistant", "content": [{"text": "Yes."}]}]
    with Upstream(["Well."], window=3_000) as upstream:
        wrapped = ebbtide.wrap(client(upstream), window=1_000_000, session="one")
        response = wrapped.converse(modelId=MODEL, messages=[*history, user("Go on.")])

    assert response["output"]["message"]["content"][0]["text"] == "Well."
    assert [exchange.status for exchange in upstream.requests] == [400, 200]


def test_a_request_that_fits_and_every_other_method_is_sent_as_it_is():
    picture = {"image": {"format": "png", "source": {"bytes": base64.b64decode(png(64, 48))}}}
    sent = request([{"role": "user", "content": [{"text": "Schöne Grüße 🙂"}, picture]}])
    with Upstream(["Well.", "Well."]) as upstream:
        raw = client(upstream)
        wrapped = ebbtide.wrap(raw, marks=False)
        for one in (raw, wrapped):
            one.converse(**sent)
        assert wrapped.meta.service_model.service_name == "bedrock-runtime"
        assert wrapped.can_paginate("converse") is raw.can_paginate("converse")

    assert upstream.requests[0].raw == upstream.requests[1].raw


def test_a_changed_request_is_signed_as_it_is_sent():
    """The signature is over the body: what a proxy changes behind it, Amazon refuses."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    with Upstream(["Well."]) as upstream:
        wrapped = ebbtide.wrap(client(upstream))
        wrapped.converse(**request([user("Hello. " * 3000)]))
        (exchange,) = upstream.requests

    assert b"cachePoint" in exchange.raw, "it was changed"
    theirs = exchange.headers["authorization"]
    signed = theirs.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    again = AWSRequest(
        "POST",
        upstream.url + exchange.path,
        headers={name: exchange.headers[name] for name in signed},
        data=exchange.raw,
    )
    again.context["timestamp"] = exchange.headers["x-amz-date"]
    auth = SigV4Auth(Credentials("AKIDEXAMPLE", "secret"), "bedrock", "us-east-1")
    canonical = auth.canonical_request(again)
    signature = auth.signature(auth.string_to_sign(again, canonical), again)
    assert theirs.endswith(f"Signature={signature}")


def test_the_wrapped_client_keeps_its_type_and_its_sessions():
    names = []
    with Upstream(["Well."] * 4) as upstream:
        raw = client(upstream)
        wrapped = ebbtide.wrap(raw, on_report=lambda session, report: names.append(session))

        assert isinstance(wrapped, type(raw))
        assert type(wrapped).__name__ == type(raw).__name__
        assert ebbtide.wrap(wrapped) is wrapped
        with ebbtide.session("nightly"):
            wrapped.converse(**request([user("Hello.")]))
        wrapped.converse(**request([user("Hello.")]))
        other = ebbtide.wrap(
            client(upstream, aws_access_key_id="ANOTHER"), on_report=lambda session, report: names.append(session)
        )
        other.converse(**request([user("Hello.")]))

    assert names[0] == "nightly"
    assert names[1] != names[2], "another key is another session"
    assert wrapped.ebbtide.names() == tuple(names[:2])
    assert wrapped.ebbtide.report(session="nightly") is not None


def test_a_model_named_as_summarizer_is_asked_through_the_same_client():
    def said(body):
        if "nova" in body["modelId"]:
            return "<summary>\n## Intent\n- The user wants the gauge of Brest minded.\n</summary>"
        return "Well."

    line = "Mind the gauge of Brest, and leave the offset alone. " * 20
    roles = ("user", "assistant")
    history = [{"role": roles[n % 2], "content": [{"text": f"{n}: {line}"}]} for n in range(41)]
    with Upstream(said, window=8_000) as upstream:
        wrapped = ebbtide.wrap(client(upstream), window=8_000, summarizer="amazon.nova-micro-v1:0")
        response = wrapped.converse(modelId=MODEL, messages=history)

    *questions, last = upstream.requests
    assert questions
    assert {question.parsed["modelId"] for question in questions} == {"amazon.nova-micro-v1:0"}
    assert last.status == 200
    assert "wants the gauge of Brest minded" in json.dumps(last.parsed)
    assert any(edit.by == "summarize" for edit in response._ebbtide.edits)


def test_a_client_of_another_service_is_refused_by_name():
    with pytest.raises(TypeError, match="bedrock-runtime"):
        ebbtide.wrap(boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"))


def test_media_of_a_boto3_program_are_read_by_context_and_given_back():
    picture = {"image": {"format": "png", "source": {"bytes": base64.b64decode(png(64, 48))}}}
    context = ebbtide.Context(window=100_000)

    ready = context.prepare(request([{"role": "user", "content": [{"text": "look"}, picture]}]))

    assert ready.body["messages"][0]["content"][1]["image"] == picture["image"]
    with Upstream(["Well."]) as upstream:
        ready.record(client(upstream).converse(**ready.body))
    assert "Well." in context.recall("Well")[0].snippet
