"""Each turn as a span, by OpenTelemetry's conventions for GenAI. Numbers and names; never a word of a conversation.

The extra `otel`. Where spans go, the exporter reads from its own variables (`OTEL_EXPORTER_OTLP_ENDPOINT`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from ebbtide import __version__
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.proxy.meters import Turn

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_OPERATIONS = {"anthropic": "chat", "openai_chat": "chat", "openai_responses": "chat"}
_PROVIDERS = {"anthropic": "anthropic", "openai_chat": "openai", "openai_responses": "openai"}
_SECOND = 1_000_000_000  # nanoseconds


def exporting() -> Callable[[Turn], None]:
    """To the collector that the environment names."""
    try:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        exporter = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError as missing:
        raise BadConfig("--otel needs packages of its own: pip install 'ebbtide[otel]'") from missing
    provider = TracerProvider(resource=Resource.create({"service.name": "ebb-proxy"}))
    provider.add_span_processor(BatchSpanProcessor(exporter.OTLPSpanExporter()))
    return spans(provider)


def spans(provider: TracerProvider) -> Callable[[Turn], None]:
    """A listener that makes a span of each turn, with the times it had."""
    tracer = provider.get_tracer("ebbtide.proxy", __version__)

    def told(turn: Turn) -> None:
        name = f"{_OPERATIONS[turn.wire]} {turn.model}".strip()
        span = tracer.start_span(name, start_time=int(turn.began * _SECOND))
        span.set_attributes(attributes(turn))
        span.end(int((turn.began + turn.seconds) * _SECOND))

    return told


def attributes(turn: Turn) -> dict[str, str | int | bool]:
    told: dict[str, str | int | bool] = {
        "gen_ai.operation.name": _OPERATIONS[turn.wire],
        "gen_ai.provider.name": _PROVIDERS[turn.wire],
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
