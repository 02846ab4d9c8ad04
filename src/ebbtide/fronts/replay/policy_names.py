"""Which policies can be named, and what each is, in a line."""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.core.errors import BadRequest
from ebbtide.policy import PRESETS
from ebbtide.replay.policies import NAMES

ABOUT: Mapping[str, str] = {
    "raw": "nothing is ever taken out; all else is measured against it",
    "recorded": "what the client itself sent when the session was recorded, its compactions included",
    "default": "our own, without a model",
    "claude-code": "Claude Code 2.1.19: clears old results, then one summary, at fixed distances from the window's end",
    "opencode": "OpenCode: prunes results behind the newest 40,000 tokens, then one summary",
    "mini-claude": "mini-claude: tiers by the last bill, then one summary at 85 %",
    "sage": "sage: a share of the window by model; then the oldest messages go",
    "region": "the article's regions: runs of calls fold where they stand, softly at 70 %, hard at 90 %",
    "learn-v5": "learn-claude-code v5: large old results are cleared on every turn",
    "default+model": "our own, with a model for its summaries (the stand-in)",
    "masking": "JetBrains and SWE-agent: all observations but the newest 10 are masked, on every turn",
    "hybrid": "masking, and a summary every 43 turns",
    "clear-tool-uses": "Anthropic's context editing with its defaults: above 100,000 tokens all but 3 results go",
    "lean": "Hermes: at half the window all but a tail of 25,000 tokens becomes an index that can be searched",
}

USUAL = ("raw", "recorded", *PRESETS)
_ASKED = "+model"


def chosen(text: str) -> tuple[str, ...]:
    """The policies that an option names, each once. `raw` comes first, asked for or not: it is what others are of."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    every = [one for name in names for one in (NAMES if name == "all" else (name,))]
    for name in every:
        if not _known(name):
            raise BadRequest(f"no policy is called {name!r}; there are {', '.join(NAMES)}, and `all` for all of them")
    if not every:
        raise BadRequest(f"--policies names none; there are {', '.join(NAMES)}, and `all` for all of them")
    return tuple(dict.fromkeys(("raw", *every)))


def _known(name: str) -> bool:
    """`NAME+model` is any of ours that is otherwise run without one."""
    return name in NAMES or (name.endswith(_ASKED) and name.removesuffix(_ASKED) in set(NAMES) - {"raw", "recorded"})


def listed() -> str:
    width = max(map(len, ABOUT))
    rows = [f"{name:<{width}}  {about}" for name, about in ABOUT.items()]
    return "\n".join([*rows, "", "Where a policy asks a model, each gets the same stand-in for a summary."])
