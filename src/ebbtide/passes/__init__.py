"""Ways to make a request smaller. A pass is a function that proposes edits; no pass knows another.

The policy decides which passes run, in which order and with which settings.
"""

from ebbtide.core.planner import Pass
from ebbtide.passes.budget_results import budget_results
from ebbtide.passes.clear_media import clear_media
from ebbtide.passes.clear_results import clear_results
from ebbtide.passes.clear_to_target import clear_to_target
from ebbtide.passes.drop_calls import drop_calls
from ebbtide.passes.evict import evict, evict_messages
from ebbtide.passes.fold_regions import fold_regions
from ebbtide.passes.limit_output import limit_output
from ebbtide.passes.offload_input import offload_input
from ebbtide.passes.offload_results import offload_results
from ebbtide.passes.prune_results import prune_results
from ebbtide.passes.shorten_text import shorten_text
from ebbtide.passes.snip_results import snip_results
from ebbtide.passes.strip_thinking import strip_thinking
from ebbtide.passes.summarize import fold_to_fit, summarize
from ebbtide.passes.truncate_results import truncate_results

ARRIVAL: tuple[Pass, ...] = (offload_results, offload_input, limit_output, truncate_results)
"""These look at new items only, and may change what the model has not seen."""

PASSES: tuple[Pass, ...] = (
    *ARRIVAL,
    strip_thinking,
    snip_results,
    prune_results,
    clear_to_target,
    clear_results,
    clear_media,
    drop_calls,
    budget_results,
    shorten_text,
    fold_regions,
    summarize,
    evict,
    evict_messages,
    fold_to_fit,
)
"""All passes with their default settings, gentlest first. The tests of the laws run over these."""

__all__ = [
    "ARRIVAL", "PASSES", "budget_results", "clear_media", "clear_results", "clear_to_target", "drop_calls", "evict",
    "evict_messages", "fold_regions", "fold_to_fit", "limit_output", "offload_input", "offload_results",
    "prune_results", "shorten_text", "snip_results", "strip_thinking", "summarize", "truncate_results",
]  # fmt: skip
