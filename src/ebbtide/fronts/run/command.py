"""`ebb run`: run a program behind its own proxy. The exit code is the program's; our own lines are on stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from ebbtide.argparse_errors import front_parser
from ebbtide.config import Settings, load_access, load_settings, process_environment
from ebbtide.core.errors import BadConfig
from ebbtide.display import make_visible
from ebbtide.fronts.run.clients import plan_launch
from ebbtide.fronts.run.launch import recognize
from ebbtide.fronts.run.listing import print_list
from ebbtide.fronts.run.messages import describe_start, format_summary
from ebbtide.fronts.run.plan import PROXY, LaunchPlan, Surroundings, parse_upstreams
from ebbtide.fronts.run.processes import ProxyProcess, run_in_foreground, settings_file
from ebbtide.store import is_database

CANNOT_START = 125
"""As in `env`, `timeout` and `docker run`: the failure is ours and not the program's."""


def main(arguments: Sequence[str]) -> int:
    """Runs a program behind its own proxy: its conversations stay inside the model's context window, and
    you change nothing in the program. Requests go where the program's own settings send them: ebb run
    reads those, and says in one line where that is, or why a program must run without it. The program
    has your terminal and gets your Ctrl-C, and ebb run returns its exit code, or 125 if it could not be
    started. At the end you see what was sent, what was removed and what that saved.

    examples:
      ebb run -- claude                            Claude Code, as you always start it
      ebb run -- npx @openai/codex exec "hello"    also through npx, uvx, pipx, or by a path
      ebb run --window 8k -- claude -p "hello"     a big agent on a small window
      ebb run -- python my_agent.py                anything on the official SDKs
      ebb run --shadow -- codex                    change nothing, and see what it would save
      ebb run --upstream http://127.0.0.1:8080 -- aider       send everything to your own model
      ebb run --list                               show what is set, for which program

    exit codes:
      the program's own
      125  the program or its proxy could not be started
      2    bad input; nothing was started

    environment:
      EBB_HOME, EBB_POLICY, EBB_WINDOW         same as --store, --policy, --window
      ANTHROPIC_BASE_URL, OPENAI_BASE_URL      where the proxy sends requests, if you set them
    """
    parser = command_line()
    args = parser.parse_args(arguments)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command and not args.list:
        parser.error("name the program to run, as in: ebb run -- claude")
    if args.json and not args.list:
        parser.error("--json belongs to --list: a program's output is its own")
    settings = load_settings(arguments={key: vars(args)[key] for key in ("window", "policy", "store")})
    settings.check_window()
    around = _look_around(args, settings)
    if args.list:
        return print_list(around, as_json=args.json)
    launch = recognize(command)
    plan = plan_launch(around, launch)
    if launch.asks_only_for_help:
        return _run_program(command, around.environ, plan)
    if not args.quiet:
        _print_error(describe_start(plan, settings, is_shadow=args.shadow))
    if plan.direct:
        return _run_program(list(plan.command), around.environ, plan)
    if find_spec("aiohttp") is None:
        raise BadConfig("ebb run needs more packages: pip install 'ebbtide[proxy]'")
    return _run_behind_proxy(args, around, plan, settings)


def _look_around(args: argparse.Namespace, settings: Settings) -> Surroundings:
    # A program cannot open what is in a database.
    recall = args.recall or settings.proxy.get("recall") or ("tool" if is_database(settings.store) else "path")
    configured = settings.proxy.get("upstreams")
    return Surroundings(
        environ=process_environment(),
        cwd=Path.cwd(),
        home=load_access().home,
        given=parse_upstreams(args.upstream),
        configured=configured if isinstance(configured, dict) else {},
        store=_make_store(settings) if recall == "path" and not args.shadow and not args.list else None,
    )


def _make_store(settings: Settings) -> Path:
    """Make the store's folder, because programs grant permissions only for folders that exist."""
    store = Path(settings.store).expanduser()
    try:
        (store / "projects").mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadConfig(f"the store {store} cannot be written to: {error.strerror}; choose one with --store") from error
    return store


def _run_behind_proxy(args: argparse.Namespace, around: Surroundings, plan: LaunchPlan, settings: Settings) -> int:
    options = [*plan.proxy_arguments(), *_proxy_options(args, plan, settings)]
    try:
        proxy = ProxyProcess(options, _proxy_environment(args, around.environ))
    except OSError as error:
        _print_error(f"ebb run: no port on 127.0.0.1 can be opened, so {plan.program} was not started: {error}")
        return CANNOT_START
    try:
        environ = plan.environment(around.environ, proxy.address)
        with settings_file(plan.file.replace(PROXY, proxy.address)) as file:
            code = _run_program(plan.command_for(proxy.address, file), environ, plan)
        if not args.quiet:
            _print_end(proxy, plan, args.store or "")
        return code
    finally:
        proxy.stop()


def _run_program(command: Sequence[str], environ: Mapping[str, str], plan: LaunchPlan) -> int:
    try:
        return run_in_foreground(command, environ)
    except OSError as error:
        _print_error(f"ebb run: cannot start {plan.command[0]}: {error.strerror or error}")
        return CANNOT_START


def _print_end(proxy: ProxyProcess, plan: LaunchPlan, store: str) -> None:
    if proxy.failure:
        _print_error(f"ebb run: the proxy could not start: {proxy.failure.removeprefix('ebb: ')}")
    else:
        summary = proxy.summary() if proxy.was_needed() else {"requests": 0}
        receipts = proxy.receipts() if summary.get("requests") else []
        _print_error(format_summary(summary, plan.program, receipts=receipts, restarts=proxy.restarts, store=store))


def _proxy_options(args: argparse.Namespace, plan: LaunchPlan, settings: Settings) -> list[str]:
    """Return the options that are passed on to the proxy. It has no token: its client was started by us."""
    values = vars(args)
    if not values["recall"] and "recall" not in settings.proxy:
        is_path = plan.recall == "path" and is_database(settings.store)
        values = {**values, "recall": "tool" if is_path else plan.recall}
    names = [name for name in ("window", "policy", "recall", "summarizer") if values[name]]
    options = [part for name in names for part in (f"--{name}", values[name])]
    return [*options, "--token", "", *(["--shadow"] if args.shadow else [])]


def _proxy_environment(args: argparse.Namespace, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The address of a store may hold a password, so it is not an argument, which every process list shows."""
    return {**environ, "EBB_HOME": args.store} if args.store else environ


def _print_error(message: str) -> None:
    print(make_visible(message), file=sys.stderr, flush=True)


def command_line() -> argparse.ArgumentParser:
    parser = front_parser("run", main)
    parser.usage = "ebb run [OPTIONS] -- CMD [ARGUMENTS...]"
    add = parser.add_argument
    add("command", nargs=argparse.REMAINDER, metavar="CMD", help="the program and its arguments, after --")
    add("--list", action="store_true", help="show what is set, for which program, and start nothing")
    add("--json", action="store_true", help="with --list: print JSON")
    add("--upstream", metavar="[NAME=]URL", action="append", default=[], help="where the proxy sends requests")
    add("--window", metavar="TOKENS", help="context window, such as 200k; default: by the model")
    add("--policy", metavar="NAME", help="keep-more, balanced (default) or spend-less; or another, as for ebb fit")
    add(
        "--store",
        metavar="DIR|URL",
        help="where sessions are kept, such as postgresql://...; default: EBB_HOME, else your data folder",
    )
    add("--recall", choices=("path", "tool", "off"), help="how the model reads saved output; see ebb proxy --help")
    add("--summarizer", metavar="MODEL", help="the model that writes summaries; 'own' uses the program's own")
    add("--shadow", action="store_true", help="change nothing, and report what would have been saved")
    add("--quiet", action="store_true", help="print nothing of our own")
    return parser
