"""What a model's summary depends on besides what it hides: everything the model read."""

from ebbtide.core.edit_layout import bind
from ebbtide.core.types import Edit, Item


def say(number: int, role: str, text: str) -> Item:
    return Item(id=f"i{number}", message=number, role=role, kind="text", text=text, tokens=5, trust=1)


HELLO, ANSWER = say(1, "user", "hello"), say(2, "assistant", "hi")
SUMMARY = Edit(by="summarize", first="i1", last="i2", made_of="all")


def test_a_summary_depends_on_the_very_system_prompt_that_the_model_read():
    """Another customer's prompt may differ in a number alone."""
    prompt = say(0, "system", "You serve customer 4711.")

    assert prompt.id in bind((HELLO, ANSWER), (prompt,), {}, SUMMARY).sources


def test_of_a_note_that_repeats_with_other_numbers_one_is_enough():
    notes = say(3, "system", "Token usage: 10 of 200"), say(4, "system", "Token usage: 20 of 200")

    binding = bind((HELLO, ANSWER), notes, {}, SUMMARY)

    assert binding.sources == ()
    assert len(binding.notes) == 1
