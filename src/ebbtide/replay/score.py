"""Scores one contender on one recorded session. The recorded answers show which names the agent needed to see.

docs/reference/replay.md explains the parts of a score, with formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace

from ebbtide.core.types import Usage
from ebbtide.prices import Rates, find_rates
from ebbtide.replay.contenders import Contender, ContenderRequest
from ebbtide.replay.provider import Provider
from ebbtide.replay.request_tracker import (
    RequestTracker,
    VisibleNames,
    all_text,
    answer_messages,
    newest_texts,
    request_messages,
)
from ebbtide.replay.session import ReplayCall, ReplaySession
from ebbtide.replay.touched_files import count_mentioned
from ebbtide.wire.validity import violations

MIN_AGE = 10
"""A name counts if it was last seen more than this many calls before its use: no policy removes newer ones."""

_QUERY_TOKENS = 40
"""Tokens that a model writes to search for a name: a tool call with one argument."""

_REPAIR_CALLS, _REPAIR_TOKENS, _REPAIR_OUTPUT = 0.03, 200, 100
"""What agents do more often after their own compactions, for each missing name (`benchmarks/repair.py`): calls that
read or search again, tokens of the results, and about what a call writes."""


@dataclass(slots=True, kw_only=True)
class Score:
    """Sums over calls, so that scores add up. Money is in dollars and input only: the answers cost the same for all."""

    calls: int = 0
    bill: float = 0.0
    """Input, with the contender's own model calls."""
    uncached: float = 0.0
    """The same requests without any cache."""
    surcharge: float = 0.0
    """The part of the bill that is due to prices for long requests."""
    asked: float = 0.0
    """The part of the bill for the contender's own model calls."""
    recalled: float = 0.0
    """The extra cost of recalling each name that was needed and missing."""
    recalls: int = 0
    repaired: float = 0.0
    """What the missing names would cost if the agent repaired them as recorded agents do."""
    read: int = 0
    written: int = 0
    fresh: int = 0
    peak: int = 0
    """The largest request."""
    tokens: int = 0
    """Of all requests; divide by `calls` for the mean."""
    over: int = 0
    """Calls above the window."""
    breaks: int = 0
    """Requests that do not begin with the whole previous one."""
    invalid: int = 0
    used: int = 0
    """Names that were needed and last seen long ago."""
    available: int = 0
    in_context: int = 0
    recoverable: int = 0
    """Missing names that a search by name finds."""
    by_request: int = 0
    """Missing names that a search for the request's newest texts finds."""
    said: int = 0
    """Messages of the user."""
    verbatim: int = 0
    changed: int = 0
    """Files changed; then those of them that the last request still names."""
    changed_named: int = 0
    read_files: int = 0
    read_named: int = 0
    shrunk: int = 0
    """Requests that broke the prefix and became smaller than the previous one plus what was new."""
    freed: int = 0
    """Tokens saved by these, in all."""

    def plus(self, other: Score) -> Score:
        sums = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        return Score(**{**sums, "peak": max(self.peak, other.peak)})

    @property
    def prompt(self) -> int:
        return self.read + self.written + self.fresh

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPoint:
    """One call, for plots."""

    call: int
    tokens: int
    breaks_prefix: bool


def names_used_by_call(session: ReplaySession) -> list[frozenset[str]]:
    """For each call, the names in its answer that were last seen more than MIN_AGE calls earlier."""
    used: list[frozenset[str]] = []
    last_seen: dict[str, int] = {}
    tracker = RequestTracker(session.messages)
    added: list[int] = []
    for n, call in enumerate(session.calls):
        removed, arrived, _ = tracker.update(request_messages(session.wire, call.raw))
        if removed:
            # The user went back: the remaining messages were last seen when they first arrived.
            del added[len(added) - len(removed) :]
            last_seen = {}
            for message, first_seen in zip(tracker.messages, added, strict=False):
                last_seen |= dict.fromkeys(session.messages.facts(message).names, first_seen)
        added += [n] * len(arrived)
        for message in arrived:
            last_seen |= dict.fromkeys(session.messages.facts(message).names, n)
        written = (session.messages.facts(message).names for message in answer_messages(session.wire, call.response))
        wanted = frozenset().union(*written)
        used.append(frozenset(name for name in wanted if name in last_seen and n - last_seen[name] > MIN_AGE))
    return used


@dataclass(slots=True)
class Scorer:
    """Runs a contender through a session and adds up its score."""

    session: ReplaySession
    contender: Contender
    window: int
    ttl: float
    names_used: Sequence[frozenset[str]]
    has_recall: bool = True
    score: Score = field(default_factory=Score)
    points: list[CallPoint] = field(default_factory=list)

    def run(self) -> Score:
        wire, index = self.session.wire, self.session.messages
        visible, tracker, raw_tracker = VisibleNames(index), RequestTracker(index), RequestTracker(index)
        provider = _new_provider(self.session, self.ttl)
        for n, call in enumerate(self.session.calls):
            size_before, raw_before = tracker.tokens[-1], raw_tracker.tokens[-1]
            visible.add_originals(raw_tracker.update(request_messages(wire, call.raw))[1])
            request = self.contender.send(call)
            removed, added, extends = tracker.update(request_messages(wire, request.body))
            visible.update(removed, added)
            usage = self._bill(call, request, provider, tracker)
            expected = size_before + raw_tracker.tokens[-1] - raw_before
            self._score_size(tracker, request, breaks_prefix=n > 0 and not extends, expected=expected)
            self._score_names(call, visible, tracker, n)
            # After the names are scored: the agent could not have found them in its own answer.
            self.contender.record_usage(call, usage)
            if violations(wire, request.body, since=len(tracker.messages) - len(added)):
                self.score.invalid += 1
        self._score_last_request(visible, tracker, raw_tracker)
        return self.score

    def _bill(self, call: ReplayCall, request: ContenderRequest, provider: Provider, tracker: RequestTracker) -> Usage:
        score = self.score
        for side_call in request.side_calls:
            side_tracker = RequestTracker(self.session.messages)
            side_tracker.update(request_messages(self.session.wire, side_call.body))
            usage = provider.send(side_tracker.prefix(side_call.body, thinks=call.thinks), call.at)
            price = _known_rates(call.model, usage.prompt)
            cost = price.prompt_cost(usage) + side_call.output_tokens * price.output / 1e6
            score.surcharge += price.prompt_cost(usage) - _known_rates(call.model, 0).prompt_cost(usage)
            score.asked += cost
            score.bill += cost
        usage = provider.send(tracker.prefix(request.body, thinks=call.thinks), call.at)
        price = _known_rates(call.model, usage.prompt)
        score.calls += 1
        score.bill += price.prompt_cost(usage)
        score.surcharge += price.prompt_cost(usage) - _known_rates(call.model, 0).prompt_cost(usage)
        score.uncached += tracker.tokens[-1] * price.input / 1e6
        score.read += usage.cache_read
        score.written += usage.cache_write
        score.fresh += usage.input
        return replace(usage, output=self._answer_tokens(call))

    def _answer_tokens(self, call: ReplayCall) -> int:
        return sum(self.session.messages.tokens(one) for one in answer_messages(self.session.wire, call.response))

    def _score_size(
        self, tracker: RequestTracker, request: ContenderRequest, *, breaks_prefix: bool, expected: int
    ) -> None:
        """`expected` is the size of the request if the contender had only added the new messages."""
        score, tokens = self.score, tracker.tokens[-1]
        self.points.append(CallPoint(call=len(self.points), tokens=tokens, breaks_prefix=breaks_prefix))
        score.peak = max(score.peak, tokens)
        score.tokens += tokens
        score.over += tokens > self.window or request.does_not_fit
        score.breaks += breaks_prefix
        if breaks_prefix and tokens < expected:
            score.shrunk += 1
            score.freed += expected - tokens

    def _score_names(self, call: ReplayCall, visible: VisibleNames, tracker: RequestTracker, n: int) -> None:
        score, wanted = self.score, self.names_used[n]
        missing = sorted(name for name in wanted if not visible.has_name(name))
        score.used += len(wanted)
        score.available += len(wanted) - len(missing)
        score.in_context += sum(1 for name in wanted if visible.has_original(name))
        if missing:
            price = _known_rates(call.model, tracker.tokens[-1])
            reread = _REPAIR_CALLS * (tracker.tokens[-1] * price.read + _REPAIR_OUTPUT * price.output)
            score.repaired += len(missing) * (reread + _REPAIR_TOKENS * price.write) / 1e6
        if missing and self.has_recall:
            self._score_recall(call, missing, tracker)

    def _score_recall(self, call: ReplayCall, missing: Sequence[str], tracker: RequestTracker) -> None:
        """Charge one more call that searches for all missing names: it reads the prefix and writes the answers."""
        answers = {name: self.contender.recall(name) for name in missing}
        texts = [text for text in answers.values() if text is not None]
        if not texts:
            return
        score, price = self.score, _known_rates(call.model, tracker.tokens[-1])
        score.recoverable += sum(1 for name, text in answers.items() if text is not None and name in text)
        score.recalls += 1
        query_tokens = _QUERY_TOKENS * len(texts)
        answer_tokens = sum(map(self.session.messages.estimator.text, texts)) + query_tokens
        cost = tracker.tokens[-1] * price.read + answer_tokens * price.write + query_tokens * price.output
        score.recalled += cost / 1e6
        answer = self.contender.recall(newest_texts(self.session.wire, tracker.messages)) or ""
        score.by_request += sum(1 for name in missing if name in answer)

    def _score_last_request(self, visible: VisibleNames, tracker: RequestTracker, raw_tracker: RequestTracker) -> None:
        score, files = self.score, self.session.touched_files
        user_texts = {
            words for message in raw_tracker.messages for words in self.session.messages.facts(message).user_texts
        }
        score.said = len(user_texts)
        score.verbatim = sum(1 for one in user_texts if visible.user_texts[one] > 0)
        text = all_text(self.session.wire, tracker.messages)
        score.changed, score.changed_named = len(files.changed), count_mentioned(files.changed, text)
        score.read_files, score.read_named = len(files.read), count_mentioned(files.read, text)


def calibrate_session(session: ReplaySession, ttl: float) -> tuple[float, float]:
    """The recorded requests as we bill them and as they were billed: dollars at equal prices, for calls with a bill.

    Prefixes last as long as the client asked for; `ttl` where requests cannot ask. What a client sends again after a
    compaction (files, notes) is not in its log: there, as at the start, the bill gives the size of the request.
    """
    tracker, provider = RequestTracker(session.messages), _new_provider(session, ttl)
    simulated = billed = 0.0
    for n, call in enumerate(session.calls):
        tracker.update(request_messages(session.wire, call.recorded))
        if call.usage is not None and (call.is_compacted or not n):
            tracker.set_total(call.usage.prompt)
        usage = provider.send(tracker.prefix(call.recorded, thinks=call.thinks), call.at)
        if call.usage is not None:
            simulated += _known_rates(call.model, usage.prompt).prompt_cost(usage)
            billed += _known_rates(call.model, call.usage.prompt).prompt_cost(call.usage)
    return simulated, billed


def _new_provider(session: ReplaySession, ttl: float) -> Provider:
    return Provider(model=session.calls[0].model, ttl=ttl, is_explicit=session.wire.cache.is_explicit)


def _known_rates(model: str, prompt: int) -> Rates:
    """The prices of a request with so many tokens. Some models cost more from a certain length on."""
    rates = find_rates(model, prompt=prompt) or find_rates("claude-sonnet-4-5", prompt=prompt)
    assert rates is not None, "the table knows a Claude"
    return rates
