"""One arm over one tape. The continuation is taken as given: what the agent wrote next is what it had to know.

What a score is made of, with formulas: docs/reference/replay.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace

from ebbtide.core.types import Usage
from ebbtide.prices import Rates, find_rates
from ebbtide.replay.contenders import Arm, Out
from ebbtide.replay.provider import Provider
from ebbtide.replay.recorded_session import Take, Tape
from ebbtide.replay.request_tracker import Line, answer_of, messages_of
from ebbtide.replay.touched_files import named
from ebbtide.replay.visible_names import Seen, newest_words, shown
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
    """Times that a request broke with the one before, and came out smaller than that with what was new."""
    freed: int = 0
    """By how much, in all."""

    def plus(self, other: Score) -> Score:
        both = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        return Score(**{**both, "peak": max(self.peak, other.peak)})

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One call, for plots."""

    call: int
    tokens: int
    broke: bool


def uses(tape: Tape) -> list[frozenset[str]]:
    """For each call the names that its answer uses, and that stand in what was said long before and not since."""
    found: list[frozenset[str]] = []
    at: dict[str, int] = {}
    line = Line(tape.sheet)
    added: list[int] = []
    for n, take in enumerate(tape.takes):
        gone, came, _ = line.take(messages_of(tape.wire, take.raw))
        if gone:
            # The user went back: what stands there now was seen when it came first.
            del added[len(added) - len(gone) :]
            at = {}
            for message, seen in zip(line.messages, added, strict=False):
                at |= dict.fromkeys(tape.sheet.of(message).names, seen)
        added += [n] * len(came)
        for message in came:
            at |= dict.fromkeys(tape.sheet.of(message).names, n)
        written = (tape.sheet.of(message).names for message in answer_of(tape.wire, take.response))
        wanted = frozenset().union(*written)
        found.append(frozenset(name for name in wanted if name in at and n - at[name] > AGO))
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
        wire, sheet = self.tape.wire, self.tape.sheet
        seen, line, raw = Seen(sheet), Line(sheet), Line(sheet)
        provider = Provider(model=self.tape.takes[0].model, ttl=self.ttl)
        for n, take in enumerate(self.tape.takes):
            had, grown = line.tokens[-1], raw.tokens[-1]
            seen.originals(raw.take(messages_of(wire, take.raw))[1])
            out = self.arm.send(take)
            gone, came, extends = line.take(messages_of(wire, out.body))
            seen.change(gone, came)
            usage = self._bill(take, out, provider, line)
            self._sizes(line, out, broke=n > 0 and not extends, due=had + raw.tokens[-1] - grown)
            self._kept(take, seen, line, n)
            # Only now: what the agent wrote is no place where it could have found what it needed for it.
            self.arm.billed(take, usage)
            if violations(wire.name, out.body, since=len(line.messages) - len(came)):  # type: ignore[arg-type]
                self.score.invalid += 1
        self._end(seen, line, raw)
        return self.score

    def _bill(self, take: Take, out: Out, provider: Provider, line: Line) -> Usage:
        price, score = _rates(take.model, self.ttl), self.score
        for asked in out.asked:
            aside = Line(self.tape.sheet)
            aside.take(messages_of(self.tape.wire, asked.body))
            usage = provider.send(aside.prefix(), take.at)
            cost = _cost(usage, price) + asked.output * price.output / 1e6
            score.asked += cost
            score.bill += cost
        usage = provider.send(line.prefix(line.marks(self.tape.wire)), take.at)
        score.calls += 1
        score.bill += _cost(usage, price)
        score.uncached += line.tokens[-1] * price.input / 1e6
        score.read += usage.cache_read
        score.written += usage.cache_write
        score.fresh += usage.input
        return replace(usage, output=self._output(take))

    def _output(self, take: Take) -> int:
        return sum(self.tape.sheet.tokens(one) for one in answer_of(self.tape.wire, take.response))

    def _sizes(self, line: Line, out: Out, *, broke: bool, due: int) -> None:
        """`due` is what the request would have been, had the arm only added what is new."""
        score, tokens = self.score, line.tokens[-1]
        self.points.append(Point(call=len(self.points), tokens=tokens, broke=broke))
        score.peak = max(score.peak, tokens)
        score.tokens += tokens
        score.over += tokens > self.window or out.refused
        score.breaks += broke
        if broke and tokens < due:
            score.shrunk += 1
            score.freed += due - tokens

    def _kept(self, take: Take, seen: Seen, line: Line, n: int) -> None:
        score, wanted = self.score, self.used[n]
        missing = sorted(name for name in wanted if seen.names[name] <= 0)
        score.used += len(wanted)
        score.available += len(wanted) - len(missing)
        score.in_context += sum(1 for name in wanted if seen.quoted[name] > 0)
        if missing and self.recalls:
            self._recall(take, missing, line)

    def _recall(self, take: Take, missing: Sequence[str], line: Line) -> None:
        """One more call for all names that are missing at once: the prefix is read again, what was found is written."""
        found = {name: self.arm.found(name) for name in missing}
        texts = [text for text in found.values() if text is not None]
        if not texts:
            return
        score, price = self.score, _rates(take.model, self.ttl)
        score.recoverable += sum(1 for name, text in found.items() if text is not None and name in text)
        score.recalls += 1
        brought = sum(self.tape.sheet.estimator.text(text) for text in texts) + _ASK * len(texts)
        again = line.tokens[-1] * price.read + brought * price.write + _ASK * len(texts) * price.output
        score.recalled += again / 1e6
        told = self.arm.found(newest_words(self.tape.wire, line.messages)) or ""
        score.by_request += sum(1 for name in missing if name in told)

    def _end(self, seen: Seen, line: Line, raw: Line) -> None:
        score, files = self.score, self.tape.files
        words = {words for message in raw.messages for words in self.tape.sheet.of(message).words}
        score.said = len(words)
        score.verbatim = sum(1 for one in words if seen.said[one] > 0)
        text = shown(self.tape.wire, line.messages)
        score.changed, score.changed_named = len(files.changed), named(files.changed, text)
        score.read_files, score.read_named = len(files.read), named(files.read, text)


def calibration(tape: Tape, ttl: float) -> tuple[float, float]:
    """The recorded requests as we bill them, and as they were billed: dollars at equal prices, calls with a bill.

    The provider keeps prefixes for as long as the client asked it to then; `ttl` where that was not recorded. What a
    client sends again after a compaction (files, notes) is not in its log: there, as at the start, the bill tells how
    much a request has besides its messages.
    """
    line, provider = Line(tape.sheet), Provider(model=tape.takes[0].model, ttl=ttl)
    ours = theirs = 0.0
    for n, take in enumerate(tape.takes):
        line.take(messages_of(tape.wire, take.recorded))
        if take.billed is not None and (take.compacted or not n):
            line.weigh(sum(take.billed))
        # A call that read all there was wrote nothing, and so says nothing about how long.
        provider.ttl = take.kept or provider.ttl
        usage = provider.send(line.prefix(), take.at)
        if take.billed is not None:
            read, written, fresh = take.billed
            price = _rates(take.model, ttl)
            ours += _cost(usage, price)
            theirs += _cost(Usage(cache_read=read, cache_write=written, input=fresh), price)
    return ours, theirs


def _cost(usage: Usage, price: Rates) -> float:
    return (usage.cache_read * price.read + usage.cache_write * price.write + usage.input * price.input) / 1e6


def _rates(model: str, ttl: float) -> Rates:
    found = find_rates(model, ttl=ttl) or find_rates("claude-sonnet-4-5", ttl=ttl)
    assert found is not None, "the table knows a Claude"
    return found
