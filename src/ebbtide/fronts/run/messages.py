"""What `ebb run` says: one line when it starts, and a few when the program has ended."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from ebbtide.config import Settings
from ebbtide.core.text.preview import pluralize
from ebbtide.display import round_number
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
    return f"window {round_number(known)}" if known else f"window {round_number(guess)}, a guess: --window sets it"


def format_summary(summary: Mapping[str, object], program: str, *, restarts: int = 0) -> str:
    """Say what was sent, removed and billed, or why there is nothing to say."""
    times = pluralize(restarts, "time")
    note = f"\n  the proxy crashed {times} and was started again; the numbers are from then on" if restarts else ""
    if not summary:
        return "ebb run: the proxy does not answer, so there are no numbers" + note
    totals = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    requests = totals.get("requests", 0)
    if not requests:
        return (
            f"ebb run: the proxy saw no request to a model. {program} may have made none, or its settings may have an\n"
            "  address that overrides the environment: 'ebb run --list' shows what is set" + note
        )
    before, after = totals.get("tokens_untouched", 0), totals.get("tokens_sent", 0)
    saved = max(0, before - after)
    share = f" ({saved / before:.0%})" if saved else ""
    edits = ", ".join(pluralize(totals.get(name, 0), name[:-1]) for name in ("edits", "folds") if totals.get(name))
    head = f"ebb run: {pluralize(requests, 'request')} in {pluralize(totals.get('sessions', 0), 'conversation')}"
    lines = [
        f"{head}; nothing was changed, this is what would have been" if summary.get("shadow") else head,
        f"  sent       {after:>12,} tokens, estimated",
        f"  removed    {saved:>12,} tokens{share}{', by ' + edits if edits else ''}",
    ]
    if totals.get("input_tokens"):
        read = totals.get("cache_read_tokens", 0)
        cached = f", {read / totals['input_tokens']:.0%} of them read from the provider's cache" if read else ""
        lines.append(f"  billed     {totals['input_tokens']:>12,} input tokens{cached}")
    if totals.get("overflows"):
        lines.append(
            f"  rescued    {totals['overflows']:>12,} requests refused for their size, compacted and sent again"
        )
    if totals.get("fallbacks"):
        count = totals["fallbacks"]
        lines.append(
            f"  fell back  {count:>12,} requests sent with earlier edits alone, as planning failed or was late"
        )
    return "\n".join(lines) + note
