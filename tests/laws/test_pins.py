"""What is pinned, or was taken back, stays in a fold: with all that a provider wants beside it, and nothing in its way.

Each of these conversations was found by the laws; in each the fold of an earlier version broke what its name says.
"""

from __future__ import annotations

from random import Random

import pytest

from ebbtide.core.edit_rules import expand_to_atomic_groups
from ebbtide.core.types import Item
from laws.promises import ALONE, TOGETHER
from laws.trial import Pins, attempt, read
from upstream.talks import grow_from, history

FOUND: dict[str, tuple[str, int, int, Pins]] = {
    "a call keeps the reasoning that led to it, and the words between": ("openai_responses", 427449278, 3, (3, 7)),
    "reasoning keeps what it led to": ("openai_responses", 926916175, 2, (20, 2)),
    "a search of the provider's keeps its result": ("anthropic", 513372, 3, (26, 12)),
    "an open loop still begins with its thinking": ("anthropic", 161190143, 1, (9, 6)),
    "a refusal is not said twice": ("openai_chat", 638646360, 2, (5, 0)),
    "a pinned call and its result are no reason to fold again": ("openai_chat", 306896, 2, (16, 2)),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_compaction_that_covers_pins_keeps_the_promises(name: str) -> None:
    wire, seed, turns, pins = FOUND[name]
    trial = attempt(("summarize",), wire, history(wire, seed, turns), 0.0, pins)

    for promise in (*TOGETHER, *ALONE):
        promise(trial)
    assert any(item.pinned for edit in trial.plan.edits for item in trial.covered(edit)), "nothing pinned was folded"


def test_a_pinned_result_is_sent_unchanged_with_its_whole_step() -> None:
    """R4: "provided without its required reasoning item". Ids stay too, for they name what the server keeps."""
    wire, seed, turns, _ = FOUND["a call keeps the reasoning that led to it, and the words between"]
    body = history(wire, seed, turns)
    items = read(wire, body).items
    place = next(n for n, item in enumerate(items) if item.kind == "result")
    trial = attempt(("summarize",), wire, body, 0.0, (len(items), place))

    step = expand_to_atomic_groups(items, {items[place].id})
    came = {item.message for item in items if item.id in step}
    assert {"reasoning", "message"} <= {str(body["input"][n]["type"]) for n in came}
    assert trial.plan.edits
    assert [n for n in sorted(came) if body["input"][n] not in trial.out] == []


def test_pinned_thinking_leaves_with_its_turn() -> None:
    """A63: it is signed for its place, and a fold that carried it along was refused."""
    *_, body = grow_from("anthropic", Random(3), 4, "claude-opus-5-5")
    items = read("anthropic", body).items
    place = next(n for n, item in enumerate(items) if item.kind == "thinking")
    trial = attempt(("summarize",), "anthropic", body, 0.0, (len(items), place))

    for promise in TOGETHER:
        promise(trial)
    assert items[place].id in {item.id for edit, item in trial.gone() if edit.by == "summarize"}


def item(id: str, kind: str, *, role: str = "assistant", call: str = "") -> Item:
    return Item(id=id, message=0, role=role, kind=kind, text="", tokens=1, call_id=call)  # type: ignore[arg-type]


def test_company_is_the_step_from_its_first_opaque_block_on() -> None:
    said = [item("say", "text"), item("see", "opaque"), item("think", "thinking"), item("call", "call", call="1")]
    other = [item("also", "call", call="2")]
    results = [item("one", "result", role="tool", call="1"), item("two", "result", role="tool", call="2")]
    then = [item("next", "opaque"), item("last", "text"), item("user", "text", role="user")]
    items = [*said, *other, *results, *then]

    assert (
        expand_to_atomic_groups(items, {"one"})
        == expand_to_atomic_groups(items, {"see"})
        == {"see", "call", "also", "one", "two"}
    )
    assert expand_to_atomic_groups(items, {"say"}) == {"say"}, "what was said before is not bound"
    assert expand_to_atomic_groups(items, {"last"}) == {"next", "last"}
    assert expand_to_atomic_groups(items, {"user"}) == {"user"}
    assert expand_to_atomic_groups(items, set()) == set()


def test_company_of_a_call_without_reasoning_is_its_result() -> None:
    calls = [item("say", "text"), item("call", "call", call="1"), item("also", "call", call="2")]
    items = [*calls, item("one", "result", role="tool", call="1"), item("two", "result", role="tool", call="2")]

    assert expand_to_atomic_groups(items, {"one"}) == expand_to_atomic_groups(items, {"call"}) == {"call", "one"}
