"""`ebb chat`: reads the command line and opens the chat, in the terminal or for a script."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ebbtide.argparse_errors import front_parser
from ebbtide.config import Settings, load_access, load_settings
from ebbtide.core.errors import BadConfig, BadRequest
from ebbtide.fronts.chat.chat_records import SessionStart, read_chat_records
from ebbtide.fronts.chat.local import MODEL, WINDOW, run_local_server
from ebbtide.fronts.chat.loop import MAX_REQUESTS
from ebbtide.fronts.chat.model_choice import ModelEndpoint, choose_endpoint
from ebbtide.fronts.chat.permission import Rules
from ebbtide.fronts.chat.prompts import SMALL_MODEL_PROMPT
from ebbtide.fronts.chat.providers import APIS, MISSING_EXTRA, make_provider
from ebbtide.fronts.chat.script import deny_permission, run_script
from ebbtide.fronts.chat.session import Setup, find_session, new_session_id, open_chat
from ebbtide.fronts.chat.tools import TOOLS
from ebbtide.fronts.chat.trust import ask_trust, read_trust, remember_trust
from ebbtide.policy import POLICY_HELP
from ebbtide.store import Store, is_database, open_store
from ebbtide.workspace import project_root

try:
    from ebbtide.fronts.chat.screen import Screen
except ModuleNotFoundError as error:
    raise BadConfig(MISSING_EXTRA) from error

_LOCAL_MAX_REPLY = 240  # tokens: a dozen sentences, after which a small model repeats itself


def main(arguments: Sequence[str]) -> int:
    """A coding agent in the terminal, built on the Ebbtide engine. It reads, searches, edits and runs
    commands in this directory, and its conversation never outgrows the window. You can see what was
    moved out (/context, /edits), bring it back (/undo) and find it again (/recall).

    It needs a model: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, name your own server with
    --base-url (llama.cpp, Ollama, vLLM), or try --local, which needs neither key nor network.

    examples:
      ebb chat
      ebb chat --model claude-sonnet-5 "why does test_login fail?"
      ebb chat --base-url http://127.0.0.1:11434/v1 --model qwen3 --window 32k
      ebb chat --local
      ebb chat --continue
      ebb chat -p "list the TODOs in src" --output json
      ebb chat -p "run the tests and fix what fails" --allow bash
      ebb chat --trust -p "what did I change today?"

    exit codes:
      0  done
      1  internal error or provider error: with -p, there is no answer
      2  bad input: no terminal, no key, an unknown option

    environment:
      ANTHROPIC_API_KEY, OPENAI_API_KEY        keys; never shown, and not passed to commands
      GEMINI_API_KEY, GOOGLE_API_KEY           the same for Gemini
      ANTHROPIC_BASE_URL, OPENAI_BASE_URL      your own server
      GOOGLE_GEMINI_BASE_URL                   the same for Gemini
      EBB_MODEL, EBB_POLICY, EBB_WINDOW        same as --model, --policy, --window
      EBB_HOME                                 where sessions are stored
    """
    args = command_line().parse_args(arguments)
    if args.output == "json" and args.print is None:
        raise BadRequest("--output json works only with -p")
    settings = load_settings(arguments={key: getattr(args, key) for key in ("window", "policy", "store", "model")})
    place = _find_place(args, settings)
    endpoint = choose_endpoint(args, settings, load_access(), place.start)
    # We serve the local model ourselves, so we choose its window.
    window = settings.window or (WINDOW if endpoint.is_local else None)
    settings = replace(settings, model=endpoint.model, window=window)
    if not endpoint.is_local:
        return _run(args, settings, place, endpoint)
    with run_local_server(settings.window_for(MODEL)) as address:
        return _run(args, settings, place, replace(endpoint, url=f"{address}/v1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The directory and the session to work in."""

    root: Path
    project: str
    store: Store
    session: str
    start: SessionStart | None
    """None for a new session."""


def _find_place(args: argparse.Namespace, settings: Settings) -> _Place:
    root = Path(os.path.realpath(args.directory))
    if not root.is_dir():
        raise BadRequest(f"there is no directory {args.directory}")
    store, project = open_store(settings.store, durable=settings.durable), str(project_root(root) or root)
    session, start = new_session_id(), None
    if args.resume is not None or args.newest:
        session = find_session(store, project, args.resume or "").session
        start = read_chat_records(store.peek(session, project=project).read().records).start
    return _Place(root=root, project=project, store=store, session=session, start=start)


def _run(args: argparse.Namespace, settings: Settings, place: _Place, endpoint: ModelEndpoint) -> int:
    is_script = args.print is not None
    if not is_script and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest("ebb chat needs a terminal; in a script use ebb chat -p")
    setup = _make_setup(args, settings, place, endpoint, is_trusted=_is_trusted(args, place, may_ask=not is_script))
    if is_script:
        message = sys.stdin.read() if args.print == "-" else args.print
        return run_script(open_chat(setup, place.session), message.strip(), as_json=args.output == "json")
    screen = Screen(_history_folder(settings) / "chat-history", partial(_with_model, endpoint))
    setup = replace(setup, ask=screen.ask, on_event=screen.on_engine_event)
    return screen.run(setup, place.session, args.words)


def _history_folder(settings: Settings) -> Path:
    """What is typed here stays on this machine, also if the sessions are in a database."""
    return load_access().config if is_database(settings.store) else Path(settings.store).expanduser()


def _is_trusted(args: argparse.Namespace, place: _Place, *, may_ask: bool) -> bool:
    """Whether git may run here. The user is asked only in a repository: elsewhere git does nothing."""
    file = load_access().trust
    if args.trust is not None:
        remember_trust(file, place.project, is_trusted=args.trust)
        return bool(args.trust)
    answer = read_trust(file, place.project)
    if answer is None and may_ask and project_root(place.root) is not None:
        return ask_trust(file, place.project)
    return answer is True


def _with_model(endpoint: ModelEndpoint, setup: Setup, model: str) -> Setup:
    if endpoint.is_local:
        raise BadRequest("with --local there is only one model")
    return replace(setup, provider=make_provider(endpoint.provider, model, endpoint.url, setup.access))


def _make_setup(
    args: argparse.Namespace, settings: Settings, place: _Place, endpoint: ModelEndpoint, *, is_trusted: bool
) -> Setup:
    allowed = frozenset(name for name in args.allow.split(",") if name)
    names = {tool.name for tool in TOOLS}
    if allowed - names:
        unknown = ", ".join(sorted(allowed - names))
        raise BadConfig(f"--allow: there is no tool {unknown}; the tools are {', '.join(sorted(names))}")
    access = load_access()
    setup = Setup(
        provider=make_provider(endpoint.provider, endpoint.model, endpoint.url, access),
        settings=settings,
        access=access,
        store=place.store,
        project=place.project,
        rules=Rules(
            root=place.root,
            home=Path(os.path.realpath(access.home)),
            is_trusted=is_trusted,
            own_folders=(Path(os.path.realpath(access.trust.parent)),),
            allow_all=args.yes,
            tools=allowed,
        ),
        ask=deny_permission,
        on_event=lambda _event: None,
        url=endpoint.url,
        max_requests=args.steps,
    )
    if not endpoint.is_local:
        return setup
    # Our own server has a new address each time. So small a model calls tools at random, and a long prompt confuses it.
    return replace(setup, url="", system_prompt=SMALL_MODEL_PROMPT, tools=(), max_reply=_LOCAL_MAX_REPLY)


def command_line() -> argparse.ArgumentParser:
    parser = front_parser("chat", main)
    parser.add_argument("words", nargs="?", default="", metavar="WORDS", help="your first message")
    parser.add_argument("-p", "--print", metavar="WORDS", help="print the answer and exit, for scripts; - reads stdin")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="format with -p; default: text")
    _add_model(parser.add_argument_group("model"))
    _add_session(parser.add_argument_group("session"))
    _add_permissions(parser.add_argument_group("permissions"))
    return parser


def _add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--provider", choices=list(APIS), help="default: by the model, the address or the key")
    group.add_argument("--model", metavar="NAME")
    group.add_argument("--base-url", metavar="URL", default="", help="address of your own server")
    group.add_argument("--local", action="store_true", help="a small model on this machine; no key, no network")
    group.add_argument("--window", metavar="TOKENS", help="as in 200k; default: that of the model")
    group.add_argument("--policy", metavar="NAME", help=POLICY_HELP)
    group.add_argument(
        "--steps", metavar="N", type=int, default=MAX_REQUESTS, help=f"requests in a turn; default {MAX_REQUESTS}"
    )


def _add_session(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--resume", nargs="?", const="", metavar="ID", help="continue a session; default: the newest")
    group.add_argument("--continue", dest="newest", action="store_true", help="continue the newest session")
    group.add_argument(
        "--store",
        metavar="DIR|URL",
        help="where sessions are stored, such as postgresql://...; default: EBB_HOME, else your data folder",
    )
    group.add_argument("-C", "--directory", default=".", metavar="DIR", help="the workspace; default: this directory")


def _add_permissions(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--allow", default="", metavar="TOOLS", help="tools that run without asking, as in bash,write")
    group.add_argument("--yes", action="store_true", help="allow everything")
    group.add_argument(
        "--trust",
        action=argparse.BooleanOptionalAction,
        help="whether git may run in this folder, to show its status to the model; a repository's settings can make "
        "git run programs. You are asked once, and the answer is remembered; -p never asks, and does not run git",
    )
