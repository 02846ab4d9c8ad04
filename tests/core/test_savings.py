"""A conversation and its provider in miniature: both bills are known exactly here, so what is told can be held to them."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytecode_count import count_bytecodes
from ebbtide.accounting.savings import Tariff, compute_savings, relative_tariff
from ebbtide.state.session_state import ebb_record

MODEL, READ, WRITE = "claude-sonnet-4-5", 0.1, 1.25
FIXED = 5_000  # system prompt and tools


@dataclass
class Provider:
    """Keeps the prefix of every request for five minutes. Knows nothing of edits, or of our code."""

    kept: list = field(default_factory=list)

    def bill(self, blocks: list[tuple[str, int]], at: float) -> tuple[int, int]:
        warm = [old for old, when in self.kept if at - when < 300]
        read = max((self.shared(old, blocks) for old in warm), default=0)
        self.kept.append((list(blocks), at))
        return read, sum(tokens for _, tokens in blocks) - read

    @staticmethod
    def shared(old: list[tuple[str, int]], new: list[tuple[str, int]]) -> int:
        read = 0
        for one, other in zip(old, new, strict=False):
            if one != other:
                break
            read += one[1]
        return read


@dataclass
class Talk:
    """Writes the records that a session would, with an estimator that is exact."""

    records: list = field(default_factory=list)
    said: list = field(default_factory=list)
    stubs: dict = field(default_factory=dict)
    """From a place to the stub that stands there."""
    ours: Provider = field(default_factory=Provider)
    raw: Provider = field(default_factory=Provider)
    at: float = 0.0
    turn: int = 0
    sent: list = field(default_factory=list)
    paid: float = 0.0
    untouched: float = 0.0

    def view(self) -> list[tuple[str, int]]:
        return [("fixed", FIXED), *(self.stubs.get(n, one) for n, one in enumerate(self.said))]

    def call(self, new: int, clear: tuple[int, ...] = (), pause: float = 10.0, bill=None, usage: bool = True) -> None:
        self.turn, self.at = self.turn + 1, self.at + pause
        self.said.append((f"m{len(self.said)}", new))
        uuid = f"u{len(self.said) - 1}"
        self.records.append({"uuid": uuid, "type": "user", "ebbids": [self.said[-1][0]]})
        before = self.view()
        warm = len(self.sent) if self.sent and pause < 300 else 0
        if clear:
            self.plan(before, clear, warm)
        out = self.view()
        same = next(
            (n for n, (a, b) in enumerate(zip(self.sent, out, strict=False)) if a != b), min(len(self.sent), len(out))
        )
        links = [str(hash(tuple(out[: n + 1]))) for n in range(len(out))]
        self.records.append(
            ebb_record("turn", at=self.at, base=len(self.said) - 1, add=[uuid], wire="anthropic", model=MODEL, system="s", tools="t",
                out_base=same, out_add=links[same:], tokens=sum(t for _, t in before), estimated=sum(t for _, t in out),
                marks=[len(out) - 1], ttl=300.0)
        )  # fmt: skip
        self.sent = out
        read, write = (bill or self.ours.bill)(out, self.at)
        raw_read, raw_write = self.raw.bill([("fixed", FIXED), *self.said], self.at)
        self.paid += READ * read + WRITE * write
        self.untouched += READ * raw_read + WRITE * raw_write
        if usage:
            self.records.append(
                ebb_record(
                    "usage",
                    turn=self.turn,
                    model=MODEL,
                    estimated=read + write,
                    input=0,
                    cache_read=read,
                    cache_write=write,
                    output=50,
                )
            )

    def plan(self, before, clear, warm) -> None:
        edits, fresh = [], []
        for n, place in enumerate(clear):
            name, tokens = self.said[place]
            self.stubs[place] = (f"stub of {name}", 20)
            edits.append(
                {
                    "id": f"x{self.turn}.{n}",
                    "by": "clear_results",
                    "first": name,
                    "last": name,
                    "reason": "old",
                    "saved": tokens - 20,
                }
            )
            fresh += [n] if place + 1 >= warm else []
        old = [place for n, place in enumerate(clear) if n not in fresh]
        first = min(old, default=0)
        after = sum(t for n, (_, t) in enumerate(before[:warm]) if old and n > first and n - 1 not in old)
        self.records.append(
            ebb_record("plan", id=f"p{self.turn}", turn=self.turn, at=self.at, edits=edits, situation={"warm": warm},
                moved={"after": after, "put": 20 * len(old), "fresh": fresh})
        )  # fmt: skip

    @property
    def saved(self) -> float:
        return self.untouched - self.paid


def long_talk(*, clear_at: int = 12, calls: int = 30, **more) -> Talk:
    talk = Talk()
    for n in range(calls):
        talk.call(4_000, clear=tuple(range(8)) if n == clear_at else (), **more)
    return talk


def test_savings_are_what_the_unedited_conversation_would_have_cost_more():
    talk = long_talk()
    savings = compute_savings(talk.records)

    assert talk.saved > 0
    assert savings.claimed == pytest.approx(talk.saved)
    assert savings.total_cost == pytest.approx(talk.paid)
    assert sum(line.untouched for line in savings.calls) == pytest.approx(talk.untouched)


def test_an_edit_that_has_not_paid_yet_is_a_loss_and_says_when_it_breaks_even():
    early = compute_savings(long_talk(calls=14).records)
    (entry, *_) = early.edits

    assert early.claimed < 0
    assert entry.paid_since is None
    assert entry.break_even_calls == pytest.approx((1.15 * (5 * 4_000 + 160 - 4_000)) / (0.1 * 8 * 3_980), rel=0.3)


def test_content_that_was_never_sent_is_free_to_change():
    talk = Talk()
    talk.call(4_000)
    talk.call(50_000, clear=(1,))
    (entry,) = compute_savings(talk.records).edits

    assert entry.claimed == pytest.approx(1.25 * 49_980) == pytest.approx(talk.saved)
    assert (entry.break_even_calls, entry.paid_since) == (0, 2)


def test_break_even_is_reached_at_the_call_that_the_formula_names():
    talk = long_talk(calls=60)
    savings = compute_savings(talk.records)
    entry = savings.edits[0]

    assert entry.paid_since == entry.edit.call - 1 + -(-entry.break_even_calls // 1)


TALKS = st.lists(
    st.tuples(
        st.integers(2_000, 9_000), st.lists(st.integers(0, 30), max_size=4), st.sampled_from([5.0, 5.0, 5.0, 400.0])
    ),
    min_size=2,
    max_size=25,
)


def told_talk(steps, **more) -> Talk:
    talk = Talk()
    for new, clear, pause in steps:
        there = [n for n in dict.fromkeys(clear) if n < len(talk.said) + 1 and n not in talk.stubs]
        talk.call(new, clear=tuple(there), pause=pause, **more)
    return talk


@given(TALKS)
def test_on_any_conversation_it_is_the_difference_of_the_two_bills(steps):
    """Cold caches, several batches, edits of what was never sent: the model agrees with a provider that knows nothing of it."""
    talk = told_talk(steps)
    savings = compute_savings(talk.records)

    assert savings.expected == pytest.approx(talk.saved, abs=1)
    assert savings.claimed == pytest.approx(talk.saved, abs=1)


@given(TALKS, st.lists(st.integers(0, 6_000), min_size=25, max_size=25), st.booleans())
def test_the_books_close(steps, misses, dollars):
    """Whatever is billed: edits add up to the session, expected and drift to the bill, and no more is told than billed."""
    talk, missed = Talk(), iter(misses)

    def dropping(blocks, at):
        read, write = talk.ours.bill(blocks, at)
        lost = min(read, next(missed))
        return read - lost, write + lost

    for new, clear, pause in steps:
        there = [n for n in dict.fromkeys(clear) if n < len(talk.said) + 1 and n not in talk.stubs]
        talk.call(new, clear=tuple(there), pause=pause, bill=dropping)
    tariffs = (
        (lambda model, ttl, prompt: Tariff(input=3e-6, read=3e-7, write=3.75e-6, output=15e-6))
        if dollars
        else relative_tariff
    )
    savings = compute_savings(talk.records, tariffs)

    assert sum(entry.claimed for entry in savings.edits) - savings.unused_answers == pytest.approx(savings.claimed)
    assert sum(entry.expected for entry in savings.edits) - savings.unused_answers == pytest.approx(savings.expected)
    assert sum(line.expected for line in savings.calls) + savings.drift == pytest.approx(savings.total_cost)
    assert savings.claimed <= savings.expected + 1e-9
    assert savings.billed is None or savings.claimed <= savings.billed + 1e-9


def test_a_bill_that_shows_a_smaller_saving_is_believed():
    """The provider drops the cache after our edit, and had not before: that is ours until shown otherwise."""
    talk = Talk()
    for n in range(30):
        cold = (lambda blocks, at: (0, sum(t for _, t in blocks))) if n > 12 else None
        talk.call(4_000, clear=tuple(range(8)) if n == 12 else (), bill=cold)
    savings = compute_savings(talk.records)

    assert savings.expected > 0 > savings.claimed == savings.billed
    assert savings.drift > 0


def test_a_cache_that_always_missed_a_part_is_not_blamed_on_the_edits():
    talk = Talk()

    def lossy(blocks, at):
        read, write = talk.ours.bill(blocks, at)
        return read - read // 10, write + read // 10

    for n in range(30):
        talk.call(4_000, clear=tuple(range(8)) if n == 12 else (), bill=lossy)
    savings = compute_savings(talk.records)

    assert savings.cache_hit_share == pytest.approx(0.9, abs=0.01)
    assert savings.claimed == pytest.approx(savings.expected), (
        "and not more, though the untouched one would have missed more"
    )


def test_without_edits_nothing_is_saved_whatever_the_bills():
    talk = Talk()
    for _ in range(8):
        talk.call(4_000, bill=lambda blocks, at: (0, sum(t for _, t in blocks)))
    savings = compute_savings(talk.records)

    assert (savings.claimed, savings.billed, savings.expected, savings.edits) == (0, None, 0, ())
    assert {line.saved for line in savings.calls} == {0}
    assert savings.drift > 0


def test_calls_without_a_bill_are_estimated_and_reported_separately():
    talk = Talk()
    for n in range(30):
        talk.call(4_000, clear=tuple(range(8)) if n == 12 else (), usage=n < 20)
    savings = compute_savings(talk.records)
    unbilled = compute_savings([record for record in talk.records if record.get("kind") != "usage"])

    assert savings.bill_count == 20
    assert savings.pending > 0
    assert savings.claimed + savings.pending == pytest.approx(savings.expected)
    assert unbilled.billed is None
    assert unbilled.claimed == unbilled.expected > 0


def test_an_undone_edit_saves_no_more_and_its_restoration_is_charged():
    talk = long_talk(calls=20)
    before = compute_savings(talk.records).expected
    talk.records.append(ebb_record("undo", batch="p13", at=talk.at))
    talk.stubs.clear()
    for _ in range(5):
        talk.call(4_000)
    savings = compute_savings(talk.records)

    assert savings.edits[0].is_undone
    assert savings.edits[0].calls == 8
    assert savings.expected == pytest.approx(talk.saved, rel=0.1)
    assert savings.expected < before


def test_an_edit_holds_only_on_branches_that_have_what_it_changed():
    talk = long_talk(calls=20)
    calls = compute_savings(talk.records).edits[0].calls
    talk.records.append(ebb_record("turn", at=talk.at + 5, base=1, add=[], wire="anthropic", model=MODEL, system="s", tools="t",
                            out_base=1, out_add=[], tokens=9_000, estimated=9_000, marks=[0], ttl=300.0))  # fmt: skip
    savings = compute_savings(talk.records)

    # The first result is still there, its edit's `last` too; all others are on the branch that was left.
    assert [entry.calls - calls for entry in savings.edits] == [1, 0, 0, 0, 0, 0, 0, 0]


def test_a_compaction_pays_for_the_answers_before_it_and_unused_answers_are_reported_separately():
    asked = ebb_record("answer", key="k", usage={"input": 1_000, "cache_read": 20_000, "output": 600})
    fold = ebb_record("plan", id="p2", edits=[{"id": "x", "by": "summarize", "first": "m0", "last": "m0", "saved": 30_000}],
               situation={"warm": 1}, moved={"after": 0, "put": 500, "fresh": []})  # fmt: skip
    talk = Talk()
    talk.call(40_000)
    talk.records += [asked, fold]
    talk.call(100)
    talk.records.append(asked)
    savings = compute_savings(talk.records)
    cost = 1_000 + 0.1 * 20_000 + 5 * 600

    assert savings.unused_answers == pytest.approx(cost)
    assert savings.expected == pytest.approx(savings.edits[0].expected - cost)
    assert savings.edits[0].expected == pytest.approx(0.1 * 30_000 - 1.15 * 500 - cost)


def test_a_client_without_a_cache_saves_every_token_at_full_price():
    talk = Talk()
    for n in range(20):
        talk.call(4_000, clear=tuple(range(8)) if n == 12 else (), usage=False)
    for record in talk.records:
        record.pop("marks", None)
    savings = compute_savings(talk.records)

    assert savings.expected == pytest.approx(8 * 8 * 3_980)
    assert savings.edits[0].break_even_calls == 0


def test_a_log_that_does_not_record_what_moved_is_counted_as_the_worst_case():
    talk = long_talk()
    exact = compute_savings(talk.records).expected
    for record in talk.records:
        record.pop("moved", None)

    assert compute_savings(talk.records).expected < exact


def test_an_edit_is_active_again_when_its_original_returns():
    """The client goes back, and then sends what it had left out, as it was."""
    talk = long_talk(calls=20)
    calls, last = compute_savings(talk.records).edits[-1].calls, talk.records[-2]
    uuids = [str(record["uuid"]) for record in talk.records if record.get("uuid")]
    talk.records.append({**last, "at": talk.at + 5, "base": 1, "add": []})
    talk.records.append({**last, "at": talk.at + 9, "base": 1, "add": uuids[1:]})
    savings = compute_savings(talk.records)

    assert last["kind"] == "turn"
    assert savings.edits[-1].calls == calls + 1
    assert savings.edits[0].calls == calls + 2


def test_books_cost_what_the_session_is_long_and_not_its_square():
    """An edit with every call: all of them hold in all that follow."""

    def session(calls: int) -> list:
        talk = Talk()
        for n in range(calls):
            talk.call(3_000, clear=(n - 1,) if n else ())
        return talk.records

    short, long = session(60), session(240)

    assert len(compute_savings(long).edits) == 239
    assert count_bytecodes(lambda: compute_savings(long)) < 5 * count_bytecodes(lambda: compute_savings(short))
