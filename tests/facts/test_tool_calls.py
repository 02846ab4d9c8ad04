"""The key lines of an output say how the call ended."""

import pytest

from ebbtide.facts.tool_calls import find_key_lines

WRONG = (
    *("error", "errors", "fatal", "panic", "exception", "traceback", "fail", "fails", "failure", "undefined", "cannot"),
    *(
        "denied",
        "not found",
        "refused",
        "conflict",
        "unexpected",
        "invalid",
        "no such",
        "TypeError",
        "✗",
        "错误",
        "失败",
    ),
    *("异常", "找不到", "无法", "INVALID", "refu\u017fed", "den\u0131ed"),
)
RIGHT = (
    "passed",
    "succeeded",
    "success",
    "0 errors",
    "0 failed",
    "0 issues",
    "(pass)",
    "✓",
    "通过",
    "成功",
    "pa\u017fsed",
)


@pytest.mark.parametrize("word", [*WRONG, *RIGHT])
def test_the_line_that_says_how_a_command_ended_is_kept_with_the_last(word):
    assert find_key_lines(f"it began\nhere it was: {word} at 7\nit went on\nthe end") == (
        f"here it was: {word} at 7",
        "the end",
    )


@pytest.mark.parametrize("line", ["E  assert 1", "ok 12", "PASS one"])
def test_some_words_count_only_at_the_start_of_a_line(line):
    expected = " ".join(line.split())

    assert find_key_lines(f"it began\n{line}\nthe end") == (expected, "the end")
    assert find_key_lines(f"it began\nand {line}\nthe end") == ("it began", "the end")


def test_the_first_error_is_listed_before_the_last_success():
    text = "1 passed\n2 errors\n3 errors\n4 passed, 0 errors\nthe end"

    assert find_key_lines(text) == ("2 errors", "the end")
    assert find_key_lines(text.replace("errors\n3", "lines\n3").replace("3 errors", "")) == (
        "4 passed, 0 errors",
        "the end",
    )


def test_a_very_long_line_is_no_key_line():
    assert find_key_lines(f"it began\nerror {'x' * 1000}\nthe end") == ("it began", "the end")
