"""No id becomes a path unchecked."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.errors import StoreError
from ebbtide.store.directory.file_names import project_slug, session_stem
from ebbtide.store.log_lines import check_blob_name

HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\0b",
    "CON",
    "con",
    "nul",
    "x" * 4096,
    "\\??\\C:",
    "-rf",
    "~root",
    "a.b",
    "\ud800",
    "é",
    "a\n",
]
ids = (
    st.sampled_from(HOSTILE)
    | st.text(st.characters(), max_size=80)
    | st.from_regex(r"[A-Za-z0-9_-]{1,66}", fullmatch=True)
)


@given(ids)
def test_a_stem_is_always_one_safe_name(session):
    stem = session_stem(session)

    assert re.fullmatch(r"[A-Za-z0-9_-][a-z0-9_~-]{0,100}", stem)
    assert not stem.startswith("~")


@given(ids, ids)
def test_two_ids_never_share_a_file_whatever_the_case(one, other):
    assert one == other or session_stem(one).lower() != session_stem(other).lower()


def test_the_file_name_of_one_id_is_not_the_plain_name_of_another():
    assert session_stem(session_stem("Nightly")) != session_stem("Nightly")
    assert session_stem("Nightly") != session_stem("nightly")


@pytest.mark.parametrize("session", ["69d56a2c-d9a9-433f-9832-a1d2174594ae", "nightly", "a_b-1", "x" * 64])
def test_a_plain_id_is_its_own_name(session):
    assert session_stem(session) == session


@pytest.mark.parametrize("session", ["con", "a.b", "x" * 65, "A", "a\n"])
def test_any_other_id_is_hashed(session):
    assert "~" in session_stem(session)


def test_a_project_is_its_path_with_dashes():
    assert project_slug("/Users/fanlv/Desktop/test") == "-Users-fanlv-Desktop-test"


@given(st.sampled_from([*HOSTILE, "..", "/..", "a/../..", "." * 9]) | st.text(st.characters()))
def test_a_slug_is_always_one_safe_name(project):
    assert re.fullmatch(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,199}", project_slug(project))


@pytest.mark.parametrize("name", [*HOSTILE[:6], "-x", ".new-1", "x" * 201, "\ud800", "a b", "a\n", "a.txt/.."])
def test_a_blob_name_is_refused_unless_plain(name):
    with pytest.raises(StoreError, match="cannot name"):
        check_blob_name(name)


@pytest.mark.parametrize("name", ["toolu_011FB334YmudsnxzixRg2Kza.txt", "_a.json", "call-1.txt"])
def test_a_plain_blob_name_is_kept(name):
    assert check_blob_name(name) == name
