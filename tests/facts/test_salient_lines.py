"""Which lines of a cleared text are kept."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.text.preview import head_lines
from ebbtide.facts.names import MAX_LINE_CHARS, SalientLines
from talk import talk

LINES = st.lists(st.text(st.sampled_from("abcdefgh_/ .:"), max_size=60), max_size=30)


def count(text: str) -> int:
    return -(-len(text) // 4)


def test_lines_with_names_found_nowhere_else_are_kept_in_order():
    text = "none here\nreading = level_above_datum\nsmall\ndef high_waters(week):\n"

    assert SalientLines().select(text, count, 100) == "reading = level_above_datum\ndef high_waters(week):"


def test_a_line_is_not_kept_for_a_name_found_elsewhere():
    salient = SalientLines.beside_entries(talk("user:look at high_waters", "call:Read high_tides.py"))

    assert salient.select("def high_waters(week):\ndef low_waters(week):", count, 100) == "def low_waters(week):"


def test_a_name_is_kept_once_over_several_texts():
    salient = SalientLines()
    salient.select("def high_waters(week):", count, 100)

    assert salient.select("def high_waters(week):\nimport harmonics", count, 100) == "import harmonics"


def test_a_line_without_new_names_is_dropped():
    assert (
        SalientLines().select("high_waters low_waters\nlow_waters\nhigh_waters", count, 100) == "high_waters low_waters"
    )


def test_the_line_with_the_most_names_for_its_length_is_first():
    text = "a long line of small words that has but one identifier in it\nhigh_waters low_waters"

    assert SalientLines().select(text, count, 8) == "high_waters low_waters"


def test_a_very_long_line_is_never_kept():
    assert SalientLines().select("identifier " * MAX_LINE_CHARS, count, 10_000) == ""


def test_lines_below_a_preview_do_not_repeat_it():
    shown = SalientLines().extend_preview(head_lines(1), 100)("first_name\nfirst_name\nsecond_name", count)

    assert shown == "first_name\n[...]\nsecond_name"


@given(LINES, st.integers(min_value=0, max_value=60))
def test_complete_lines_are_kept_in_order_within_the_limit(lines, most):
    kept = SalientLines().select("\n".join(lines), count, most)

    rest = iter(lines)
    assert all(any(line == one for one in rest) for line in (kept.split("\n") if kept else ()))
    assert sum(count(line) + 1 for line in kept.split("\n")) <= most or not kept
