"""Sixty tool calls in a window of 4,096 with a real model on loopback: what is refused without Ebbtide, and its cost.

    python benchmarks/local_model.py [--calls 60] [--window 4096] [--no-summarizer]

Needs requirements/dev.txt. Uses one core for about ten minutes. The server counts, refuses and caches, not Ebbtide.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

# The server and the story come from the tests: this is the same test, only longer. Their folder replaces this one on
# the path, because a file here has the same name.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from ebbtide import Context
from local_model.model_server import missing, served
from local_model.story import story
from local_model.story_run import Step, Summarizer, walk


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--calls", type=int, default=60)
    options.add_argument("--window", type=int, default=4096)
    options.add_argument("--no-summarizer", action="store_true", help="compact with facts alone, without a model")
    chosen = options.parse_args()
    if absent := missing():
        print(f"not installed: {absent}", file=sys.stderr)
        return 2
    begun, steps = time.monotonic(), []
    with served(chosen.window) as model:
        summaries = Summarizer(model)
        context = Context(window=chosen.window, summarizer=None if chosen.no_summarizer else summaries)
        for step in walk(model, context, story(chosen.calls)):
            steps.append(step)
            print(_line(len(steps), step, time.monotonic() - begun), flush=True)
    print(_figures(steps, summaries, time.monotonic() - begun))
    return 1 if any(step.refusal for step in steps) else 0


def _line(number: int, step: Step, seconds: float) -> str:
    raw = f"{step.raw_tokens:6}{'!' if step.raw_refusal else ' '}"
    edits = " ".join(f"{name} x{times}" if times > 1 else name for name, times in Counter(step.made_by).items())
    told = "REFUSED" if step.refusal else f"{step.prompt:5} cached {step.cached:5}"
    return f"{seconds:7.1f} s  {number:3}  raw {raw} ours {told}  {edits}"


def _figures(steps: list[Step], summaries: Summarizer, seconds: float) -> str:
    usage = [answer["usage"] for answer in summaries.answered]
    prompts, cached = sum(step.prompt for step in steps), sum(step.cached for step in steps)
    rows = {
        "requests": len(steps),
        "refused by the server, raw": sum(step.raw_refusal is not None for step in steps),
        "refused by the server, ours": sum(step.refusal is not None for step in steps),
        "largest request, raw": max(step.raw_tokens for step in steps),
        "largest request, ours": max(step.prompt for step in steps),
        "requests for which edits were made": sum(bool(step.made_by) for step in steps),
        "folds": sum("summarize" in step.made_by for step in steps),
        "summary calls, answered": f"{len(summaries.asked)}, {len(summaries.answered)}",
        "tokens of summary calls, in and out": f"{sum(one['prompt_tokens'] for one in usage)}, "
        f"{sum(one['completion_tokens'] for one in usage)}",
        "prompt tokens, ours": prompts,
        "of these read from the cache": f"{cached} ({cached / max(1, prompts):.0%})",
        "tokens answered": sum(step.output for step in steps),
        "seconds": f"{seconds:.0f}",
    }
    return "\n".join(f"{name:<40} {value}" for name, value in rows.items())


if __name__ == "__main__":
    sys.exit(main())
