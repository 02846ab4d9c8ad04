"""A real model behind the wrapped clients: what does not fit its window is answered all the same, from its cache.

What the README shows of them runs here as it stands there.
"""

import re
from pathlib import Path

import pytest

import ebbtide
from local_model.model_server import PATIENCE, missing, served

pytestmark = pytest.mark.timeout(1800)

WINDOW = 1_024
README = Path(__file__).resolve().parents[3] / "README.md"
SHOWN = re.findall(r"^```python model\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
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


def test_anthropics_client_continues_where_the_direct_call_is_refused(model):
    sdk = pytest.importorskip("anthropic")
    raw = sdk.Anthropic(api_key="none", base_url=model.address, max_retries=0, timeout=PATIENCE)
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
    raw = sdk.OpenAI(api_key="none", base_url=f"{model.address}/v1", max_retries=0, timeout=PATIENCE)
    body = {"model": "smollm2", "max_tokens": 8, "messages": history(), "stream": True}
    with pytest.raises(sdk.BadRequestError, match="context size"):
        raw.chat.completions.create(**body)

    stream = ebbtide.wrap(raw, window=WINDOW).chat.completions.create(**body)

    assert [chunk for chunk in stream if chunk.choices]
    assert stream._ebbtide.edits


def test_the_readme_shows_both_sdks():
    assert [re.findall(r"anthropic\.|openai\.", code)[0] for code in SHOWN] == ["anthropic.", "openai."]


@pytest.mark.parametrize("code", SHOWN, ids=("anthropic", "openai"))
def test_the_readme_example_is_answered_by_a_real_model(model, code, monkeypatch, capsys, tmp_path):
    """Nothing of it is changed: where the provider is, the SDKs read from the environment."""
    pytest.importorskip("anthropic")
    pytest.importorskip("openai")
    monkeypatch.chdir(tmp_path)
    for name, path in (("ANTHROPIC", ""), ("OPENAI", "/v1")):
        monkeypatch.setenv(f"{name}_BASE_URL", model.address + path)
        monkeypatch.setenv(f"{name}_API_KEY", "none")

    exec(compile(code, "README.md", "exec"), {"__name__": "page"})

    words, tokens = re.fullmatch(r"(.*?) *(\d+)\n", capsys.readouterr().out, re.DOTALL).groups()
    assert re.search(r"[a-z]{3}", words), "the model's own words"
    assert 0 < int(tokens) < WINDOW
