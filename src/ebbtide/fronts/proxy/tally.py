"""What was done so far, in numbers: for one conversation, and for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.core.types import Usage


@dataclass(slots=True)
class Tally:
    requests: int = 0
    tokens_untouched: int = 0
    """Sum over requests of what they would have been had nothing ever been taken out, estimated."""
    tokens_sent: int = 0
    """Sum over requests of what went out, or in shadow would have, estimated."""
    edits: int = 0
    edited_requests: int = 0
    """Requests that carried an edit."""
    folds: int = 0
    fallbacks: int = 0
    overflows: int = 0
    """Requests that the provider refused for their size, and that were folded and sent again."""
    input_tokens: int = 0
    """As billed, cached or not; this and the three below only where the provider told."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    last_at: float = 0.0
    last_before: int = 0
    """Of the newest request."""
    last_after: int = 0

    def count_request(self, before: int, after: int, at: float, *, edits: int, folds: int, edited: bool) -> None:
        self.requests += 1
        self.tokens_untouched += before
        self.tokens_sent += after
        self.edits += edits
        self.folds += folds
        self.edited_requests += edited
        self.last_at, self.last_before, self.last_after = at, before, after

    def count_usage(self, usage: Usage) -> None:
        self.input_tokens += usage.input + usage.cache_read + usage.cache_write
        self.cache_read_tokens += usage.cache_read
        self.cache_write_tokens += usage.cache_write
        self.output_tokens += usage.output

    def as_dict(self) -> dict[str, object]:
        totals: dict[str, object] = {
            name: getattr(self, name) for name in self.__slots__ if not name.startswith("last_")
        }
        hit_rate = self.cache_read_tokens / self.input_tokens if self.input_tokens else None
        return {
            **totals,
            "tokens_saved": max(0, self.tokens_untouched - self.tokens_sent),
            "cache_hit_rate": round(hit_rate, 4) if hit_rate is not None else None,
        }
