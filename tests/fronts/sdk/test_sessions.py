"""Which conversation a call belongs to: the one that was named, else the one whose beginning it has."""

from __future__ import annotations

import asyncio
import threading

import pytest

import ebbtide
from fronts.sdk.agents import Talk, anthropic_acreate, anthropic_create, script
from fronts.sdk.clients import WINDOW, client
from upstream.prefix import units
from upstream.server import Upstream


def say(text: str, **more):
    return {"model": "gpt-5", "messages": [{"role": "user", "content": text}], **more}


class SessionRecorder:
    """A wrapped client that keeps the names of the sessions it was told of."""

    def __init__(self, upstream: Upstream, **options) -> None:
        self.names: list[str] = []
        self.client = ebbtide.wrap(client("chat", upstream), on_report=self._told, **options)

    def _told(self, session: str, report: ebbtide.Report) -> None:
        self.names.append(session)

    def session(self, body) -> str:
        self.client.chat.completions.create(**body)
        return self.names[-1]


def test_a_conversation_is_known_by_how_it_begins():
    with Upstream() as upstream:
        recorder = SessionRecorder(upstream)
        one = recorder.session(say("Mend issue 12."))
        longer = say("Mend issue 12.")
        longer["messages"] += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks."}]
        marked = say([{"type": "text", "text": "Mend issue 12."}])

        assert recorder.session(longer) == one
        assert recorder.session(marked) == one
        assert recorder.session(say("Mend issue 13.")) != one


def with_system(text: str):
    body = say("Mend it.")
    return {**body, "messages": [{"role": "system", "content": text}, *body["messages"]]}


def test_another_system_prompt_is_another_conversation_unless_only_its_digits_differ():
    with Upstream() as upstream:
        recorder = SessionRecorder(upstream)
        agent = recorder.session(with_system("You are an agent. It is 2026-11-15 04:30."))

        assert recorder.session(with_system("You are an agent. It is 2026-11-16 11:59.")) == agent
        assert recorder.session(with_system("You give titles to conversations.")) != agent


def test_the_name_that_was_given_decides_here_and_in_tasks_and_nowhere_else():
    with Upstream() as upstream:
        recorder = SessionRecorder(upstream, session="all")
        assert recorder.session(say("Hello.")) == "all"
        with ebbtide.session("nightly"):
            assert recorder.session(say("Hello.")) == "nightly"
            with ebbtide.session("inner"):
                assert recorder.session(say("Other.")) == "inner"
            assert recorder.session(say("Third.")) == "nightly"
        assert recorder.session(say("Hello.")) == "all"


async def test_tasks_keep_their_own_names():
    names: list[str] = []
    with Upstream() as upstream:
        async with ebbtide.wrap(
            client("chat", upstream, is_async=True), on_report=lambda session, report: names.append(session)
        ) as wrapped:

            async def work(name: str) -> None:
                with ebbtide.session(name):
                    await asyncio.sleep(0)
                    await wrapped.chat.completions.create(**say("Hello."))

            await asyncio.gather(*(work(f"task {n}") for n in range(5)))

    assert sorted(names) == [f"task {n}" for n in range(5)]


def test_a_session_needs_a_name():
    with pytest.raises(ValueError, match="name"), ebbtide.session(""):
        pass


def sent_by(upstream: Upstream, word: str) -> list[str]:
    return [request.raw.decode() for request in upstream.requests if word in request.raw.decode()]


def test_two_simultaneous_conversations_through_one_client_never_mix():
    """Threads, each with its own agent; neither sees a word of the other, and neither is refused."""
    with Upstream(script("anthropic", ends=False), window=WINDOW) as upstream:
        wrapped = ebbtide.wrap(client("anthropic", upstream), window=WINDOW)
        talks = {word: Talk(word, ends=False) for word in ("north", "south")}
        threads = [threading.Thread(target=_run, args=(wrapped, word, talk)) for word, talk in talks.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)

    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    assert len(sent_by(upstream, "north")) == len(sent_by(upstream, "south")) == 20
    assert not [one for one in sent_by(upstream, "north") if "south" in one]
    assert all(any(report.edits for report in talk.reports) for talk in talks.values())


def _run(wrapped, word: str, talk: Talk) -> None:
    for n in talk.turns(20):
        if n == 0:
            talk.history[-1]["content"] += f" For the {word}."
        talk.took(*anthropic_create(wrapped, talk))


async def test_branches_of_one_conversation_asked_at_once_are_all_answered():
    """One lane: they wait for each other's planning, and not for each other's answers."""
    with Upstream(script("anthropic"), window=WINDOW) as upstream:
        async with ebbtide.wrap(client("anthropic", upstream, is_async=True), window=WINDOW) as wrapped:
            trunk = Talk("anthropic")
            for _ in trunk.turns(12):
                trunk.took(*await anthropic_acreate(wrapped, trunk))
            branches = [Talk("branch", history=[*trunk.history]) for _ in range(4)]
            for n, branch in enumerate(branches):
                branch.history.append({"role": "user", "content": f"Try way {n}."})
            answers = await asyncio.gather(*(anthropic_acreate(wrapped, branch) for branch in branches))

    assert len(answers) == 4
    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []


def test_with_a_store_a_new_process_continues_where_the_last_one_stopped(tmp_path):
    """The edits are in the log: each request of a new client is the last one of the old, and more."""
    with Upstream(script("anthropic"), window=WINDOW) as upstream:
        talk = Talk("anthropic")
        for _ in talk.turns(20):
            fresh = ebbtide.wrap(client("anthropic", upstream), window=WINDOW, store=tmp_path, durable=False)
            talk.took(*anthropic_create(fresh, talk))

    sent = [[unit.text for unit in units("anthropic", request.parsed)] for request in upstream.requests]
    quiet = [n for n in range(1, 20) if talk.reports[n].held and not talk.reports[n].edits]
    assert quiet
    assert [n for n in quiet if sent[n][: len(sent[n - 1])] != sent[n - 1]] == []


def test_a_context_on_the_same_store_reads_removed_content(tmp_path):
    with Upstream(script("anthropic"), window=WINDOW) as upstream, ebbtide.session("nightly"):
        talk = Talk("anthropic")
        wrapped = ebbtide.wrap(client("anthropic", upstream), window=WINDOW, store=tmp_path, durable=False)
        for _ in talk.turns(14):
            talk.took(*anthropic_create(wrapped, talk))

    context = ebbtide.Context(store=tmp_path, session="nightly", window=WINDOW)
    assert context.edits()
    assert context.recall("part 0")
