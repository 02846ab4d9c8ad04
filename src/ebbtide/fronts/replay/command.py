"""`ebb replay`: whatever can be refused is refused before the work begins, which may take minutes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

from ebbtide import example
from ebbtide.argparse_errors import Parser
from ebbtide.config import claude_directory, load_settings
from ebbtide.config_keys import TTLS
from ebbtide.core.errors import BadRequest
from ebbtide.display import make_visible
from ebbtide.formats.claude_folder import find_claude_session
from ebbtide.fronts.replay.export import show_csv, show_json
from ebbtide.fronts.replay.plots import check_picture, draw_picture
from ebbtide.fronts.replay.policy_names import USUAL, chosen, listed
from ebbtide.fronts.replay.tables import console, show_tables
from ebbtide.prices import find_rates
from ebbtide.replay.run import ReplayOptions, ReplayResult, find_sessions, replay, replay_on_ray

_WINDOW = 200_000
"""Tokens, where nothing else was set: one dial for all sessions, so that their peaks can be compared."""
_LEAST = 1_000  # tokens: below it every call of a session is planned in vain, by each policy, for minutes
_ABOUT = """\
What would each policy have cost on your own sessions, and what would it have kept? Takes recorded
sessions (Claude Code, Codex, pi, OpenCode, SWE-agent, chat logs), one file or folders of them. At
every recorded model call it makes the request that the client would have sent had it never
compacted, lets each policy prepare it, and bills what goes out as the provider would: prefixes that
are cached, for how long, from which mark on. No model is called, nothing is sent.

Read the tables from the left: "of raw" is the bill as a part of the bill with nothing taken out;
"available" is how many of the names that the agent really used, not seen for ten calls, were still
in the request. A policy is better than another if it is cheaper AND keeps more.
Each score with its formula: docs/reference/replay.md
"""
_EXAMPLES = """\
examples:
  ebb replay --example                                   see what it does, in seconds
  ebb replay last                                        your last session of Claude Code, the usual policies
  ebb replay ~/.claude/projects/-home-me-app             all sessions of a project
  ebb replay sessions/ --policies default,masking --window 128k --plot out.png
  ebb replay sessions/ --policies all --json > scores.json

exit codes:
  0  done
  1  our fault or the disk's
  2  bad input: the message says what

environment:
  EBB_WINDOW         the window, in tokens
  CLAUDE_CONFIG_DIR  Claude Code's folder; default ~/.claude
  NO_COLOR           no colour, also on a terminal
"""


def main(arguments: Sequence[str]) -> int:
    args = command_line().parse_args(arguments)
    if args.list:
        print(listed())
        return 0
    terms = _terms(args)
    paths = _paths(args)
    if args.plot:
        check_picture(args.plot)
    played = _played(args, paths, terms)
    if not any(score.calls for one in played for score in one.scores.values()):
        raise BadRequest(_nothing(played))
    if args.json:
        show_json(played, terms)
    elif args.csv:
        show_csv(played)
    else:
        show_tables(played, terms)
    if args.plot:
        draw_picture(args.plot, played, terms)
        print(f"ebb: the picture is in {make_visible(args.plot)}", file=sys.stderr)
    return 0


def _terms(args: argparse.Namespace) -> ReplayOptions:
    settings = load_settings(arguments={"window": args.window, "model": args.model})
    if args.model and find_rates(args.model) is None:
        raise BadRequest(f"the table of prices knows no model {args.model!r}, nor one of its family")
    return ReplayOptions(
        policies=chosen(args.policies) if args.policies is not None else USUAL,
        window=_window(settings.window or _WINDOW),
        ttl=TTLS[args.ttl],
        model=args.model or "",
        has_recall=not args.no_recall,
    )


def _window(tokens: int) -> int:
    if tokens < _LEAST:
        raise BadRequest(f"a window of {tokens:,} tokens holds no request; is {tokens:,}k meant?")
    return tokens


def _paths(args: argparse.Namespace) -> list[Path]:
    given = [*args.paths, *([str(example.path())] if args.example else [])]
    if not given:
        raise BadRequest("which sessions? Give files or folders, or --example for the one that comes along")
    found = find_sessions([_found(one) for one in given])
    if not found:
        raise BadRequest(f"there is no recorded session in {', '.join(given)}")
    return found


def _found(given: str) -> str:
    """A path as it is; what is none is looked for among the sessions of Claude Code."""
    if not given:
        raise BadRequest("the name is empty: give a file or a session")
    if os.path.exists(given):
        return given
    try:
        return str(find_claude_session(claude_directory(), given))
    except BadRequest as unknown:
        raise BadRequest(f"there is no file {given}, and {unknown}") from None


def _played(args: argparse.Namespace, paths: Sequence[Path], terms: ReplayOptions) -> list[ReplayResult]:
    with _progress(len(paths)) as told:
        if args.ray:
            return replay_on_ray(paths, terms, args.ray, on_progress=told)
        return replay(paths, terms, workers=args.workers, on_progress=told)


def _nothing(played: Sequence[ReplayResult]) -> str:
    one = played[0]
    if len(played) == 1:
        return one.error or f"{one.path} holds a session in which no model was called"
    return (
        f"none of {len(played)} files holds a session with a model call; the first: {one.path}: {one.error or 'none'}"
    )


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int, int], None]]:
    """A bar where a person may be waiting."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    parts = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TextColumn("sessions"), TimeElapsedColumn())
    with Progress(*parts, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _workers(text: str) -> int:
    if not text.isdecimal() or int(text) > 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes")
    return int(text)


def command_line() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ebb replay",
        description=dedent(_ABOUT),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH|SESSION", help="recorded sessions, folders of them, or ids of Claude Code")
    add("--example", action="store_true", help="the session that comes with ebbtide")
    add("--policies", metavar="A,B", help="which to compare; `all` for all. Default: raw, recorded and the presets")
    add("--list", action="store_true", help="name the policies, with a line on each")
    add("--window", metavar="TOKENS", help="as in 200k, the default")
    add("--model", metavar="M", help="prices and cache rules of this model; default: the recorded one")
    add("--ttl", choices=list(TTLS), default="5m", help="how long the provider keeps a prefix; default 5m")
    add("--no-recall", action="store_true", help="do not search for what was missing: faster, and no recall score")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="print JSON: each file, and the totals")
    shown.add_argument("--csv", action="store_true", help="print CSV: a row for each file and policy, then the totals")
    add("--plot", metavar="FILE", help="draw a picture, too: .png, .svg or .pdf")
    add("--workers", metavar="N", type=_workers, default=0, help="processes; default: one for each core")
    add("--ray", metavar="ADDRESS", help="run on a Ray cluster; `local` starts one here")
    return parser
