"""Options that commands share, and the one place where they meet the configuration."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.config import load_settings
from ebbtide.fronts.cli import amounts
from ebbtide.fronts.cli.help import Parser
from ebbtide.policy import PRESETS, Policy
from ebbtide.wire import WIRES

MAX_BYTES = 256 * 1024**2
"""Larger than any request a provider takes, and small enough to be read into memory."""
INPUT, ENGINE, STORE, OUTPUT = "input", "engine", "store", "output"
"""The groups that options stand in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What a command goes by: the command line over `config.Settings`."""

    store: str
    policy: Policy
    wire: str | None
    """None: by the body's shape."""
    window_for: Callable[[str], int]
    """The window that was set, else that of the model."""


def settled(args: argparse.Namespace) -> Settled:
    """What the command line said, over what environment and files say."""
    told = vars(args)
    found = load_settings(arguments={key: told.get(key) or None for key in ("window", "policy", "store", "model")})
    return Settled(store=found.store, policy=found.policy(), wire=told.get("wire"), window_for=found.window_for)


def add_example(parser: Parser) -> None:
    parser.group(INPUT).add_argument("--example", action="store_true", help="use the session that comes with Ebbtide")


def add_store(parser: Parser) -> None:
    parser.group(STORE).add_argument(
        "--store", metavar="DIR", help="where sessions are kept; default: EBB_HOME, else your data folder"
    )


def add_project(parser: Parser) -> None:
    parser.group(STORE).add_argument("--project", metavar="PATH", help="where two projects have a session of that name")


def add_json(parser: Parser) -> None:
    parser.group(OUTPUT).add_argument("--json", action="store_true", help="print JSON instead of a table")


def add_reading(parser: Parser) -> None:
    """What every command takes that reads a request or a session and looks at it under a policy."""
    source, engine = parser.group(INPUT), parser.group(ENGINE)
    source.add_argument(
        "--claude", action="store_true", help="a session of Claude Code, by its id, its beginning, or 'last'"
    )
    source.add_argument("--wire", choices=list(WIRES), help="the provider's format; default: told by the body")
    source.add_argument(
        "--max-bytes", metavar="N", type=amounts.octets, default=MAX_BYTES, help="refuse larger input; default 256M"
    )
    engine.add_argument("--window", metavar="TOKENS", help="as in 200k; default: by the model")
    engine.add_argument("--policy", metavar="NAME", help=f"one of {', '.join(PRESETS)}")
    add_store(parser)
    add_json(parser)
