"""What was not touched leaves as it came."""

import json

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.wire.body import read_body

ODD = (
    b'{ "model" : "m", "max_tokens": 1E3, "temperature":1.10,\n "messages": [ '
    b'{"role":"user","content":"caf\\u00e9 1.10"} ,'
    b'\n  {"role":"assistant","content":[{"type":"text","text":"a","x":1.0},{"type":"new_kind","n":1e400}]}, '
    b'{"role":"user","content":[{"type":"text","text":"b"}]}], "unknown":{"z":1,"a":[ 1 , 2 ]} }'
)


def test_an_untouched_body_is_returned_byte_for_byte():
    body = read_body(ODD)

    assert body.emit(body.tree) == ODD


def test_a_changed_message_leaves_the_bytes_of_all_others_alone():
    body = read_body(ODD)
    messages = [*body.messages[:2], {"role": "user", "content": "new"}]

    out = body.emit({**body.tree, "messages": messages})

    assert b'"max_tokens":1E3' in out
    assert b'"temperature":1.10' in out
    assert b'{"role":"user","content":"caf\\u00e9 1.10"}' in out
    assert b'{"z":1,"a":[ 1 , 2 ]}' in out
    assert json.loads(out.replace(b"1e400", b"1"))["messages"][2] == {"role": "user", "content": "new"}


def test_a_changed_block_leaves_the_bytes_of_its_neighbours_alone():
    body = read_body(ODD)
    message = body.messages[1]
    changed = {**message, "content": [{"type": "text", "text": "shorter"}, message["content"][1]]}

    out = body.emit({**body.tree, "messages": [body.messages[0], changed, body.messages[2]]})

    assert b'[{"type":"text","text":"shorter"},{"type":"new_kind","n":1e400}]' in out


def test_a_grown_body_is_read_from_where_the_last_one_ended():
    first = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    )
    grown = first.replace('"b"}]', '"b"}, {"role": "user", "content": "c"}]')
    before = read_body(first.encode())

    body = read_body(grown.encode(), before)

    assert body.unchanged == 2
    assert body.messages[1] is before.messages[1]
    assert body.messages[2] == {"role": "user", "content": "c"}
    assert body.emit(body.tree) == grown.encode()


def test_a_body_that_was_already_read_continues_the_previous_one_and_is_returned_unchanged():
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    first, second = (json.dumps({"messages": said[:n]}).encode() for n in (2, 3))
    before = read_body(first)
    read = read_body(second, before)

    assert read_body(read, before).unchanged == 2
    assert read_body(read, before).messages is read.messages
    assert read_body(read).unchanged == 0
    # Read apart from each other they share no objects: then the bytes tell.
    apart = read_body(read_body(second), before)
    assert (apart.unchanged, apart.messages[1] is before.messages[1]) == (2, True)
    assert {read_body(read, one).emit(read.tree) for one in (before, None)} == {second}
    # What is another conversation is read whole.
    other = read_body(b'{"messages":[{"role":"user","content":"x"}]}')
    assert read_body(read, other).unchanged == 0


def test_two_conversations_that_begin_alike_each_continue_their_own():
    def request(name, count):
        rest = [{"role": "user", "content": f"{name} {n}"} for n in range(count)]
        return json.dumps({"messages": [{"role": "system", "content": "shared"}, *rest]}).encode()

    first = read_body(request("a", 8))
    other = read_body(request("b", 8), first)
    mixed = read_body(request("a", 9), other)

    assert (other.unchanged, mixed.unchanged) == (1, 1)
    assert read_body(mixed, first).unchanged == 9


def test_a_body_whose_start_changed_is_read_again():
    before = read_body(b'{"model":"m","messages":[{"role":"user","content":"a"}]}')

    body = read_body(b'{"model":"n","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}', before)

    assert body.unchanged == 0
    assert [message["content"] for message in body.messages] == ["a", "b"]


def test_a_dict_is_returned_as_the_same_object_when_nothing_changed():
    request = {"model": "m", "messages": [{"role": "user", "content": "a"}]}
    body = read_body(request)

    assert body.emit(body.tree) is request


class Block:
    """Stands for an SDK's block: knows how to dump itself."""

    def __init__(self, **fields):
        self.fields = fields

    def model_dump(self, **_):
        return dict(self.fields)


def test_sdk_objects_inside_a_request_are_read_and_leave_as_themselves():
    said = Block(type="text", text="hello")
    request = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [said]}]}
    body = read_body(request)

    out = body.emit({**body.tree, "messages": [*body.messages, {"role": "user", "content": "b"}]})

    assert body.messages[1]["content"][0] == {"type": "text", "text": "hello"}
    assert out["messages"][1]["content"][0] is said
    assert body.emit(body.tree) is request


def test_a_conversation_that_grows_by_sdk_objects_keeps_everything_before():
    asked, said, next_one = (
        {"role": "user", "content": "a"},
        Block(type="text", text="hello"),
        {"role": "user", "content": "b"},
    )
    first = read_body({"messages": [asked]})
    second = read_body({"messages": [asked, {"role": "assistant", "content": [said]}]}, first)
    third = read_body({"messages": [asked, {"role": "assistant", "content": [said]}, next_one]}, second)

    assert [message["role"] for message in third.messages] == ["user", "assistant", "user"]
    assert (second.unchanged, third.unchanged) == (1, 2)
    assert third.emit({**third.tree, "x": 1})["messages"][1]["content"][0] is said


def test_an_sdk_object_as_a_message_is_returned_as_itself():
    said = Block(role="assistant", content="hello")
    body = read_body({"messages": [{"role": "user", "content": "a"}, said]})

    out = body.emit({**body.tree, "messages": [*body.messages, {"role": "user", "content": "b"}]})

    assert out["messages"][1] is said


def test_a_message_without_end_is_refused():
    endless = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    endless["content"][0]["self"] = endless["content"][0]

    with pytest.raises(BadRequest, match="nested more than 200 levels deep, or in a circle") as refused:
        read_body({"messages": [endless]})
    assert refused.value.path.startswith("messages.0.content.0.self")


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "not valid JSON"),
        (b"[]", "not valid JSON"),
        (b'{"a":1}', "none of `messages`, `input`, `contents`"),
        (b'{"messages":[{"role":"user","content":NaN}]}', "messages.0: NaN is not JSON"),
        (b'{"messages":[{"role":"user"},{"x":}]}', "messages.1"),
        (b'{"messages":[]} x', "extra data"),
        (b'{"messages":[' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"]}", "nested too deeply"),
        (b'{"messages":["\xff"]}', "not valid UTF-8 at byte 14"),
        (b'{"messages":7}', "messages: must be a list"),
        (b'{"messages":"hi"}', "messages: must be a list"),
        (b'{"messages":[{}', "the document ends"),
    ],
)
def test_bad_input_is_refused_with_the_place(raw, told):
    with pytest.raises(BadRequest, match=told.replace("[", r"\[").replace(".", r"\.")):
        read_body(raw)


def test_an_integer_of_5000_digits_leaves_with_all_of_them():
    raw = b'{"seed":' + b"7" * 5000 + b',"messages":[{"role":"user","content":"a"}]}'
    body = read_body(raw)

    assert body.emit({**body.tree, "messages": []}).startswith(b'{"seed":' + b"7" * 5000)


SAID = b'{"role":"user","content":"first"}'
OTHER = b'{"role":"user","content":"second"}'


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages":[' + OTHER + b"," + OTHER + b'],"messages":[' + SAID + b"," + OTHER + b"]}",
        b'{"input":[' + OTHER + b"," + OTHER + b'],"messages":[' + SAID + b"," + OTHER + b"]}",
        b'{"messages":[' + SAID + b"," + OTHER + b'],"input":[' + OTHER + b"," + OTHER + b"]}",
    ],
    ids=["twice", "input before", "input after"],
)
def test_a_message_is_never_sent_as_the_text_of_another_list(raw):
    """Two lists in one body: of a key that is there twice the last counts, and `messages` before `input`."""
    body = read_body(raw)
    new = {"role": "user", "content": "new"}

    out = json.loads(body.emit({**body.tree, "messages": [body.messages[0], new]}))

    assert out["messages"] == [json.loads(SAID), new]


def test_a_body_with_its_messages_twice_can_be_followed_by_the_same():
    raw = b'{"messages":[' + OTHER + b'],"messages":[' + SAID + b"," + OTHER + b"]}"
    first = read_body(raw)

    again = read_body(raw, first)

    assert again.messages == [json.loads(SAID), json.loads(OTHER)]
    assert again.unchanged == 2


def test_a_field_that_occurs_twice_in_a_message_is_sent_with_its_last_value():
    block = b'{"type":"text","text":"%s"}'
    twice = b'{"role":"user","content":[],"content":[' + block % b"a" + b"," + block % b"b" + b"]}"
    body = read_body(b'{"messages":[' + twice + b"]}")
    changed = {**body.messages[0], "content": body.messages[0]["content"][1:]}

    out = json.loads(body.emit({**body.tree, "messages": [changed]}))

    assert out["messages"][0]["content"] == [{"type": "text", "text": "b"}]
