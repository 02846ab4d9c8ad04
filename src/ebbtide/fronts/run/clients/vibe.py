"""Mistral Vibe: VIBE_PROVIDERS, which it merges over the providers of its settings by their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ebbtide.fronts.run.client_files import merge, read_env, read_toml
from ebbtide.fronts.run.launch import Launch
from ebbtide.fronts.run.plan import LaunchPlan, Routes, Surroundings, is_address

VARIABLE = "VIBE_PROVIDERS"
_OWN = {
    "name": "mistral",
    "api_base": "https://api.mistral.ai/v1",
    "api_key_env_var": "MISTRAL_API_KEY",
    "backend": "mistral",
    "browser_auth_base_url": "https://console.mistral.ai",
    "browser_auth_api_base_url": "https://console.mistral.ai/api",
}
"""The provider that it has without settings."""


def plan(around: Surroundings, launch: Launch) -> LaunchPlan:
    config, env = _read_config(around), _environment(around)
    providers = {entry["name"]: entry for entry in (_OWN, *_entries(config, "providers"), *_from_variable(env))}
    models = {entry.get("alias") or entry["name"]: entry for entry in _entries(config, "models")}
    active = env.get("VIBE_ACTIVE_MODEL") or config.get("active_model") or ""
    chosen = models.get(active) or next((model for model in models.values() if model["name"] == active), {})
    provider = str(chosen.get("provider") or "mistral")
    command = (*launch.head, *launch.arguments)
    if provider not in providers or not is_address(str(providers[provider].get("api_base"))):
        problem = f"its provider {provider!r} has no address in its settings"
        return LaunchPlan(program=launch.label, command=command, direct=problem)
    routes = Routes(around)
    address = routes.add(VARIABLE, "openai", str(providers[provider]["api_base"]), name=f"vibe-{provider}")
    own = [entry for entry in _from_variable(env) if entry["name"] != provider]
    led = [*own, {**providers[provider], "api_base": address}]
    return LaunchPlan(
        program=launch.label,
        command=command,
        variables={VARIABLE: json.dumps(led)},
        upstreams=routes.upstreams,
        sets=routes.sets,
        main=routes.main,
        model=str(chosen.get("name") or ""),
        # It asks before it reads outside the workspace, and denies it where nobody can be asked.
        recall="tool",
    )


def _home(around: Surroundings) -> Path:
    return Path(around.environ.get("VIBE_HOME") or around.home / ".vibe")


def _environment(around: Surroundings) -> dict[str, str]:
    return {**read_env(_home(around) / ".env"), **around.environ}


def _read_config(around: Surroundings) -> dict[str, Any]:
    """Its project's settings override the user's; lists of providers and models are merged by name."""
    user, project = read_toml(_home(around) / "config.toml"), read_toml(around.cwd / ".vibe" / "config.toml")
    lists = {key: [*_entries(user, key), *_entries(project, key)] for key in ("providers", "models")}
    return {**merge(user, project), **lists}


def _entries(config: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = config.get(key)
    rows = entries if isinstance(entries, list) else []
    return [entry for entry in rows if isinstance(entry, dict) and isinstance(entry.get("name"), str)]


def _from_variable(env: dict[str, str]) -> list[dict[str, Any]]:
    try:
        value = json.loads(env.get(VARIABLE) or "[]")
    except ValueError:
        return []
    return _entries({"providers": value}, "providers")
