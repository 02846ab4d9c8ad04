"""Regular expressions are linear: no text that a tool prints makes one of ours look at it over and over."""

import re

import pytest

from ebbtide.core.text.redact import redact
from ebbtide.facts.tool_calls import shell_actions
from ebbtide.summary.check import find_claims
from ebbtide.summary.sections import split_sections
from patterns import GENERIC, SIZES, Use, growth, steepness, uses


def test_the_work_of_every_pattern_grows_with_the_text_and_no_faster():
    every = uses()

    assert len(every) > 150, "patterns were not found"
    assert {use.where: told for use in every if (told := growth(use))} == {}


@pytest.mark.parametrize(
    ("pattern", "how"),
    [
        (r"\b[\w-]*password\s*=", "search"),
        (r"name\s*=?\s*\d", "search"),
        (r"^\s*\d+:", "search"),
        (r"\[[^\]]*\]$", "search"),
        (r"(?P<name>.+?)[ \t]*:?[ \t]*$", "match"),
        (r"x(?:a|ab|b)*?[a-z]*;", "fullmatch"),
    ],
)
def test_the_law_finds_what_is_not_linear(pattern, how):
    assert growth(Use("here", re.compile(pattern, re.MULTILINE), frozenset((how,))))


@pytest.mark.parametrize("pattern", [rb"<[a-z]*>", r"\w+\s*", r"(?<![\w-])[\w-]+:", r"\d{1,5}x"])
def test_the_check_accepts_linear_patterns(pattern):
    assert growth(Use("here", re.compile(pattern), frozenset(("search",)))) == ""


UNITS = (
    *GENERIC,
    "eyJ-",
    "a://",
    "password=",
    'secret="',
    "<<a",
    "<<a\n",
    "sk-",
    "/a@",
    "_a",
    ":0",
    "## a ",
    "-----BEGIN ",
)


@pytest.mark.parametrize(
    "reads",
    [redact, lambda text: list(find_claims(text)), split_sections, shell_actions],
    ids=["redact", "claims", "sections", "shell"],
)
def test_reading_foreign_text_takes_linear_time(reads):
    texts = {unit: [unit * (size // len(unit) + 1) for size in SIZES] for unit in UNITS}

    assert {unit: factor for unit, made in texts.items() if (factor := steepness(reads, made))} == {}
