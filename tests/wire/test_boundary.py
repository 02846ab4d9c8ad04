"""A boundary is what its metadata says, and only what came after the last one still counts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.wire.boundary import (
    create_compact_boundary,
    find_last_compact_boundary_index,
    is_compact_boundary,
    slice_from_last_compact_boundary,
)

ID = "7f9c2a04-1c1e-4f6b-9a53-0f7f3f1f3c11"
BOUNDARY = create_compact_boundary("what was said", at=1_700_000_000.5, id=ID)
MESSAGE: dict[str, Any] = {"role": "user", "content": "Go."}


def test_a_boundary_carries_its_summary_as_text_and_as_metadata() -> None:
    """R182, R203."""
    assert BOUNDARY == {
        "role": "assistant",
        "content": "[Previous conversation summary]\n\nwhat was said\n\n[End of summary]",
        "metadata": {
            "compact_boundary": True,
            "compact_summary": "what was said",
            "compact_timestamp": "2023-11-14T22:13:20.500000+00:00",
            "compact_id": ID,
        },
    }


@given(st.floats(min_value=0, max_value=4_000_000_000))
def test_its_time_is_utc_and_reads_back(at: float) -> None:
    told = datetime.fromisoformat(create_compact_boundary("s", at=at, id=ID)["metadata"]["compact_timestamp"])

    assert told.utcoffset() is not None
    assert not told.utcoffset()
    assert abs(told.timestamp() - at) < 0.001


@pytest.mark.parametrize(
    "message",
    [
        MESSAGE,
        {**MESSAGE, "metadata": None},
        {**MESSAGE, "metadata": "compact_boundary"},
        {**MESSAGE, "metadata": {}},
        {**MESSAGE, "metadata": {"compact_boundary": "true"}},
        {**MESSAGE, "metadata": {"compact_boundary": 1}},
        {**MESSAGE, "metadata": {"compact_boundary": False}},
        {"role": "assistant", "content": BOUNDARY["content"]},
        {"role": "assistant", "content": BOUNDARY["content"], "compact_boundary": True},
    ],
)
def test_only_metadata_that_is_true_makes_a_boundary(message: dict[str, Any]) -> None:
    """R204; and text that looks like one is text."""
    assert is_compact_boundary(BOUNDARY)
    assert not is_compact_boundary(message)


@given(st.lists(st.sampled_from([MESSAGE, BOUNDARY])))
def test_only_what_follows_the_last_boundary_counts(messages: list[dict[str, Any]]) -> None:
    """R205, R206: nothing before it is taken out of the list."""
    before = list(messages)
    last = find_last_compact_boundary_index(messages)
    live = slice_from_last_compact_boundary(messages)

    assert messages == before
    assert not any(is_compact_boundary(message) for message in live)
    if last is None:
        assert live == messages
    else:
        assert is_compact_boundary(messages[last])
        assert live == messages[last + 1 :]
