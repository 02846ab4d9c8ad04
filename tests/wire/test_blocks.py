"""What all wires share."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ebbtide.wire.blocks import canonical_json, describe_call, dumps

_NAMES = st.sampled_from(["path", "b", "a", "cache_control", 'a"'])
_ATOMS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_ARGUMENTS = st.dictionaries(_NAMES, _ATOMS) | st.dictionaries(st.integers(), _ATOMS)
_NESTED = st.dictionaries(_NAMES, _ARGUMENTS) | st.dictionaries(_NAMES, st.lists(_ARGUMENTS)) | _ATOMS


@given(identity=st.text() | st.none(), called=st.text(), arguments=_ARGUMENTS | _NESTED)
@example("t1", "Read", {"path": "a", "b": "c"})
@example("t1", "Read", {"path": {"b": None}})
@example("t1", "Read", {"cache_control": "x"})
@example("t1", "Read", {1: "x"})
@example({"b": 1, "a": 2}, "Read", {"path": "a"})
def test_a_call_that_is_written_once_has_the_id_and_the_text_of_one_written_twice(
    identity: Any, called: Any, arguments: Any
) -> None:
    assert describe_call(identity, called, arguments) == (
        dumps(arguments),
        canonical_json([identity, called, arguments]),
    )
