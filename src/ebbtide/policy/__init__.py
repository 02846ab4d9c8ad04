"""A policy says which passes run, at which thresholds, and how tokens are counted. Presets only set its fields.

`default` is ours; `keep-more` and `spend-less` are the same with other numbers. Each of the six others reproduces one
agent: its constants, triggers, counting and exact texts.
"""

from __future__ import annotations

from ebbtide.policy.default import default
from ebbtide.policy.model import Overflow, Policy
from ebbtide.policy.registry import DIAL, POLICY_HELP, POLICY_NAMES, PRESETS, preset
from ebbtide.policy.sage import for_provider

__all__ = ["DIAL", "POLICY_HELP", "POLICY_NAMES", "PRESETS", "Overflow", "Policy", "default", "for_provider", "preset"]
