"""What a policy would have done to a recorded session, or would do to one request. Everything happens in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ebbtide.audit.history import History, build_history
from ebbtide.audit.simulate import simulate as rehearsed_one
from ebbtide.formats import RecordedCall
from ebbtide.policy import Policy
from ebbtide.runtime import fit
from ebbtide.runtime.report import ReportBasis


def rehearsed(
    calls: Iterable[RecordedCall], *, name: str, wire: str, policy: Policy, window_for: Callable[[str], int]
) -> tuple[History, ...]:
    """One history for each conversation in the file."""
    by_episode: dict[str, list[RecordedCall]] = {}
    for call in calls:
        by_episode.setdefault(call.episode, []).append(call)
    made = (
        rehearsed_one(told, name=episode or name, wire=wire, policy=policy, window=window_for(told[0].model))[0]
        for episode, told in by_episode.items()
    )
    return tuple(replace(history, name=name) for history in made)


def fitted(body: bytes, *, name: str, wire: str | None, policy: Policy, window: int) -> History:
    """One request, as `ebb fit` would fit it: nothing is kept, and the promise is by the upper bound."""
    behind = fit(body, window=window, policy=policy, wire=wire).report.behind
    records = behind.log.read().records if isinstance(behind, ReportBasis) else ()
    return build_history(records, session="fit", name=name, stored=False)
