"""Shows what a policy would have done to a recorded conversation, call by call, in memory.

The recorded usage is exact only until the first edit. After that the provider would have billed a different request,
so both sides are billed by a simulated provider: what was sent, and the same request unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace

from ebbtide.audit.history import History, build_history
from ebbtide.core.errors import WontFit
from ebbtide.formats import RecordedCall
from ebbtide.policy import Policy
from ebbtide.replay.billing import SessionBiller
from ebbtide.replay.session import is_sent
from ebbtide.runtime.decision import SessionSettings
from ebbtide.runtime.driver import run
from ebbtide.runtime.operations import append_record, record_reply
from ebbtide.runtime.session import open_session, prepare_and_commit
from ebbtide.state.session_state import ebb_record
from ebbtide.store import Log, open_store
from ebbtide.wire import WIRES

Watch = Callable[[Iterable[RecordedCall]], Iterable[RecordedCall]]

_DEFAULT_SECONDS_BETWEEN_CALLS = 10.0  # if the file has no times: within any cache's lifetime


def _each(calls: Iterable[RecordedCall]) -> Iterable[RecordedCall]:
    return calls


def simulate(
    calls: Sequence[RecordedCall],
    *,
    name: str,
    wire: str,
    policy: Policy,
    window: int,
    format: str = "",
    watch: Watch = _each,
) -> tuple[History, Log]:
    """Return the history of the simulated session, and its log, from which removed text can be read back.

    `format` is the recording's. `watch` may wrap the calls, to show progress.
    """
    calls = [call for call in calls if is_sent(call)]
    log, biller = open_store(None).open(name, now=0.0), SessionBiller(WIRES[wire], calls, format)
    session = open_session(SessionSettings(policy=policy, window=window, wire=WIRES[wire]), log)
    refusals: list[str] = []
    now = 0.0
    for number, call in enumerate(watch(calls), 1):
        now = max(now + 0.001, call.at if call.at is not None else now + _DEFAULT_SECONDS_BETWEEN_CALLS)
        request = biller.with_breakpoints(call)
        try:
            ready = run(prepare_and_commit(session, request, now=now), log)
        except WontFit as error:
            refusals.append(f"call {number}: {error}")
            continue
        assert isinstance(ready.body, dict), "the request was one"
        run(append_record(session, biller.record(ready.turn, call, request, ready.body, now), now=now), log)
        if call.usage is None:
            continue
        if not ready.report.held:
            run(record_reply(session, (), call.usage, ready, now=now), log)
        # For accounting only. With an edit in force this is the bill of another request, so no estimate is based on it.
        run(append_record(session, ebb_record("recorded", turn=ready.turn, at=now, **asdict(call.usage)), now=now), log)
    history = build_history(log.read().records, session=name, name=name, stored=False)
    return replace(history, refusals=tuple(refusals)), log
