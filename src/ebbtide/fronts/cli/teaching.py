"""Help that teaches: what a command is for in a paragraph, then lines that can be typed as they stand."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from textwrap import dedent
from typing import TypeAlias

Run: TypeAlias = Callable[[argparse.Namespace], int]
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def command(
    commands: Commands, name: str, run: Run, *, brief: str, about: str, examples: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=brief,
        description=dedent(about).strip(),
        epilog="examples:\n" + "\n".join(f"  {row}" for row in dedent(examples).strip().splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser
