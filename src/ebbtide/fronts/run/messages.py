"""What `ebb run` says: one line when it starts, and a few when the program has ended."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from importlib import import_module
from urllib.parse import urlsplit

from ebbtide.config import Settings
from ebbtide.core.text.preview import pluralize
from ebbtide.display import round_number, short_number, token_count
from ebbtide.fronts.run.plan import PROVIDERS, LaunchPlan

_SHOWN_HOSTS = 2


def describe_start(plan: LaunchPlan, settings: Settings, *, is_shadow: bool = False) -> str:
    """Say where the program's requests go, or why it runs without us."""
    if plan.direct:
        return f"ebb run: {plan.program} runs without Ebbtide: {plan.direct}"
    notes = [_describe_window(plan, settings), *(["nothing is changed (--shadow)"] if is_shadow else []), *plan.notes]
    return f"ebb run: {plan.program} -> ebbtide -> {_describe_hosts(plan)}, {'; '.join(notes)}"


def _describe_hosts(plan: LaunchPlan) -> str:
    hosts = plan.hosts()
    if len(hosts) <= _SHOWN_HOSTS:
        return " or ".join(hosts)
    usual = {urlsplit(address).netloc for address in PROVIDERS.values()}
    own = [host for host in hosts if host not in usual]
    return " or ".join([*own, "the provider's own address"])


def _describe_window(plan: LaunchPlan, settings: Settings) -> str:
    if settings.window:
        return f"window {round_number(settings.window)}"
    if not plan.model:
        return "window by model"
    known = settings.known_window_for(plan.model)
    guess = settings.window_for(plan.model)
    if known:
        return f"window {round_number(known)}"
    return f"window as the provider says, else {round_number(guess)}, a guess: --window sets it"


def format_summary(
    summary: Mapping[str, object],
    program: str,
    *,
    receipts: Sequence[Mapping[str, object]] = (),
    restarts: int = 0,
    store: str = "",
) -> str:
    """Say what was sent, removed and saved, or why there is nothing to say.

    `receipts` are those of the proxy; `store` is where the sessions are, if the user named it.
    """
    times = pluralize(restarts, "time")
    note = f"\n  the proxy crashed {times} and was started again; the numbers are from then on" if restarts else ""
    if not summary:
        return "ebb run: the proxy does not answer, so there are no numbers" + note
    totals = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    if not totals.get("requests"):
        return "\n".join((_describe_silence(totals, program), *_failures(totals))) + note
    head = (
        f"ebb run: {pluralize(totals['requests'], 'request')} in {pluralize(totals.get('sessions', 0), 'conversation')}"
    )
    # As billed, where it was: the proxy's own total is an estimate.
    peaks = [peak for receipt in receipts if isinstance(peak := receipt.get("largest_request"), int)]
    if largest := max(peaks, default=int(totals.get("largest_request", 0))):
        head += f", the largest {token_count(largest)}"
    if summary.get("shadow"):
        head += "; nothing was changed, this is what would have been"
    lines = [head, *_removed(totals, receipts, is_shadow=bool(summary.get("shadow"))), *_saved(receipts)]
    return "\n".join((*lines, *_bill(totals), *_failures(totals), *_next_step(receipts, store))) + note


def _describe_silence(totals: Mapping[str, float], program: str) -> str:
    if totals.get("unanswered_requests") or totals.get("refused_requests"):
        return f"ebb run: no request of {program} was answered"
    return (
        f"ebb run: the proxy saw no request to a model. {program} may have made none, or its settings may have an\n"
        "  address that overrides the environment: 'ebb run --list' shows what is set"
    )


def _removed(totals: Mapping[str, float], receipts: Sequence[Mapping[str, object]], *, is_shadow: bool) -> list[str]:
    edits = pluralize(int(totals.get("edits", 0)), "edit") if totals.get("edits") else ""
    edits += f", {int(totals['folds'])} of them compactions" if totals.get("folds") else ""
    if is_shadow or not receipts:
        saved = max(0, totals.get("tokens_untouched", 0) - totals.get("tokens_sent", 0))
        return _row("removed", f"{int(saved):,} tokens, summed over requests" + (f", by {edits}" if edits else ""))
    removed, read_back = _add(receipts, "removed_tokens"), int(_add(receipts, "read_back"))
    if not removed:
        return _row("removed", "nothing: every request fits")
    back = f"; read back {pluralize(read_back, 'time')}" if read_back else ""
    return _row("removed", token_count(int(removed)) + (f", by {edits}" if edits else "") + back)


def _saved(receipts: Sequence[Mapping[str, object]]) -> list[str]:
    """The figure of `ebb report`, of all sessions together."""
    if not _add(receipts, "removed_tokens"):
        return []
    tokens = _add(receipts, "saved_tokens")
    has_prices = all(receipt.get("saved_dollars") is not None for receipt in receipts)
    amount = f"{short_number(round(abs(tokens)))} input tokens"
    if has_prices:
        # Not before the end: the engine's modules take longer to load than a short program runs.
        dollars = import_module("ebbtide.money").format_usd(abs(_add(receipts, "saved_dollars")))
        amount = f"{dollars} ({amount})"
    share = f", {abs(_share(receipts)):.1%} of the cost without Ebbtide" if len(receipts) == 1 else ""
    basis = "" if any(receipt.get("is_billed") for receipt in receipts) else ", estimated: no bill came by"
    name = "saved" if tokens >= 0 else "not paid back yet:"
    return _row(name, f"{amount}{share}, after cache prices and our own calls{basis}")


def _bill(totals: Mapping[str, float]) -> list[str]:
    if not totals.get("input_tokens"):
        return []
    read = totals.get("cache_read_tokens", 0) / totals["input_tokens"]
    cached = f", {read:.0%} of them read from the provider's cache" if read else ""
    return _row("billed", f"{int(totals['input_tokens']):,} input tokens{cached}")


_FAILURES = (
    ("rescued", "overflows", "refused for size, compacted and sent again"),
    ("refused", "refused_requests", "answered with an error"),
    ("unanswered", "unanswered_requests", "that the provider did not answer, or not to the end"),
    ("fell back", "fallbacks", "sent with earlier edits alone, as planning failed or was late"),
)


def _failures(totals: Mapping[str, float]) -> list[str]:
    shown = [(name, int(totals[key]), what) for name, key, what in _FAILURES if totals.get(key)]
    return [line for name, count, what in shown for line in _row(name, f"{pluralize(count, 'request')} {what}")]


def _next_step(receipts: Sequence[Mapping[str, object]], store: str) -> list[str]:
    if not receipts:
        return []
    name = str(receipts[0]["session"])
    # The address of a database may hold a password.
    option = "" if not store else " --store ..." if "://" in store else f" --store {shlex.quote(store)}"
    return [*_row("session", name), *_row("for more", f"ebb report {name}{option}")]


def _row(name: str, text: str) -> list[str]:
    return [f"  {name:<10} {text}"]


def _add(receipts: Sequence[Mapping[str, object]], key: str) -> float:
    return sum(value for receipt in receipts if isinstance(value := receipt.get(key), int | float))


def _share(receipts: Sequence[Mapping[str, object]]) -> float:
    return _add(receipts[:1], "saved_share")
