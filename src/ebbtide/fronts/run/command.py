"""`ebb run`: run a program behind its own proxy. The exit code is the program's; a summary follows on stderr."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

from ebbtide.argparse_errors import front_parser
from ebbtide.config import process_environment
from ebbtide.core.text.preview import pluralize
from ebbtide.display import make_visible
from ebbtide.fronts.run.addresses import CLIENTS, Client, Environment, Route, RoutePlan, plan_routes
from ebbtide.fronts.run.processes import CannotStart, ProxyProcess, run_in_foreground

CANNOT_START = 125
"""As in `env`, `timeout` and `docker run`: the failure is ours and not the program's."""


def main(arguments: Sequence[str]) -> int:
    """Runs a program behind its own proxy: its conversations stay inside the model's context window, and
    you change nothing in the program. The base URLs that known clients read are set for it; if you had
    set an address yourself, the proxy sends requests there. The program has your terminal and gets your
    Ctrl-C, and ebb run returns its exit code, or 125 if it could not be started. At the end you see how
    many tokens were sent, removed and billed.

    examples:
      ebb run -- claude                            Claude Code, as you always start it
      ebb run --window 8k -- claude -p "hello"     a big agent on a small window
      ebb run -- python my_agent.py                anything on the official SDKs
      ebb run --shadow -- codex                    change nothing, and see what it would save
      ebb run --upstream http://127.0.0.1:8080 -- aider       send everything to your own model
      ebb run --upstream openai=https://chatgpt.com/backend-api/codex -- codex    Codex with a login
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
    environ = process_environment()
    plan = plan_routes(environ, args.upstream)
    if args.list:
        return _list(plan, as_json=args.json)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("name the program to run, as in: ebb run -- claude")
    try:
        proxy = ProxyProcess([*plan.upstreams(), *_proxy_options(args)], environ)
    except (CannotStart, OSError) as error:
        reason = str(error).removeprefix("ebb: ")
        _print_error(f"ebb run: the proxy could not start, so {command[0]} was not started: {reason}")
        return CANNOT_START
    return _run_behind(proxy, plan, command, environ, quiet=args.quiet)


def _run_behind(
    proxy: ProxyProcess, plan: RoutePlan, command: Sequence[str], environ: Environment, *, quiet: bool
) -> int:
    try:
        code = run_in_foreground(plan.command(command, proxy.address), plan.environment(environ, proxy.address))
    except OSError as error:
        _print_error(f"ebb run: cannot start {command[0]}: {error.strerror or error}")
        return CANNOT_START
    else:
        if not quiet:
            _print_error(format_summary(proxy.summary(), command[0], restarts=proxy.restarts))
        return code
    finally:
        proxy.stop()


def format_summary(summary: Mapping[str, object], program: str, *, restarts: int = 0) -> str:
    """Say what was sent, removed and billed, or why there is nothing to say."""
    times = pluralize(restarts, "time")
    note = f"\n  the proxy crashed {times} and was started again; the numbers are from then on" if restarts else ""
    if not summary:
        return "ebb run: the proxy does not answer, so there are no numbers" + note
    totals = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    requests = totals.get("requests", 0)
    if not requests:
        return (
            f"ebb run: the proxy saw no request to a model. {program} may have made none, or its settings may have an\n"
            "  address that overrides the environment: 'ebb run --list' shows what is set" + note
        )
    before, after = totals.get("tokens_untouched", 0), totals.get("tokens_sent", 0)
    saved = max(0, before - after)
    share = f" ({saved / before:.0%})" if saved else ""
    edits = ", ".join(pluralize(totals.get(name, 0), name[:-1]) for name in ("edits", "folds") if totals.get(name))
    head = f"ebb run: {pluralize(requests, 'request')} in {pluralize(totals.get('sessions', 0), 'conversation')}"
    lines = [
        f"{head}; nothing was changed, this is what would have been" if summary.get("shadow") else head,
        f"  sent       {after:>12,} tokens, estimated",
        f"  removed    {saved:>12,} tokens{share}{', by ' + edits if edits else ''}",
    ]
    if totals.get("input_tokens"):
        read = totals.get("cache_read_tokens", 0)
        cached = f", {read / totals['input_tokens']:.0%} of them read from the provider's cache" if read else ""
        lines.append(f"  billed     {totals['input_tokens']:>12,} input tokens{cached}")
    if totals.get("overflows"):
        lines.append(
            f"  rescued    {totals['overflows']:>12,} requests refused for their size, compacted and sent again"
        )
    if totals.get("fallbacks"):
        count = totals["fallbacks"]
        lines.append(
            f"  fell back  {count:>12,} requests sent with earlier edits alone, as planning failed or was late"
        )
    return "\n".join(lines) + note


def _list(plan: RoutePlan, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps([_row(plan, client) for client in CLIENTS], indent=2))
        return 0
    rows = [("PROGRAM", "SETS", "SENDS TO", "")]
    for client in CLIENTS:
        name = f"{client.name} ({client.command})" if client.command else client.name
        for n, variable in enumerate(client.sets):
            address = _route(plan, variable).address or "the provider"
            rows.append(("" if n else name, variable, address, "" if n else client.note))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print(make_visible("  ".join(cells).rstrip()))
    example = "ANTHROPIC_BASE_URL=" + _value(plan, "ANTHROPIC_BASE_URL")
    print(make_visible(f"\nEach is set to an address of the proxy, such as {example}"))
    return 0


_EXAMPLE_ADDRESS = "http://127.0.0.1:PORT"
"""No proxy was started, so there is no port."""
_VARIABLE = {"-c openai_base_url": "OPENAI_BASE_URL", "OPENCODE_CONFIG_CONTENT": "opencode.anthropic"}


def _row(plan: RoutePlan, client: Client) -> dict[str, object]:
    return {
        "client": client.name,
        "command": client.command,
        "sets": {name: _value(plan, name) for name in client.sets},
        "upstreams": {name: _route(plan, name).address or None for name in client.sets},
        "note": client.note,
    }


def _value(plan: RoutePlan, name: str) -> str:
    return (
        plan.environment({}, _EXAMPLE_ADDRESS)[name]
        if name.startswith("OPENCODE")
        else _route(plan, name).base_url(_EXAMPLE_ADDRESS)
    )


def _route(plan: RoutePlan, name: str) -> Route:
    return plan.routes[_VARIABLE.get(name, name)]


def _proxy_options(args: argparse.Namespace) -> list[str]:
    """Return the options that are passed on to the proxy."""
    values = vars(args)
    names = [name for name in ("window", "policy", "store", "recall", "summarizer") if values[name]]
    options = [part for name in names for part in (f"--{name}", values[name])]
    return [*options, *(["--shadow"] if args.shadow else [])]


def _print_error(message: str) -> None:
    print(make_visible(message), file=sys.stderr)


def command_line() -> argparse.ArgumentParser:
    parser = front_parser("run", main)
    parser.usage = "ebb run [OPTIONS] -- CMD [ARGUMENTS...]"
    add = parser.add_argument
    add("command", nargs=argparse.REMAINDER, metavar="CMD", help="the program and its arguments, after --")
    add("--list", action="store_true", help="show what is set, for which program, and start nothing")
    add("--json", action="store_true", help="with --list: print JSON")
    add("--upstream", metavar="[NAME=]URL", action="append", default=[], help="where the proxy sends requests")
    add("--window", metavar="TOKENS", help="context window, such as 200k; default: by the model")
    add("--policy", metavar="NAME", help="a preset, as for ebb fit")
    add("--store", metavar="DIR", help="where sessions are kept; default: EBB_HOME, else your data folder")
    add("--recall", choices=("path", "tool", "off"), help="how the model reads saved output; see ebb proxy --help")
    add("--summarizer", metavar="MODEL", help="the model that writes summaries; 'own' uses the program's own")
    add("--shadow", action="store_true", help="change nothing, and report what would have been saved")
    add("--quiet", action="store_true", help="print no summary at the end")
    return parser
