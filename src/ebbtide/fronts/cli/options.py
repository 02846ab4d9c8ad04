"""Options that several commands share, how their values are parsed, and the settings that result."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.config import load_settings
from ebbtide.formats.claude_folder import NEWEST
from ebbtide.fronts.cli.help import Parser
from ebbtide.policy import PRESETS, Policy
from ebbtide.wire import WIRES

MAX_BYTES = 256 * 1024**2
"""Larger than any request that a provider accepts, and small enough to read into memory."""
INPUT, ENGINE, STORE, OUTPUT = "input", "engine", "store", "output"
"""Titles of the groups of options."""
_AMOUNT = re.compile(r"(\d+(?:[._]\d+)*)\s*([a-z]*)", re.IGNORECASE)
_BYTES = {"": 1, "b": 1, "k": 1024, "kb": 1024, "m": 1024**2, "mb": 1024**2, "g": 1024**3, "gb": 1024**3}
_SECONDS = {"": 86_400, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    store: str
    policy: Policy
    wire: str | None
    """None: detect it from the body."""
    window_for: Callable[[str], int]
    """The window that was set, else that of the model."""


def resolve_settings(args: argparse.Namespace) -> CommandSettings:
    """Apply the command line over the environment and the settings files."""
    options = vars(args)
    settings = load_settings(
        arguments={key: options.get(key) or None for key in ("window", "policy", "store", "model")}
    )
    return CommandSettings(
        store=settings.store, policy=settings.policy(), wire=options.get("wire"), window_for=settings.window_for
    )


def add_target(parser: Parser) -> None:
    parser.add_argument("target", nargs="?", default=NEWEST, metavar="FILE|SESSION", help="default: the newest session")


def add_session(parser: Parser) -> None:
    parser.add_argument("session", nargs="?", default=NEWEST, metavar="SESSION", help="default: the newest session")


def add_example(parser: Parser) -> None:
    parser.group(INPUT).add_argument("--example", action="store_true", help="use the session that comes with Ebbtide")


def add_store(parser: Parser) -> None:
    parser.group(STORE).add_argument(
        "--store", metavar="DIR", help="where sessions are kept; default: EBB_HOME, else your data folder"
    )


def add_project(parser: Parser) -> None:
    parser.group(STORE).add_argument(
        "--project", metavar="PATH", help="the project, if several have a session of that name"
    )


def add_json(parser: Parser) -> None:
    parser.group(OUTPUT).add_argument("--json", action="store_true", help="print JSON instead of a table")


def add_price(parser: Parser) -> None:
    parser.group(ENGINE).add_argument(
        "--price",
        type=_parse_price,
        metavar="USD|MODEL",
        help="dollars per million input tokens, or the model whose prices to use; default: the models called",
    )


def add_reading(parser: Parser) -> None:
    """Add the options of every command that reads a request or session and applies a policy to it."""
    source, engine = parser.group(INPUT), parser.group(ENGINE)
    source.add_argument(
        "--claude", action="store_true", help="a session of Claude Code: its id, the start of its id, or 'last'"
    )
    source.add_argument("--wire", choices=list(WIRES), help="the API format of the request; default: detected")
    source.add_argument(
        "--max-bytes", metavar="N", type=parse_bytes, default=MAX_BYTES, help="refuse larger input; default 256M"
    )
    engine.add_argument("--window", metavar="TOKENS", help="such as 200k; default: the model's window")
    engine.add_argument("--policy", metavar="NAME", help=f"one of {', '.join(PRESETS)}")
    add_store(parser)
    add_json(parser)


def parse_bytes(text: str) -> int:
    return int(_parse_amount(text, _BYTES, "a size; write it like 500M or 1G"))


def parse_seconds(text: str) -> float:
    """A number without a unit means days."""
    return _parse_amount(text, _SECONDS, "a time; write it like 30d or 12h")


def _parse_amount(text: str, units: dict[str, int], expectation: str) -> float:
    match = _AMOUNT.fullmatch(text.strip())
    if match and match[2].lower() in units:
        with suppress(ValueError):
            return float(match[1].replace("_", "")) * units[match[2].lower()]
    raise argparse.ArgumentTypeError(f"{text!r} is not {expectation}")


def _parse_price(text: str) -> float | str:
    try:
        price = float(text)
    except ValueError:
        return text
    if not 0 <= price < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a price")
    return price
