"""Unnamed conversations that begin alike: what one client, or two on one store, keep apart."""

from __future__ import annotations

import threading

import pytest

import ebbtide
from ebbtide.fronts.sdk.call_gate import CallGate, GatedCall
from ebbtide.fronts.sdk.sessions import ModelCall
from ebbtide.store import MemoryStore
from fronts.sdk.clients import client
from upstream.finding import Body
from upstream.script import Say
from upstream.server import Upstream

MODEL = {"anthropic": "claude-sonnet-5", "chat": "gpt-5", "gemini": "gemini-2.5-pro"}
WIRES = pytest.mark.parametrize("wire", MODEL)
COPIED = pytest.mark.parametrize("wire", ["anthropic", "chat"])
"""Google's client has no copies with other options."""
FIRST = {"role": "user", "content": "Go through the code."}


def request(wire: str, *messages: Body, **more: object) -> Body:
    around = {"max_tokens": 500} if wire == "anthropic" else {}
    return {"model": MODEL[wire], **around, "messages": [FIRST, *messages], **more}


def create(wrapped, wire: str, *messages: Body, **more: object):
    if wire == "gemini":
        return wrapped.models.generate_content(model=MODEL[wire], contents=[*map(content, (FIRST, *messages))])
    kind = wrapped.messages if wire == "anthropic" else wrapped.chat.completions
    return kind.create(**request(wire, *messages, **more))


def content(message: Body) -> Body:
    """A message in Google's words."""
    return {
        "role": {"assistant": "model"}.get(message["role"], message["role"]),
        "parts": [{"text": message["content"]}],
    }


def text_of(reply) -> str:
    if hasattr(reply, "candidates"):
        return reply.text
    return reply.choices[0].message.content if hasattr(reply, "choices") else reply.content[0].text


def branch(word: str) -> list[Body]:
    return [{"role": "assistant", "content": "Which part?"}, {"role": "user", "content": f"The {word} one."}]


def echo(body: Body) -> list[Say]:
    """Answers with the last word of the last message."""
    if "contents" in body:
        return [Say(f"Done with {body['contents'][-1]['parts'][-1]['text']}")]
    last = body["messages"][-1]["content"]
    return [Say(f"Done with {last if isinstance(last, str) else last[-1]['text']}")]


class SessionNames:
    """The sessions that calls belonged to, in their order."""

    def __init__(self, upstream: Upstream, wire: str, store=None, **options) -> None:
        self.names: list[str] = []
        self.raw = client(wire, upstream, **options)
        listen = lambda session, report: self.names.append(session)  # noqa: E731
        self.client, self.wire = ebbtide.wrap(self.raw, store=store, on_report=listen), wire

    def session(self, *messages: Body, copy: Body | None = None, **more: object) -> str:
        used = self.client.with_options(**copy) if copy else self.client
        create(used, self.wire, *messages, **more)
        return self.names[-1]


@WIRES
def test_two_keys_on_one_store_share_no_unnamed_session(wire):
    store = MemoryStore()
    with Upstream() as upstream:
        one, two, again = (SessionNames(upstream, wire, store, api_key=key) for key in ("key-a", "key-b", "key-a"))

        assert one.session() == again.session() != two.session()
        with ebbtide.session("shared"):
            assert one.session() == two.session() == "shared"


@COPIED
def test_a_copy_with_another_key_is_another_client(wire):
    with Upstream() as upstream:
        told = SessionNames(upstream, wire, api_key="key-a")
        own = told.session()

        assert told.session(copy={"api_key": "key-b"}) != own
        assert told.session(copy={"timeout": 60}) == own
        assert told.session(copy={"default_headers": {"x-tenant-id": "t2"}}) != own
        assert told.session() == own
        copied = told.client.with_options(api_key="key-b").with_options(timeout=60)
        create(copied, wire)
        assert told.names[-1] == told.names[1]


def test_the_organisation_and_ids_of_a_call_distinguish_sessions_too():
    with Upstream() as upstream:
        told = SessionNames(upstream, "chat")
        names = [told.session(), told.session(user="u1"), told.session(user="U1"), told.session(prompt_cache_key="k1")]
        names.append(told.session(extra_headers={"x-session-id": "s1"}))
        names.append(told.session(copy={"organization": "org-2"}))

        assert len(set(names)) == len(names)
        assert told.session(extra_headers={"x-request-id": "r1"}) == names[0]


def test_a_key_that_a_function_fetches_does_not_count():
    """It is another one every hour."""
    keys = (f"key-{n}" for n in range(100))
    with Upstream() as upstream:
        told = SessionNames(upstream, "chat", api_key=lambda: next(keys))

        assert told.session() == told.session(*branch("north")) == told.session()


def test_prompts_that_differ_in_an_account_number_are_two_conversations():
    def clerk(account: str, day: str) -> Body:
        return {"role": "system", "content": f"You keep account {account}. It is {day} 04:30. {'Be kind. ' * 200}"}

    with Upstream() as upstream:
        told = SessionNames(upstream, "chat")

        def of(prompt: Body) -> str:
            told.client.chat.completions.create(model="gpt-5", messages=[prompt, FIRST])
            return told.names[-1]

        one = of(clerk("4711-1", "2026-11-16"))
        assert of(clerk("4711-1", "2026-11-17")) == one
        assert of(clerk("4711-2", "2026-11-16")) != one


@WIRES
def test_replies_that_arrive_together_are_each_recorded_after_their_own_request(wire):
    """Two threads, one session: both requests are under way before either reply is recorded."""
    store, reports, under_way = MemoryStore(), {}, threading.Barrier(2, timeout=120)
    with Upstream(echo) as upstream:

        def listen(session: str, report: ebbtide.Report) -> None:
            under_way.wait()

        wrapped = ebbtide.wrap(client(wire, upstream), store=store, on_report=listen)

        def work(word: str) -> None:
            history = branch(word)
            for n in range(4):
                reply = create(wrapped, wire, *history)
                reports.setdefault(word, []).append(reply._ebbtide)
                history += [
                    {"role": "assistant", "content": text_of(reply)},
                    {"role": "user", "content": f"{word} step {n}"},
                ]

        threads = [threading.Thread(target=work, args=(word,)) for word in ("north", "south")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)

    (info,) = store.list_sessions()
    records = store.peek(info.session).read().records
    known = {one["uuid"]: one for one in records if one.get("uuid")}
    replies = [one for one in known.values() if one["type"] == "assistant" and "Done with" in str(one)]
    assert len(replies) == 8, "each once: the client's next request has them under the same ids"
    for reply in replies:
        word = "north" if "north" in str(reply.get("wire") or reply["message"]) else "south"
        assert word in str(known[reply["parentUuid"]].get("wire") or known[reply["parentUuid"]]["message"])
    turns = [one for one in records if one.get("kind") == "turn"]
    for one in records:
        if one.get("kind") == "usage":
            assert one["estimated"] == turns[one["turn"] - 1]["estimated"]
    for exchange in upstream.requests:
        assert (b"north" in exchange.raw) != (b"south" in exchange.raw)
    assert {word: len(told) for word, told in reports.items()} == {"north": 4, "south": 4}


def find_gate(wrapped) -> CallGate:
    return getattr(wrapped, "_ebbtide_gate", None) or wrapped.middleware[-1].gate


@WIRES
def test_a_branch_of_an_unnamed_conversation_reads_nothing_of_another(wire):
    """The session answers for the conversation that was prepared last; under a name, for the whole session."""
    with Upstream(echo) as upstream:
        wrapped = ebbtide.wrap(client(wire, upstream), store=MemoryStore())
        told: dict[str, str] = {}
        for name in ("", "named"):
            for word in ("zebra-9917", "south"):
                with ebbtide.session(name) if name else threading.Lock():
                    create(wrapped, wire, *branch(word))
            session = next(
                opened
                for opened in find_gate(wrapped).sessions._sessions.values()
                if opened.name.startswith(name or "lane-")
            )
            told[name] = session.context.recall_answer("ebb_recall", {"query": "zebra-9917"})
            told[f"{name} own"] = session.context.recall_answer("ebb_recall", {"query": "south"})
            handle = next(
                id
                for record in session.context._log.read().records
                if "zebra-9917" in str(record) and record.get("type") == "user"
                for id in record["ebbids"]
            )
            told[f"{name} read"] = session.context.recall_answer("ebb_read", {"handle": handle})

    assert "The zebra" not in told[""] + told[" own"] + told[" read"]
    assert "is not a handle" in told[" read"]
    assert "The south one." in told[" own"]
    assert "The zebra-9917 one." in told["named"]
    assert "The zebra-9917 one." in told["named read"]


def test_a_retry_sends_the_same_bytes_although_another_call_was_made_in_between():
    """Through the gate, as the SDK's middleware does it: call, another call, the first one again."""
    with Upstream() as upstream:
        wrapped = ebbtide.wrap(client("anthropic", upstream), window=8_000)
        gate = find_gate(wrapped)

        def prepare(body: Body, is_retry: bool = False) -> GatedCall:
            return gate.prepare(
                ModelCall(wire="anthropic", url="/v1/messages", body=body, headers={}, is_retry=is_retry)
            )

        one, two = (request("anthropic", *branch(word)) for word in ("north", "south"))
        first = prepare(one)
        prepare(two)

        assert prepare(one, is_retry=True).ready is first.ready
        first.accept()
        assert prepare(one, is_retry=True).ready is not first.ready


def test_an_unnamed_session_uses_the_window_of_each_model():
    windows: list[int] = []
    with Upstream() as upstream:
        wrapped = ebbtide.wrap(client("chat", upstream), on_report=lambda _, report: windows.append(report.window))
        for model in ("gpt-4o", "gpt-5", "gpt-4o"):
            create(wrapped, "chat", model=model)

    assert windows == [128_000, 272_000, 128_000]
