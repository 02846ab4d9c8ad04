"""What the proxy tells about itself: Prometheus, spans, and a log that says a thing once."""

from __future__ import annotations

import re

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ebbtide.fronts.cli.main import main
from ebbtide.fronts.proxy.meters import Meters
from ebbtide.fronts.proxy.otel import span_exporter
from fronts.proxy.proxy_runner import beside, exchange
from fronts.proxy.raw_upstream import answer

BODY = b'{"model":"claude-sonnet-5","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}'
TOLD = b'{"content":[{"type":"text","text":"yo"}],"usage":{"input_tokens":5,"cache_read_input_tokens":7,"output_tokens":2}}'
SAMPLE = re.compile(r'[a-z_]+(\{([a-z]+="[^"\n]*",?)+\})? [0-9.]+\Z')


def test_metrics_are_prometheus_text_and_add_up(tmp_path):
    with beside(lambda n, seen: [answer(TOLD) if n else answer(b"{}", "529 Overloaded")], tmp_path) as (_, running):
        for _ in range(3):
            exchange(running.port, "POST", "/v1/messages", BODY)
        exchange(running.port, "GET", "/v1/models")
        running.settle()
        status, headers, raw = exchange(running.port, "GET", "/metrics")

    lines = raw.decode().splitlines()
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    assert all(line.startswith("# ") or SAMPLE.match(line) for line in lines)
    assert 'ebb_requests_total{status="200",wire="anthropic"} 2' in lines
    assert 'ebb_requests_total{status="529",wire="anthropic"} 1' in lines
    assert 'ebb_requests_total{status="200",wire=""} 1' in lines
    assert "ebb_input_tokens_sum_total 24" in lines
    assert "ebb_engine_seconds_count 3" in lines
    assert "ebb_in_flight 1" in lines, "this very request"


def test_buckets_are_cumulative():
    meters = Meters()
    for seconds in (0.0005, 0.03, 9.0):
        meters.observe("ebb_engine_seconds", seconds)
    lines = meters.prometheus().splitlines()

    assert 'ebb_engine_seconds_bucket{le="0.001"} 1' in lines
    assert 'ebb_engine_seconds_bucket{le="0.05"} 2' in lines
    assert 'ebb_engine_seconds_bucket{le="5.0"} 2' in lines
    assert 'ebb_engine_seconds_bucket{le="+Inf"} 3' in lines


def test_a_turn_is_a_span_by_the_genai_conventions_without_a_word_of_it(tmp_path):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with beside(
        lambda n, seen: [answer(b"{}", "500 Oh") if n else answer(TOLD)], tmp_path, watch=span_exporter(provider)
    ) as (
        _,
        running,
    ):
        for _ in range(2):
            exchange(running.port, "POST", "/v1/messages", BODY)
            running.settle()

    first, second = exporter.get_finished_spans()
    assert first.name == "chat claude-sonnet-5"
    told = dict(first.attributes)
    assert told["gen_ai.provider.name"] == "anthropic"
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (12, 2)
    assert told["gen_ai.usage.cache_read.input_tokens"] == 7
    assert first.end_time >= first.start_time
    assert second.attributes["error.type"] == "500"
    assert "hi" not in told.values()
    assert "yo" not in told.values()


def test_telemetry_that_fails_is_logged_once_and_stops_nothing(tmp_path):
    def broken(turn):
        raise ValueError("the collector is gone")

    with beside(lambda n, seen: [answer(TOLD)], tmp_path, watch=broken) as (_, running):
        for _ in range(3):
            assert exchange(running.port, "POST", "/v1/messages", BODY)[0] == 200
            running.settle()

    assert [line["reason"] for line in running.lines if line["event"] == "fallback"] == ["telemetry"]
    assert running.proxy.meters.total.input_tokens == 36


def test_when_the_extra_is_missing_the_message_names_it(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        import opentelemetry.exporter  # noqa: F401
    except ImportError:
        assert main(["proxy", "--otel", "--port", "0", "--store", str(tmp_path)]) == 2
        assert "pip install 'ebbtide[otel]'" in capsys.readouterr().err
    else:
        pytest.skip("the extra is installed here")


def test_a_refusal_is_logged_with_its_reason_and_no_text_of_the_request(tmp_path):
    with beside(lambda n, seen: [answer(b"{}")], tmp_path, max_body_bytes=100) as (_, running):
        exchange(running.port, "GET", "/v1/models?secret", headers={"Host": "secret.example"})
        exchange(running.port, "POST", "/v1/messages", b"secret" * 100)
        told = [(one["event"], one["status"], one["said"]) for one in running.lines]

        assert [one[:2] for one in told] == [("refused", 403), ("refused", 413)]
        assert "--allow-host" in told[0][2]
        assert "secret" not in running.log.getvalue()


def test_a_request_that_passes_through_is_logged_with_its_path_and_without_its_query_or_a_key(tmp_path):
    key = "sk-ant-api03-" + "a1B2" * 20
    with beside(lambda n, seen: [answer(b"{}")], tmp_path) as (_, running):
        exchange(running.port, "DELETE", f"/v1/files/{key}?q=secret")
        (line,) = running.lines

        assert (line["method"], line["path"].startswith("/v1/files/")) == ("DELETE", True)
        assert key not in running.log.getvalue()
        assert "secret" not in running.log.getvalue()
