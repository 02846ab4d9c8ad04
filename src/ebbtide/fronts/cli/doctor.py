"""`ebb doctor`: check the installation, and say what to do about each problem."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict

from ebbtide import screen
from ebbtide.argparse_errors import close_matches
from ebbtide.config import Settings, inspect_sources, load_access, load_settings, process_environment
from ebbtide.config_keys import VARIABLES
from ebbtide.core.errors import BadConfig
from ebbtide.display import one_line
from ebbtide.fronts.cli import checks
from ebbtide.fronts.cli.checks import Check
from ebbtide.fronts.cli.parser import CODES, INPUT, Commands, command

_STYLE = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "doctor",
        run,
        brief="check the install, settings, keys, store and prices",
        codes=CODES.replace("an error", "a check fails, or an error"),
        options=("--store", "--json"),
    )
    parser.group(INPUT).add_argument(
        "--model", metavar="M", default="", help="also check this model's price and window"
    )


def run(args: argparse.Namespace) -> int:
    """Checks what Ebbtide needs: the install and its extras, settings files, keys (only whether they are set),
    the store with its permissions, damaged ends of logs and locks, the price table, the search index. Each
    line says ok, warn or fail, and what to do next. Nothing is written, sent or repaired.

    examples:
        ebb doctor
        ebb doctor --model claude-sonnet-5
        ebb doctor --store ./agents --json
    """
    results = list(_run_checks(args))
    if args.json:
        screen.print_json([asdict(check) for check in results])
    else:
        _print(results)
    return int(any(check.state == "fail" for check in results))


def _run_checks(args: argparse.Namespace) -> Iterator[Check]:
    now = time.time()
    settings = _settings(args.store)
    yield from checks.check_install()
    yield from checks.check_extras()
    yield from checks.check_configuration(inspect_sources(), _unknown_variables())
    try:
        yield from checks.check_keys(load_access())
    except BadConfig as error:
        advice = "unset EBB_CONFIG, or set it to a file"
        yield Check("keys", "keys", "fail", str(error), advice)
    if settings is None:
        problem = "not checked: its directory depends on the settings above"
        yield Check("store", "path", "warn", problem, "correct them first")
    else:
        yield from checks.check_store(settings.store, now)
        yield from checks.check_search_index(settings.store)
    yield from checks.check_prices(settings, args.model, now)


def _settings(store: str | None) -> Settings | None:
    """None if a source is wrong, which another check reports."""
    try:
        return load_settings(arguments={"store": store})
    except BadConfig:
        return None


def _unknown_variables() -> dict[str, str]:
    """EBB_ variables that Ebbtide does not know, each with the one that was probably meant."""
    unknown = sorted(name for name in process_environment() if name.startswith("EBB_") and name not in VARIABLES)
    return {name: next(iter(close_matches(name, VARIABLES, "EBB_")), "") for name in unknown}


def _print(results: list[Check]) -> None:
    area, arrow = "", "→" if screen.can_draw("→") else "->"
    for check in results:
        if check.area != area:
            area = check.area
            screen.draw(screen.styled_text((area, "bold")))
        name = f"{check.name}: " if check.name not in ("path", "keys", "found") else ""
        line = one_line(f"{name}{check.told}")
        screen.draw(screen.styled_text((f"  {check.state:<5}", _STYLE[check.state]), (line, "")))
        if check.next:
            screen.draw(screen.styled_text((f"        {arrow} ", "cyan"), (one_line(check.next), "")))
    failures, warnings = (sum(check.state == state for check in results) for state in ("fail", "warn"))
    print()
    if failures:
        print(f"{failures} failed, {warnings} to look at")
    else:
        print(f"no problems found; {warnings} to look at" if warnings else "no problems found")
