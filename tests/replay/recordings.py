"""Sessions and contenders made by hand, so small that the right answer is obvious."""

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import FIVE_MINUTES
from ebbtide.replay.contenders import ContenderRequest, RawContender, SideCall
from ebbtide.replay.message_index import MessageIndex
from ebbtide.replay.score import Scorer, names_used_by_call
from ebbtide.replay.session import ReplayCall, ReplaySession
from ebbtide.replay.touched_files import find_touched_files
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader

WIRE = WIRES["anthropic"]
MODEL = "claude-sonnet-4-5"


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def tool_call(n, name="Read", **arguments):
    return {"role": "assistant", "content": [{"type": "tool_use", "id": f"t{n}", "name": name, "input": arguments}]}


def result(n, text, **more):
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": text, **more}]}


def replay_session(*histories, overhead=2_000, pause=10.0, ttl=FIVE_MINUTES):
    """Each history is one request's messages and, last, what the agent answered.

    The client marks its system prompt and the end of each request.
    """
    takes = tuple(
        ReplayCall(
            raw=body(history[:-1], ttl),
            unmarked=body(history[:-1], None),
            recorded=body(history[:-1], ttl),
            response={"content": history[-1]["content"]},
            at=pause * n,
            model=MODEL,
            usage=None,
            is_compacted=False,
        )
        for n, history in enumerate(histories)
    )
    sheet = MessageIndex(wire=WIRE, estimator=DEFAULT, overhead=overhead)
    items = Reader(DEFAULT, wire=WIRE).read(takes[-1].raw).items
    return ReplaySession(
        name="hand", format="hand", wire=WIRE, calls=takes, messages=sheet, touched_files=find_touched_files(items)
    )


def growing_session(*messages, **terms):
    """A session that only grows: one call for each answer in it."""
    return replay_session(*(list(messages[:n]) for n in range(2, len(messages) + 1, 2)), **terms)


def body(messages, ttl=FIVE_MINUTES):
    marks = {} if ttl is None else WIRE.cache.client_fields(MODEL, ttl)
    system = [{"type": "text", "text": "rules", **marks}]
    return {"model": MODEL, "max_tokens": 1_000, "system": system, "messages": list(messages), **marks}


def conversation(first, last, between=12):
    """A session with the user's first message, `between` exchanges about nothing, and an answer."""
    small = [part for n in range(between) for part in (assistant(f"ok {n}"), user(f"go {n}"))]
    return growing_session(user(first), *small, assistant(last))


def score(session, arm, *, window=200_000, ttl=300.0, recalls=True):
    return Scorer(session, arm, window, ttl, names_used_by_call(session), has_recall=recalls).run()


class ChangingContender:
    """A contender that sends the messages as a function changes them."""

    def __init__(self, change, asked=(), found=None):
        self._change, self._asked, self._found = change, asked, found or (lambda query: None)
        self.queries, self.known = [], []

    def send(self, take):
        return ContenderRequest(
            body={**take.raw, "messages": self._change(take.raw["messages"])}, side_calls=self._asked
        )

    def record_usage(self, call, usage):
        self.known.append(usage)

    def recall(self, query):
        self.queries.append((len(self.known), query))
        return self._found(query)


class SendingContender(RawContender):
    """A contender that sends one of the recorded call's requests."""

    def __init__(self, field):
        self._field = field

    def send(self, call):
        return ContenderRequest(body=getattr(call, self._field))


def first_becomes(text):
    """Replace the first message by this text, always as the same object, as recorded edits do."""
    stub = user(text)
    return lambda messages: [stub, *messages[1:]] if len(messages) > 1 else messages


def side_call(text, output):
    return SideCall(body=body([user(text)]), output_tokens=output)
