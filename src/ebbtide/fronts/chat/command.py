"""`ebb chat`: reads the command line and puts the parts together."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ebbtide.config import Access, Settings, load_access, load_settings
from ebbtide.core.errors import BadConfig, BadRequest
from ebbtide.drive.report import Listener
from ebbtide.fronts.chat.choosing import PROVIDERS, another, choose
from ebbtide.fronts.chat.local import MODEL, WINDOW, served
from ebbtide.fronts.chat.loop import STEPS
from ebbtide.fronts.chat.permission import Ask, Rules
from ebbtide.fronts.chat.prompts import SMALL
from ebbtide.fronts.chat.providers import MISSING, Chat, Provider, openai_client
from ebbtide.fronts.chat.script import nobody, run_script
from ebbtide.fronts.chat.session import Setup, chosen, new_session, open_chat, with_provider
from ebbtide.fronts.chat.tools import TOOLS
from ebbtide.policy import PRESETS
from ebbtide.store import open_store
from ebbtide.workspace import project_root

try:
    from ebbtide.fronts.chat.screen import Screen
except ModuleNotFoundError as missing:
    raise BadConfig(MISSING) from missing

_ABOUT = """\
A coding agent in the terminal, on the Ebbtide engine: it reads, searches, edits and runs commands in
this directory, and its conversation never outgrows the window. What leaves can be seen (/context,
/edits), taken back (/undo) and found again (/recall).

It needs a model: set ANTHROPIC_API_KEY or OPENAI_API_KEY, name a server of your own with --base-url
(llama.cpp, Ollama, vLLM), or try --local, which needs neither key nor network.
"""
_EXAMPLES = """\
examples:
  ebb chat
  ebb chat --model claude-sonnet-5 "why does test_login fail?"
  ebb chat --base-url http://127.0.0.1:11434/v1 --model qwen3 --window 32k
  ebb chat --local
  ebb chat --continue
  ebb chat -p "list the TODOs in src" --output json
  ebb chat -p "run the tests and mend what fails" --allow bash
"""


def main(arguments: Sequence[str]) -> int:
    args = _parser().parse_args(arguments)
    if args.output == "json" and args.print is None:
        raise BadRequest("--output json goes with -p")
    settings = load_settings(arguments={key: getattr(args, key) for key in ("window", "policy", "store", "model")})
    access = load_access()
    if not args.local:
        provider, settings = choose(args, settings, access)
        return _run(args, settings, access, provider)
    settings = replace(settings, model=MODEL, window=settings.window or WINDOW)
    with served(settings.window_for(MODEL)) as address:
        provider = Chat(model=MODEL, client=openai_client("", f"{address}/v1"))
        return _run(args, settings, access, provider)


def _run(args: argparse.Namespace, settings: Settings, access: Access, provider: Provider) -> int:
    if args.print is not None:
        setup = _setup(args, settings, access, provider, nobody, lambda _event: None)
        chat = open_chat(setup, _session(args, setup))
        return run_script(chat, _words(args.print), as_json=args.output == "json")
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise BadRequest("ebb chat needs a terminal; for scripts there is -p")
    screen = Screen(Path(settings.store) / "chat-history", partial(_with_model, args))
    setup = _setup(args, settings, access, provider, screen.ask, screen.listen)
    return screen.run(setup, _session(args, setup), args.words)


def _with_model(args: argparse.Namespace, setup: Setup, model: str) -> Setup:
    if args.local:
        raise BadRequest("the local model is the only one here")
    return with_provider(setup, another(args, setup.provider, model, setup.access))


def _words(given: str) -> str:
    words = sys.stdin.read() if given == "-" else given
    return words.strip()


def _setup(
    args: argparse.Namespace, settings: Settings, access: Access, provider: Provider, ask: Ask, listen: Listener
) -> Setup:
    root = Path(os.path.realpath(args.directory))
    if not root.is_dir():
        raise BadRequest(f"there is no directory {args.directory}")
    allowed = frozenset(name for name in args.allow.split(",") if name)
    known = {tool.name for tool in TOOLS}
    if allowed - known:
        raise BadConfig(f"--allow: no tool {', '.join(sorted(allowed - known))}; there are {', '.join(sorted(known))}")
    return Setup(
        provider=provider,
        settings=settings,
        access=access,
        store=open_store(settings.store, durable=settings.durable),
        root=root,
        project=str(project_root(root) or root),
        rules=Rules(root=root, everything=args.yes, tools=allowed),
        ask=ask,
        listen=listen,
        window=settings.window_for(provider.model),
        steps=args.steps,
        # So small a model calls tools at random, and a long prompt only confuses it.
        prompt=SMALL if args.local else "",
        tools=() if args.local else TOOLS,
    )


def _session(args: argparse.Namespace, setup: Setup) -> str:
    if args.resume is None and not args.newest:
        return new_session(setup.clock)
    return chosen(setup.store, setup.project, args.resume or "").session


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ebb chat",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="?", default="", metavar="WORDS", help="what to begin with")
    parser.add_argument("-p", "--print", metavar="WORDS", help="answer, print and leave, for scripts; - reads stdin")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="with -p; default: text")
    _add_model(parser.add_argument_group("model"))
    _add_session(parser.add_argument_group("session"))
    _add_permissions(parser.add_argument_group("permissions"))
    return parser


def _add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--provider", choices=PROVIDERS, help="default: told by the model, the address or the key")
    group.add_argument("--model", metavar="NAME")
    group.add_argument("--base-url", metavar="URL", default="", help="of a server of your own")
    group.add_argument("--local", action="store_true", help="a small model on this machine; no key, no network")
    group.add_argument("--window", metavar="TOKENS", help="as in 200k; default: by the model")
    group.add_argument("--policy", metavar="NAME", help=f"one of {', '.join(PRESETS)}")
    group.add_argument("--steps", metavar="N", type=int, default=STEPS, help=f"requests in a turn; default {STEPS}")


def _add_session(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--resume", nargs="?", const="", metavar="ID", help="go on with a session; default: the newest")
    group.add_argument("--continue", dest="newest", action="store_true", help="go on with the newest session")
    group.add_argument(
        "--store", metavar="DIR", help="where sessions are kept; default: EBB_HOME, else your data folder"
    )
    group.add_argument("-C", "--directory", default=".", metavar="DIR", help="the workspace; default: here")


def _add_permissions(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--allow", default="", metavar="TOOLS", help="tools that need not ask, as in bash,write")
    group.add_argument("--yes", action="store_true", help="allow everything")
