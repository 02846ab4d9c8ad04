"""`--otel`: tokens and time as OpenTelemetry's conventions for GenAI name them, out of turns that really went by."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ebbtide.fronts.proxy.otel import metric_exporter
from fronts.proxy.proxy_runner import beside, exchange
from fronts.proxy.raw_upstream import answer

BODY = b'{"model":"claude-sonnet-5","max_tokens":9,"messages":[{"role":"user","content":"a secret word"}]}'
TOLD = b'{"content":[{"type":"text","text":"yo"}],"usage":{"input_tokens":5,"cache_read_input_tokens":7,"output_tokens":2}}'


def test_tokens_and_time_are_exported_but_no_text(tmp_path):
    reader = InMemoryMetricReader()
    watch = metric_exporter(MeterProvider(metric_readers=[reader]))
    with beside(lambda n, _: [answer(b"{}", "529 Oh") if n == 2 else answer(TOLD)], tmp_path, watch=watch) as (
        _,
        running,
    ):
        for _ in range(3):
            exchange(running.port, "POST", "/v1/messages", BODY)
        running.settle()
    data = reader.get_metrics_data()
    found = {metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics}

    tokens = {
        point.attributes["gen_ai.token.type"]: point for point in found["gen_ai.client.token.usage"].data.data_points
    }
    assert (tokens["input"].count, tokens["input"].sum) == (2, 24), "cached tokens are among the input"
    assert (tokens["output"].count, tokens["output"].sum) == (2, 4)
    assert found["gen_ai.client.token.usage"].unit == "{token}"
    assert tokens["input"].explicit_bounds[:4] == (1, 4, 16, 64)
    times = found["gen_ai.client.operation.duration"].data.data_points
    assert {point.attributes.get("error.type"): point.count for point in times} == {None: 2, "529": 1}
    assert times[0].attributes["gen_ai.provider.name"] == "anthropic"
    assert times[0].attributes["gen_ai.request.model"] == "claude-sonnet-5"
    assert not [point for point in times if "gen_ai.conversation.id" in point.attributes], (
        "a series for each would never end"
    )
    assert "secret" not in str(data)
