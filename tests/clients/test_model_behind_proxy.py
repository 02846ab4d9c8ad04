"""A real model behind `ebb proxy`: the same call that its server refuses directly is answered, and the next one reads
its prefix from the server's own cache. In a window of 8,192 where the real clients run too (EBB_CLIENTS is set): a small
model reads for a minute there. Else in a smaller one.
"""

from __future__ import annotations

import os

import pytest

from fronts.proxy.proxy_runner import get, proxied
from local_model.model_server import missing, served

pytestmark = pytest.mark.timeout(900)

WINDOW = 8_192 if os.environ.get("EBB_CLIENTS") else 1_024
PATIENCE = 800.0
"""Seconds for one answer: a whole window is read in 80 on an idle core, and the core may be busy."""
LINE = "The gauge of Brest stood at {n} cm, and the offset was left alone. "


def history():
    """Half as much again as the model can read."""
    turns = [(f"Day {n}: what was the gauge?", LINE.format(n=100 + n) * 4) for n in range(WINDOW // 64)]
    talk = [
        {"role": role, "content": text}
        for turn in turns
        for role, text in zip(("user", "assistant"), turn, strict=True)
    ]
    return [*talk, {"role": "user", "content": "Say yes."}]


@pytest.fixture
def model():
    if absent := missing():
        pytest.skip(f"no local model: {absent} not installed (requirements/dev.txt has it)")
    with served(WINDOW) as up:
        yield up


@pytest.fixture
def proxy(model, tmp_path):
    """With limits that a machine keeps on which a model is at work: what is late is sent on without edits."""
    with proxied(model.address, store=tmp_path, window=WINDOW) as running:
        yield running.url


def test_a_call_that_is_refused_directly_is_answered_and_the_next_reads_the_cache(
    model, proxy, record_testsuite_property
):
    sdk = pytest.importorskip("anthropic")
    terms = {"api_key": "none", "max_retries": 0, "timeout": PATIENCE}
    body = {"model": "smollm2", "max_tokens": 8, "messages": history()}
    with pytest.raises(sdk.BadRequestError, match="context size"):
        sdk.Anthropic(base_url=model.address, **terms).messages.create(**body)

    client = sdk.Anthropic(base_url=proxy, **terms)
    first = client.messages.create(**body)
    body["messages"] += [{"role": "assistant", "content": first.content}, {"role": "user", "content": "Again."}]
    second = client.messages.create(**body)

    summary = get(int(proxy.rpartition(":")[2]), "/ebb/summary")[1]
    record_testsuite_property(
        "figures of a model", f"first {first.usage}; second {second.usage}; {summary}"
    )  # shown by --junitxml
    assert (summary["fallbacks"], summary["overflows"]) == (0, 0)
    assert summary["edits"] > 0
    assert second.usage.cache_read_input_tokens > first.usage.input_tokens // 2
