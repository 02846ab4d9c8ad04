"""One arm over one tape. The continuation is taken as given: what the agent wrote next is what it had to know.

What a score is made of, with formulas: docs/reference/replay.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

from ebbtide.core.types import Usage
from ebbtide.prices import Rates, rates
from ebbtide.replay.arms import Arm, Out
from ebbtide.replay.provider import Prefix, Provider
from ebbtide.replay.sheet import Facts, Sheet
from ebbtide.replay.tape import Take, Tape
from ebbtide.wire.validity import violations

AGO = 10
"""A name counts that was last seen more than so many calls before it was used: what is newer nobody takes out."""

_ASK = 40
"""Tokens that a model writes to ask for a name: a tool call with one argument."""


@dataclass(slots=True, kw_only=True)
class Score:
    """Sums over calls, so that scores add up. Money in dollars, input side: the recorded answers cost all the same."""

    calls: int = 0
    bill: float = 0.0
    """Input, the arm's own model calls included."""
    uncached: float = 0.0
    """The same requests without any cache."""
    asked: float = 0.0
    """The part of the bill that the arm's own model calls made."""
    recalled: float = 0.0
    """What it would cost, on top, to recall each name that was used and not there."""
    recalls: int = 0
    read: int = 0
    written: int = 0
    fresh: int = 0
    peak: int = 0
    """The largest request; of several scores, the largest of all."""
    tokens: int = 0
    """Sum over calls: by `calls`, the mean."""
    over: int = 0
    """Calls above the window."""
    breaks: int = 0
    """Requests that do not begin with all of the one before."""
    invalid: int = 0
    used: int = 0
    """Names that were used, last seen long ago."""
    available: int = 0
    in_context: int = 0
    recoverable: int = 0
    """Of those that were not available."""
    by_request: int = 0
    """The same, found by a query made of the newest words in the request alone."""
    said: int = 0
    """Messages of the user up to the last call."""
    verbatim: int = 0
    changed: int = 0
    """Files changed up to the last call, and those of them that the last request still names."""
    changed_named: int = 0
    read_files: int = 0
    read_named: int = 0
    shrunk: int = 0
    """Times that a request came out smaller than the one before with what was new."""
    freed: int = 0

    def plus(self, other: Score) -> Score:
        both = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        return Score(**{**both, "peak": max(self.peak, other.peak)})

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(slots=True)
class _Seen:
    """What an arm's request shows, kept up to date by what changed in it."""

    sheet: Sheet
    origin: Mapping[bytes, int]
    """Keys of messages as the client made them."""
    lines: frozenset[str] | set[str]
    """Lines of what the client sent."""
    names: Counter[str] = field(default_factory=Counter)
    quoted: Counter[str] = field(default_factory=Counter)
    """Names that stand in an original line."""
    said: Counter[str] = field(default_factory=Counter)

    def change(self, message: object, by: int) -> None:
        facts = self.sheet.of(message)
        for name in facts.names:
            self.names[name] += by
        for name in self._quoted(facts):
            self.quoted[name] += by
        for words in facts.words:
            self.said[words] += by

    def _quoted(self, facts: Facts) -> frozenset[str]:
        if facts.key in self.origin:
            return facts.names
        return frozenset().union(*(names for line, names in facts.lines.items() if line in self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One call, for plots."""

    call: int
    tokens: int
    cost: float
    broke: bool


@dataclass(slots=True)
class _Line:
    """The request as a provider sees it, and what of it is new."""

    sheet: Sheet
    messages: list[object] = field(default_factory=list)
    chain: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chain, self.tokens, self.blocks = [0], [self.sheet.overhead], [1]

    def take(self, messages: Sequence[object]) -> tuple[list[object], list[object], bool]:
        """What left and what came since the last request, and whether its bytes still lead."""
        same = _shared(self.messages, messages)
        gone, came = self.messages[same:], list(messages[same:])
        keys_before = self.chain[-1]
        count = len(self.messages)
        del self.chain[same + 1 :], self.tokens[same + 1 :], self.blocks[same + 1 :]
        for message in came:
            facts = self.sheet.of(message)
            self.chain.append(hash((self.chain[-1], int.from_bytes(facts.key, "big"))))
            self.tokens.append(self.tokens[-1] + self.sheet.tokens(message))
            self.blocks.append(self.blocks[-1] + facts.blocks)
        self.messages = list(messages)
        extends = len(self.chain) > count and self.chain[count] == keys_before
        return gone, came, extends


def _shared(before: Sequence[object], now: Sequence[object]) -> int:
    same = 0
    for one, other in zip(before, now, strict=False):
        if one is not other:
            break
        same += 1
    return same


def uses(tape: Tape) -> list[frozenset[str]]:
    """For each call the names that its answer uses, and that stand in what was said long before and not since."""
    found: list[frozenset[str]] = []
    at: dict[str, int] = {}
    line = _Line(tape.sheet)
    added: list[int] = []
    for n, take in enumerate(tape.takes):
        gone, came, _ = line.take(_messages(tape, take.raw))
        if gone:
            # The user went back: what stands there now was seen when it came first.
            del added[len(added) - len(gone) :]
            at = {}
            for message, seen in zip(line.messages, added, strict=False):
                at |= dict.fromkeys(tape.sheet.of(message).names, seen)
        added += [n] * len(came)
        for message in came:
            at |= dict.fromkeys(tape.sheet.of(message).names, n)
        wanted = _written(tape, take)
        found.append(frozenset(name for name in wanted if name in at and n - at[name] > AGO))
    return found


def _written(tape: Tape, take: Take) -> frozenset[str]:
    """Names in what the agent wrote: text and arguments."""
    if take.response is None:
        return frozenset()
    response = take.response
    if tape.wire.name == "openai_responses":
        output = response.get("output")
        messages = output if isinstance(output, list) else []
    else:
        messages = [{"role": "assistant", **{k: response[k] for k in ("content", "tool_calls") if k in response}}]
    names = [tape.sheet.of(message).names for message in messages]
    return frozenset().union(*names)


def _messages(tape: Tape, body: Mapping[str, object]) -> list[object]:
    found = body[tape.wire.key]
    assert isinstance(found, list), "a replayed request has a list of messages"
    return found


@dataclass(slots=True)
class Scoring:
    """An arm at work on a tape."""

    tape: Tape
    arm: Arm
    window: int
    ttl: float
    used: Sequence[frozenset[str]]
    recalls: bool = True
    score: Score = field(default_factory=Score)
    points: list[Point] = field(default_factory=list)

    def run(self) -> Score:
        tape, sheet = self.tape, self.tape.sheet
        origin: dict[bytes, int] = {}
        lines: set[str] = set()
        seen = _Seen(sheet, origin, lines)
        line, raw = _Line(sheet), _Line(sheet)
        provider = Provider(model=tape.takes[0].model, ttl=self.ttl)
        for n, take in enumerate(tape.takes):
            for message in raw.take(_messages(tape, take.raw))[1]:
                facts = sheet.of(message)
                origin[facts.key] = n
                lines |= facts.lines.keys()
            out = self.arm.send(take)
            before = line.tokens[-1] if n else 0
            gone, came, extends = line.take(_messages(tape, out.body))
            for message in gone:
                seen.change(message, -1)
            for message in came:
                seen.change(message, 1)
            self._bill(take, out, provider, line, n)
            self._sizes(line, n, before, extends)
            self.score.over += line.tokens[-1] > self.window or out.refused
            self._kept(take, seen, line, n)
            if violations(tape.wire.name, out.body, since=len(line.messages) - len(came)):  # type: ignore[arg-type]
                self.score.invalid += 1
        self._end(seen, raw)
        return self.score

    def _bill(self, take: Take, out: Out, provider: Provider, line: _Line, n: int) -> None:
        price, score = _rates(take.model, self.ttl), self.score
        for asked in out.asked:
            aside = _Line(self.tape.sheet)
            aside.take(_messages(self.tape, asked.body))
            usage = provider.send(_prefix(aside, ()), take.at)
            cost = _cost(usage, price) + asked.output * price.output / 1e6
            score.asked += cost
            score.bill += cost
        marks = _marks(self.tape, line)
        usage = provider.send(_prefix(line, marks), take.at)
        cost = _cost(usage, price)
        score.calls += 1
        score.bill += cost
        score.uncached += line.tokens[-1] * price.input / 1e6
        score.read += usage.cache_read
        score.written += usage.cache_write
        score.fresh += usage.input
        self.points.append(Point(call=n, tokens=line.tokens[-1], cost=cost, broke=False))
        output = self._output(take)
        self.arm.billed(
            take,
            Usage(input=usage.input, cache_read=usage.cache_read, cache_write=usage.cache_write, output=output),
        )

    def _output(self, take: Take) -> int:
        if take.response is None:
            return 0
        if self.tape.wire.name == "openai_responses":
            parts = take.response.get("output")
            return sum(self.tape.sheet.tokens(one) for one in (parts if isinstance(parts, list) else []))
        kept = {key: take.response[key] for key in ("content", "tool_calls") if key in take.response}
        return self.tape.sheet.tokens({"role": "assistant", **kept})

    def _sizes(self, line: _Line, n: int, before: int, extends: bool) -> None:
        score, tokens = self.score, line.tokens[-1]
        score.peak = max(score.peak, tokens)
        score.tokens += tokens
        if n and not extends:
            score.breaks += 1
            self.points[-1] = Point(call=n, tokens=tokens, cost=self.points[-1].cost, broke=True)
        if n and tokens < before:
            score.shrunk += 1
            score.freed += before - tokens

    def _kept(self, take: Take, seen: _Seen, line: _Line, n: int) -> None:
        score, wanted = self.score, self.used[n]
        missing = [name for name in wanted if seen.names[name] <= 0]
        score.used += len(wanted)
        score.available += len(wanted) - len(missing)
        score.in_context += sum(1 for name in wanted if seen.quoted[name] > 0)
        if missing and self.recalls:
            self._recall(take, missing, line)

    def _recall(self, take: Take, missing: Sequence[str], line: _Line) -> None:
        """One more call for all names that are missing at once: the prefix is read again, what was found is written."""
        found = {name: self.arm.found(name) for name in sorted(missing)}
        texts = [text for text in found.values() if text is not None]
        if not texts:
            return
        score, price = self.score, _rates(take.model, self.ttl)
        score.recoverable += sum(1 for name, text in found.items() if text is not None and name in text)
        score.recalls += 1
        brought = sum(self.tape.sheet.estimator.text(text) for text in texts) + _ASK * len(texts)
        again = line.tokens[-1] * price.read + brought * price.write + _ASK * len(texts) * price.output
        score.recalled += again / 1e6

    def _end(self, seen: _Seen, raw: _Line) -> None:
        words = {words for message in raw.messages for words in self.tape.sheet.of(message).words}
        self.score.said = len(words)
        self.score.verbatim = sum(1 for one in words if seen.said[one] > 0)


def calibration(tape: Tape, ttl: float) -> tuple[float, float]:
    """The recorded requests as we bill them, and as they were billed: dollars at equal prices, calls with a bill.

    The provider keeps prefixes for as long as the client asked it to then; `ttl` where that was not recorded.
    """
    line, provider = _Line(tape.sheet), Provider(model=tape.takes[0].model, ttl=ttl)
    ours = theirs = 0.0
    for take in tape.takes:
        line.take(_messages(tape, take.recorded))
        # A call that read all there was wrote nothing, and so says nothing about how long.
        provider.ttl = take.kept or provider.ttl
        usage = provider.send(_prefix(line, ()), take.at)
        if take.billed is not None:
            read, written, fresh = take.billed
            price = _rates(take.model, ttl)
            ours += _cost(usage, price)
            theirs += _cost(Usage(cache_read=read, cache_write=written, input=fresh), price)
    return ours, theirs


def _prefix(line: _Line, marks: Sequence[int]) -> Prefix:
    return Prefix(chain=line.chain, tokens=line.tokens, blocks=line.blocks, marks=marks)


def _marks(tape: Tape, line: _Line) -> list[int]:
    """Messages that carry a breakpoint of their own; the first place of a line is the system prompt."""
    wire = tape.wire
    if wire.name != "anthropic":
        return []
    return [n + 1 for n, message in enumerate(line.messages) if wire.breakpoints(message)]


def _cost(usage: Usage, price: Rates) -> float:
    return (usage.cache_read * price.read + usage.cache_write * price.write + usage.input * price.input) / 1e6


def _rates(model: str, ttl: float) -> Rates:
    found = rates(model, ttl=ttl) or rates("claude-sonnet-4-5", ttl=ttl)
    assert found is not None, "the table knows a Claude"
    return found
