"""What a rule picks is the same whether a view grew or was made at once, whatever its last messages came back as."""

from dataclasses import replace
from random import Random

import pytest

from ebbtide.core.types import Item
from ebbtide.core.view import View


def item(n):
    kind = "result" if n % 3 else "text"
    return Item(id=f"e1-{n}", message=n, role="tool" if n % 3 else "user", kind=kind, text=f"word {n}", tokens=n % 7)


def is_result(entry):
    return entry.kind == "result"


def picked(view):
    found = view.picked("results", is_result)
    return list(found.places), list(found.entries), list(found.tokens)


def alone(view):
    places = [n for n, entry in enumerate(view.entries) if is_result(entry)]
    tokens = [sum(view.entries[one].tokens for one in places[: n + 1]) for n in range(len(places))]
    return places, [view.entries[n] for n in places], tokens


@pytest.mark.parametrize("seed", range(20))
def test_a_view_that_grew_picks_what_a_new_one_picks(seed):
    rng = Random(seed)
    view = View.of([item(n) for n in range(40)])
    for _ in range(30):
        back = rng.choice([0, 0, 1, 3, 30])
        kept = max(0, len(view.items) - back)
        # The client moved its marks: the last ones come back as other objects with the same content.
        again = tuple(replace(one) for one in view.items[kept:])
        new = tuple(item(len(view.items) + n) for n in range(rng.randrange(5)))
        view = view.regrow(kept, view.items[:kept] + again + new)
        if rng.random() < 0.7:
            places, entries, tokens = picked(view)
            assert (places, tokens) == alone(view)[::2]
            assert all(one is two for one, two in zip(entries, alone(view)[1], strict=True))


def test_a_branch_that_was_left_is_forgotten():
    stem = View.of([item(n) for n in range(30)])
    picked(stem)
    one = stem.extend([item(n) for n in range(30, 60)])
    assert picked(one) == alone(one)

    other = stem.extend([item(n) for n in range(100, 131)])

    assert picked(other) == alone(other)
    assert picked(stem) == alone(stem)


def told():
    """A rule, and whom it was asked about."""
    asked = []

    def rule(entry):
        asked.append(entry.id)
        return is_result(entry)

    return asked, rule


def test_only_what_is_new_is_asked_about():
    asked, rule = told()
    view = View.of([item(n) for n in range(50)])
    view.picked("results", rule)
    asked.clear()

    grown = view.extend([item(50), item(51)])
    grown.picked("results", rule)
    grown.picked("results", rule)

    assert asked == ["e1-50", "e1-51"]


def test_where_the_last_came_back_as_other_objects_only_the_end_is_asked_about():
    asked, rule = told()
    view = View.of([item(n) for n in range(200)])
    view.picked("results", rule)
    asked.clear()

    view.regrow(198, view.items[:198] + tuple(replace(one) for one in view.items[198:])).picked("results", rule)

    assert 2 <= len(asked) < 40
