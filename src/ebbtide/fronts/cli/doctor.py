"""`ebb doctor`: is everything as it should be, and if not, what to do."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict

from ebbtide.argparse_errors import close_matches
from ebbtide.config import Settings, inspect_sources, load_access, load_settings, process_environment
from ebbtide.config_keys import VARIABLES
from ebbtide.core.errors import BadConfig
from ebbtide.display import one_line
from ebbtide.fronts.cli import checks, screen
from ebbtide.fronts.cli.checks import Check
from ebbtide.fronts.cli.extras import extras
from ebbtide.fronts.cli.help import CODES, Commands, command
from ebbtide.fronts.cli.options import INPUT, add_json, add_store
from ebbtide.fronts.cli.store_checks import holdings

_STYLE = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "doctor",
        run,
        brief="check the install, settings, keys, store and prices",
        about="""
            Looks at what Ebbtide needs: the install and its extras, settings files, keys (whether they are set; they
            are never shown), the store with its modes, torn tails and locks, the table of prices, the search index.
            Each line says ok, warn or fail, and what to do next. Nothing is written, sent or repaired.
        """,
        examples="""
            ebb doctor
            ebb doctor --model claude-sonnet-5
            ebb doctor --store ./agents --json
        """,
        codes=CODES.replace("our fault", "something fails; our fault"),
    )
    parser.group(INPUT).add_argument("--model", metavar="M", default="", help="is this model's price known?")
    for more in (add_store, add_json):
        more(parser)


def run(args: argparse.Namespace) -> int:
    found = list(_looked(args))
    if args.json:
        screen.show_json([asdict(check) for check in found])
    else:
        _print(found)
    return int(any(check.state == "fail" for check in found))


def _looked(args: argparse.Namespace) -> Iterator[Check]:
    now = time.time()
    settings = _settings(args.store)
    yield from checks.install()
    yield from checks.fronts(extras())
    yield from checks.configuration(inspect_sources(), _strange())
    try:
        yield from checks.keys(load_access())
    except BadConfig as wrong:
        yield Check(area="keys", name="keys", state="fail", told=str(wrong), next="unset EBB_CONFIG, or name a file")
    if settings is None:
        told = "not looked at: which directory it is depends on the settings above"
        yield Check(area="store", name="path", state="warn", told=told, next="mend them first")
    else:
        yield from checks.store(holdings(settings.store), now)
        yield from checks.recall(settings.store)
    yield from checks.prices(settings, args.model, now)


def _settings(store: str | None) -> Settings | None:
    """None where a source is wrong, which is told elsewhere."""
    try:
        return load_settings(arguments={"store": store})
    except BadConfig:
        return None


def _strange() -> dict[str, str]:
    """Variables that begin as ours do and are none, with the one that may have been meant."""
    strange = sorted(name for name in process_environment() if name.startswith("EBB_") and name not in VARIABLES)
    return {name: next(iter(close_matches(name, VARIABLES, "EBB_")), "") for name in strange}


def _print(found: list[Check]) -> None:
    area = ""
    for check in found:
        if check.area != area:
            area = check.area
            screen.draw(screen.styled((area, "bold")))
        name = f"{check.name}: " if check.name not in ("path", "keys", "found") else ""
        screen.draw(screen.styled((f"  {check.state:<5}", _STYLE[check.state]), (one_line(f"{name}{check.told}"), "")))
        if check.next:
            screen.draw(
                screen.styled(
                    ("        → " if screen.can_draw("→") else "        -> ", "cyan"), (one_line(check.next), "")
                )
            )
    wrong = {state: sum(check.state == state for check in found) for state in ("warn", "fail")}
    print()
    if wrong["fail"]:
        print(f"{wrong['fail']} to mend, {wrong['warn']} to look at")
    else:
        print(f"all is well; {wrong['warn']} to look at" if wrong["warn"] else "all is well")
