"""What is read ahead is what would be read at once, whatever happened to the conversation in between."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.types import Item
from ebbtide.ledger import ReadAhead, ledger_of
from ledger.ledger_items import says, used, user

_LONG = "src/app/handle_request_{n}.py " * 900
"""About six thousand tokens: three of them are a tail, one is more than what a turn has to read."""


def _talk(turns: int, more: str = "") -> list[Item]:
    """Each exchange with a large result, so that there is something behind the tail."""
    items = [user(f"never touch migrations/0001_init.py{more}")]
    for n in range(turns):
        items.append(says(f"Next I look at module_{n}_loader.py, since parse_row_{n} fails. Then handle_{n}_request."))
        call, result = used("Bash", {"command": f"go test ./pkg{n}"}, _LONG.format(n=n), id=f"c{n}", error=n % 3 == 0)
        items += [call, replace(result, tokens=6_000)]
    return items


@given(st.lists(st.integers(0, 14), max_size=8), st.integers(0, 40), st.sampled_from([0, 6_000, 200_000]))
def test_reading_ahead_changes_no_ledger(lengths: list[int], stop: int, left: int) -> None:
    """Longer and shorter again, as where a person goes back; also where a fold ends before what was read."""
    whole, ahead = _talk(14), ReadAhead()

    for length in lengths:
        ahead.read(whole[: 1 + 3 * length], left=left)

    assert ahead.ledger(whole[:stop]) == ledger_of(whole[:stop])
    assert ahead.ledger(whole) == ledger_of(whole)


def test_a_ledger_that_was_given_does_not_grow_with_the_next_one() -> None:
    whole, ahead = _talk(8), ReadAhead()
    first = ahead.ledger(whole[:10])

    ahead.ledger(whole)

    assert first == ledger_of(whole[:10])


def test_another_conversation_is_read_from_its_beginning() -> None:
    """A client that rewrote its history, or another branch: nothing of the first is left in the second."""
    one, other, ahead = _talk(12), _talk(12, more=" nor settings.toml"), ReadAhead()
    for _ in range(10):
        ahead.read(one, left=0)

    assert ahead.ledger(other) == ledger_of(other)
    _, watched, looked = _watched(other)
    for _ in range(30):
        ahead.read(watched, left=0)
    looked.clear()
    assert ahead.ledger(watched) == ledger_of(other)
    assert min(looked) > 20, "what was read ahead is not read again"


def test_a_turn_reads_little_and_never_the_tail() -> None:
    """What is read is looked at by what a ledger then has to take: items it has read are not asked for their text."""
    ahead, watched, looked = _watched(_talk(14))

    ahead.read(watched, left=1 << 30)
    first = len(set(looked))
    for _ in range(20):
        ahead.read(watched, left=1 << 30)

    assert first == 4, "the user's words and one exchange: its result is more than what a turn has to read"
    assert max(looked) == 35, "up to the result before the newest 16,000 tokens"


def test_what_is_behind_is_read_faster_when_a_fold_is_near() -> None:
    """Two exchanges came since the last turn. There is time for sixty more, or the fold comes with the next."""
    read = {}
    for left in (400_000, 1_000):
        ahead, watched, looked = _watched(_talk(14))
        ahead.read(watched[:37], left=left)
        looked.clear()
        ahead.read(watched, left=left)
        read[left] = len({n for n in looked if n % 3 == 0})

    assert read == {400_000: 1, 1_000: 3}, "3,000 tokens or 16,000, and what is left of an item"


def test_a_fold_with_a_longer_tail_goes_on_from_a_copy() -> None:
    """What is read cannot be unread. Of the newest results some are so large that the fold ends before them."""
    whole = _talk(14)
    ahead, watched, looked = _watched(whole)
    for length in range(4, 44, 3):
        ahead.read(watched[:length], left=0)
    looked.clear()

    assert ahead.ledger(watched[:25]) == ledger_of(whole[:25]), "six results stay, more than thirty thousand tokens"
    assert min(looked) > 12, "what was read long before is not read again"
    assert ahead.ledger(watched) == ledger_of(whole), "and what was read ahead is still known"


def _watched(items: list[Item]) -> tuple[ReadAhead, tuple[Item, ...], list[int]]:
    looked: list[int] = []
    return ReadAhead(), tuple(_Watched(item, n, looked) for n, item in enumerate(items)), looked  # type: ignore[misc]


class _Watched:
    """An item that notes when its text is read."""

    def __init__(self, item: Item, n: int, looked: list[int]) -> None:
        self._item, self._n, self._looked = item, n, looked

    def __getattr__(self, name: str) -> object:
        if name == "text":
            self._looked.append(self._n)
        return getattr(self._item, name)
