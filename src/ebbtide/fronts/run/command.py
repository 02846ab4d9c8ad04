"""`ebb run`: whatever is ours goes to stderr and after the program's end; the exit code is the program's."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

from ebbtide.argparse_errors import Parser
from ebbtide.config import process_environment
from ebbtide.core.text.preview import pluralize
from ebbtide.display import make_visible
from ebbtide.fronts.run.addresses import CLIENTS, Client, Environment, Plan, Route, planned
from ebbtide.fronts.run.foreground import run
from ebbtide.fronts.run.proxy_process import CannotStart, Proxy

CANNOT_START = 125
"""As `env`, `timeout` and `docker run` have it: the trouble is ours, and not the program's."""

_ABOUT = """\
Starts a program behind a proxy of its own: its conversations stay inside the model's window, and
nothing of it has to be changed. The base URLs that known clients read are set for it; an address
that you had set yourself is where the proxy sends to. The program has your terminal, gets your
Ctrl-C, and its exit code is the one you get; 125 says that it could not be started. At the end
you are told what was kept in, what was taken out, and what that saved.
"""
_EXAMPLES = """\
examples:
  ebb run -- claude                            Claude Code, as you always start it
  ebb run --window 8k -- claude -p "hello"     a big agent on a small window
  ebb run -- python my_agent.py                anything on the official SDKs
  ebb run --shadow -- codex                    change nothing, and see what it would save
  ebb run --upstream http://127.0.0.1:8080 -- aider       everything to a model of your own
  ebb run --upstream openai=https://chatgpt.com/backend-api/codex -- codex    Codex with a login
  ebb run --list                               what is set, for which program

exit codes:
  the program's own
  125  it could not be started, or its proxy could not
  2    bad input, before anything is started

environment:
  EBB_HOME, EBB_POLICY, EBB_WINDOW         as --store, --policy, --window
  ANTHROPIC_BASE_URL, OPENAI_BASE_URL      where the proxy sends to, if you had set them
"""


def main(arguments: Sequence[str]) -> int:
    parser = command_line()
    args = parser.parse_args(arguments)
    environ = process_environment()
    plan = planned(environ, args.upstream)
    if args.list:
        return _list(plan, as_json=args.json)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("which program? as in: ebb run -- claude")
    try:
        proxy = Proxy([*plan.upstreams(), *_passed_on(args)], environ)
    except (CannotStart, OSError) as failed:
        _say(f"ebb run: the proxy could not start, so neither did {command[0]}: {str(failed).removeprefix('ebb: ')}")
        return CANNOT_START
    return _behind(proxy, plan, command, environ, quiet=args.quiet)


def _behind(proxy: Proxy, plan: Plan, command: Sequence[str], environ: Environment, *, quiet: bool) -> int:
    try:
        code = run(plan.command(command, proxy.address), plan.environment(environ, proxy.address))
    except OSError as failed:
        _say(f"ebb run: cannot start {command[0]}: {failed.strerror or failed}")
        return CANNOT_START
    else:
        if not quiet:
            _say(told(proxy.summary(), command[0], fallen=proxy.fallen))
        return code
    finally:
        proxy.stop()


def told(summary: Mapping[str, object], program: str, *, fallen: int = 0) -> str:
    """What was kept in, taken out and saved; or why there is nothing to tell."""
    again = (
        f"\n  the proxy fell {pluralize(fallen, 'time')} and was started again: numbers are from then on"
        if fallen
        else ""
    )
    if not summary:
        return "ebb run: the proxy is gone, and with it the numbers" + again
    number = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    requests = number.get("requests", 0)
    if not requests:
        return (
            f"ebb run: no request to a model came by. Perhaps {program} made none, or has an address of its own\n"
            "  in its settings, which stands above the environment: 'ebb run --list' says what is set" + again
        )
    before, after = number.get("tokens_untouched", 0), number.get("tokens_sent", 0)
    saved = max(0, before - after)
    share = f" ({saved / before:.0%})" if saved else ""
    edits = ", ".join(pluralize(number.get(name, 0), name[:-1]) for name in ("edits", "folds") if number.get(name))
    head = f"ebb run: {pluralize(requests, 'request')} in {pluralize(number.get('sessions', 0), 'conversation')}"
    lines = [
        f"{head}; nothing was changed, and this is what would have been" if summary.get("shadow") else head,
        f"  kept in    {after:>12,} tokens, as estimated",
        f"  taken out  {saved:>12,} tokens{share}{', by ' + edits if edits else ''}",
    ]
    if number.get("input_tokens"):
        read = number.get("cache_read_tokens", 0)
        cached = f", {read / number['input_tokens']:.0%} of it read from the provider's cache" if read else ""
        lines.append(f"  billed     {number['input_tokens']:>12,} tokens of input{cached}")
    if number.get("overflows"):
        lines.append(f"  rescued    {number['overflows']:>12,} refused for their size, folded and sent again")
    if number.get("fallbacks"):
        lines.append(
            f"  fell back  {number['fallbacks']:>12,} sent with earlier edits alone, as planning failed or was late"
        )
    return "\n".join(lines) + again


def _list(plan: Plan, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps([_row(plan, client) for client in CLIENTS], indent=2))
        return 0
    rows = [("PROGRAM", "WHAT IS SET", "SENT ON TO", "")]
    for client in CLIENTS:
        name = f"{client.name} ({client.command})" if client.command else client.name
        for at, one in enumerate(client.sets):
            rows.append(("" if at else name, one, _route(plan, one).address or _ITSELF, "" if at else client.note))
    wide = [max(len(row[at]) for row in rows) for at in range(3)]
    for row in rows:
        print(make_visible("  ".join([*(row[at].ljust(wide[at]) for at in range(3)), row[3]]).rstrip()))
    print(
        make_visible(
            "\nEach is set to an address of the proxy, as in ANTHROPIC_BASE_URL=" + _value(plan, "ANTHROPIC_BASE_URL")
        )
    )
    return 0


_SHOWN = "http://127.0.0.1:PORT"
"""There is no proxy yet, and so no port."""
_ITSELF = "the provider"
_VARIABLE = {"-c openai_base_url": "OPENAI_BASE_URL", "OPENCODE_CONFIG_CONTENT": "opencode.anthropic"}


def _row(plan: Plan, client: Client) -> dict[str, object]:
    return {
        "client": client.name,
        "command": client.command,
        "sets": {name: _value(plan, name) for name in client.sets},
        "upstreams": {name: _route(plan, name).address or None for name in client.sets},
        "note": client.note,
    }


def _value(plan: Plan, name: str) -> str:
    return plan.environment({}, _SHOWN)[name] if name.startswith("OPENCODE") else _route(plan, name).base(_SHOWN)


def _route(plan: Plan, name: str) -> Route:
    return plan.routes[_VARIABLE.get(name, name)]


def _passed_on(args: argparse.Namespace) -> list[str]:
    """The proxy's own options, as they were given."""
    given = vars(args)
    named = [name for name in ("window", "policy", "store", "recall", "summarizer") if given[name]]
    told = [part for name in named for part in (f"--{name}", given[name])]
    return [*told, *(["--shadow"] if args.shadow else [])]


def _say(message: str) -> None:
    print(make_visible(message), file=sys.stderr)


def command_line() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ebb run",
        usage="ebb run [OPTIONS] -- CMD [ARGUMENTS...]",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("command", nargs=argparse.REMAINDER, metavar="CMD", help="the program and its arguments, after --")
    add("--list", action="store_true", help="say what is set, for which program, and start nothing")
    add("--json", action="store_true", help="with --list: as JSON")
    add("--upstream", metavar="[NAME=]URL", action="append", default=[], help="where the proxy sends to")
    add("--window", metavar="TOKENS", help="as in 200k; default: by the model")
    add("--policy", metavar="NAME", help="a preset, as for ebb fit")
    add("--store", metavar="DIR", help="where sessions are kept; default: EBB_HOME, else your data folder")
    add("--recall", choices=("path", "tool", "off"), help="how the model gets at what left; see ebb proxy --help")
    add("--summarizer", metavar="MODEL", help="folds ask this model; 'own': the one that the program uses")
    add("--shadow", action="store_true", help="change nothing, and tell what would have been saved")
    add("--quiet", action="store_true", help="tell nothing at the end")
    return parser
