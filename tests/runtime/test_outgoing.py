"""From a view to the body that goes out, turn after turn."""

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.view import View
from ebbtide.runtime.outgoing import write_outgoing
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader
from runtime.sessions import body, call, context, result


def test_a_message_whose_blocks_stand_on_two_sides_goes_out_and_so_does_what_follows():
    """A result in the assistant's own message is repaired each time, and the messages behind it are still whole."""
    odd = {"role": "assistant", "content": [*call(0)["content"], *result(0, 2)["content"]]}
    ctx = context(window=10**9)
    talk = [{"role": "user", "content": "go"}, odd, {"role": "user", "content": "on"}]

    first = ctx.prepare(body(talk))
    second = ctx.prepare(body([*talk, call(1), result(1, 2)]))

    assert first.report.repairs
    assert second.body["messages"][: len(first.body["messages"])] == first.body["messages"]
    assert second.body["messages"][-2:] == [call(1), result(1, 2)]


def test_a_projection_that_grows_is_the_one_that_is_made_at_once():
    talk = [{"role": "user", "content": "go"}, call(0), result(0, 2), call(1), result(1, 2)]
    reader, made = Reader(DEFAULT, wire=WIRES["anthropic"]), None
    for n in (1, 3, 5):
        request = reader.read(body(talk[:n]))
        made = write_outgoing(request, View.of(request.items), made)
    whole = Reader(DEFAULT, wire=WIRES["anthropic"]).read(body(talk))
    once = write_outgoing(whole, View.of(whole.items), None)

    assert made is not None
    assert (list(made.hashes), made.columns) == (list(once.hashes), once.columns)
    assert made.columns.messages == talk
