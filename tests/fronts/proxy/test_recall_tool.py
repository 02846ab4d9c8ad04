"""`--recall tool`: the model asks for what left, and the client gets one normal answer."""

from __future__ import annotations

import http.client
import json

import pytest

from ebbtide.core.texts import RECALL_LIMIT
from fronts.proxy.agent import KEYS, PATHS, Agent, addressed
from fronts.proxy.proxy_runner import beside, get, post, proxied
from fronts.proxy.raw_upstream import END, STREAM, chunks
from upstream.prefix import units
from upstream.script import Cut, Failure, Say, Think, Use
from upstream.server import Upstream

SECRET = "the port of the old server was 8123"
RECALL = Use("ebb_recall", {"query": "old server port"})
READ = Use("read", {"path": "src/a.py"})
WIRES = pytest.mark.parametrize("wire", PATHS)
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def events(raw: bytes) -> list[dict]:
    assert raw.endswith(b"\n\n"), "cut off"
    data = [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(one) for one in data if one != "[DONE]"]


def of_anthropic(told: list[dict]) -> dict:
    """As the SDK adds it up, and refusing what it would be confused by."""
    kinds = [event["type"] for event in told]
    assert "error" not in kinds, told[-1]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert kinds.count("message_start") == kinds.count("message_delta") == 1
    message, blocks, open_block = dict(told[0]["message"]), [], None
    for event in told:
        if event["type"] == "content_block_start":
            assert (event["index"], open_block) == (len(blocks), None)
            open_block = event["index"]
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            assert event["index"] == open_block
            for name, piece in event["delta"].items():
                name = "json" if name == "partial_json" else name
                blocks[-1][name] = blocks[-1][name] + piece if name != "type" else blocks[-1]["type"]
        elif event["type"] == "content_block_stop":
            assert event["index"] == open_block
            open_block = None
            spelled = blocks[-1].pop("json")
            blocks[-1] |= {"input": json.loads(spelled)} if spelled else {}
        elif event["type"] == "message_delta":
            message |= {"stop_reason": event["delta"]["stop_reason"], "usage": {**message["usage"], **event["usage"]}}
    return {**message, "content": blocks}


def of_chat(told: list[dict]) -> dict:
    assert not any("error" in event for event in told), told[-1]
    assert len({event["id"] for event in told}) == 1
    message, made, finish, bill = {"role": "", "content": None}, [], None, None
    for event in told:
        bill = event.get("usage") or bill
        for choice in event["choices"]:
            assert finish is None, "nothing follows the end"
            delta, finish = choice["delta"], choice["finish_reason"]
            message["role"] += delta.get("role", "")
            if delta.get("content") is not None:
                message["content"] = (message["content"] or "") + delta["content"]
            for call in delta.get("tool_calls", []):
                if call["index"] == len(made):
                    made.append({**call, "function": dict(call["function"])})
                else:
                    made[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    assert message["role"] == "assistant"
    assert finish, "it has an end"
    message |= {"tool_calls": [{k: v for k, v in call.items() if k != "index"} for call in made]} if made else {}
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": bill}


def of_responses(told: list[dict]) -> dict:
    assert not any(event["type"] == "error" for event in told), told[-1]
    assert [event["sequence_number"] for event in told] == list(range(len(told))), "numbered through"
    added = [event for event in told if event["type"] == "response.output_item.added"]
    assert [event["output_index"] for event in added] == list(range(len(added)))
    assert [event["type"] for event in told].count("response.created") == 1
    done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
    assert told[-1]["type"] == "response.completed"
    assert told[-1]["response"]["output"] == done, "the end says what was told before"
    return told[-1]["response"]


def of_gemini(told: list[dict]) -> dict:
    assert not any("error" in event for event in told), told[-1]
    assert len({event["responseId"] for event in told}) == 1
    ends = [event for event in told if "finishReason" in event["candidates"][0]]
    assert ends == told[-1:], "one end, and nothing after it"
    made = []
    for event in told:
        for part in event["candidates"][0]["content"]["parts"]:
            if made and part.keys() == made[-1].keys() == {"text"}:
                made[-1] = {"text": made[-1]["text"] + part["text"]}
            elif part != {"text": ""}:
                made.append(part)
    candidate = {**told[-1]["candidates"][0], "content": {"role": "model", "parts": made}}
    return {**told[-1], "candidates": [candidate]}


FOLDS = {"anthropic": of_anthropic, "openai_chat": of_chat, "openai_responses": of_responses, "gemini": of_gemini}


class Client(Agent):
    """Sends its history, and takes an answer as an SDK puts it together."""

    def ask(self, *, stream: bool, **more) -> dict:
        self.settle()
        if not stream:
            status, raw = self.post(self.request(**more))
            assert status == 200, raw[:600]
            answer = json.loads(raw)
        else:
            more |= {"stream_options": {"include_usage": True}} if self.wire == "openai_chat" else {}
            status, raw = self.post(self.request(stream=True, **more))
            assert status == 200, raw[:600]
            answer = FOLDS[self.wire](events(raw))
        return answer

    def settle(self) -> None:
        self.running.settle()

    def take(self, answer, **output) -> None:
        self.history = [*self.history, *self._heard(answer, 0)]


def client(wire, running, upstream) -> Client:
    made = Client(wire, running.port, upstream, lines=3, x_api_key="sk-1", x_session_id="recall-session-1")
    made.running = running
    made.history = [{"role": "user", "content": f"Remember: {SECRET}. Then look."}]
    return made


def thought(wire, text):
    return [] if wire == "openai_chat" else [Think(text)]


def texts(wire, answer) -> str:
    if wire == "anthropic":
        return "".join(block["text"] for block in answer["content"] if block["type"] == "text")
    if wire == "openai_chat":
        return answer["choices"][0]["message"]["content"] or ""
    if wire == "gemini":
        return "".join(part.get("text", "") for part in answer["candidates"][0]["content"]["parts"])
    found = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
    return "".join(part["text"] for part in found)


def calls(wire, answer) -> list[str]:
    if wire == "anthropic":
        return [block["name"] for block in answer["content"] if block["type"] == "tool_use"]
    if wire == "openai_chat":
        return [call["function"]["name"] for call in answer["choices"][0]["message"].get("tool_calls") or []]
    if wire == "gemini":
        parts = answer["candidates"][0]["content"]["parts"]
        return [part["functionCall"]["name"] for part in parts if "functionCall" in part]
    return [item["name"] for item in answer["output"] if item["type"] == "function_call"]


def ended(wire, answer) -> str:
    if wire == "anthropic":
        return answer["stop_reason"]
    if wire == "gemini":
        return {"STOP": "completed"}[answer["candidates"][0]["finishReason"]]
    return answer["choices"][0]["finish_reason"] if wire == "openai_chat" else answer["status"]


def usage(wire, answer) -> tuple[int, int]:
    if wire == "gemini":
        told = answer["usageMetadata"]
        return told["promptTokenCount"], told["candidatesTokenCount"] + told.get("thoughtsTokenCount", 0)
    told = answer["usage"]
    if wire == "anthropic":
        cached = (told.get("cache_read_input_tokens") or 0) + (told.get("cache_creation_input_tokens") or 0)
        return told["input_tokens"] + cached, told["output_tokens"]
    names = ("prompt_tokens", "completion_tokens") if wire == "openai_chat" else ("input_tokens", "output_tokens")
    return told[names[0]], told[names[1]]


def sound(upstream, wire):
    """Every rule kept, and each request goes on from the one before."""
    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    sent = [[unit.text for unit in units(wire, exchange.parsed)] for exchange in upstream.requests]
    for n in range(1, len(sent)):
        assert sent[n][: len(sent[n - 1])] == sent[n - 1], f"request {n} breaks the prefix"
    return [json.dumps(exchange.parsed) for exchange in upstream.requests]


@WIRES
@STREAMS
def test_a_recall_is_answered_inside_one_normal_answer_and_keeps_the_prefix(wire, stream, tmp_path):
    """The client sees the words of both calls and no tool of ours; every later request has the hidden pair."""
    script = [
        [*thought(wire, "I must look."), Say("Let me look. "), RECALL],
        [*thought(wire, "Found."), Say("It was 8123."), READ],
        [Say("Done.")],
        [Say("Still.")],
    ]
    with Upstream(script) as upstream, proxied(upstream.url, store=tmp_path, recall="tool") as running:
        agent = client(wire, running, upstream)
        answer = agent.ask(stream=stream)
        between = len(upstream.requests)
        agent.take(answer)
        agent.take(agent.ask(stream=stream))
        agent.history.append({"role": "user", "content": "And now?"})
        last = agent.ask(stream=stream)
        running.settle()
        summary = get(running.port, "/ebb/summary")[1]

    assert between == 2
    assert texts(wire, answer) == "Let me look. It was 8123."
    assert calls(wire, answer) == ["read"]
    assert texts(wire, last) == "Still."
    sent = sound(upstream, wire)
    assert all("ebb_recall" in one for one in sent), "the tools are there from the first request on"
    assert SECRET in sent[1].replace(sent[0][:-2], "")
    assert all(one.count("This is quoted from the session") == 1 for one in sent[1:]), "the hidden answer, once in each"
    outputs = [usage(wire, exchange.response) for exchange in upstream.requests[:2]]
    assert usage(wire, answer) == (outputs[1][0], outputs[0][1] + outputs[1][1])
    assert (summary["requests"], summary["fallbacks"]) == (4, 0)


@WIRES
@STREAMS
def test_a_recall_before_any_text_leaves_no_trace(wire, stream, tmp_path):
    script = [[RECALL], [Say("It was 8123.")], [Say("Bye.")]]
    with Upstream(script) as upstream, proxied(upstream.url, store=tmp_path, recall="tool") as running:
        agent = client(wire, running, upstream)
        answer = agent.ask(stream=stream)
        agent.take(answer)
        agent.history.append({"role": "user", "content": "Thanks."})
        agent.ask(stream=stream)

    assert (texts(wire, answer), calls(wire, answer)) == ("It was 8123.", [])
    assert ended(wire, answer) in ("end_turn", "stop", "completed")
    assert sum("quoted from the session" in one for one in sound(upstream, wire)) == 2


@WIRES
@STREAMS
@pytest.mark.parametrize("order", [[RECALL, READ], [READ, RECALL]], ids=["ours first", "theirs first"])
def test_in_a_mixed_batch_recall_waits_for_the_clients_results(wire, stream, order, tmp_path):
    script = [[*thought(wire, "Both."), Say("Both. "), *order], [Say("8123.")], [Say("Bye.")]]
    with Upstream(script) as upstream, proxied(upstream.url, store=tmp_path, recall="tool") as running:
        agent = client(wire, running, upstream)
        answer = agent.ask(stream=stream)
        assert len(upstream.requests) == 1, "nobody is asked before the client's results are there"
        agent.take(answer)
        agent.take(agent.ask(stream=stream))
        agent.history.append({"role": "user", "content": "Thanks."})
        agent.ask(stream=stream)

    assert calls(wire, answer) == ["read"]
    assert ended(wire, answer) in ("tool_use", "tool_calls", "completed")
    assert sum("quoted from the session" in one for one in sound(upstream, wire)) == 2


@WIRES
@STREAMS
def test_a_model_that_asks_for_ever_is_stopped(wire, stream, tmp_path):
    with (
        Upstream(lambda _: [Say("x"), RECALL]) as upstream,
        proxied(upstream.url, store=tmp_path, recall="tool") as running,
    ):
        agent = client(wire, running, upstream)
        answer = agent.ask(stream=stream)

    assert len(upstream.requests) == 6
    assert (texts(wire, answer), calls(wire, answer)) == ("x" * 6, [])
    assert ended(wire, answer) in ("end_turn", "stop", "completed")
    assert sound(upstream, wire)[-1].count(RECALL_LIMIT) == 1


@WIRES
def test_without_a_recall_the_answer_is_passed_on_byte_for_byte(wire, tmp_path):
    """And before one, each event goes on when it comes."""
    with Upstream([[Say("Hello there. " * 9), READ]]) as upstream:
        path, body = addressed(PATHS[wire], Agent(wire, upstream.port, upstream).request(stream=True))
        raw = post(upstream.port, path, body)[1]
    pieces = [raw[at : at + 31] for at in range(0, len(raw), 31)]
    with beside(lambda *_: [STREAM, *chunks(*pieces), END], tmp_path, recall="tool") as (_, running):
        answer = post(running.port, path, body)[1]

    assert answer == raw


@pytest.mark.parametrize("turn", [Failure(status=529), Cut([Say("half of " * 30)], 2)], ids=["refused", "cut"])
@WIRES
def test_if_the_second_call_fails_the_client_gets_the_error_and_its_retry_works(wire, turn, tmp_path):
    """An answer that looks whole and is not would be a lie."""
    script = [[Say("Let me look."), RECALL], turn, [Say("It was 8123.")]]
    with Upstream(script) as upstream, proxied(upstream.url, store=tmp_path, recall="tool") as running:
        agent = client(wire, running, upstream)
        with pytest.raises((http.client.HTTPException, AssertionError)):
            agent.ask(stream=True)
        answer = agent.ask(stream=True)

    assert texts(wire, answer).endswith("It was 8123.")
    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []


def test_tools_are_added_to_the_first_request_or_never(tmp_path):
    """A session that began without them goes on without them, also in another process; so does one without tools."""
    with Upstream(["Hi."] * 9) as upstream:
        with proxied(upstream.url, store=tmp_path) as running:
            client("anthropic", running, upstream).ask(stream=False)
            running.settle()
        with proxied(upstream.url, store=tmp_path, recall="tool") as running:
            client("anthropic", running, upstream).ask(stream=False)
            agent = client("anthropic", running, upstream)
            agent.headers["x-session-id"] = "recall-session-2"
            agent.ask(stream=False)
            agent.ask(stream=False, tools=[])
            agent.post(agent.request(), "/v1/messages/count_tokens")
        with proxied(upstream.url, store=tmp_path, recall="tool") as running:
            agent = client("anthropic", running, upstream)
            agent.headers["x-session-id"] = "recall-session-2"
            agent.ask(stream=False)

    have = [b"ebb_recall" in exchange.raw for exchange in upstream.requests]
    assert have == [False, False, True, False, True, True]


def test_another_conversation_under_the_same_name_is_not_readable(tmp_path):
    """Recall sees what the request at hand holds."""
    script = ["Noted.", [Use("ebb_recall", {"query": "zebra"})], "Nothing."]
    with Upstream(script) as upstream, proxied(upstream.url, store=tmp_path, recall="tool") as running:
        agent = client("anthropic", running, upstream)
        agent.take(agent.ask(stream=False))
        begun = list(agent.history)
        agent.history = [
            *begun[:1],
            {"role": "assistant", "content": "ok"},
            {"role": "user", "content": "zebra code 9917"},
        ]
        other = client("anthropic", running, upstream)
        agent.ask(stream=False)
        other.ask(stream=False)

    assert b"9917" in upstream.requests[1].raw
    assert b"9917" not in upstream.requests[-1].raw


def test_shadow_adds_nothing(tmp_path):
    with Upstream(["Hi."]) as upstream, proxied(upstream.url, store=tmp_path, recall="tool", shadow=True) as running:
        client("openai_chat", running, upstream).ask(stream=False)

    assert b"ebb_recall" not in upstream.requests[0].raw
    assert KEYS["openai_chat"] in upstream.requests[0].parsed


def test_branches_of_an_unnamed_session_recall_their_own_and_only_that(tmp_path):
    """Two conversations that begin alike share a log. The words of one are everywhere in it, and stay unknown to the
    other, which finds its own among them; a handle of one opens nothing for the other."""
    many = [
        message
        for n in range(60)
        for message in (
            {"role": "assistant", "content": f"zebra note {n}"},
            {"role": "user", "content": f"zebra code 99{n:02}, go on"},
        )
    ]
    mine = f"my zebra is 4711. {'Nothing else is said of it here. ' * 200}"
    script = iter(["Ok.", "Noted.", [Use("ebb_recall", {"query": "zebra"})], "Mine."])
    with (
        Upstream(lambda _: next(script)) as upstream,
        proxied(upstream.url, store=tmp_path, recall="tool") as running,
    ):
        first, other = (client("anthropic", running, upstream) for _ in range(2))
        for agent in (first, other):
            del agent.headers["x-session-id"]
        other.history += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": mine}]
        other.take(other.ask(stream=False))
        other.history += [{"role": "user", "content": "And now?"}]
        first.history += many
        first.ask(stream=False)
        other.ask(stream=False)
        running.settle()
        (log,) = tmp_path.rglob("*.jsonl")
        item = next(one for one in map(json.loads, log.read_text().splitlines()) if "9931" in json.dumps(one))
        script = iter([[Use("ebb_read", {"handle": item["ebbids"][0]})], "Nothing."])
        other.ask(stream=False)

    found, opened = (json.dumps(upstream.requests[n].parsed["messages"]) for n in (3, 5))
    assert found.count("my zebra is 4711") == 2, "the message, and what was recalled"
    assert "is not a handle" in opened
    assert [n for n, one in enumerate(upstream.requests) if b"zebra code" in one.raw] == [1]
