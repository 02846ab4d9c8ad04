"""How large a request is. A policy chooses one rule; each trusts certain bills and estimates the rest.

The estimator counts in tokens of one family of models. Another family is a ratio away, known roughly beforehand and
learned from what the provider bills: a clipped, weighted mean of logarithms. No bill is believed alone: one that a
gateway doubled moves it by a bounded step, and a long true one moves it more than ten short ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from ebbtide.core.tokens.estimator import Estimator
from ebbtide.core.types import Usage

_CLAUDE = re.compile(r"claude-(?P<name>[a-z]+)-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)")
_LIKE_GPT = re.compile(r"(^|[/.\-_])(gpt|o[134]|codex|chatgpt|qwen|mistral|devstral)", re.IGNORECASE)
_NEW_TOKENIZER = (4, 7)

_LEAST_SEEN, _MOST_SEEN = 50, 1e9
"""In tokens: below the first framing and rounding drown the ratio, above the second nothing is a request."""
_IMPLAUSIBLE = math.log(4)
"""Usage of another request, or of none."""
_STEP = math.log(1.5)
"""The furthest one usage may be from what is known and still count in full."""
_PRIOR_MASS, _MOST_MASS, _MOST_WEIGHT = 2_000.0, 100_000.0, 20_000.0
"""In tokens: one tool result outweighs the prior; about the last hundred calls are remembered."""
_MOST_OUTPUT = 1 << 18
"""No model says more in one reply."""
_MODELS = 64
_NAME = 200


def _claude_version(model: str) -> tuple[str, tuple[int, int]] | None:
    match = _CLAUDE.search(model.lower())
    if match is None:
        return None
    return match["name"], (int(match["major"]), int(match["minor"] or 0))


@lru_cache(maxsize=64)
def prior(model: str) -> float:
    """Tokens of this model to one of `estimate.py`'s, before any usage.

    Sessions of Opus 4.7 came to 1.30-1.37, of GPT-5.5 to 0.77-0.86. Qwen's and Mistral's vocabularies give GPT's counts
    on English, code and JSON within 5 %. An unmeasured model gets 1.0: too high costs one fold too many, too low an
    overflow.
    """
    claude = _claude_version(model)
    if claude is not None:
        return 1.35 if claude[1] >= _NEW_TOKENIZER else 1.0
    return 0.8 if _LIKE_GPT.search(model) else 1.0


def keeps_thinking(model: str) -> bool:
    """Whether the provider still counts an earlier turn's thinking once the user has spoken again.

    In the recordings Opus 4.5 and every Claude from 4.6 on keep it; Sonnet 4.5 and GPT drop it at the next user turn.
    Inside a tool loop every model keeps it.
    """
    claude = _claude_version(model)
    return claude is not None and claude[1] >= ((4, 5) if claude[0] == "opus" else (4, 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRatio:
    log: float
    """Of the ratio."""
    mass: float
    """Estimated tokens it rests on, the prior's included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What usage has taught about each model's ratio. At most 64 models, the longest unseen leaves."""

    models: Mapping[str, LearnedRatio] = field(default_factory=dict)

    def ratio(self, model: str) -> float:
        learned = self.models.get(model[:_NAME])
        return prior(model) if learned is None else math.exp(learned.log)

    def observe(self, model: str, estimated: float, actual: float) -> Calibration:
        """`estimated` as the estimator gave it, no ratio applied, for the same tokens that `actual` bills."""
        if not (_LEAST_SEEN <= estimated < _MOST_SEEN and 1 <= actual < _MOST_SEEN):  # NaN is neither
            return self
        ratio = self.models.get(model[:_NAME]) or LearnedRatio(log=math.log(prior(model)), mass=_PRIOR_MASS)
        off = math.log(actual / estimated) - ratio.log
        if abs(off) > _IMPLAUSIBLE:
            return self
        weight = min(estimated, _MOST_WEIGHT)
        mass = min(_MOST_MASS, ratio.mass + weight)
        log = ratio.log + max(-_STEP, min(_STEP, off)) * weight / (ratio.mass + weight)
        # Many small lies are no more plausible than one.
        first = math.log(prior(model))
        log = max(first - _IMPLAUSIBLE, min(first + _IMPLAUSIBLE, log))
        models = dict(self.models)
        models.pop(model[:_NAME], None)
        models[model[:_NAME]] = LearnedRatio(log=log, mass=mass)
        if len(models) > _MODELS:
            del models[next(iter(models))]
        return Calibration(models=models)

    def as_dict(self) -> dict[str, list[float]]:
        return {name: [ratio.log, ratio.mass] for name, ratio in self.models.items()}

    @classmethod
    def from_dict(cls, data: object) -> Calibration:
        """What is not a finite pair within bounds is left out: a calibration is a convenience, no reason to fail."""
        if not isinstance(data, Mapping):
            return cls()
        learned = {name: ratio for name, pair in data.items() if isinstance(name, str) and (ratio := _read_ratio(pair))}
        return cls(models=dict(list(learned.items())[-_MODELS:]))


def _read_ratio(pair: object) -> LearnedRatio | None:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        return None
    numbers = [float(x) for x in pair if isinstance(x, (int, float)) and math.isfinite(x)]
    if len(numbers) != 2 or abs(numbers[0]) > 2 * _IMPLAUSIBLE or numbers[1] <= 0:
        return None
    return LearnedRatio(log=numbers[0], mass=min(numbers[1], _MOST_MASS))


_MARGIN, _DRIFT, _SLACK = 1.25, 0.01, 300
"""On what no usage covers, on the anchor, and flat. The last two are for what we do not see: reminders that a client
adds on its way, a reply's thinking. With them 0.7 % of recorded bills exceed the bound, without them 13.5 %."""


def scale_from_anchor(anchor: int, since: int, calibration: Calibration, model: str) -> int:
    """The last usage, and an estimate of what came after it. `since` is negative where edits took more out (R043).

    With no anchor this is the cold estimate of the whole.
    """
    return max(0, anchor + round(since * calibration.ratio(model)))


def scale_from_anchor_upper(anchor: int, since: int, calibration: Calibration, model: str) -> int:
    """A bound that usage rarely exceeds: what was added may be more than estimated, what was taken out less."""
    changed = since * calibration.ratio(model)
    return max(0, math.ceil(anchor * (1 + _DRIFT) + (changed * _MARGIN if changed > 0 else changed / _MARGIN)) + _SLACK)


def reply_tokens(output: int, estimated: int) -> int:
    """What a reply adds to the next prompt: all that was billed for it, thinking included.

    Clients that note the usage of a stream's first event record an output of 1 to 8; then the estimate stands.
    """
    # Half: the estimate of a whole reply is never twice too high, and a first event's output is always far below.
    return output if estimated <= output * 2 <= _MOST_OUTPUT * 2 else estimated


class SizeInputs(NamedTuple):
    """What a size rule may use, for one request. Tokens are as estimated, without the model's ratio."""

    estimator: Estimator
    calibration: Calibration = Calibration()
    model: str = ""
    view: int = 0
    """All entries."""
    messages: int = 0
    system: int = 0
    tools: int = 0
    last: Usage | None = None
    """Of the newest call."""
    remaining: int | None = None
    """If edits were made since that bill: what remains of it, plus what was added. Else None."""
    anchor: Usage | None = None
    """Of the longest request that this one extends."""
    reply: int = 0
    """Estimated tokens of the reply to that request, which is now part of the history."""
    since: int = 0
    """Estimated tokens after that reply."""
    window: int = 0
    """0 if unknown."""

    @property
    def estimate(self) -> int:
        return self.estimator.total(self.view + self.system + self.tools, self.messages)


SizeRule = Callable[[SizeInputs], int]

_FAR = 4
"""An estimate is never so far off: of 3,611 recorded calls none was billed less than 0.46 of it."""
_FEW = 2_000
"""Below this many tokens a wrong bill does no harm."""
_UNSEEN = 4_000
"""Tokens that a gateway may add even to an empty request."""


def anchored_usage(readings: SizeInputs) -> int:
    """The default: the usage of the longest sent prefix, plus a calibrated estimate of what was added (R029, D3)."""
    usage = readings.anchor
    if usage is not None:
        anchor = usage.prompt + reply_tokens(usage.output, readings.reply)
        warm = scale_from_anchor(anchor, readings.since, readings.calibration, readings.model)
        if not _of_another(readings, warm):
            return warm
    return scale_from_anchor(0, readings.estimate, readings.calibration, readings.model)


def upper_bound(readings: SizeInputs) -> int:
    """A size that usage rarely exceeds, for a promise to fit."""
    usage = readings.anchor
    if usage is not None:
        anchor = usage.prompt + reply_tokens(usage.output, readings.reply)
        warm = scale_from_anchor_upper(anchor, readings.since, readings.calibration, readings.model)
        if not _of_another(readings, warm):
            return warm
    return readings.estimator.upper(scale_from_anchor(0, readings.estimate, readings.calibration, readings.model))


def _of_another(readings: SizeInputs, tokens: int) -> bool:
    """Whether the bill cannot be of this conversation: some gateways send only zeros, others sum up all calls. With the
    first we would never act, with the second refuse forever.

    A high bill is doubted only where the request would be refused: what a recording omits or a gateway adds is billed.
    """
    estimate, refused = readings.estimate, 0 < readings.window < tokens
    if not refused and estimate < tokens * 2:  # as on nearly every turn
        return False
    expected = estimate * prior(readings.model)
    return tokens * _FAR < expected > _FEW or (refused and tokens > expected * _FAR + _UNSEEN)


def billed_input(readings: SizeInputs) -> int:
    """mini-claude: the last call's uncached input, nothing else (R028). Before the first call, an estimate."""
    if readings.remaining is not None:
        return readings.remaining
    return readings.last.input if readings.last else readings.estimate


def billed_context(readings: SizeInputs) -> int:
    """OpenCode: input, cache reads and output of the last call (R030). Before the first call, an estimate."""
    if readings.remaining is not None:
        return readings.remaining
    last = readings.last
    return last.input + last.cache_read + last.output if last else readings.estimate


def estimated_tokens(readings: SizeInputs) -> int:
    """region: all of the request, by estimate (R036)."""
    return readings.estimate


def estimated_with_tools(readings: SizeInputs) -> int:
    """sage: messages and tools (R033)."""
    return readings.estimator.total(readings.view + readings.tools, readings.messages)


def estimated_messages(readings: SizeInputs) -> int:
    """claude-code and learn-v5: the messages alone (R031, R039)."""
    return readings.estimator.total(readings.view, readings.messages)
