"""Two ways to keep one conversation, played on the same calls, with the same window and the same provider."""

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

MOST = 3
"""Arms of one comparison: each plays the whole session."""


def compared(recording: Recording, episode: str, names: Sequence[str], *, window: int, models: Sequence[str]) -> Json:
    """Every arm's score on one conversation of a recording, at the prices of the models that were called in it."""
    unknown = [name for name in names if name not in NAMES]
    if unknown or not 1 <= len(names) <= MOST:
        raise BadRequest(f"name 1 to {MOST} of {', '.join(NAMES)}")
    # A log of ours names the model with the request, and other programs with the answer: there it stays by call.
    answers = any(call.model for call in recording.requests() if call.episode == episode)
    played = sessions_in(recording, "", model="" if answers or not models else models[-1])
    # Tapes are named by file and episode; without a file's name the episode is all that is left.
    tape = next((one for one in played if one.name.removeprefix("#") == episode), None)
    if tape is None:
        raise BadRequest("no model was called in this session")
    used = names_used_by_call(tape)
    return {
        "window": window,
        "calls": len(tape.calls),
        "unpriced": [model for model in dict.fromkeys(models) if find_rates(model) is None],
        "arms": [_arm(tape, name, window, used) for name in names],
    }


def _arm(tape: ReplaySession, name: str, window: int, used: Sequence[frozenset[str]]) -> Json:
    scoring = Scorer(tape, contender(name, window)(tape), window, FIVE_MINUTES, used)
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
