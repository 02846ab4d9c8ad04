"""A list of messages that only grows is known without looking at what was there, and nothing else passes for one."""

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.wire.reader import Reader


def said(n, role=None):
    return {"role": role or ("assistant" if n % 2 else "user"), "content": f"words {n}"}


def body(messages):
    return {"model": "claude-sonnet-5", "max_tokens": 10, "messages": messages}


def ids(request):
    return [item.id for item in request.items]


def fresh(messages):
    return ids(Reader(DEFAULT).read(body(messages)))


def test_a_list_that_grows_in_place_is_read_from_where_it_grew():
    reader, talk = Reader(DEFAULT), [said(0)]
    reader.read(body(talk))
    for n in range(1, 9):
        talk.append(said(n))
        request = reader.read(body(talk))
        assert (request.unchanged_items, len(request.messages)) == (n, n + 1)
        assert ids(request) == fresh(talk)
        assert request.body.emit(request.body.tree)["messages"] is talk


@pytest.mark.parametrize(
    "change",
    [
        lambda talk: talk[:2],
        lambda talk: [*talk[:2], said(7, "user")],
        lambda talk: [talk[0], *talk[2:], said(8)],
        lambda talk: [dict(one) for one in talk],
        lambda talk: [said(9, "user"), *talk],
        lambda talk: tuple(talk),
        lambda talk: [*talk[:-1], {**talk[-1], "content": [{"type": "text", "text": "words 4", "cache_control": {}}]}],
    ],
)
def test_a_list_that_changed_in_another_way_is_read_again(change):
    reader, talk = Reader(DEFAULT), [said(n) for n in range(5)]
    reader.read(body(talk))
    now = change(talk)
    assert ids(reader.read(body(now))) == fresh(now)
    assert ids(reader.read(body(talk))) == fresh(talk)
    assert talk == [said(n) for n in range(5)], "the client's list is the client's"


@pytest.mark.parametrize("bad", ["no message", {"role": "nobody", "content": "x"}, ["no", "message"], 7])
def test_a_refused_message_is_not_part_of_the_conversation(bad):
    reader, talk = Reader(DEFAULT), [said(0), said(1)]
    reader.read(body(talk))
    for _ in range(2):
        with pytest.raises(BadRequest):
            reader.read(body([*talk, bad]))
    assert reader.last_wire is not None
    assert ids(reader.read(body([*talk, said(2)]))) == fresh([*talk, said(2)])
    with pytest.raises(BadRequest):
        reader.read(body([talk[0], bad, said(2)]))
    assert ids(reader.read(body(talk))) == fresh(talk)


class Sdk:
    """A message object of a client library."""

    def __init__(self, n):
        self.n = n

    def model_dump(self, **_):
        return said(self.n)


def test_new_objects_of_a_client_library_are_returned_unchanged():
    reader, talk = Reader(DEFAULT), [said(0)]
    reader.read(body(talk))
    for n in range(1, 6):
        talk.append(Sdk(n) if n % 2 else said(n))
        request = reader.read(body(talk))
        assert ids(request) == fresh(talk)
        out = request.body.emit({**request.body.tree, "messages": [*request.messages]})
        assert all(one is other for one, other in zip(out["messages"], talk, strict=True))
