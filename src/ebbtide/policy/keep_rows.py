"""A policy for requests of which only some messages are known: it shortens results and changes nothing else."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.passes import clear_results
from ebbtide.policy.adjust import pass_name
from ebbtide.policy.model import Policy


def keep_rows(policy: Policy) -> Policy:
    """Return a policy with the thresholds of this one that shortens results to one line and keeps every message.

    What is left of the results adds up, because none of them ever goes: so no salient lines are kept.
    """
    arrival = tuple(step for step in policy.arrival if pass_name(step) == "offload_large")
    return replace(
        policy,
        arrival=arrival, pressure=(clear_results,), always=(), folds=(), last_resort=(), overflow="prune", blocks=False,
    )  # fmt: skip
