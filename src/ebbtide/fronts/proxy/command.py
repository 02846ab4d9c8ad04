"""`ebb proxy`: read the options and serve. The log is JSON on stderr; stdout is empty but for --announce."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TypeVar

from ebbtide.argparse_errors import front_parser
from ebbtide.config import Settings, load_settings
from ebbtide.config_keys import parse_port
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.proxy.guard import check_address, is_loopback
from ebbtide.fronts.proxy.options import Options
from ebbtide.fronts.proxy.upstreams import PROVIDERS, check_upstream
from ebbtide.policy import POLICY_HELP
from ebbtide.store import is_database

try:
    from ebbtide.fronts.proxy.server import serve
except ModuleNotFoundError as missing:
    if missing.name not in ("aiohttp", "multidict", "yarl"):
        raise
    raise BadConfig("ebb proxy needs more packages: pip install 'ebbtide[proxy]'") from missing


def main(arguments: Sequence[str]) -> int:
    """Runs an endpoint that any client can use instead of its provider's: set the base URL, change no code.
    Conversations that outgrow the context window are made to fit; everything else passes through, byte
    for byte. Without --upstream, requests are sent to the provider that serves their path.

    examples:
      ebb proxy                                    then: ANTHROPIC_BASE_URL=http://127.0.0.1:8787 claude
      ebb proxy --window 8192 --upstream http://127.0.0.1:8080     a big agent on a small local model
      ebb proxy --summarizer own                   the model itself writes summaries, from its cache
      ebb proxy --shadow                           change nothing; /ebb/summary shows what it would save
      ebb proxy --upstream anthropic=https://gw.example/claude --upstream openai=https://gw.example/gpt

    exit codes:
      0  stopped by a signal, after its streams ended
      1  an internal error or a disk error: something did not end and was abandoned
      2  bad input or settings, before it listens

    environment:
      EBB_HOME, EBB_POLICY, EBB_WINDOW         same as --store, --policy, --window
      EBB_PROXY_TOKEN                          same as --token, but not visible in process lists
      OTEL_EXPORTER_OTLP_ENDPOINT              where --otel sends data
    """
    options = build_options(command_line().parse_args(arguments))
    check_address(options)
    code = asyncio.run(serve(options))
    if code:
        # A thread hangs on a disk or a lock, and Python would wait for it for ever.
        os._exit(code)
    return code


def build_options(args: argparse.Namespace) -> Options:
    """Merge the command line with the environment and the configuration files."""
    arguments = vars(args)
    settings = load_settings(arguments={key: arguments[key] for key in ("window", "policy", "store")})
    settings.check_window()
    file = settings.proxy
    return Options(
        settings=settings,
        upstreams=_upstreams(args.upstream, settings),
        host=args.host,
        port=_first_set(None if args.port is None else parse_port(args.port), file.get("port"), 8787),
        token=_first_set(args.token, file.get("token"), ""),
        allow_hosts=(*args.allow_host, *_names(file, "allow_hosts")),
        allow_origins=(*args.allow_origin, *_names(file, "allow_origins")),
        recall=_recall_mode(args, settings),
        summarizer=_first_set(args.summarizer, file.get("summarizer"), ""),
        raise_lifetimes=bool(_first_set(args.raise_lifetimes or None, file.get("raise_lifetimes"), False)),
        shadow=args.shadow,
        announce=args.announce,
        listen_fd=args.listen_fd,
        drain=args.drain,
        otel=args.otel,
    )


def _recall_mode(args: argparse.Namespace, settings: Settings) -> str:
    # A client on another machine cannot open our files, and nobody what is in a database.
    default = "path" if is_loopback(args.host) else "off"
    mode: str = _first_set(
        args.recall, settings.proxy.get("recall"), "tool" if is_database(settings.store) else default
    )
    if mode == "path" and is_database(settings.store):
        raise BadConfig("--recall path: a model cannot open what is in a database; use --recall tool")
    return mode


def _upstreams(arguments: Sequence[str], settings: Settings) -> Mapping[str, str]:
    """A plain `URL` gets every path. `NAME=URL` adds to the configured upstreams, and those to the providers."""
    bare_addresses = [text for text in arguments if "=" not in text.partition("://")[0]]
    if bare_addresses and len(arguments) > 1:
        raise BadConfig("--upstream: give one address for everything, or NAME=URL for each")
    if bare_addresses:
        return dict([check_upstream("upstream", bare_addresses[0])])
    configured = settings.proxy.get("upstreams")
    named = configured.items() if isinstance(configured, Mapping) else ()
    pairs = (text.partition("=")[::2] for text in arguments)
    return {**PROVIDERS, **dict(check_upstream(str(name), str(address)) for name, address in (*named, *pairs))}


T = TypeVar("T", str, int)


def _first_set(argument: T | None, configured: object, default: T) -> T:
    if argument is not None:
        return argument
    return configured if isinstance(configured, type(default)) else default


def _names(file: Mapping[str, object], key: str) -> tuple[str, ...]:
    names = file.get(key)
    return tuple(map(str, names)) if isinstance(names, tuple) else ()


def command_line() -> argparse.ArgumentParser:
    parser = front_parser("proxy", main)
    add = parser.add_argument
    add(
        "--upstream",
        metavar="[NAME=]URL",
        action="append",
        default=[],
        help="where requests are sent; repeat for several",
    )
    add("--host", default="127.0.0.1", help="address to listen on; one that is not loopback needs --token")
    add("--port", type=int, metavar="P", help="default: 8787; 0 takes a free one")
    add("--window", metavar="TOKENS", help="context window, such as 200k; default: by the model")
    add("--policy", metavar="NAME", help=POLICY_HELP)
    add(
        "--store",
        metavar="DIR|URL",
        help="where sessions are kept, such as postgresql://...; default: EBB_HOME, else your data folder",
    )
    recall = "how the model reads saved output: from the file named in its stub (default), by two tools, or not at all"
    add("--recall", choices=("path", "tool", "off"), help=recall)
    add("--summarizer", metavar="MODEL", help="the model that writes summaries; 'own' uses the conversation's own")
    lifetimes = "let the client's cache marks on system prompt and tools ask Claude for an hour, where that pays"
    add("--raise-lifetimes", action="store_true", help=lifetimes)
    add("--shadow", action="store_true", help="plan, send everything unchanged, and report what would have been saved")
    add("--token", metavar="T", help="required of every request; safer in EBB_PROXY_TOKEN, which ps does not show")
    add("--allow-host", metavar="NAME", action="append", default=[], help="another name of this proxy in Host")
    add("--allow-origin", metavar="URL", action="append", default=[], help="a web page that may call")
    add(
        "--drain",
        metavar="SECONDS",
        type=float,
        default=30.0,
        help="time for running streams after SIGTERM; default: 30",
    )
    add("--otel", action="store_true", help="export spans and metrics to the collector that OTEL_* variables name")
    add("--listen-fd", type=int, help=argparse.SUPPRESS)
    add("--announce", action="store_true", help="print the address as a line of JSON on stdout")
    return parser
