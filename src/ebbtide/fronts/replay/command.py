"""`ebb replay`: compare policies on recorded sessions. Bad input is refused before the work, which takes minutes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ebbtide import example, screen
from ebbtide.argparse_errors import front_parser
from ebbtide.config import claude_directory, load_settings
from ebbtide.config_keys import TTLS
from ebbtide.core.errors import BadRequest
from ebbtide.formats.claude_folder import find_claude_session
from ebbtide.fronts.replay.frontier_chart import print_frontier
from ebbtide.fronts.replay.output import build_document, print_csv, print_heading, print_tables, print_trust
from ebbtide.fronts.replay.plots import check_plot_path, draw_plot
from ebbtide.fronts.replay.policy_names import USUAL, list_policies, parse_policies
from ebbtide.prices import find_rates
from ebbtide.replay.frontier import ARMS as FRONTIER_ARMS
from ebbtide.replay.frontier import build_frontier
from ebbtide.replay.run import OnProgress, ReplayOptions, ReplayResult, replay, replay_on_ray, totals
from ebbtide.replay.sources import Source, find_sessions
from ebbtide.store import is_database, show_store

_WINDOW = 200_000
"""The default: one window for all sessions, so that their peaks can be compared."""
_MIN_WINDOW = 1_000  # tokens: with less, no policy can succeed, and trying takes minutes


def main(arguments: Sequence[str]) -> int:
    """What would each policy have cost on your own sessions, and what would it have kept? Takes recorded
    sessions (Claude Code, Codex, gemini-cli, pi, OpenCode, SWE-agent, chat logs), one file or folders of them. For
    every recorded model call it rebuilds the request as if the client had never compacted, lets each
    policy prepare it, and bills the result as the provider would, with its prompt cache. No model is
    called, nothing is sent.

    The first lines say what the default costs and keeps. In the tables, "of raw" is the bill as a share
    of the bill without Ebbtide; "available" is the share of names that the agent needed after ten or more
    calls and that were still in the request. A policy is better than another if it is cheaper AND keeps more.
    docs/reference/replay.md explains each score, with its formula.

    --frontier asks which of keep-more, balanced and spend-less is for you: what each would have cost, what
    it would have missed, and the one that it would choose, with the reason.

    examples:
      ebb replay --example                                   see what it does, in seconds
      ebb replay last                                        your last session of Claude Code, the usual policies
      ebb replay --frontier --claude last                    which setting is for me? A table, a chart and an answer
      ebb replay ~/.claude/projects/-home-me-app             all sessions of a project
      ebb replay sessions/ --policies default,masking --window 128k --plot out.png
      ebb replay sessions/ --policies all --json > scores.json
      ebb replay postgresql://owner@db.example/ebbtide       all sessions of a team's database

    exit codes:
      0  done
      1  an error in Ebbtide or on the disk
      2  bad input: the message says what

    environment:
      EBB_WINDOW         the window, in tokens
      CLAUDE_CONFIG_DIR  Claude Code's folder; default ~/.claude
      NO_COLOR           no colour, even on a terminal
    """
    args = command_line().parse_args(arguments)
    if args.list:
        print(list_policies())
        return 0
    options = _options(args)
    paths = _paths(args)
    if args.plot:
        check_plot_path(args.plot)
    results = _replay(args, paths, options)
    if not any(score.calls for result in results for score in result.scores.values()):
        raise BadRequest(_describe_failure(results))
    frontier = build_frontier(totals(results)) if args.frontier else None
    if args.json:
        screen.print_json(build_document(results, options, frontier))
    elif args.csv:
        print_csv(results)
    elif frontier:
        print_heading(results, options)
        print_frontier(frontier)
        print_trust(results)
    else:
        print_tables(results, options)
    if args.plot:
        draw_plot(args.plot, results, options, frontier)
        screen.notify(f"ebb: wrote the plot to {args.plot}")
    return 0


def _options(args: argparse.Namespace) -> ReplayOptions:
    settings = load_settings(arguments={"window": args.window, "model": args.model})
    if args.model and find_rates(args.model) is None:
        raise BadRequest(f"the price table knows neither {args.model!r} nor its family")
    return ReplayOptions(
        policies=_policies(args),
        window=_check_window(settings.window or (example.WINDOW if args.example and not args.paths else _WINDOW)),
        ttl=TTLS[args.ttl],
        model=args.model or "",
        has_recall=not args.no_recall,
    )


def _policies(args: argparse.Namespace) -> tuple[str, ...]:
    if args.frontier and args.policies is not None:
        raise BadRequest("--frontier replays its own policies: leave --policies out")
    if args.frontier:
        return FRONTIER_ARMS
    return USUAL if args.policies is None else parse_policies(args.policies)


def _check_window(tokens: int) -> int:
    if tokens < _MIN_WINDOW:
        raise BadRequest(f"no request fits a window of {tokens:,} tokens; did you mean {tokens:,}k?")
    return tokens


def _paths(args: argparse.Namespace) -> list[Source]:
    claude = [] if args.claude is None else [str(find_claude_session(claude_directory(), args.claude))]
    names = [*args.paths, *claude, *([str(example.path())] if args.example else [])]
    if not names:
        raise BadRequest("give the files or folders of sessions, or --example for the one that comes with Ebbtide")
    paths = find_sessions([_path_of(name) for name in names])
    if not paths:
        raise BadRequest(f"there is no recorded session in {', '.join(map(show_store, names))}")
    return paths


def _path_of(name: str) -> str:
    """The path or the address of a database itself, else the file of the Claude Code session with that name."""
    if not name:
        raise BadRequest("the name is empty: give a file or a session")
    if is_database(name) or os.path.exists(name):
        return name
    try:
        return str(find_claude_session(claude_directory(), name))
    except BadRequest as error:
        raise BadRequest(f"there is no file {name}, and {error}") from None


def _replay(args: argparse.Namespace, paths: Sequence[Source], options: ReplayOptions) -> list[ReplayResult]:
    with _progress_bar(len(paths)) as on_progress:
        if args.ray:
            return replay_on_ray(paths, options, args.ray, on_progress=on_progress)
        return replay(paths, options, workers=args.workers, on_progress=on_progress)


def _describe_failure(results: Sequence[ReplayResult]) -> str:
    first = results[0]
    if len(results) == 1:
        return first.error or f"{first.path} is a session without a model call"
    reason = first.error or "none"
    return f"none of {len(results)} files has a session with a model call; the first: {first.path}: {reason}"


@contextmanager
def _progress_bar(total: int) -> Iterator[OnProgress]:
    """Show a progress bar if stderr is a terminal. It counts calls too: a long session takes a minute."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    parts = (
        *(TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TextColumn("sessions,")),
        *(TextColumn("{task.fields[calls]:,} calls"), TimeElapsedColumn()),
    )
    with Progress(*parts, console=screen.console(sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=total, calls=0)
        yield lambda done, total, calls: bar.update(task, completed=done, total=total, calls=calls)


def _workers(text: str) -> int:
    if not text.isdecimal() or int(text) > 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes")
    return int(text)


def command_line() -> argparse.ArgumentParser:
    parser = front_parser("replay", main)
    add = parser.add_argument
    sources = "recorded sessions, folders or databases of them, or ids of Claude Code"
    add("paths", nargs="*", metavar="PATH|URL|SESSION", help=sources)
    add("--claude", metavar="SESSION", help="a session of Claude Code: an id, its beginning, or `last`")
    add("--example", action="store_true", help="use the session that comes with Ebbtide")
    add("--policies", metavar="A,B", help="which to compare; `all` for all. Default: raw, recorded and the presets")
    add("--frontier", action="store_true", help="compare keep-more, balanced and spend-less, and choose one")
    add("--list", action="store_true", help="list the policies, with a line on each")
    add("--window", metavar="TOKENS", help="such as 200k, the default; of the example 100k")
    add("--model", metavar="M", help="prices and cache rules of this model; default: the recorded one")
    add("--ttl", choices=list(TTLS), default="5m", help="how long the provider keeps a prefix; default 5m")
    add("--no-recall", action="store_true", help="do not search for missing names: faster, but no recall score")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON: each file, and the totals")
    output.add_argument("--csv", action="store_true", help="print CSV: a row per file and policy, then the totals")
    add("--plot", metavar="FILE", help="also draw a plot: .png, .svg or .pdf")
    add("--workers", metavar="N", type=_workers, default=0, help="processes; default: one per core")
    add("--ray", metavar="ADDRESS", help="run on a Ray cluster; `local` starts one here")
    return parser
