"""Kimi CLI: the variable that its kind of provider reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ebbtide.fronts.run.client_files import parse_json, parse_toml, read_json, read_toml, text_at
from ebbtide.fronts.run.launch import Launch
from ebbtide.fronts.run.plan import LaunchPlan, Routes, Surroundings, option_value

_VARIABLES = {"kimi": "KIMI_BASE_URL", "openai_legacy": "OPENAI_BASE_URL", "openai_responses": "OPENAI_BASE_URL"}


def plan(around: Surroundings, launch: Launch) -> LaunchPlan:
    config = _read_config(around, launch)
    model = option_value(launch.arguments, "-m", "--model") or text_at(config, "default_model")
    provider = text_at(config, "models", model, "provider")
    kind = text_at(config, "providers", provider, "type") or "kimi"
    command = (*launch.head, *launch.arguments)
    if kind not in _VARIABLES:
        problem = f"the address of its provider {provider} ({kind}) cannot be set from outside"
        return LaunchPlan(program=launch.label, command=command, direct=problem)
    variable = _VARIABLES[kind]
    address = around.environ.get(variable, "") or text_at(config, "providers", provider, "base_url")
    if not address and not around.given.get("openai"):
        problem = f"neither {variable} nor its settings say where it sends to; run it once by itself, or set {variable}"
        return LaunchPlan(program=launch.label, command=command, direct=problem)
    routes = Routes(around)
    return LaunchPlan(
        program=launch.label,
        command=command,
        variables={variable: routes.add(variable, "openai", address, name="kimi")},
        upstreams=routes.upstreams,
        sets=routes.sets,
        main=routes.main,
        model=around.environ.get("KIMI_MODEL_NAME", "") or text_at(config, "models", model, "model") or model,
    )


def _read_config(around: Surroundings, launch: Launch) -> dict[str, Any]:
    inline = option_value(launch.arguments, "--config")
    if inline:
        return parse_json(inline) or parse_toml(inline)
    own = option_value(launch.arguments, "--config-file")
    share = Path(around.environ.get("KIMI_SHARE_DIR") or around.home / ".kimi")
    path = around.cwd / own if own else share / "config.toml"
    return read_json(path) if path.suffix == ".json" else read_toml(path) or read_json(share / "config.json")
