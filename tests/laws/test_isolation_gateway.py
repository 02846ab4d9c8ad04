"""The same behind a gateway, which names no conversation: users of one key, whose conversations begin alike.

Every row that comes back is the one that was sent, or has a hash for which that very text can be retrieved.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given

from ebbtide import preset
from ebbtide.fronts.proxy import compressor
from ebbtide.fronts.proxy.compressor import Compressor
from ebbtide.fronts.proxy.sessions import EngineSettings
from ebbtide.policy import PRESETS
from ebbtide.store import MemoryStore
from laws.canaries import Body, marks, messages
from laws.interleaving import WINDOW, Side, operate
from laws.test_isolation import SEEDS, conversations, seeded
from laws.test_isolation_fronts import CHANGED

KEY, OTHER_KEY = "Bearer one-key-for-all", "Bearer the-key-of-another-gateway"


class Gateway:
    """What a gateway does with the compressor, and what must be true of each answer."""

    def __init__(self, policy: str) -> None:
        settings = EngineSettings(policy=preset(policy), window_for=lambda _: WINDOW, store=MemoryStore())
        self.compressor, self.issued = Compressor(settings), dict[str, tuple[str, str]]()
        """Each hash that was given out, with the key that got it and its text."""

    def send(self, side: Side, key: str, *, is_whole: bool) -> None:
        rows = messages("openai_chat", side.now)
        if not is_whole:  # as LiteLLM does, which keeps the model's messages back
            rows = [row for row in rows if row["role"] != "assistant"]
        answer = self.compressor.compress({"messages": rows, "model": "gpt-4.1"}, key)
        foreign = marks(answer) - marks(rows)
        assert not foreign, f"{side.label} gets what is not in its request: {sorted(foreign)[:6]}"
        hashes = [self.check_row(row, sent, key) for row, sent in zip(answer["messages"], rows, strict=True)]
        assert answer["ccr_hashes"] == [hash for hash in hashes if hash]

    def check_row(self, row: Body, sent: Body, key: str) -> str:
        """Return the hash in the row; "" if it came back whole."""
        if row == sent:
            return ""
        assert row["role"] == "tool", "only results are shortened"
        assert len(row["content"]) < len(sent["content"])
        assert {**row, "content": sent["content"]} == sent
        hash = row["content"].partition("hash=")[2][:24]
        assert self.compressor.retrieve(hash, key) == sent["content"]
        assert self.issued.setdefault(hash, (key, sent["content"])) == (key, sent["content"]), "one hash, one text"
        return hash


@pytest.mark.parametrize("session_digits", [8, 0], ids=["own sessions", "all names collide"])
@pytest.mark.parametrize("policy", PRESETS)
@seeded(60, quick=2)
@given(seed=SEEDS)
def test_users_behind_one_gateway_get_their_own_rows(policy: str, session_digits: int, seed: int) -> None:
    chance = random.Random(f"{policy} {seed}")
    scribe, *sides = conversations(chance)
    _, *others = conversations(chance)  # with the same call ids and other texts
    is_whole = chance.random() < 0.5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressor, "_SESSION_DIGITS", session_digits)
        gateway = Gateway(policy)
        for _ in range(24):
            side = chance.choice([*sides, *others])
            key = KEY if side in sides else OTHER_KEY
            if side.sent and chance.random() < 0.25:
                operate(None, side, chance.choice(CHANGED), scribe)  # type: ignore[arg-type]
            else:
                side.advance(chance.randint(2, 6))
            gateway.send(side, key, is_whole=is_whole)
        for hash, (key, _) in gateway.issued.items():
            assert gateway.compressor.retrieve(hash, OTHER_KEY if key == KEY else KEY) is None
