"""Facts about a session, collected without a model. A summary is added to them and never replaces them."""

from __future__ import annotations

from ebbtide.facts.build import CollectFacts, FactsMemory, collect_facts, item_handle
from ebbtide.facts.model import SessionFacts
from ebbtide.facts.render import find_missing, render_facts, required_facts

__all__ = [
    "CollectFacts", "FactsMemory", "SessionFacts", "collect_facts", "find_missing", "item_handle", "render_facts",
    "required_facts",
]  # fmt: skip
