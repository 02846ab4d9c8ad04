"""A server that holds many conversations does not keep them all at hand for ever."""

from ebbtide.fronts.sdk.lanes import MOST_LANES, Call, Lane, Lanes


def call(text: str) -> Call:
    return Call(
        wire="anthropic", url="/v1/messages", body={"messages": [{"role": "user", "content": text}]}, headers={}
    )


def test_the_conversations_used_last_stay_at_hand_and_the_oldest_is_let_go():
    opened: list[str] = []
    lanes = Lanes(lambda session, one, named: opened.append(session) or Lane(session=session, is_named=named, call=one))
    first = lanes.of(call("first"))
    for n in range(MOST_LANES - 1):
        lanes.of(call(str(n)))
    assert lanes.of(call("first")) is first
    lanes.of(call("one too many"))

    assert lanes.of(call("first")) is first
    assert len(opened) == MOST_LANES + 1
    lanes.of(call("0"))
    assert len(opened) == MOST_LANES + 2
