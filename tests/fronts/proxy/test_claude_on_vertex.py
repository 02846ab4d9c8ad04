"""Claude on Vertex AI through the proxy: Anthropic's requests at Google's paths, with the model in the path."""

from __future__ import annotations

import pytest

from fronts.proxy.proxy_runner import get, proxied
from fronts.sdk.agents import Talk, anthropic_entries, anthropic_request, script
from fronts.sdk.clients import WINDOW
from fronts.sdk.clouds import VertexUpstream


def create(client, talk):
    return client.messages.create(**anthropic_request(talk))


def stream(client, talk):
    with client.messages.stream(**anthropic_request(talk)) as events:
        return events.get_final_message()


@pytest.mark.parametrize("ask", [create, stream])
def test_a_long_loop_on_vertex_stays_in_its_window_and_names_its_model(ask, tmp_path):
    sdk = pytest.importorskip("anthropic")
    pytest.importorskip("google.auth")
    talk = Talk("anthropic")
    with (
        VertexUpstream(script("anthropic"), window=WINDOW) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW) as running,
    ):
        client = sdk.AnthropicVertex(
            project_id="p1", region="r1", access_token="a-token", base_url=running.url, max_retries=0, timeout=120
        )
        for _ in talk.turns(22):
            talk.took(anthropic_entries(ask(client, talk)), None)
        running.settle()
        summary, sessions = get(running.port, "/ebb/summary")[1], get(running.port, "/ebb/sessions")[1]["sessions"]

    assert [request.refused for request in upstream.requests if request.refused] == []
    assert summary["edits"] > 0
    assert summary["input_tokens"] == sum(request.usage.prompt for request in upstream.requests)
    model = anthropic_request(talk)["model"]
    assert [(session["wire"], session["model"]) for session in sessions] == [("anthropic", model)]
