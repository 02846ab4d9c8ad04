"""Prefix caching as the providers bill it, and no kinder.

Anthropic: only marked prefixes are written, at most four, each at least the model's minimum; a mark finds an entry on
itself or up to 20 blocks before it; an entry lives 5 minutes or an hour from its last use. OpenAI: every prefix is kept
in steps of 128 tokens from 1024 on, for 5 minutes from its last use. Model, tools, thinking and every byte count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from upstream.bedrock_rules import model_of
from upstream.finding import Body, Json, text_of
from upstream.models import model
from upstream.prefix import CHARACTERS_PER_TOKEN, Unit, chain, serial, units

LOOK_BACK = 20
TTL = {"5m": 300.0, "1h": 3600.0}
OPENAI_STEP, OPENAI_LEAST, OPENAI_TTL = 128, 1024, 300.0
MARKED = ("anthropic", "bedrock_converse")
UNMARKABLE = ("thinking", "redacted_thinking", "fallback")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBill:
    """One request's input, in tokens; the parts add up to what the body holds."""

    fresh: int
    read: int = 0
    written_5m: int = 0
    written_1h: int = 0

    @property
    def written(self) -> int:
        return self.written_5m + self.written_1h

    @property
    def prompt(self) -> int:
        return self.fresh + self.read + self.written


@dataclass(slots=True)
class Cache:
    """Not safe for threads by itself; the server holds its lock around each call."""

    clock: Callable[[], float]
    entries: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Digest of a prefix -> when it expires and how long it lives."""

    def bill(self, wire: str, body: Body) -> CacheBill:
        return self._marked(wire, body) if wire in MARKED else self._openai(wire, body)

    def _marked(self, wire: str, body: Body) -> CacheBill:
        body = {**body, "model": model_of(body)}
        run = units(wire, body)
        digests, totals = _prefixes(body, run)
        whole = totals[-1] if totals else 0
        least = model(body.get("model")).minimum_prefix
        marks = {at: ttl for at, ttl in _marks(body, run).items() if totals[at] >= least}
        if not marks:
            return CacheBill(fresh=whole)
        hit = max((self._look_back(digests, at) for at in marks), default=-1)
        read = totals[hit] if hit >= 0 else 0
        written = dict.fromkeys(TTL, 0)
        reached = read
        for at, ttl in sorted(marks.items()):
            written[ttl] += max(0, totals[at] - reached)
            reached = max(reached, totals[at])
        self._use(digests[hit] if hit >= 0 else "", {digests[at]: ttl for at, ttl in marks.items()})
        return CacheBill(fresh=whole - reached, read=read, written_5m=written["5m"], written_1h=written["1h"])

    def _look_back(self, digests: list[str], at: int) -> int:
        """The longest live entry that this mark can see."""
        for place in range(at, max(-1, at - LOOK_BACK - 1), -1):
            if self._live(digests[place]):
                return place
        return -1

    def _live(self, digest: str) -> bool:
        return digest in self.entries and self.clock() < self.entries[digest][0]

    def _use(self, hit: str, marked: dict[str, str]) -> None:
        """What is read or written lives on from now. A longer life is kept: an hour's entry read under a 5 m mark."""
        lives = {digest: TTL[ttl] for digest, ttl in marked.items()}
        for digest in {hit, *lives} - {""}:
            kept = self.entries[digest][1] if self._live(digest) else 0.0
            life = max(kept, lives.get(digest, 0.0))
            self.entries[digest] = (self.clock() + life, life)

    def _openai(self, wire: str, body: Body) -> CacheBill:
        text = "".join(unit.text for unit in units(wire, body))
        step = OPENAI_STEP * CHARACTERS_PER_TOKEN
        digest, digests = text_of(body.get("model")), list[str]()
        for at in range(step, len(text) + 1, step):
            digest = hashlib.sha256(f"{digest}\0{text[at - step : at]}".encode("utf-8", "surrogatepass")).hexdigest()
            digests.append(digest)
        steps = next((at for at, each in enumerate(digests) if not self._live(each)), len(digests))
        read = steps * OPENAI_STEP if steps * OPENAI_STEP >= OPENAI_LEAST else 0
        if len(digests) * OPENAI_STEP >= OPENAI_LEAST:
            self.entries.update(dict.fromkeys(digests, (self.clock() + OPENAI_TTL, OPENAI_TTL)))
        return CacheBill(fresh=len(text) // CHARACTERS_PER_TOKEN - read, read=read)


def _prefixes(body: Body, run: list[Unit]) -> tuple[list[str], list[int]]:
    """Digest and tokens of the prefix that ends with each unit."""
    digest, digests, totals, characters = text_of(body.get("model")), list[str](), list[int](), 0
    inside = False
    for unit in run:
        if unit.message >= 0 and not inside:
            # Thinking changes the messages' cache and leaves that of tools and system alone.
            digest, inside = f"{digest}|{serial(body.get('thinking'))}", True
        digest = chain(digest, unit)
        characters += len(unit.text)
        digests.append(digest)
        totals.append(characters // CHARACTERS_PER_TOKEN)
    return digests, totals


def _marks(body: Body, run: list[Unit]) -> dict[int, str]:
    """Marked places and their lives. The mark on the whole body stands for one on the last block that can bear it."""
    marks = {at: _life(unit.mark) for at, unit in enumerate(run) if unit.mark is not None}
    top = body.get("cache_control")
    bearing = [
        at for at, unit in enumerate(run) if not any(f'"type":"{name}"' in unit.text[:80] for name in UNMARKABLE)
    ]
    if top is not None and bearing:
        marks.setdefault(bearing[-1], _life(top))
    return marks


def _life(mark: Json) -> str:
    return "1h" if isinstance(mark, dict) and mark.get("ttl") == "1h" else "5m"
