"""The two tools with which a model gets back what left. What they return was asked for: it is not taken out again."""

from __future__ import annotations

SEARCH_TOOL, READ_TOOL = "ebb_recall", "ebb_read"
RECALL_TOOLS = (SEARCH_TOOL, READ_TOOL)
"""Passes leave their results alone, and the index leaves them out: they quote what is recorded elsewhere."""

HITS = 5
"""How many a search gives: what a model reads in one glance, some 2,000 characters."""
MOST_HITS = 50
PAGE = 8_000
"""Characters of one page, about 2,000 tokens: a page must not itself be what fills the window."""
