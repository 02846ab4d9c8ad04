"""Agent conversations for the driver's tests, and the pieces around them."""

import hashlib
import json
from dataclasses import replace

from ebbtide.passes import clear_results
from ebbtide.policy import default
from ebbtide.policy.adjust import pass_name
from ebbtide.policy.levels import shares
from ebbtide.runtime import Context

EARLY = replace(
    default,
    name="early",
    levels=shares(warning=0.60, soft=0.65, auto=0.80, hard=0.95, low=0.50),
    pressure=tuple(clear_results if pass_name(one) == "clear_results" else one for one in default.pressure),
)
"""The default's passes at levels of the tests' own: what these short conversations come to must not hang on a search."""

LINES = "src/tide/gauge.py:12: reading = level - datum\n"


def result(n, lines=150):
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": LINES * lines + str(n)}],
    }


def call(n, tool="Read", **args):
    block = {"type": "tool_use", "id": f"t{n}", "name": tool, "input": args or {"file_path": f"src/f{n}.py"}}
    return {"role": "assistant", "content": [{"type": "text", "text": f"step {n}"}, block]}


def loop(steps, lines=150, first=0):
    """A user's request and so many calls with their results."""
    messages = [{"role": "user", "content": "fix the gauge"}]
    for n in range(first, first + steps):
        messages += [call(n), result(n, lines)]
    return messages


def body(messages, **more):
    return {"model": "claude-opus-4-5", "max_tokens": 1000, "messages": messages, **more}


class Clock:
    """A clock that a test moves."""

    def __init__(self, at=1_000_000.0):
        self.at = at

    def __call__(self):
        return self.at

    def tick(self, seconds=10.0):
        self.at += seconds


def context(**options):
    clock = options.pop("clock", None) or Clock()
    # Where a test is not about cache breakpoints, requests that need no edit stay as they are.
    settings = {"model": "claude-opus-4-5", "window": 30_000, "clock": clock, "policy": EARLY, "marks": False}
    return Context(**{**settings, **options})


def run(ctx, messages, start=1):
    """Send every request that a client of this conversation would have sent; returns what went out."""
    return [ctx.prepare(body(messages[:n])) for n in range(start, len(messages) + 1, 2)]


def without_breakpoints(value):
    """Copy messages without `cache_control` and cache points. A string counts as one text block: it is written as one to carry a mark."""
    if isinstance(value, dict):
        return {
            key: [{"type": "text", "text": field}]
            if key in ("content", "system") and isinstance(field, str)
            else without_breakpoints(field)
            for key, field in value.items()
            if key != "cache_control"
        }
    if not isinstance(value, list):
        return value
    return [without_breakpoints(one) for one in value if not (isinstance(one, dict) and "cachePoint" in one)]


def unmarked(messages):
    """Messages without cache marks, as text."""
    return [json.dumps(message, sort_keys=True) for message in without_breakpoints(messages)]


def digest(value):
    """A short stand-in for a large value: pytest's diff of two long histories takes minutes."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
