"""An id is content and occurrence. What left is counted where its stand-in tells of it, so equals keep their numbers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import Edit
from ebbtide.core.view import View
from ebbtide.policy import default
from ebbtide.runtime.outgoing import reapply_edits, write_outgoing
from ebbtide.wire import WIRES
from ebbtide.wire.reader import EchoedEdits, Reader
from laws.trial import attempt, digest, nightly, planned, read
from wire_messages import text_message

Body = dict[str, Any]
PIXELS = ("A" * 400, "B" * 400)
CHOICES = ("clear_media", "evict", "evict_messages", "summarize", "drop_calls", "shorten_text", "offload_input")


def picture(wire: str, which: int) -> Body:
    if wire == "anthropic":
        source = {"type": "base64", "media_type": "image/png", "data": PIXELS[which]}
        return {"type": "image", "source": source}
    if wire == "gemini":
        return {"inlineData": {"mimeType": "image/png", "data": PIXELS[which]}}
    if wire == "bedrock_converse":
        return {"image": {"format": "png", "source": {"bytes": PIXELS[which]}}}
    url = f"data:image/png;base64,{PIXELS[which]}"
    if wire == "openai_chat":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "input_image", "image_url": url}


def shows(wire: str, which: int, words: str = "look") -> Body:
    if wire == "gemini":
        return {"role": "user", "parts": [{"text": words}, picture(wire, which)]}
    if wire == "bedrock_converse":
        return {"role": "user", "content": [{"text": words}, picture(wire, which)]}
    text = {"type": "input_text" if wire == "openai_responses" else "text", "text": words}
    return {"role": "user", "content": [text, picture(wire, which)]}


def says(words: str = "ok", wire: str = "openai_chat") -> Body:
    return text_message(wire, "assistant", words)


def body_of(wire: str, *messages: Body) -> Body:
    about: Body = {"model": "claude-sonnet-4-5", "max_tokens": 100, "system": "x"} if wire == "anthropic" else {}
    return {"model": "gpt-4.1", **about, WIRES[wire].list_key: list(messages)}


def pictures(wire: str, body: Body) -> list[int]:
    told = [str(message) for message in body[WIRES[wire].list_key]]
    return [sum(PIXELS[which] in one for one in told) for which in (0, 1)]


def fed_back(wire: str, body: Body, edits: tuple[Edit, ...]) -> Body:
    """What goes out where the client has this history and these edits are on record."""
    request = read(wire, copy.deepcopy(body), edits)
    return dict(write_outgoing(request, View.of(request.items, edits), None).body)


@pytest.mark.parametrize("wire", WIRES)
def test_an_edit_is_not_made_again_on_the_next_of_two_equal_items(wire: str) -> None:
    """The same picture twice, the old one cleared; fed back, the new one must stay."""
    trial = attempt(("clear_media",), wire, body_of(wire, shows(wire, 0), says(wire=wire), shows(wire, 0)))

    assert trial.plan.edits
    assert pictures(wire, dict(trial.tree)) == [1, 0]
    assert digest(fed_back(wire, dict(trial.tree), trial.plan.edits)) == digest(trial.tree)
    body = reapply_edits(copy.deepcopy(dict(trial.tree)), trial.plan.edits, policy=default, wire=wire).body
    assert pictures(wire, body) == [1, 0], "what must not plan knows stand-ins too"


@pytest.mark.parametrize("wire", WIRES)
def test_an_edit_that_a_compaction_hides_is_not_repeated_after_it(wire: str) -> None:
    """A picture is cleared, then all of that folds. The stub does not come back, the picture does: it is another."""
    said = [
        shows(wire, 0),
        says("first", wire),
        *(one for n in range(9) for one in (shows(wire, 1, f"{n}"), says(f"so {n}", wire))),
    ]
    early = read(wire, body_of(wire, *said))
    cleared = planned(("clear_media",), early, View.of(early.items)).edits
    later = read(wire, body_of(wire, *said, shows(wire, 0)), cleared)
    folded = planned(("summarize",), later, View.of(later.items, cleared), known=cleared).edits
    edits = (*cleared, *folded)
    out = dict(write_outgoing(later, View.of(later.items, edits), None).body)

    assert {edit.by for edit in folded} >= {"summarize"}
    assert cleared[0].first not in {item.id for item in read(wire, out, edits).items}
    assert pictures(wire, out)[0] == 1
    assert digest(fed_back(wire, out, edits)) == digest(out)


def test_replacements_that_look_alike_count_as_one_edit_each() -> None:
    """Two of three equal pictures leave for the same words: the third is the third."""
    said = [one for n in range(3) for one in (shows("openai_chat", 0), says(f"so {n}"))]
    early = read("openai_chat", body_of("openai_chat", *said[:4], {"role": "user", "content": "go on"}))
    edits = planned(("clear_media",), early, View.of(early.items)).edits
    body = body_of("openai_chat", *said)
    out = fed_back("openai_chat", body, edits)

    assert len(edits) == 2
    assert len({edit.replacement[0].text for edit in edits}) == 1
    again = read("openai_chat", out, edits)
    assert [item.id for item in again.items if item.kind == "image"] == [
        item.id for item in read("openai_chat", body).items if item.kind == "image"
    ][2:]


def test_what_is_counted_for_a_replacement_is_forgotten_with_it() -> None:
    """A client that feeds our body back, and then its own again, gets the ids that a fresh reading gives."""
    wire = "openai_chat"
    own = body_of(wire, {"role": "user", "content": "hi"}, says("hi"), shows(wire, 0), says(), shows(wire, 0))
    trial = attempt(("clear_media",), wire, own)
    reader = Reader(DEFAULT, wire=WIRES[wire], echoes=EchoedEdits().learn(WIRES[wire], trial.plan.edits).by_fingerprint)
    first = copy.deepcopy(dict(trial.tree))
    back = reader.read(first)
    own = {**own, "messages": [*first["messages"][:2], *own["messages"][2:]]}

    assert [item.id for item in back.items if item.kind == "image"] == [
        item.id for item in trial.request.items if item.kind == "image"
    ][1:]
    assert [item.id for item in reader.read(own).items] == [item.id for item in trial.request.items]
    assert [item.id for item in reader.read(first).items] == [item.id for item in back.items]


def test_what_is_counted_stays_while_its_replacement_stays() -> None:
    """The last messages come anew, as where a client moves its cache marks: earlier stand-ins still count."""
    wire = "openai_chat"
    said = [one for n in range(3) for one in (shows(wire, 0), says(f"so {n}"))]
    early = read(wire, body_of(wire, *said[:4], {"role": "user", "content": "go on"}))
    edits = planned(("clear_media",), early, View.of(early.items)).edits
    out = fed_back(wire, body_of(wire, *said), edits)
    reader = Reader(DEFAULT, wire=WIRES[wire], echoes=EchoedEdits().learn(WIRES[wire], edits).by_fingerprint)
    back = reader.read(out)
    anew = {**out, "messages": [*out["messages"][:2], *copy.deepcopy(out["messages"][2:])]}
    other = {**out, "messages": [*out["messages"][:2], shows(wire, 0), says()]}

    assert [item.id for item in reader.read(anew).items] == [item.id for item in back.items]
    assert [item.id[-2:] for item in reader.read(other).items if item.kind == "image"] == ["-1"]


def test_what_a_compaction_carries_along_keeps_its_number() -> None:
    """The user's first words stand in the fold as they were: they are not counted as gone."""
    wire = "openai_chat"
    go = {"role": "user", "content": "go on"}
    said = [one for n in range(9) for one in (go, says(f"{n}: " + "so it is, and so it will be. " * 9))]
    trial = attempt(("summarize",), wire, body_of(wire, *said, go))

    assert trial.plan.edits
    ids = [item.id for item in trial.back.items if item.text == "go on"]
    assert [id[-2:] for id in ids] == [f"-{n}" for n in range(10)]


@st.composite
def talks(draw: st.DrawFn, wire: str) -> list[Body]:
    """Few words and two pictures, said over and over."""
    words = st.sampled_from(["look", "and now? " * 8, "the same paste " * 30])
    turns = draw(
        st.lists(st.tuples(words, st.sampled_from([None, 0, 0, 1]), st.integers(0, 1)), min_size=2, max_size=9)
    )
    found: list[Body] = []
    for said, which, reply in turns:
        found.append(text_message(wire, "user", said) if which is None else shows(wire, which, said))
        found.append(says(("ok", "I see it, it is a table of numbers. " * 6)[reply], wire))
    return found


@pytest.mark.parametrize("wire", WIRES)
@nightly(2_000, quick=40)
@given(data=st.data())
def test_a_history_of_equals_fed_back_again_and_again_is_a_no_op(wire: str, data: st.DataObject) -> None:
    """The client takes our body, goes on, and takes it again: each time what is on record does nothing twice."""
    chosen = tuple(data.draw(st.lists(st.sampled_from(CHOICES), min_size=1, max_size=3, unique=True)))
    history, edits = list[Body](), tuple[Edit, ...]()
    for _ in range(3):
        history = history + data.draw(talks(wire)) + [text_message(wire, "user", "go on")]
        request = read(wire, copy.deepcopy(body_of(wire, *history)), edits)
        view = View.of(request.items, edits)
        plan = planned(chosen, request, view, known=edits)
        edits = (*edits, *plan.edits)
        out = dict(write_outgoing(request, View.of(request.items, edits), None).body)
        assert len({item.id for item in request.items}) == len(request.items)
        assert digest(fed_back(wire, out, edits)) == digest(out)
        history = [*out[WIRES[wire].list_key], says("done", wire)]


@pytest.mark.xfail(
    strict=True,
    reason="An edit that puts nothing leaves nothing that could tell: the second of two equals is then the first. Only"
    " thinking leaves so, and two that are equal to the signature are not known to come from any provider",
)
def test_an_item_removed_without_a_replacement_cannot_be_distinguished_from_its_equal() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s" * 40}
    asked = ({"role": "user", "content": words} for words in ("one", "two", "three"))
    message = {"role": "assistant", "content": [thought, {"type": "text", "text": "ok"}]}
    body = body_of("anthropic", next(asked), message, next(asked), message, next(asked))
    request = read("anthropic", body)
    first = next(item.id for item in request.items if item.kind == "thinking")
    edits = View.of(request.items).apply([Edit(by="strip_thinking", first=first, last=first)]).edits
    out = dict(write_outgoing(request, View.of(request.items, edits), None).body)

    assert digest(fed_back("anthropic", out, edits)) == digest(out)
