"""`ebb verify`: every checksum recomputed, and with --replan every plan made again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from ebbtide.audit.replan import check_message_ids, count_plans, replan_each
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.pluralize import pluralize
from ebbtide.display import make_visible, one_line
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.help import CODES, Commands, command
from ebbtide.fronts.cli.options import add_json, add_project, add_store, resolve_settings
from ebbtide.fronts.cli.session_lookup import chosen
from ebbtide.policy import PRESETS, Policy
from ebbtide.store import SessionInfo, VerifyResult, open_store
from ebbtide.store.directory.verify import verify_log
from ebbtide.store.protocol import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    info: SessionInfo
    found: VerifyResult
    plans: int | None
    """None where none was made again."""
    differences: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return self.found.ok and not self.differences

    def problems(self) -> list[str]:
        damage = [f"line {one.line} is {one.kind}: {one.reason}" for one in self.found.damage]
        return [*damage, *self.found.problems, *self.differences]


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "verify",
        run,
        brief="recompute every checksum of the store",
        about="""
            Reads a session, or all of them, and recomputes everything: the chain of checksums through the log, the
            ids of messages, the stored results. Nothing is written. With --replan every recorded plan is made again
            from the log alone and compared byte for byte. The exit code is 1 where anything is wrong.
        """,
        examples="""
            ebb verify
            ebb verify nightly --replan
            ebb verify --all --json
        """,
        codes=CODES.replace("our fault", "something is wrong in the store; our fault"),
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help="default: all")
    parser.add_argument("--all", action="store_true", help="all sessions, which is also the default")
    parser.add_argument("--replan", action="store_true", help="make every plan again")
    for more in (add_store, add_project, add_json):
        more(parser)


def run(args: argparse.Namespace) -> int:
    if args.all and args.session:
        raise BadRequest("either a session or --all")
    settings = resolve_settings(args)
    store = open_store(settings.store)
    one = args.session is not None
    infos = [chosen(store, settings.store, args.session, args.project)] if one else store.list_sessions()
    policies = {**PRESETS, settings.policy.name: settings.policy} if args.replan else None
    # There is room for one bar: where plans are made again, each session has its own.
    watched = infos if policies else screen.watched(infos, "verifying", len(infos))
    checked = [_check(store, info, policies) for info in watched]
    if args.json:
        screen.show_json([_as_dict(one) for one in checked])
    else:
        _print(checked)
    return 0 if all(one.ok for one in checked) else 1


def _check(store: Store, info: SessionInfo, policies: Mapping[str, Policy] | None) -> _Checked:
    found = verify_log(info.path)
    records = store.peek(info.session, project=info.project).read().records
    told = tuple(f"message {one.plan}: {one.reason}" for one in check_message_ids(records))
    if policies is None:
        return _Checked(info=info, found=found, plans=None, differences=told)
    plans = count_plans(records)
    again = screen.watched(replan_each(records, policies), f"planning {info.session} again", plans)
    told += tuple(f"plan {one.plan} comes out otherwise: {one.reason}" for one in again if one)
    return _Checked(info=info, found=found, plans=plans, differences=told)


def _print(checked: list[_Checked]) -> None:
    if not checked:
        screen.say("no sessions")
        return
    columns = [("session", "left"), ("lines", "right"), ("unchecked", "right"), ("results", "right")]
    columns += [("plans", "right"), ("", "left")]
    rows = [
        [
            one_line(one.info.session, 48),
            str(one.found.lines),
            str(one.found.unchecked_lines),
            str(one.found.blobs),
            "" if one.plans is None else str(one.plans),
            "ok" if one.ok else pluralize(len(one.problems()), "problem"),
        ]
        for one in checked
    ]
    screen.draw(screen.table(columns, rows))
    for one in checked:
        for problem in one.problems():
            print(make_visible(f"{one.found.path}: {problem}"))


def _as_dict(one: _Checked) -> dict[str, object]:
    return {
        "session": one.info.session,
        "project": one.info.project,
        "path": one.found.path,
        "ok": one.ok,
        "lines": one.found.lines,
        "unchecked": one.found.unchecked_lines,
        "results": one.found.blobs,
        "plans": one.plans,
        "set_aside": list(one.found.torn_files),
        "problems": one.problems(),
    }
