"""A policy is levels, a way of counting, passes and texts. Presets only set fields; there is one engine.

`default` is ours. The six others each reproduce one seed: its constants, triggers, gauge and exact strings.
"""

from __future__ import annotations

from ebbtide.policy.default import default
from ebbtide.policy.model import Overflow, Policy
from ebbtide.policy.registry import PRESETS, preset
from ebbtide.policy.sage import for_provider

__all__ = ["PRESETS", "Overflow", "Policy", "default", "for_provider", "preset"]
