"""`ebb run --list`: what is set for each program that is known, and where its requests go, here and now."""

from __future__ import annotations

import json

from ebbtide.display import make_visible
from ebbtide.fronts.run.clients import CLIENTS, plan_launch
from ebbtide.fronts.run.launch import recognize
from ebbtide.fronts.run.plan import PROXY, LaunchPlan, Surroundings

_EXAMPLE_ADDRESS = "http://127.0.0.1:PORT"
"""No proxy was started, so there is no port."""
_SDKS = (
    ("Anthropic's SDKs", "ANTHROPIC_BASE_URL"),
    ("OpenAI's SDKs", "OPENAI_BASE_URL"),
    ("Google's SDKs", "GOOGLE_GEMINI_BASE_URL"),
)


def print_list(around: Surroundings, *, as_json: bool) -> int:
    rows = list_clients(around)
    if as_json:
        print(json.dumps(rows, indent=2))
        return 0
    table = [("PROGRAM", "SETS", "SENDS TO")]
    for row in rows:
        sets, sends = dict(row["sets"]), dict(row["upstreams"])  # type: ignore[call-overload]
        name = f"{row['client']} ({row['command']})" if row["command"] else str(row["client"])
        lines = [(setting, str(sends[setting])) for setting in sets] or [("nothing", str(row["note"]))]
        table += [("" if n else name, *line) for n, line in enumerate(lines)]
    widths = [max(len(row[column]) for row in table) for column in range(2)]
    for first, second, third in table:
        print(make_visible(f"{first:<{widths[0]}}  {second:<{widths[1]}}  {third}".rstrip()))
    print(f"\nEach is set to an address of the proxy, such as ANTHROPIC_BASE_URL={_EXAMPLE_ADDRESS}/anthropic")
    return 0


def list_clients(around: Surroundings) -> list[dict[str, object]]:
    rows = [_row(CLIENTS[name], name, plan_launch(around, recognize([name]))) for name in CLIENTS]
    library = plan_launch(around, recognize(["any-program"]))
    return [*rows, *(_row(name, "", library, only=variable) for name, variable in _SDKS)]


def _row(client: str, command: str, plan: LaunchPlan, *, only: str = "") -> dict[str, object]:
    addresses = {name: value for name, value in plan.sets.items() if not only or name == only}
    return {
        "client": client,
        "command": command,
        "sets": {name: value.replace(PROXY, _EXAMPLE_ADDRESS) for name, value in addresses.items()},
        "upstreams": {name: plan.upstreams[value.split("/")[3]] for name, value in addresses.items()},
        "note": plan.direct or "; ".join(plan.notes),
    }
