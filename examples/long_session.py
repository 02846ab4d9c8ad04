"""A session that grows for hours. Edits come in rare batches; in between each request extends the last one."""

import ebbtide
from ebbtide.example import path

context = ebbtide.Context(window=100_000, store="agents", session="nightly")
for number, call in enumerate(ebbtide.load(path()).requests(), 1):
    ready = context.prepare(call.request)
    response = call.response  # in real life: client.messages.create(**ready.body)
    context.record(response)
    if ready.report.edits:
        saved = f"{ready.report.tokens_before:,} -> {ready.report.tokens_after:,} tokens"
        print(f"call {number}: {len(ready.report.edits)} edits, {saved}")

print(f"{number} calls, {context.counters()['compact_count']} batches of edits")
