"""Which lines of a text that leaves stay."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.preview import head_lines
from ebbtide.core.types import OURS
from ebbtide.ledger.telling import LONGEST, Telling, Texts
from talk import talk

LINES = st.lists(st.text(st.sampled_from("abcdefgh_/ .:"), max_size=60), max_size=30)


def count(text: str) -> int:
    return -(-len(text) // 4)


def test_lines_with_names_that_stand_nowhere_else_stay_in_their_order():
    text = "none here\nreading = level_above_datum\nsmall\ndef high_waters(week):\n"

    assert Telling().lines(text, count, 100) == "reading = level_above_datum\ndef high_waters(week):"


def test_a_name_that_the_conversation_says_elsewhere_is_no_reason_to_keep_a_line():
    told = Telling.beside(talk("user:look at high_waters", "call:Read high_tides.py"))

    assert told.lines("def high_waters(week):\ndef low_waters(week):", count, 100) == "def low_waters(week):"


def test_what_one_text_kept_the_next_does_not_keep_again():
    told = Telling()
    told.lines("def high_waters(week):", count, 100)

    assert told.lines("def high_waters(week):\nimport harmonics", count, 100) == "import harmonics"


def test_a_line_that_says_nothing_more_than_one_kept_before_it_goes():
    assert Telling().lines("high_waters low_waters\nlow_waters\nhigh_waters", count, 100) == "high_waters low_waters"


def test_the_line_with_the_most_names_for_its_length_comes_first():
    text = "a long line of small words that has but one identifier in it\nhigh_waters low_waters"

    assert Telling().lines(text, count, 8) == "high_waters low_waters"


def test_a_line_that_is_data_never_stays():
    assert Telling().lines("identifier " * LONGEST, count, 10_000) == ""


def test_a_preview_is_not_said_again_below_it():
    shown = Telling().after(head_lines(1), 100)("first_name\nfirst_name\nsecond_name", count)

    assert shown == "first_name\n[...]\nsecond_name"


@given(LINES, st.integers(min_value=0, max_value=60))
def test_what_stays_are_whole_lines_in_order_within_the_room(lines, most):
    kept = Telling().lines("\n".join(lines), count, most)

    rest = iter(lines)
    assert all(any(line == one for one in rest) for line in (kept.split("\n") if kept else ()))
    assert sum(count(line) + 1 for line in kept.split("\n")) <= most or not kept


NAMED = st.lists(st.sampled_from(["high_waters", "slack_waters:", "a/b/c.py 1234", "neap", "high_waters ebb_time"]))


@given(st.lists(NAMED, min_size=3, max_size=6), st.integers(0, 400), st.integers(0, 12))
def test_what_was_read_before_changes_no_line(texts, room, most):
    """Of some texts all is known, of some nothing, and some were let go."""
    entries = talk("user:look at low_waters", *(f"result:{chr(10).join(lines)}" for lines in texts))
    known = Texts()
    known.read(entries, "first", count, room)
    known.read(entries[::2], "second", count, 0)
    told, plain = Telling.beside(entries[:2], known), Telling.beside(entries[:2])

    assert told.visible == plain.visible
    for entry in entries:
        assert told.lines(entry.text, count, most) == plain.lines(entry.text, count, most)


def test_a_text_is_read_once_and_let_go_when_it_left():
    entries = talk("user:look", "result:high_waters", "result:low_waters")
    known, counted = Texts(), []

    def counting(text):
        counted.append(text)
        return count(text)

    for _ in range(3):
        known.read(entries, "the same", counting, 1_000)
    assert counted == ["high_waters", "low_waters"]

    known.read(entries[:2], "another", counting, 1_000)
    assert list(known.rows) == ["high_waters"]
    assert counted == ["high_waters", "low_waters"], "what stayed is not read again"


def test_what_an_earlier_batch_left_of_a_result_is_read_for_its_names_alone():
    user, result = talk("user:look", "result:high_waters")
    known = Texts()

    known.read([user, replace(result, source=OURS)], "the same", count, 1_000)

    assert not known.rows
    assert known.names["high_waters"] == ("high_waters",)


def test_a_turn_reads_no_more_texts_than_it_has_room_for():
    entries, known = talk(*(f"result:{n} high_waters" for n in range(9))), Texts()

    known.read(entries, "the same", count, entries[0].tokens)

    assert len(known.rows) == 1
