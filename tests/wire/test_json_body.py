"""What was sent before is remembered as bytes, and the bytes are the same as if it were written again."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.wire.body import read_body


def message(n, odd=""):
    """As text, with spacing and numbers that JSON would write otherwise."""
    blocks = f'[ {{"type":"text", "text":"said {n}{odd}"}},{{"n":{n}.10, "type":"kept"}} ]'
    return f'{{ "role":"{"user" if n % 2 else "assistant"}", "content": {blocks}}}'


def body(messages, *, tail='"max_tokens":1E3'):
    return f'{{"model":"m", "messages":[{" , ".join(messages)}],{tail}}}'


def edited(original):
    """One block of it is ours, the other is as it came."""
    return {**original, "content": [{"type": "text", "text": "left – 例"}, original["content"][1]]}


@st.composite
def lives(draw):
    """Turn by turn: the messages as text, and which of them an edit has changed."""
    said, changed, turns = [], set(), []
    for _ in range(draw(st.integers(1, 6))):
        step = draw(st.sampled_from(["grow", "grow", "edit", "undo", "rewind", "rewrite"]))
        if step == "grow" or not said:
            said = [*said, *(message(len(said) + n) for n in range(draw(st.integers(1, 3))))]
        at = draw(st.integers(0, len(said) - 1))
        if step == "edit":
            changed = changed | {at}
        elif step == "undo":
            changed = changed - {at}
        elif step == "rewind":
            said = said[: at + 1]
        elif step == "rewrite":
            said = [*said[:at], message(at, odd=" é"), *said[at + 1 :]]
        turns.append((list(said), {n for n in changed if n < len(said)}, draw(st.booleans())))
    return turns


@given(lives(), st.booleans())
def test_with_a_memory_the_bytes_are_those_without_one(turns, as_text):
    last, made = None, {}
    for said, changed, more in turns:
        raw = body(said, tail='"max_tokens":1E3,"x":[ 1 ]' if more else '"max_tokens":1E3')
        read = read_body(raw if as_text else raw.encode(), last)
        for n in changed:
            original = read.messages[n]
            if n not in made or made[n][0] is not original:
                made[n] = (original, edited(original))
        messages = [made[n][1] if n in changed else one for n, one in enumerate(read.messages)]
        tree = {**read.tree, "messages": messages, "stream": True}

        out = read.emit(tree)

        assert out == replace(read.emit, written={})(tree)
        assert json.loads(out) == tree
        last = read


def test_what_was_cached_for_one_conversation_is_not_sent_in_another():
    first = read_body(body([message(0), message(1)]).encode())
    first.emit({**first.tree, "messages": [edited(first.messages[0]), first.messages[1]]})

    other = read_body(body([message(7)]).encode(), first)
    out = other.emit({**other.tree, "messages": [edited(other.messages[0])]})

    assert b"7.10" in out
    assert b"0.10" not in out


def test_an_earlier_request_can_still_be_written_after_a_later_one():
    first = read_body(body([message(0), message(1)]).encode())
    stub = edited(first.messages[0])
    sent = first.emit({**first.tree, "messages": [stub, first.messages[1]]})
    second = read_body(body([message(n) for n in range(4)]).encode(), first)
    second.emit({**second.tree, "messages": [stub, *second.messages[1:]]})

    assert first.emit({**first.tree, "messages": [stub, first.messages[1]]}) == sent


def test_a_lone_surrogate_stays_in_a_text_and_is_replaced_in_bytes():
    said = [message(0), message(1)]
    stub = {"role": "user", "content": "\ud800"}
    text = read_body(body(said))
    assert "\ud800" in text.emit({**text.tree, "messages": [stub, text.messages[1]]})

    raw = read_body(body(said).encode(), text)
    assert b'"content":"?"' in raw.emit({**raw.tree, "messages": [stub, raw.messages[1]]})
