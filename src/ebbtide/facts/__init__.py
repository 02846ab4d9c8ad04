"""Facts kept by machine. A model's summary is added to them, checked against them, and never replaces them."""

from __future__ import annotations

from ebbtide.facts.build import extend, handle_of, ledger_of
from ebbtide.facts.model import Command, FileFact, Ledger, Note, Running, Said, Seen, Stated, Todo, Trouble
from ebbtide.facts.must_keep import Fact, missing, must_survive
from ebbtide.facts.render import render

__all__ = [
    "Command",
    "Fact",
    "FileFact",
    "Ledger",
    "Note",
    "Running",
    "Said",
    "Seen",
    "Stated",
    "Todo",
    "Trouble",
    "extend",
    "handle_of",
    "ledger_of",
    "missing",
    "must_survive",
    "render",
]
