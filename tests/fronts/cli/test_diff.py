"""The diff of an edit is the one that difflib makes, whatever is on either side; only the work is less."""

from difflib import unified_diff

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.fronts.cli.diff import _rows, _unified

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "", "}"]), max_size=14)
OTHERS = st.lists(st.sampled_from(["a", "b", "", "}", *map(str, range(8))]), max_size=30)


@given(OTHERS, LINES, st.integers(0, 40), st.integers(0, 40))
def test_the_diff_is_difflibs_and_any_part_of_it_can_be_computed_alone(before, after, start, more):
    whole = list(unified_diff(before, after, n=1, lineterm=""))[2:]
    runs = list(_unified(before, after))

    assert list(_rows(runs, 0, sum(run.stop - run.start for run in runs))) == whole
    assert list(_rows(runs, start, start + more)) == whole[start : start + more]


def test_popular_lines_are_matched_as_difflib_does():
    """From two hundred lines on difflib passes over those that occur often."""
    after = [f"{n % 7}" if n % 3 else f"line {n}" for n in range(240)]
    before = [f"gone {n}" if n % 4 else after[n % 240] for n in range(2_000)]

    runs = list(_unified(before, after))

    assert list(_rows(runs, 0, 10_000)) == list(unified_diff(before, after, n=1, lineterm=""))[2:]
