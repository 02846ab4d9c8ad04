"""Questions in plain language find their answers: in conversations, and in sessions of tool calls."""

from dataclasses import replace

import pytest

from store.search_texts import build_index, entry, find_texts

SMALL_TALK = [f"On day {n} we spoke of widget {n} and gadget {n}, as friends do" for n in range(60)]


def turns(*texts):
    """A conversation: none of its entries comes from a tool."""
    roles = ("user", "assistant")
    return [replace(entry(n, text), role=roles[n % 2], kind="text") for n, text in enumerate(texts)]


def work(n, text, path="", kind="result"):
    return replace(entry(n, text, name="Read", path=path), kind=kind)


NOISE = [work(1000 + n, text) for n, text in enumerate(SMALL_TALK)]


@pytest.mark.parametrize(
    ("answer", "question"),
    [
        ("A mountain that was hiked up", "Which mountains do I like for hiking?"),
        ("My sister is called Rosa", '"What was my sister called?"'),
        ("周末我们去植物园看了樱花", "你还记得周末我在植物园看到了什么吗？"),
        ("周末我们去植物园看了樱花", "“你还记得周末我在植物园看到了什么吗？”"),
    ],
)
def test_a_question_finds_the_turn_that_shares_words_with_it_in_any_form(answer, question):
    index = build_index(*turns(*SMALL_TALK[:30], answer, *SMALL_TALK[30:]))

    assert find_texts(index, question)[0] == answer


def test_the_answer_is_found_beside_the_turn_that_shares_the_words():
    answer = "It is Stalker, by Tarkovsky"
    talk = (*SMALL_TALK[:30], "Can you recommend a science fiction movie?", answer, *SMALL_TALK[30:])

    assert answer in find_texts(build_index(*turns(*talk)), "Which science fiction movie was it that I asked for?")


def test_a_turn_of_another_session_is_beside_none():
    answer = "It is Stalker, by Tarkovsky"
    index = build_index(*turns(*SMALL_TALK[:30], "Can you recommend a science fiction movie?"), session="a")
    build_index(*turns(answer, *SMALL_TALK[30:]), index=index, session="b")

    assert answer not in find_texts(index, "Which science fiction movie was it that I asked for?", session="")


def test_words_that_every_question_has_find_nothing_if_there_are_others():
    talk = turns(*SMALL_TALK, "what was it that you and I have been about", "the opera")

    assert find_texts(build_index(*talk), "What was it that I have seen at the opera?")[0] == "the opera"
    assert find_texts(build_index(*talk), "what was it that you have")[0] == talk[-2].text


def test_a_name_finds_no_turns_beside_it():
    assert find_texts(build_index(*turns(*SMALL_TALK, "widgetron", "and then?")), "widgetron") == ["widgetron"]


def test_a_file_that_was_read_often_is_one_of_the_five_hits():
    readings = [work(n, f"parser tokens lexer grammar, version {n}", "src/parser.py") for n in range(8)]
    others = [work(20 + n, f"grammar number {n}", f"docs/{n}.md") for n in range(4)]
    request = "Let me see how the parser and its lexer handle the tokens of the grammar"

    found = find_texts(build_index(*NOISE, *others, *readings), request)

    assert sum("version" in text for text in found) == 1
    assert {text for text in found if "number" in text} == {other.text for other in others}


def test_what_the_agent_wrote_comes_before_what_it_read():
    call = work(1, '{"pattern": "grammar of the lexer"}', kind="call")
    read = work(2, "grammar of the lexer, as text")
    request = "Now search for the tokens in the grammar of the lexer again"

    assert find_texts(build_index(*NOISE[:30], call, *NOISE[30:55], read, *NOISE[55:]), request)[0] == call.text


def test_a_result_is_found_beside_the_remark_that_announced_it():
    remark = replace(work(1, "Let me look at the flaky scheduler tests of the nightly build"), kind="text")
    result = work(2, "3 broken, see below")
    request = "Why were the nightly scheduler tests flaky, and which of them failed?"

    assert result.text in find_texts(build_index(*NOISE[:30], remark, result, *NOISE[30:]), request)


def test_a_request_in_quotes_finds_the_results_that_share_words_with_it():
    result = work(1, "scheduler: flaky since the upgrade")

    assert find_texts(build_index(*NOISE, result), '"Why is the scheduler so flaky now?"')[0] == result.text
