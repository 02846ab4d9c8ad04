"""What a session has cost so far: tokens as they were billed, and dollars where the price table knows the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ebbtide.core.errors import BadConfig
from ebbtide.core.types import Usage
from ebbtide.prices import find_rates
from ebbtide.state.session_state import usage_out
from ebbtide.store import Record

_MILLION = 1_000_000


@dataclass(slots=True)
class Bill:
    calls: list[tuple[str, Usage]] = field(default_factory=list)
    """The model and the usage of each call, questions about folds included."""

    def add(self, model: str, usage: Usage) -> None:
        self.calls.append((model, usage))

    @property
    def usage(self) -> Usage:
        each = [usage for _, usage in self.calls]
        return Usage(
            input=sum(one.input for one in each),
            cache_read=sum(one.cache_read for one in each),
            cache_write=sum(one.cache_write for one in each),
            output=sum(one.output for one in each),
        )

    @property
    def dollars(self) -> float | None:
        """None where one of the models has no known price."""
        costs = [cost_of(model, usage) for model, usage in self.calls]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None


def cost_of(model: str, usage: Usage) -> float | None:
    try:
        price = find_rates(model, prompt=usage.prompt)
    except BadConfig:  # The table comes with an extra.
        return None
    if price is None:
        return None
    parts = (
        usage.input * price.input,
        usage.cache_read * price.read,
        usage.cache_write * price.write,
        usage.output * price.output,
    )
    return sum(parts) / _MILLION


def bill_of(records: Sequence[Record], model: str) -> Bill:
    """What the log says was billed. Answers about folds do not name their model: it is the session's."""
    bill = Bill()
    for record in records:
        if record.get("kind") == "usage":
            bill.add(str(record.get("model") or model), usage_out(record))
        told = record.get("usage")
        if record.get("kind") == "answer" and isinstance(told, Mapping) and told:
            bill.add(model, usage_out(told))
    return bill
