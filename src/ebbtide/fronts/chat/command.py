"""`ebb chat`: reads the command line and puts the parts together."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ebbtide.argparse_errors import Parser
from ebbtide.config import Settings, load_access, load_settings
from ebbtide.core.errors import BadConfig, BadRequest
from ebbtide.fronts.chat.chat_records import SessionStart, read_chat_records
from ebbtide.fronts.chat.local import MODEL, WINDOW, run_local_server
from ebbtide.fronts.chat.loop import MAX_REQUESTS
from ebbtide.fronts.chat.model_choice import PROVIDERS, ModelEndpoint, choose_endpoint
from ebbtide.fronts.chat.permission import AskUser, Rules
from ebbtide.fronts.chat.prompts import SMALL_MODEL_PROMPT
from ebbtide.fronts.chat.providers import MISSING_EXTRA, make_provider
from ebbtide.fronts.chat.script import deny_permission, run_script
from ebbtide.fronts.chat.session import MAX_REPLY, Setup, find_session, new_session_id, open_chat, with_provider
from ebbtide.fronts.chat.tools import TOOLS
from ebbtide.fronts.chat.trust import ask_trust, read_trust, remember_trust
from ebbtide.policy import PRESETS
from ebbtide.runtime.report import Listener
from ebbtide.store import Store, open_store
from ebbtide.workspace import project_root

try:
    from ebbtide.fronts.chat.screen import Screen
except ModuleNotFoundError as missing:
    raise BadConfig(MISSING_EXTRA) from missing

_LOCAL_REPLY = 240  # tokens: a dozen sentences

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
  ebb chat --trust -p "what did I change today?"

exit codes:
  0  done
  1  our fault, or the provider's: with -p, the answer did not come
  2  bad input: no terminal, no key, an unknown option

environment:
  ANTHROPIC_API_KEY, OPENAI_API_KEY        who pays; never shown, and not passed to commands
  ANTHROPIC_BASE_URL, OPENAI_BASE_URL      a server of your own
  EBB_MODEL, EBB_POLICY, EBB_WINDOW        as --model, --policy, --window
  EBB_HOME                                 where sessions are kept
"""


def main(arguments: Sequence[str]) -> int:
    args = command_line().parse_args(arguments)
    if args.output == "json" and args.print is None:
        raise BadRequest("--output json goes with -p")
    settings = load_settings(arguments={key: getattr(args, key) for key in ("window", "policy", "store", "model")})
    place = _place(args, settings)
    door = choose_endpoint(args, settings, load_access(), place.begun)
    # The window of a model that we serve is ours to choose.
    settings = replace(settings, model=door.model, window=settings.window or (WINDOW if door.is_local else None))
    if not door.is_local:
        return _run(args, settings, place, door)
    with run_local_server(settings.window_for(MODEL)) as address:
        return _run(args, settings, place, replace(door, url=f"{address}/v1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where it works, and on what."""

    root: Path
    project: str
    store: Store
    session: str
    begun: SessionStart | None
    """How the session began, where it is not new."""


def _place(args: argparse.Namespace, settings: Settings) -> _Place:
    root = Path(os.path.realpath(args.directory))
    if not root.is_dir():
        raise BadRequest(f"there is no directory {args.directory}")
    store, project = open_store(settings.store, durable=settings.durable), str(project_root(root) or root)
    if args.resume is None and not args.newest:
        return _Place(root=root, project=project, store=store, session=new_session_id(), begun=None)
    session = find_session(store, project, args.resume or "").session
    begun = read_chat_records(store.peek(session, project=project).read().records).start
    return _Place(root=root, project=project, store=store, session=session, begun=begun)


def _run(args: argparse.Namespace, settings: Settings, place: _Place, door: ModelEndpoint) -> int:
    if args.print is not None:
        is_trusted = _is_trusted(args, place, may_ask=False)
        chat = open_chat(
            _setup(args, settings, place, door, is_trusted, deny_permission, lambda _event: None), place.session
        )
        return run_script(chat, _words(args.print), as_json=args.output == "json")
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise BadRequest("ebb chat needs a terminal; for scripts there is -p")
    is_trusted = _is_trusted(args, place, may_ask=True)
    screen = Screen(Path(settings.store).expanduser() / "chat-history", partial(_with_model, door))
    return screen.run(
        _setup(args, settings, place, door, is_trusted, screen.ask, screen.on_engine_event), place.session, args.words
    )


def _is_trusted(args: argparse.Namespace, place: _Place, *, may_ask: bool) -> bool:
    """Whether git may run here. Where there is no repository it has nothing to say, and nobody need be asked."""
    file = load_access().trust
    if args.trust is not None:
        remember_trust(file, place.project, is_trusted=args.trust)
        return bool(args.trust)
    answer = read_trust(file, place.project)
    if answer is None and may_ask and project_root(place.root) is not None:
        return ask_trust(file, place.project)
    return answer is True


def _with_model(door: ModelEndpoint, setup: Setup, model: str) -> Setup:
    if door.is_local:
        raise BadRequest("the local model is the only one here")
    return with_provider(setup, make_provider(door.provider, model, door.url, setup.access))


def _words(given: str) -> str:
    words = sys.stdin.read() if given == "-" else given
    return words.strip()


def _setup(
    args: argparse.Namespace,
    settings: Settings,
    place: _Place,
    door: ModelEndpoint,
    is_trusted: bool,
    ask: AskUser,
    listen: Listener,
) -> Setup:
    allowed = frozenset(name for name in args.allow.split(",") if name)
    known = {tool.name for tool in TOOLS}
    if allowed - known:
        raise BadConfig(f"--allow: no tool {', '.join(sorted(allowed - known))}; there are {', '.join(sorted(known))}")
    access = load_access()
    return Setup(
        provider=make_provider(door.provider, door.model, door.url, access),
        settings=settings,
        access=access,
        store=place.store,
        root=place.root,
        project=place.project,
        rules=Rules(
            root=place.root,
            home=Path(os.path.realpath(access.home)),
            is_trusted=is_trusted,
            own_folders=(Path(os.path.realpath(access.trust.parent)),),
            allow_all=args.yes,
            tools=allowed,
        ),
        ask=ask,
        on_event=listen,
        window=settings.window_for(door.model),
        is_trusted=is_trusted,
        # A server of ours has another address each time.
        url="" if door.is_local else door.url,
        max_requests=args.steps,
        # So small a model calls tools at random, and a long prompt only confuses it.
        system_prompt=SMALL_MODEL_PROMPT if door.is_local else "",
        tools=() if door.is_local else TOOLS,
        # Left to itself it repeats itself.
        max_reply=_LOCAL_REPLY if door.is_local else MAX_REPLY,
    )


def command_line() -> argparse.ArgumentParser:
    parser = Parser(
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
    group.add_argument(
        "--steps", metavar="N", type=int, default=MAX_REQUESTS, help=f"requests in a turn; default {MAX_REQUESTS}"
    )


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
    group.add_argument(
        "--trust",
        action=argparse.BooleanOptionalAction,
        help="whether git may run in this folder, to tell the model its status; git runs programs that a repository's "
        "settings name. You are asked once, and the answer is remembered; -p never asks, and leaves git out",
    )
