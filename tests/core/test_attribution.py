"""What edits gain, added up the short way and the plain way: each edit looked at in each call."""

import math

from hypothesis import given
from hypothesis import strategies as st

from bytecode_count import count_bytecodes
from ebbtide.accounting.attribution import Attribution, CallEffect
from ebbtide.accounting.calls import EditCost


def changes(tokens: list[int]) -> list[EditCost]:
    return [EditCost(id=f"x{n}", batch="p1", by="a", reason="r", call=1, tokens=one) for n, one in enumerate(tokens)]


def plainly(tokens: list[int], steps: list[CallEffect]) -> list[dict]:
    """The definition: for every call, every edit that has to do with it."""
    rows = [{"expected": 0.0, "sure": 0.0, "billed": 0.0, "calls": 0, "balance": []} for _ in tokens]
    held = set[int]()
    for number, step in enumerate(steps, 1):
        held = (held | set(step.entered)) - set(step.left)
        gains = {n: tokens[n] * step.each for n in held} | dict(step.own)
        weights = {n: max(1, tokens[n]) for n in (step.blamed or gains)}
        for n, gain in gains.items():
            row = rows[n]
            row["expected"] += gain
            row["calls"] += n in held
            if step.drift is not None:
                row["sure"] += gain
                row["billed"] += gain + step.drift * weights.get(n, 0) / sum(weights.values())
            row["balance"].append((number, row["billed"] + row["expected"] - row["sure"]))
    return rows


@st.composite
def sessions(draw) -> tuple[list[int], list[CallEffect]]:
    """Edits are made, taken back, brought back, and lost with a branch; bills come or do not."""
    tokens = draw(st.lists(st.sampled_from([-700, -3, 0, 0, 1, 40, 900, 5_000]), min_size=1, max_size=6))
    steps, held, made = list[CallEffect](), set[int](), set[int]()
    for _ in range(draw(st.integers(1, 30))):
        new = {n for n in range(len(tokens)) if n not in made and draw(st.integers(0, 5)) == 0}
        flips = {n for n in made if draw(st.integers(0, 9)) == 0}
        made |= new
        entered, left = sorted((new | flips) - held), sorted(flips & held)
        held = (held | set(entered)) - set(left)
        own = {n: draw(st.integers(-9_000, 900)) / 8 for n in sorted(new | flips) if n in new or draw(st.booleans())}
        drift = draw(st.sampled_from([None, 0.0, -64.0, -2_048.0, 512.0])) if held or own else None
        blamed = [n for n in sorted(new) if draw(st.booleans())]
        each = draw(st.sampled_from([0.125, 1.25]))
        steps.append(CallEffect(each=each, own=own, drift=drift, blamed=blamed, entered=entered, left=left))
    return tokens, steps


@given(sessions())
def test_it_is_what_looking_at_every_edit_in_every_call_gives(session):
    tokens, steps = session
    tally = Attribution(changes(tokens))
    for step in steps:
        tally.take(step)

    for row, plain in zip(tally.finish(), plainly(tokens, steps), strict=True):
        assert row.calls == plain["calls"]
        for name in ("expected", "sure", "billed"):
            assert math.isclose(getattr(row, name), plain[name], rel_tol=1e-9, abs_tol=1e-6)
        # A balance of zero but for rounding is on either side of it.
        low = [number for number, balance in plain["balance"] if balance < -1e-6]
        lowest = [number for number, balance in plain["balance"] if balance < 1e-6]
        later = [number for number, _ in plain["balance"]]
        answers = {next((n for n in later if n > last), None) for last in (max(low, default=0), max(lowest, default=0))}
        if len(answers) == 1:
            assert row.paid in answers


def test_the_work_grows_with_the_session_and_not_with_its_square():
    def session(calls: int) -> None:
        tally = Attribution(changes([900] * calls))
        for n in range(calls):
            tally.take(CallEffect(each=0.1, own={n: -40.0}, drift=-5.0, blamed=[], entered=[n], left=[]))
        assert tally.finish()[0].calls == calls

    assert count_bytecodes(lambda: session(800)) < 5 * count_bytecodes(lambda: session(200))
