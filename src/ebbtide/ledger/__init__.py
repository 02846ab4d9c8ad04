"""Facts kept by machine. A model's summary is added to them, checked against them, and never replaces them."""

from __future__ import annotations

from ebbtide.ledger.build import extend, handle_of, ledger_of
from ebbtide.ledger.facts import Command, FileFact, Ledger, Note, Running, Said, Seen, Stated, Todo, Trouble
from ebbtide.ledger.render import render
from ebbtide.ledger.survive import Fact, missing, must_survive

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
