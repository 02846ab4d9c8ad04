"""`fit`: prepare one request without a session. And how large a request may be, without a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.tokens.size import Calibration, SizeInputs, anchored_usage, upper_bound
from ebbtide.policy import Policy, preset
from ebbtide.runtime.context import Body
from ebbtide.runtime.decision import SessionSettings
from ebbtide.runtime.driver import run
from ebbtide.runtime.ready import Ready
from ebbtide.runtime.session import open_session, prepare_and_commit
from ebbtide.runtime.validation import check_settings, check_tokens
from ebbtide.store import PrivateLog
from ebbtide.wire import find_wire
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import Reader

_UNTAUGHT = Calibration()


class SizeBounds(NamedTuple):
    """Tokens of a request that was not billed yet."""

    estimate: int
    upper: int
    """What a bill will rarely exceed."""


def estimate_bounds(
    body: Mapping[str, Any] | bytes | str, wire: Wire | None = None, calibration: Calibration = _UNTAUGHT
) -> SizeBounds:
    """By our own estimator, whatever the policy counts with. All zero for a request whose history a server holds."""
    request = Reader(DEFAULT, wire=wire).read(body)
    if request.partial_history_reason:
        return SizeBounds(0, 0)
    system, tools = request.overhead
    readings = SizeInputs(
        estimator=DEFAULT,
        calibration=calibration,
        model=request.model,
        view=sum(item.tokens for item in request.items),
        messages=len(request.messages),
        system=system,
        tools=tools,
    )
    return SizeBounds(anchored_usage(readings), upper_bound(readings))


def fit(
    request: Body,
    *,
    window: int = 200_000,
    policy: str | Policy = "default",
    model: str = "",
    wire: str | None = None,
) -> Ready:
    """Stateless: a valid request whose upper bound fits the window, or `WontFit`. Writes nothing anywhere."""
    check_settings(model=model)
    window, chosen, named = (
        check_tokens("window", window),
        preset(policy, model=model),
        None if wire is None else find_wire(wire),
    )
    ready = _fit_once(request, window, chosen, model, named)
    # A reference agent's count allows for no error and is up to twice too low: ours has to agree.
    if chosen.estimator.margin > 1 or estimate_bounds(ready.body, named).upper <= window:
        return ready
    return _fit_once(request, window, replace(chosen, estimator=DEFAULT), model, named)


def _fit_once(request: Body, window: int, policy: Policy, model: str, wire: Wire | None) -> Ready:
    log = PrivateLog("fit", now=0.0)
    settings = SessionSettings(
        policy=replace(policy, gauge=upper_bound), window=window, model=model, saves_content=False, wire=wire
    )
    prepared = run(prepare_and_commit(open_session(settings, log), request, now=0.0), log)
    return Ready(prepared.body, prepared.report)
