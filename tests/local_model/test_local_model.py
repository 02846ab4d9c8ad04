"""A real model, its real HTTP API and its real window: what a session costs and whether it lives is not ours to say.

Ten tool calls in a window of 2,304 tokens. The server counts, refuses and caches; the summary is its own work too.
"""

import pytest

pytestmark = pytest.mark.timeout(1800)


def test_sent_raw_the_conversation_overflows(conversation):
    refused = [step.raw_refusal for step in conversation.steps if step.raw_tokens >= conversation.window]

    assert refused
    assert {error["type"] for error in refused} == {"exceed_context_size_error"}
    assert all(error["n_prompt_tokens"] >= error["n_ctx"] == conversation.window for error in refused)


def test_through_a_context_it_never_does(conversation):
    """Each request was answered, and the answer had room."""
    assert len(conversation.steps) == sum(len(turn.calls) + 1 for turn in conversation.turns)
    assert not [step.refusal for step in conversation.steps if step.refusal]
    assert max(step.prompt + step.output for step in conversation.steps) <= conversation.window


def test_the_summary_is_written_by_the_same_server_and_is_sent_in_later_requests(conversation):
    """Really asked, really answered, and used; lines that say what nobody said are struck, so not each need be there."""
    asked, answered = conversation.asked, conversation.answered
    words = [answer["choices"][0]["message"]["content"] for answer in answered]
    lines = [line for text in words for line in text.splitlines() if line.startswith("- ")]
    last = str(conversation.steps[-1].sent["messages"])

    assert 0 < len(answered) == len(asked)
    assert "summarize" in {name for step in conversation.steps for name in step.made_by}
    assert [line for line in lines if line in last]


def test_the_question_reads_what_the_server_has_of_the_conversation(conversation):
    """Asked behind the same prefix: most of what it is about is not read again. Parts of a history are asked alone."""
    both = zip(conversation.asked, conversation.answered, strict=True)
    usage = [answer["usage"] for question, answer in both if len(question["messages"]) > 1]

    assert usage
    assert all(one["prompt_tokens_details"]["cached_tokens"] > one["prompt_tokens"] / 2 for one in usage)


def test_the_users_words_are_all_in_the_last_request(conversation):
    texts = [str(message.get("content")) for message in conversation.steps[-1].sent["messages"]]

    assert not [turn.said for turn in conversation.turns if not any(turn.said in text for text in texts)]


def test_when_nothing_was_edited_the_server_reads_only_what_is_new(conversation):
    """The prefix goes out byte for byte as before, and the engine still has it."""
    pairs = [
        (before, step)
        for before, step in zip(conversation.steps, conversation.steps[1:], strict=False)
        if not step.made_by
    ]

    assert pairs
    # The last few tokens of a prompt, where the answer began, are tokenised anew with what follows.
    assert not [(before.prompt, step.cached) for before, step in pairs if step.cached < before.prompt - 16]
