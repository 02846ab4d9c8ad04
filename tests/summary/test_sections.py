"""Two summaries become one without a model, and one becomes shorter."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.summary.sections import join_sections, merge_summaries, shorten_summary, split_sections

PRIOR = "## Intent\n- Build a parser.\n\n## Decisions\n- Use SQLite.\n- No cache.\n\n## Current\n- Writing tests.\n\n## Next\n- Lint."
NEW = "## Intent\nN/A\n\n## Decisions\n- Use  sqlite.\n- Drop Python 3.9.\n\n## Current\n- Releasing."


def tokens(text: str) -> int:
    return len(text) // 4


def test_lasting_sections_are_carried_on_and_passing_ones_are_replaced():
    assert merge_summaries(PRIOR, NEW, max_tokens=10_000, count=tokens) == (
        "## Intent\n- Build a parser.\n\n## Decisions\n- No cache.\n- Use  sqlite.\n- Drop Python 3.9.\n\n## Current\n- Releasing."
    )


def test_without_an_earlier_summary_the_new_one_is_used():
    assert merge_summaries("", NEW, max_tokens=10_000, count=tokens) == NEW


def test_numbered_headings_are_the_same_sections():
    merged = merge_summaries(
        "1. Pending Tasks:\n- Old.\n\n2. Key Facts:\n- A.",
        "## Pending tasks\n- New.\n\n2. Key Facts:\n- B.",
        max_tokens=999,
        count=tokens,
    )

    assert merged == "## Pending tasks\n- New.\n\n2. Key Facts:\n- A.\n- B."


def test_text_without_headings_is_joined_line_by_line():
    assert merge_summaries("It began.", "It went on.", max_tokens=999, count=tokens) == "It began.\nIt went on."


def test_twenty_compactions_do_not_grow_the_summary():
    """`|S_n| <= cap`, however often; the newest is always there."""
    told = ""
    for n in range(50):
        told = merge_summaries(
            told,
            f"## Decisions\n- Decision {n}, about {'this ' * 20}.\n\n## Next\n- Step {n}.",
            max_tokens=400,
            count=tokens,
        )
        assert tokens(told) <= 400
        assert f"- Step {n}." in told
        assert f"- Decision {n}," in told


def test_a_heading_inside_code_is_no_heading():
    (only,) = split_sections("## Files\n```\n# not one\n```")

    assert only.lines == ("```", "# not one", "```")


line = st.sampled_from(["## A", "## B", "## Next", "- one", "- two two two", "", "N/A", "prose here."])


@given(st.lists(line, max_size=30).map("\n".join), st.lists(line, max_size=30).map("\n".join), st.integers(5, 60))
def test_nothing_is_reworded_and_the_cap_holds(prior, new, cap):
    merged = merge_summaries(prior, new, max_tokens=cap, count=tokens)

    assert set(merged.split("\n")) <= {*prior.split("\n"), *new.split("\n"), ""}
    assert tokens(merged) <= cap


@given(st.lists(line, max_size=30).map("\n".join))
def test_sections_are_the_text(text):
    assert [one for one in join_sections(split_sections(text)).split("\n") if one] == [
        one for one in text.split("\n") if one
    ]
    assert shorten_summary(text, max_tokens=10_000, count=tokens) == text


def test_a_summary_of_two_thousand_sections_is_counted_a_few_times_and_not_once_for_each():
    text = "\n".join(f"# h{n}\n- a b c" for n in range(2_000))
    counted = []

    def count(words):
        counted.append(len(words))
        return len(words) // 4

    short = shorten_summary(text, max_tokens=50, count=count)

    assert 0 < len(short) // 4 <= 50
    assert len(counted) < 40


def test_a_heading_with_many_blanks_in_it_is_read_at_once():
    """With a pattern that tries where the blanks end, this takes hours."""
    text = "# a" + " " * 100_000 + "b\nwords"

    (one,) = split_sections(text)

    assert one.lines == ("words",)
    assert one.key.startswith("a ")
