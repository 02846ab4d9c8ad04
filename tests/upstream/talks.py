"""Valid sessions for every wire, to drive the laws.

`grow` yields every request of one session as a client would send it, one per model call; unchanged messages are the
same objects from request to request, and a longer session begins with the shorter one of the same seed. `history` is
its last request. `bodies` and `sessions` are the same under Hypothesis, which then shrinks the choices themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Protocol

from hypothesis import strategies as st

from upstream.finding import Body
from upstream.story import Question, Step, Story
from upstream.talk_anthropic import AnthropicTalk
from upstream.talk_bedrock import BedrockTalk
from upstream.talk_chat import ChatTalk
from upstream.talk_gemini import GeminiTalk
from upstream.talk_responses import ResponsesTalk


class Talk(Protocol):
    def ask(self, question: Question) -> None: ...
    def act(self, step: Step) -> None: ...
    def reply(self, thought: str, words: str, declined: bool) -> None: ...
    def body(self) -> Body: ...


TALKS: dict[str, Callable[[Random, str], Talk]] = {
    "anthropic": AnthropicTalk,
    "openai_chat": ChatTalk,
    "openai_responses": ResponsesTalk,
    "gemini": GeminiTalk,
    "bedrock_converse": BedrockTalk,
}
MOST_TURNS = 5
"""Under Hypothesis: enough for old and new turns, few enough to draw."""


def history(wire: str, seed: int, turns: int) -> Body:
    """The last request of a session of so many turns. A turn begins with the user's words."""
    return _last(grow_from(wire, Random(seed), turns))


def grow(wire: str, seed: int, turns: int) -> Iterator[Body]:
    return grow_from(wire, Random(seed), turns)


def grow_from(wire: str, rng: Random, turns: int, model: str = "") -> Iterator[Body]:
    """With `model` the session is that model's; else the generator chooses."""
    talk: Talk = TALKS[wire](rng, model)
    story = Story(rng)
    for turn in range(turns):
        if turn:
            talk.reply(*story.reply())
        talk.ask(story.question())
        yield talk.body()
        for step in story.steps():
            talk.act(step)
            yield talk.body()


def bodies(wire: str, model: str = "") -> st.SearchStrategy[Body]:
    return sessions(wire, model).map(lambda session: session[-1])


def sessions(wire: str, model: str = "") -> st.SearchStrategy[list[Body]]:
    """All requests of one session, in order."""
    turns = st.integers(min_value=1, max_value=MOST_TURNS)
    return st.builds(
        lambda rng, length: list(grow_from(wire, rng, length, model)), st.randoms(use_true_random=False), turns
    )


def _last(requests: Iterator[Body]) -> Body:
    *_, last = requests
    return last
