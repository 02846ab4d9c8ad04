"""`ebb verify`: recompute every checksum, and with --replan every plan."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from ebbtide import screen
from ebbtide.audit.replan import check_message_ids, count_plans, replan_each
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.preview import pluralize
from ebbtide.display import make_visible, one_line
from ebbtide.fronts.cli.parser import CODES, Commands, command, resolve_settings
from ebbtide.fronts.cli.sources import find_session
from ebbtide.policy import PRESETS, Policy
from ebbtide.store import SessionInfo, VerifyResult, open_store
from ebbtide.store.directory.verify import verify_log
from ebbtide.store.protocol import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    info: SessionInfo
    verification: VerifyResult
    plans: int | None
    """None if plans were not checked."""
    differences: tuple[str, ...]
    older_plans: int = 0
    """Plans of an older version that come out differently now, because texts for the model changed."""

    @property
    def problems(self) -> list[str]:
        damage = [f"line {line.line} is {line.kind}: {line.reason}" for line in self.verification.damage]
        return [*damage, *self.verification.problems, *self.differences]

    @property
    def ok(self) -> bool:
        return self.verification.ok and not self.differences


def add(commands: Commands) -> None:
    codes = CODES.replace("an error", "the store is damaged, or an error")
    parser = command(commands, "verify", run, "--store", "--project", "--json", codes=codes)
    parser.add_argument("session", nargs="?", metavar="SESSION", help="default: all")
    parser.add_argument("--all", action="store_true", help="all sessions, which is the default")
    parser.add_argument("--replan", action="store_true", help="compute every plan again")


def run(args: argparse.Namespace) -> int:
    """recompute every checksum of the store

    Reads a session, or all of them, and recomputes everything: the chain of checksums through the log, the
    ids of messages, the stored results. Nothing is written. With --replan every recorded plan is computed
    again from the log alone and compared byte for byte. Plans that an older version made with other texts for
    the model are only counted. The exit code is 1 if anything is wrong.

    examples:
        ebb verify
        ebb verify nightly --replan
        ebb verify --all --json
    """
    if args.all and args.session:
        raise BadRequest("give either a session or --all")
    settings = resolve_settings(args)
    store = open_store(settings.store)
    infos = store.list_sessions() if args.session is None else [find_session(args, args.session)[1]]
    policy = settings.policy()
    policies = {**PRESETS, policy.name: policy} if args.replan else None
    # With --replan each session has its own progress bar, and there is room for only one.
    steps = infos if policies else screen.show_progress(infos, "verifying", len(infos))
    results = [_verify(store, info, policies) for info in steps]
    if args.json:
        screen.print_json([_as_dict(result) for result in results])
    else:
        _print(results)
    return 0 if all(result.ok for result in results) else 1


def _verify(store: Store, info: SessionInfo, policies: Mapping[str, Policy] | None) -> _Result:
    log = store.peek(info.session, project=info.project)
    records = log.read().records
    plans, older_plans = None, 0
    differences = [f"message {difference.plan}: {difference.reason}" for difference in check_message_ids(records)]
    if policies is not None:
        plans = count_plans(records)
        steps = screen.show_progress(replan_each(records, policies), f"planning {info.session} again", plans)
        changed = [step for step in steps if step]
        differences += [f"plan {step.plan} is different now: {step.reason}" for step in changed if step.is_comparable]
        older_plans = sum(not step.is_comparable for step in changed)
    return _Result(
        info=info,
        # Another program's file may lie elsewhere than its session and project say.
        verification=verify_log(info.path) if info.path else log.verify(),
        plans=plans,
        differences=tuple(differences),
        older_plans=older_plans,
    )


def _print(results: list[_Result]) -> None:
    if not results:
        screen.notify("no sessions")
        return
    figures = ("lines", "unchecked", "results", "plans")
    rows = [
        [
            one_line(result.info.session, 48),
            str(result.verification.lines),
            str(result.verification.unchecked_lines),
            str(result.verification.blobs),
            "" if result.plans is None else str(result.plans),
            "ok" if result.ok else pluralize(len(result.problems), "problem"),
        ]
        for result in results
    ]
    screen.draw(screen.table(("session", *figures, ""), rows, figures=figures))
    for result in results:
        for problem in result.problems:
            print(make_visible(f"{result.verification.path}: {problem}"))
        if result.older_plans:
            plans = pluralize(result.older_plans, "plan")
            note = f"{plans} of an older version cannot be compared: texts for the model have changed since"
            print(make_visible(f"{result.verification.path}: {note}"))


def _as_dict(result: _Result) -> dict[str, object]:
    verification = result.verification
    return {
        "session": result.info.session,
        "project": result.info.project,
        "path": verification.path,
        "ok": result.ok,
        "lines": verification.lines,
        "unchecked": verification.unchecked_lines,
        "results": verification.blobs,
        "plans": result.plans,
        "plans_not_comparable": result.older_plans,
        "set_aside": list(verification.torn_files),
        "problems": result.problems,
    }
