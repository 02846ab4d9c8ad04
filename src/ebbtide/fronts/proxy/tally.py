"""Totals of what the proxy did, for one session or for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.core.types import Usage


@dataclass(slots=True)
class Tally:
    requests: int = 0
    tokens_untouched: int = 0
    """Estimated tokens of all requests, as if nothing had ever been removed."""
    tokens_sent: int = 0
    """Estimated tokens of all requests as sent; in shadow mode, as they would have been sent."""
    edits: int = 0
    edited_requests: int = 0
    """Requests that carried an edit."""
    folds: int = 0
    fallbacks: int = 0
    overflows: int = 0
    """Requests that the provider refused for their size, and that were compacted and sent again."""
    input_tokens: int = 0
    """As billed, cached or not. This and the next three count only answers that report their usage."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    last_at: float = 0.0
    last_before: int = 0
    """Tokens of the newest request, untouched and as sent."""
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
        hit_rate = round(self.cache_read_tokens / self.input_tokens, 4) if self.input_tokens else None
        return {
            **{name: getattr(self, name) for name in self.__slots__ if not name.startswith("last_")},
            "tokens_saved": max(0, self.tokens_untouched - self.tokens_sent),
            "cache_hit_rate": hit_rate,
        }
