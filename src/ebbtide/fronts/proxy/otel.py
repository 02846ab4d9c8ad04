"""Each request as a span and as metrics, by OpenTelemetry's conventions for GenAI. No text of a conversation.

Needs the extra `otel`. The exporters read where to send from their own variables (`OTEL_EXPORTER_OTLP_ENDPOINT`). Only
spans name the session: one metric for each session would be too many.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from ebbtide import __version__
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.proxy.meters import RequestRecord
from ebbtide.wire import WIRES

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_NANOSECONDS = 1_000_000_000


def otel_exporter() -> Callable[[RequestRecord], None]:
    """Build an exporter to the collector that the environment names."""
    try:
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        otlp = "opentelemetry.exporter.otlp.proto.http"
        trace_module, metric_module = import_module(f"{otlp}.trace_exporter"), import_module(f"{otlp}.metric_exporter")
    except ImportError as error:
        raise BadConfig("--otel needs more packages: pip install 'ebbtide[otel]'") from error
    resource = Resource.create({"service.name": "ebb-proxy"})
    tracer_provider = TracerProvider(resource=resource)
    tracer_provider.add_span_processor(BatchSpanProcessor(trace_module.OTLPSpanExporter()))
    reader = PeriodicExportingMetricReader(metric_module.OTLPMetricExporter())
    meter_provider = MeterProvider(metric_readers=[reader], resource=resource)
    exporters = (span_exporter(tracer_provider), metric_exporter(meter_provider))

    def export(record: RequestRecord) -> None:
        for exporter in exporters:
            exporter(record)

    return export


def span_exporter(provider: TracerProvider) -> Callable[[RequestRecord], None]:
    """Export each request as a span."""
    tracer = provider.get_tracer("ebbtide.proxy", __version__)

    def export(record: RequestRecord) -> None:
        name = f"chat {record.model}".strip()
        span = tracer.start_span(name, start_time=int(record.started * _NANOSECONDS))
        span.set_attributes(record_attributes(record))
        span.end(int((record.started + record.seconds) * _NANOSECONDS))

    return export


_TOKENS = tuple(4**n for n in range(14))
_SECONDS = tuple(0.01 * 2**n for n in range(14))
"""Bucket boundaries from the conventions."""


def metric_exporter(provider: MeterProvider) -> Callable[[RequestRecord], None]:
    """Export tokens and time: `gen_ai.client.token.usage` and `gen_ai.client.operation.duration`."""
    meter = provider.get_meter("ebbtide.proxy", __version__)
    tokens = meter.create_histogram(
        "gen_ai.client.token.usage", "{token}", "Tokens of a request and its answer, as billed.",
        explicit_bucket_boundaries_advisory=_TOKENS,
    )  # fmt: skip
    duration = meter.create_histogram(
        "gen_ai.client.operation.duration", "s", "From a request to the last byte of its answer.",
        explicit_bucket_boundaries_advisory=_SECONDS,
    )  # fmt: skip
    saved_tokens = meter.create_counter("ebb.tokens_saved", "{token}", "Estimated tokens that were not sent again.")

    def export(record: RequestRecord) -> None:
        names = {key: value for key, value in record_attributes(record).items() if key in _METRIC_ATTRIBUTES}
        duration.record(record.seconds, names)
        if record.tokens_untouched > record.tokens_sent:
            saved_tokens.add(record.tokens_untouched - record.tokens_sent, names)
        if record.usage is not None:
            usage = record.usage
            tokens.record(usage.prompt, {**names, "gen_ai.token.type": "input"})
            tokens.record(usage.output, {**names, "gen_ai.token.type": "output"})

    return export


_METRIC_ATTRIBUTES = frozenset({"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "error.type"})
"""Attributes with few values."""


def record_attributes(record: RequestRecord) -> dict[str, str | int | bool]:
    attributes: dict[str, str | int | bool] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": WIRES[record.wire].provider,
        "gen_ai.request.model": record.model,
        "gen_ai.conversation.id": record.session,
        "http.response.status_code": record.status,
        "ebb.tokens_untouched": record.tokens_untouched,
        "ebb.tokens_sent": record.tokens_sent,
        "ebb.edited": record.edited,
    }
    if record.status >= 400:
        attributes["error.type"] = str(record.status)
    if record.usage is not None:
        usage = record.usage
        # By the conventions, input includes cached tokens.
        attributes["gen_ai.usage.input_tokens"] = usage.prompt
        attributes["gen_ai.usage.output_tokens"] = usage.output
        attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read
        attributes["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write
    return attributes
