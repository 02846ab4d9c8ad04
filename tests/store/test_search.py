"""What was recorded is found: by name, by a part of it, in any script, and last by its meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.store.search.index import SearchIndex
from ebbtide.store.search.words import parse_query
from store.search_texts import NOISE, build_index, entry, find_texts


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("def parse_http_header(line):", "parse_http_header"),
        ("def parse_http_header(line):", "http"),
        ("def parse_http_header(line):", "parseHttpHeader"),
        ("client.parseHTTPHeader(x)", "parse_http_header"),
        ("client.parseHTTPHeader(x)", "parsehttpheader"),
        ("client.parseHTTPHeader(x)", "Header"),
        ("open src/net/http/client.py:12", "src/net/http/client.py"),
        ("open src/net/http/client.py:12", "http/client.py"),
        ("open src/net/http/client.py:12", "client"),
        ("open src/net/http/client.py:12", "lient.p"),
        ("commit 9f8e7d6c5b4a39281706f5e4d3c2b1a098765432", "9f8e7d6"),
        ("commit 9f8e7d6c5b4a39281706f5e4d3c2b1a098765432", "c2b1a098"),
        ("exit status 137 after 48213 ms", "48213"),
        ("exit status 137 after 48213 ms", "137"),
        ("a.b.c-d_e::f", "b.c-d_e::f"),
        ("连接被服务器拒绝", "拒绝"),
        ("连接被服务器拒绝", "连接"),
        ("连接被服务器拒绝", "服务器"),
        ("连接被服务器拒绝", "绝"),
        ("连接被服务器拒绝", "务"),
        ("用户user_id为空", "用户user_id"),
        ("エラーが発生しました", "発生"),
        ("오류가 발생했습니다", "발생"),
        ("Größe der Übertragung", "übertragung"),
        ("say \"AND\" NOT near", '"AND" NOT'),
        ("\ud800 lone half of a pair", "lone"),
    ],
)  # fmt: skip
def test_a_name_is_found_whole_in_part_and_in_another_spelling(text, query):
    assert text in find_texts(build_index(*NOISE, text), query)[:1]


def test_a_word_of_two_chinese_characters_is_not_found_when_they_only_meet_across_a_break():
    assert find_texts(build_index("连接", "天连。接地"), "连接") == ["连接"]


@given(st.text(alphabet="abcXYZ_./-09é中文", min_size=3, max_size=30), st.data())
def test_any_three_characters_of_a_text_that_are_a_part_of_a_name_find_it(text, data):
    start = data.draw(st.integers(0, len(text) - 3))
    part = text[start : start + data.draw(st.integers(3, len(text)))]
    index = build_index(text)
    if not (part[0].isalnum() and part[-1].isalnum()):  # signs at the edges are no part of what is asked for
        return

    assert find_texts(index, part) == [text]


@given(st.text(max_size=80))
def test_no_query_raises_an_error_or_spoils_the_next_one(query):
    index = build_index("some text")

    assert find_texts(index, query) in ([], ["some text"])
    assert find_texts(index, "some") == ["some text"]


@pytest.mark.parametrize("query", ['"', "AND", "a AND", "NEAR(a b)", "body:x", "^a*", "(", "a\0b"])
def test_signs_of_the_query_language_are_only_text(query):
    """They find the text that has them, and signs without a letter find nothing."""
    with_it = f"here it says {query} and goes on"
    words = [with_it] if any(sign.isalnum() for sign in query) else []

    assert find_texts(build_index("some text", with_it), query) == words


@pytest.mark.parametrize("long", ["x" * 9000, "w " * 999])
def test_both_ends_of_a_long_query_are_searched(long):
    index = build_index("some text", "another")

    assert find_texts(index, long) == []
    assert find_texts(index, f"some {long}") == find_texts(index, f"{long} some") == ["some text"]


def test_a_name_as_written_ranks_before_its_other_spellings():
    texts = [
        "BaseCommit of base commit",
        "base_commit base_commit base_commit",
        "the baseCommit here, in a longer text",
    ]

    assert find_texts(build_index(*texts), "baseCommit")[0] == texts[2]


def test_a_name_ranks_before_longer_names_that_contain_it():
    texts = ["a reader among many other words, said once and in passing", "reader_of reader_in reader_at", "reading"]

    assert find_texts(build_index(*texts), "reader")[0] == texts[0]


def test_each_name_of_a_query_counts_as_written():
    texts = ["zeta, and after a good many other words the baseCommit", "zeta base_commit", "base commit zeta"]

    assert find_texts(build_index(*texts), "baseCommit zeta")[0] == texts[0]


def test_case_and_signs_are_found_among_many_that_lack_them():
    """The words alone are everywhere: the one text that has the query letter by letter must still come first."""
    texts = [f"Removed {n} things, Removed them" for n in range(60)]

    assert find_texts(build_index(*texts, "x " * 300 + "Removed."), "Removed.")[0].endswith("Removed.")


def test_the_newer_of_equal_hits_is_first():
    assert find_texts(build_index("alpha beta one", "alpha beta two"), "alpha") == ["alpha beta two", "alpha beta one"]


def test_the_newer_hit_is_first_even_if_it_matches_a_little_less():
    assert find_texts(build_index("alpha beta", *NOISE, "alpha beta gamma"), "alpha")[0] == "alpha beta gamma"


def test_the_text_that_shares_more_of_a_sentence_is_first():
    unheard = "why oh why was it never so slow"
    more = "pool and postgres and timeout " + "with words of no account " * 16

    assert find_texts(build_index(*NOISE, more, "pool"), f"pool postgres timeout {unheard}")[0] == more


def test_a_name_counts_when_it_is_a_word_of_its_own():
    texts = ["the reader is said here among other words, only once", "sub_reader sub_reader", "reader_x reader_y"]

    assert find_texts(build_index(*texts), "reader")[0] == texts[0]


def test_the_more_specific_hit_is_first():
    long = "config " + "many other words about nothing at all " * 40

    assert find_texts(build_index("config of the parser", long), "config")[0] == "config of the parser"


def test_equal_texts_are_one_hit_that_counts_them_and_names_the_newest():
    hits = build_index("same text", "other", "same text").search(parse_query("same"), project="", session="s", limit=5)

    assert [(hit.entry.message, hit.copies) for hit in hits] == [(2, 2)]


def test_a_result_is_found_by_the_file_and_the_command_that_it_answers():
    read = entry(101, "no such words", name="Read", path="src/gauge.py")
    ran = entry(102, "3 passed", name="Bash", about='{"command": "pytest tests/gauge"}')

    index = build_index(*NOISE, read, ran)

    assert find_texts(index, "src/gauge.py") == ["no such words"]
    assert find_texts(index, "pytest gauge")[0] == "3 passed"


def test_a_text_with_the_words_ranks_before_a_result_whose_call_has_them():
    answers = [entry(100 + n, f"answer {n}", name="Bash", about="workdir of the call") for n in range(30)]

    assert find_texts(build_index(*answers, "where workdir is explained"), "workdir")[0] == "where workdir is explained"


def test_that_order_also_holds_if_the_words_are_far_apart():
    answers = [entry(100 + n, f"answer {n}", about="workdir and what is explained") for n in range(60)]
    far = "explained " + "and so on " * 300 + "workdir"

    assert find_texts(build_index(*answers, far), "workdir explained")[0] == far


def test_all_trigrams_of_a_name_without_the_name_are_no_hit():
    assert find_texts(build_index("abca cabc"), "abcabc") == []


def test_a_sentence_finds_the_text_that_shares_its_rare_words():
    question = "请问 why does the connection to postgres time out when the pool is exhausted"
    common = [f"why does the {n} to time out when it is" for n in range(40)]

    assert find_texts(build_index(*common, "a pool, exhausted"), question)[0] == "a pool, exhausted"


def test_a_chinese_sentence_finds_a_text_that_shares_words_with_it():
    assert find_texts(build_index("数据库连接超时", "天气很好"), "为什么数据库总是超时")[0] == "数据库连接超时"


def test_a_session_finds_only_its_own_and_a_project_all_of_its_sessions():
    index = build_index("alpha one", session="a", project="p")
    build_index("alpha two", index=index, session="b", project="p")
    build_index("alpha three", index=index, session="a", project="q")

    assert find_texts(index, "alpha", session="a", project="p") == ["alpha one"]
    assert sorted(find_texts(index, "alpha", session="", project="p")) == ["alpha one", "alpha two"]
    assert find_texts(index, "lph", session="b", project="p") == ["alpha two"]
    assert find_texts(index, "alpha", session="c", project="p") == []


def test_the_limit_is_kept():
    assert len(find_texts(build_index(*NOISE), "widgets", limit=7)) == 7


def test_encoded_pictures_are_not_indexed_but_the_text_around_them_is():
    index = build_index("before " + "iVBORw0KGgo" * 200 + " after")

    assert find_texts(index, "after")
    assert not find_texts(index, "iVBORw0KGgo")


# --- meaning -----------------------------------------------------------------------------------------------------


class Synonyms:
    """A meaning that a test can see through: the first word decides, and all synonyms are one."""

    model = "synonyms"

    def __init__(self):
        self.made = []

    def embed(self, texts):
        self.made += texts
        return [{"reboot": b"restart"}.get(word := text.split()[0], word.encode()) for text in texts]

    def similarities(self, query, vectors):
        (asked,) = self.embed([query])
        return [1.0 if vector == asked else -1.0 for vector in vectors]


def test_a_text_of_similar_meaning_is_found_after_those_that_share_words():
    index = build_index("restart", "banana", "a reboot", index=SearchIndex(embeddings=Synonyms()))

    assert find_texts(index, "reboot") == ["a reboot", "restart"]
    assert find_texts(index, "reboot", limit=1) == ["a reboot"]


def test_without_embeddings_only_words_are_searched():
    assert find_texts(build_index("restart"), "reboot") == []


def test_a_text_is_embedded_once_for_each_model(path):
    first, second, other = Synonyms(), Synonyms(), Synonyms()
    other.model = "others"
    build_index("restart", index=SearchIndex(str(path), first))

    for meaning in (first, second, other):
        assert find_texts(SearchIndex(str(path), meaning), "reboot") == ["restart"]

    assert [meaning.made.count("restart") for meaning in (first, second, other)] == [1, 0, 1]


def test_embeddings_search_only_the_given_session():
    index = build_index("restart", index=SearchIndex(embeddings=Synonyms()), session="a")
    build_index("restart", index=index, session="b")

    hits = index.search(parse_query("reboot"), project="", session="b", limit=5)

    assert [hit.session for hit in hits] == ["b"]
