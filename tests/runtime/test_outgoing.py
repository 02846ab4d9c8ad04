"""From a view to the body that goes out, turn after turn."""

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.view import View
from ebbtide.runtime.outgoing import write_outgoing
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader
from runtime.sessions import body, call, context, result


def test_a_message_whose_blocks_are_on_both_sides_is_sent_and_so_is_what_follows():
    """A result in the assistant's own message is repaired each time, and the messages behind it are still whole."""
    odd = {"role": "assistant", "content": [*call(0)["content"], *result(0, 2)["content"]]}
    ctx = context(window=10**9)
    talk = [{"role": "user", "content": "go"}, odd, {"role": "user", "content": "on"}]

    first = ctx.prepare(body(talk))
    second = ctx.prepare(body([*talk, call(1), result(1, 2)]))

    assert first.report.repairs
    assert second.body["messages"][: len(first.body["messages"])] == first.body["messages"]
    assert second.body["messages"][-2:] == [call(1), result(1, 2)]


def test_a_request_written_step_by_step_equals_one_written_at_once():
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


def test_two_requests_written_from_one_do_not_change_each_other():
    talk = [{"role": "user", "content": "go"}, call(0), result(0, 2)]
    reader = Reader(DEFAULT, wire=WIRES["anthropic"])
    request = reader.read(body(talk))
    view = View.of(request.items)
    previous = write_outgoing(request, view, None)

    def extend(*messages):
        longer = reader.read(body([*talk, *messages]))
        return write_outgoing(longer, view.extend_from(longer.unchanged_items, longer.items), previous)

    first, second = extend(call(1), result(1, 2)), extend(call(2), result(2, 3))

    assert second.columns.messages == [*talk, call(2), result(2, 3)]
    assert second.columns.call_ids == {call(n)["content"][-1]["id"] for n in (0, 2)}
    assert first.columns.messages == [*talk, call(1), result(1, 2)]
    assert first.tokens_in(3) == second.tokens_in(3) == previous.tokens
