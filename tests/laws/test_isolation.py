"""No conversation ever reaches another, and none loses anything of its own, where both share one engine.

An example is one seed: its texts, its steps and their order follow from it, and a failure names it.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ebbtide.policy import PRESETS
from ebbtide.wire import WIRES
from laws.canaries import SLOTS, SYSTEM, ExchangeWriter, flat, marks
from laws.interleaving import OPERATIONS, Engine, Side, operate
from laws.trial import nightly

PROMPTS = (
    SYSTEM,
    SYSTEM + "It is 04:30.",
    SYSTEM + "It is 11:59.",
    SYSTEM * 20 + "You work for Ann.",
    SYSTEM * 20 + "You work for Bob.",
)
"""Equal, or other digits, or another end: an unnamed session was told by none of these."""
SEEDS = st.integers(0, 2**32)


def seeded(examples: int, *, quick: int) -> settings:
    """A smaller seed is no smaller example: none is looked for."""
    return settings(nightly(examples, quick=quick), phases=(Phase.explicit, Phase.generate))


def conversations(chance: random.Random, **sizes: int) -> tuple[ExchangeWriter, Side, Side]:
    """Two clients whose conversations begin alike."""
    scribe = ExchangeWriter(chance, **sizes)
    slots = [chance.choice(list(SLOTS)) for _ in range(chance.randint(5, 9))]
    first, second = scribe.pair(slots, is_shuffled=chance.random() < 0.3)
    prompts = chance.choice(((PROMPTS[0], PROMPTS[0]), (PROMPTS[1], PROMPTS[2]), (PROMPTS[3], PROMPTS[4])))
    return scribe, Side("a", flat(first), prompts[0]), Side("b", flat(second), prompts[1])


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", PRESETS)
@seeded(400, quick=2)
@given(seed=SEEDS)
def test_conversations_that_share_an_engine_never_meet(policy: str, wire: str, seed: int) -> None:
    chance = random.Random(f"{policy} {wire} {seed}")
    scribe, *sides = conversations(chance)
    engine = Engine(wire, policy, has_summarizer=chance.random() < 0.5)
    written = [marks(str(side.lines)) for side in sides]
    for _ in range(chance.randint(10, 26)):
        which = chance.randrange(2)
        side = sides[which]
        if side.sent and chance.random() < 0.4:
            operate(engine, side, chance.choice(OPERATIONS), scribe)
        else:
            side.advance(chance.randint(1, 5))
        written[which] |= marks(str(side.lines))
        engine.send(side)
    for which, side in enumerate(sides):
        if side.sent:
            engine.check_recall(side, sorted(written[1 - which]))
