"""Tapes and arms made by hand, so small that the right answer is obvious."""

from ebbtide.core.tokens import DEFAULT
from ebbtide.replay.contenders import Asked, Out
from ebbtide.replay.message_index import Sheet
from ebbtide.replay.recorded_session import Take, Tape
from ebbtide.replay.score import Scoring, uses
from ebbtide.replay.touched_files import touched
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader

WIRE = WIRES["anthropic"]
MODEL = "claude-sonnet-4-5"


def user(text):
    return {"role": "user", "content": text}


def said(text):
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def used(n, name="Read", **arguments):
    return {"role": "assistant", "content": [{"type": "tool_use", "id": f"t{n}", "name": name, "input": arguments}]}


def result(n, text, **more):
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": text, **more}]}


def tape(*histories, overhead=2_000, pause=10.0):
    """Each history is one request's messages and, last, what the agent answered."""
    takes = tuple(
        Take(
            raw=body(history[:-1]),
            recorded=body(history[:-1]),
            response={"content": history[-1]["content"]},
            at=pause * n,
            model=MODEL,
            billed=None,
            kept=None,
            compacted=False,
        )
        for n, history in enumerate(histories)
    )
    sheet = Sheet(wire=WIRE, estimator=DEFAULT, overhead=overhead)
    items = Reader(DEFAULT, wire=WIRE).read(takes[-1].raw).items
    return Tape(name="hand", format="hand", wire=WIRE, takes=takes, sheet=sheet, files=touched(items))


def growing(*messages):
    """A tape of a conversation that only grows: one call for each answer in it."""
    return tape(*(list(messages[:n]) for n in range(2, len(messages) + 1, 2)))


def body(messages):
    return {"model": MODEL, "max_tokens": 1_000, "messages": list(messages)}


def talk(first, last, between=12):
    """The user's first words, so many exchanges about nothing, and an answer."""
    small = [part for n in range(between) for part in (said(f"ok {n}"), user(f"go {n}"))]
    return growing(user(first), *small, said(last))


def score(tape, arm, *, window=200_000, ttl=300.0, recalls=True):
    return Scoring(tape, arm, window, ttl, uses(tape), recalls=recalls).run()


class Sending:
    """An arm that sends what a function makes of the messages."""

    def __init__(self, change, asked=(), found=None):
        self._change, self._asked, self._found = change, asked, found or (lambda query: None)
        self.queries, self.known = [], []

    def send(self, take):
        return Out(body={**take.raw, "messages": self._change(take.raw["messages"])}, asked=self._asked)

    def billed(self, take, usage):
        self.known.append(usage)

    def found(self, query):
        self.queries.append((len(self.known), query))
        return self._found(query)


def first_becomes(text):
    """The first message says this instead, always the same one, as recorded edits have it."""
    stub = user(text)
    return lambda messages: [stub, *messages[1:]] if len(messages) > 1 else messages


def asking(text, output):
    return Asked(body=body([user(text)]), output=output)
