"""Each turn as a span and as metrics, by OpenTelemetry's conventions for GenAI. Never a word of a conversation.

The extra `otel`. Where they go, the exporters read from their own variables (`OTEL_EXPORTER_OTLP_ENDPOINT`). What tells
one conversation from another is in spans alone: a metric for each would never end.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from ebbtide import __version__
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.proxy.meters import Turn
from ebbtide.wire import WIRES

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_SECOND = 1_000_000_000  # nanoseconds


def exporting() -> Callable[[Turn], None]:
    """To the collector that the environment names."""
    try:
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        otlp = "opentelemetry.exporter.otlp.proto.http"
        traces, numbers = import_module(f"{otlp}.trace_exporter"), import_module(f"{otlp}.metric_exporter")
    except ImportError as missing:
        raise BadConfig("--otel needs packages of its own: pip install 'ebbtide[otel]'") from missing
    resource = Resource.create({"service.name": "ebb-proxy"})
    tracing = TracerProvider(resource=resource)
    tracing.add_span_processor(BatchSpanProcessor(traces.OTLPSpanExporter()))
    reader = PeriodicExportingMetricReader(numbers.OTLPMetricExporter())
    listeners = (spans(tracing), metrics(MeterProvider(metric_readers=[reader], resource=resource)))

    def told(turn: Turn) -> None:
        for listen in listeners:
            listen(turn)

    return told


def spans(provider: TracerProvider) -> Callable[[Turn], None]:
    """A listener that makes a span of each turn, with the times it had."""
    tracer = provider.get_tracer("ebbtide.proxy", __version__)

    def told(turn: Turn) -> None:
        name = f"chat {turn.model}".strip()
        span = tracer.start_span(name, start_time=int(turn.began * _SECOND))
        span.set_attributes(attributes(turn))
        span.end(int((turn.began + turn.seconds) * _SECOND))

    return told


_TOKENS = tuple(4**n for n in range(14))
_SECONDS = tuple(0.01 * 2**n for n in range(14))
"""Where buckets end, as the conventions want them."""


def metrics(provider: MeterProvider) -> Callable[[Turn], None]:
    """A listener that counts tokens and time: `gen_ai.client.token.usage` and `gen_ai.client.operation.duration`."""
    meter = provider.get_meter("ebbtide.proxy", __version__)
    tokens = meter.create_histogram(
        "gen_ai.client.token.usage", "{token}", "Tokens of a request and its answer, as billed.",
        explicit_bucket_boundaries_advisory=_TOKENS,
    )  # fmt: skip
    duration = meter.create_histogram(
        "gen_ai.client.operation.duration", "s", "From a request to the last byte of its answer.",
        explicit_bucket_boundaries_advisory=_SECONDS,
    )  # fmt: skip
    taken = meter.create_counter("ebb.tokens_saved", "{token}", "Estimated tokens that were not sent again.")

    def told(turn: Turn) -> None:
        names = {key: value for key, value in attributes(turn).items() if key in _FEW}
        duration.record(turn.seconds, names)
        if turn.tokens_untouched > turn.tokens_sent:
            taken.add(turn.tokens_untouched - turn.tokens_sent, names)
        if turn.usage is not None:
            usage = turn.usage
            tokens.record(usage.input + usage.cache_read + usage.cache_write, {**names, "gen_ai.token.type": "input"})
            tokens.record(usage.output, {**names, "gen_ai.token.type": "output"})

    return told


_FEW = frozenset({"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "error.type"})
"""Attributes of metrics: those of which there are few."""


def attributes(turn: Turn) -> dict[str, str | int | bool]:
    told: dict[str, str | int | bool] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": WIRES[turn.wire].provider,
        "gen_ai.request.model": turn.model,
        "gen_ai.conversation.id": turn.session,
        "http.response.status_code": turn.status,
        "ebb.tokens_untouched": turn.tokens_untouched,
        "ebb.tokens_sent": turn.tokens_sent,
        "ebb.edited": turn.edited,
    }
    if turn.status >= 400:
        told["error.type"] = str(turn.status)
    if turn.usage is not None:
        usage = turn.usage
        # By the conventions cached tokens are counted among the input.
        told["gen_ai.usage.input_tokens"] = usage.input + usage.cache_read + usage.cache_write
        told["gen_ai.usage.output_tokens"] = usage.output
        told["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read
        told["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write
    return told
