"""The policies that `ebb replay` knows by name, with a line on each."""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.core.errors import BadRequest
from ebbtide.policy import DIAL, PRESETS
from ebbtide.replay.policies import LIBRARY, NAMES, UNMARKED

ABOUT: Mapping[str, str] = {
    "raw": "nothing is ever removed; the others are measured against it",
    "recorded": "what the client sent when the session was recorded, with its own compactions",
    "keep-more": "Ebbtide's default, acting later: keeps more and costs more",
    "default": "Ebbtide's default, also called `balanced`, without a model",
    "spend-less": "Ebbtide's default, acting earlier: costs less and keeps less",
    "default+library": "the same for a program that sets no cache breakpoints: the default sets them",
    "claude-code": "Claude Code 2.1.19: clears old results, then one summary, at fixed distances from the window's end",
    "opencode": "OpenCode: prunes results behind the newest 40,000 tokens, then one summary",
    "mini-claude": "mini-claude: tiers by the last bill, then one summary at 85 %",
    "sage": "sage: a share of the window by model; then removes the oldest messages",
    "region": "the article's regions: summarizes runs of calls in place, some at 70 %, all at 90 %",
    "learn-v5": "learn-claude-code v5: clears large old results on every turn",
    "default+model": "Ebbtide's default, with a model for its summaries (a canned summary here)",
    "masking": "JetBrains and SWE-agent: masks all observations but the newest 10, on every turn",
    "hybrid": "masking, and a summary every 43 turns",
    "clear-tool-uses": "Anthropic's context editing with its defaults: above 100,000 tokens clears all but 3 results",
    "lean": "Hermes: at half the window replaces all but 25,000 tokens by an index that can be searched",
}

USUAL = tuple(name for name in NAMES if name in {"raw", "recorded", "default+library", *PRESETS})
_WITH_MODEL = "+model"
_CHOICE = f"{', '.join(dict.fromkeys((*DIAL, *NAMES)))}, and `all` for all of them"
"""In messages: our own policies first."""


def parse_policies(text: str) -> tuple[str, ...]:
    """Read --policies. `raw` always comes first, because the others are measured against it."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    policies = [policy for name in names for policy in (NAMES if name == "all" else (name,))]
    for name in policies:
        if not _is_known(name):
            raise BadRequest(f"no policy is called {name!r}; there are {_CHOICE}")
    if not policies:
        raise BadRequest(f"--policies names none; there are {_CHOICE}")
    return tuple(dict.fromkeys(("raw", *policies)))


def _is_known(name: str) -> bool:
    """`NAME+model` runs any policy with a model, and `NAME+library` for a program that sets no cache breakpoints."""
    bare = name.removesuffix(UNMARKED).removesuffix(LIBRARY)
    return name in NAMES or bare.removesuffix(_WITH_MODEL) in {*DIAL, *NAMES} - {"raw", "recorded"}


def list_policies() -> str:
    width = max(map(len, ABOUT))
    rows = [f"{name:<{width}}  {about}" for name, about in ABOUT.items()]
    return "\n".join(
        [*rows, "", "If a policy asks a model for a summary, it gets the same canned summary as all others."]
    )
