"""A request that is too large, made to fit, with what was done about it. Nothing is kept and nothing is written."""

import ebbtide
from ebbtide.example import path

*_, last = ebbtide.load(path()).requests()

try:
    ready = ebbtide.fit(last.request, window=100_000)
except ebbtide.WontFit as refused:
    raise SystemExit(f"too large, and made of {refused.made_of}") from None

report = ready.report
print(f"{report.tokens_before:,} -> {report.tokens_after:,} tokens in {len(ready.body['messages'])} messages")
for edit in report.edits[:3]:
    print(f"  {edit.by}: {edit.reason} ({edit.saved:,} tokens)")
