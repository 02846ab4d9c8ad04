"""Known limits of an item's identity, each as small as it gets."""

from __future__ import annotations

import pytest

from ebbtide.core.view import View
from ebbtide.drive.projection import project
from laws.trial import attempt, digest


@pytest.mark.xfail(
    strict=True, reason="an id is content and occurrence: with the first of two gone, the second is the first"
)
def test_an_edit_is_not_made_again_on_the_next_of_two_equal_items() -> None:
    """The same picture twice, the old one cleared; fed back, the new one must stay."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400}}
    look = {"role": "user", "content": [{"type": "text", "text": "look"}, picture]}
    body = {"model": "gpt-4.1", "messages": [look, {"role": "assistant", "content": "ok"}, look]}

    trial = attempt(("clear_media",), "openai_chat", body)

    assert trial.plan.edits
    fed_back = View.of(trial.back.items, trial.plan.edits)
    assert digest(project(trial.back, fed_back, None).tree) == digest(trial.tree)
