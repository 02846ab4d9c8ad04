"""A real model behind the wrapped clients: what does not fit its window is answered all the same, from its cache."""

import pytest

import ebbtide
from local_model.serving import missing, served

pytestmark = pytest.mark.timeout(600)

WINDOW = 1_024
LINE = "The gauge of Brest stood at {n} cm, and the offset was left alone. "


@pytest.fixture(scope="module")
def model():
    if absent := missing():
        pytest.skip(f"no local model: {absent} not installed (requirements/dev.txt has it)")
    with served(WINDOW) as up:
        yield up


def history():
    """Some 1,500 tokens of talk: half as much again as the model can read."""
    turns = [(f"Day {n}: what was the gauge?", LINE.format(n=100 + n) * 4) for n in range(16)]
    talk = [
        {"role": role, "content": text}
        for turn in turns
        for role, text in zip(("user", "assistant"), turn, strict=True)
    ]
    return [*talk, {"role": "user", "content": "Say yes."}]


def test_anthropics_client_goes_on_where_the_direct_call_is_refused(model):
    sdk = pytest.importorskip("anthropic")
    raw = sdk.Anthropic(api_key="none", base_url=model.address, max_retries=0, timeout=240)
    body = {"model": "smollm2", "max_tokens": 8, "messages": history()}
    with pytest.raises(sdk.BadRequestError, match="context size"):
        raw.messages.create(**body)

    wrapped = ebbtide.wrap(raw, window=WINDOW)
    first = wrapped.messages.create(**body)
    body["messages"] += [{"role": "assistant", "content": first.content}, {"role": "user", "content": "Again."}]
    second = wrapped.messages.create(**body)

    assert first._ebbtide.edits
    assert not second._ebbtide.edits
    assert second.usage.cache_read_input_tokens > first.usage.input_tokens // 2


def test_openais_client_streams_where_the_direct_call_is_refused(model):
    sdk = pytest.importorskip("openai")
    raw = sdk.OpenAI(api_key="none", base_url=f"{model.address}/v1", max_retries=0, timeout=240)
    body = {"model": "smollm2", "max_tokens": 8, "messages": history(), "stream": True}
    with pytest.raises(sdk.BadRequestError, match="context size"):
        raw.chat.completions.create(**body)

    stream = ebbtide.wrap(raw, window=WINDOW).chat.completions.create(**body)

    assert [chunk for chunk in stream if chunk.choices]
    assert stream._ebbtide.edits
