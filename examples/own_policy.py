"""A policy is a value: take one, replace a field. This one acts early and never gives up an exchange."""

from dataclasses import replace
from functools import partial

import ebbtide
from ebbtide.example import path
from ebbtide.passes import clear_results, snip_results, strip_thinking
from ebbtide.policy.levels import shares

early = replace(
    ebbtide.preset("default"),
    name="early",
    levels=shares(warning=0.3, soft=0.35, auto=0.4, hard=0.95, low=0.2),
    pressure=(snip_results, partial(clear_results, keep_results=8), strip_thinking),
    last_resort=(),
)
*_, last = ebbtide.load(path()).requests()
for policy in ("default", early):
    report = ebbtide.fit(last.request, window=128_000, policy=policy).report
    print(f"{policy if isinstance(policy, str) else policy.name}: {report.tokens_after:,} tokens")
