"""Compares policies on one conversation: the same requests, window and prices for each."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.core.errors import BadRequest
from ebbtide.core.types import FIVE_MINUTES
from ebbtide.formats import Recording
from ebbtide.fronts.ui.serialize import Json
from ebbtide.prices import find_rates
from ebbtide.replay.policies import NAMES, contender
from ebbtide.replay.score import Score, Scorer, names_used_by_call
from ebbtide.replay.session import ReplaySession, sessions_in

MAX_POLICIES = 3
"""Each policy replays the whole session."""


def compare_policies(
    recording: Recording, episode: str, names: Sequence[str], *, window: int, models: Sequence[str]
) -> Json:
    """Score each policy on one conversation of a recording, at the prices of the models that were called."""
    unknown = [name for name in names if name not in NAMES]
    if unknown or not 1 <= len(names) <= MAX_POLICIES:
        raise BadRequest(f"choose 1 to {MAX_POLICIES} policies of {', '.join(NAMES)}")
    # Our own logs name the model in the request. Other programs name it in the answer, so it may differ by call.
    has_model_per_call = any(call.model for call in recording.requests() if call.episode == episode)
    tapes = sessions_in(recording, "", model="" if has_model_per_call or not models else models[-1])
    # A tape is named `file#episode`; this recording has no file name.
    tape = next((tape for tape in tapes if tape.name.removeprefix("#") == episode), None)
    if tape is None:
        raise BadRequest("this session has no request to a model")
    uses = names_used_by_call(tape)
    return {
        "window": window,
        "calls": len(tape.calls),
        "unpriced": [model for model in dict.fromkeys(models) if find_rates(model) is None],
        "arms": [_score_policy(tape, name, window, uses) for name in names],
    }


def _score_policy(tape: ReplaySession, name: str, window: int, uses: Sequence[frozenset[str]]) -> Json:
    scoring = Scorer(tape, contender(name, window)(tape), window, FIVE_MINUTES, uses)
    score = scoring.run()
    prompt = score.read + score.written + score.fresh
    return {
        "policy": name,
        "cost": round(score.bill, 6),
        "recalled": round(score.recalled, 6),
        "tokens": score.tokens,
        "peak": score.peak,
        "breaks": score.breaks,
        "over": score.over,
        "shrunk": score.shrunk,
        "hit_rate": score.read / prompt if prompt else 0.0,
        "kept": _share(score.available, score),
        "reachable": _share(score.available + score.recoverable, score),
        "series": [point.tokens for point in scoring.points],
    }


def _share(names: int, score: Score) -> float | None:
    return names / score.used if score.used else None
