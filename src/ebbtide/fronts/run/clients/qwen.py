"""Qwen Code: the variable of the API that it was set up for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ebbtide.fronts.run.client_files import merge, read_json, table, text_at
from ebbtide.fronts.run.clients.gemini import read_environment
from ebbtide.fronts.run.launch import Launch
from ebbtide.fronts.run.plan import LaunchPlan, Routes, Surroundings, option_value

_APIS = {
    "openai": ("openai", "OPENAI_BASE_URL", "OPENAI_MODEL"),
    "anthropic": ("anthropic", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
}
_UNSET_APIS = {"qwen-oauth": "a Qwen login", "gemini": "Gemini", "vertex-ai": "Vertex AI"}


def plan(around: Surroundings, launch: Launch) -> LaunchPlan:
    settings = merge(
        read_json(around.home / ".qwen" / "settings.json"), read_json(around.cwd / ".qwen" / "settings.json")
    )
    env = {**_texts(table(settings, "env")), **read_environment(around, ".qwen")}
    command = (*launch.head, *launch.arguments)
    kind = option_value(launch.arguments, "--auth-type") or text_at(settings, "security", "auth", "selectedType")
    kind = kind or text_at(settings, "selectedAuthType") or "openai"
    if kind not in _APIS:
        problem = f"with {_UNSET_APIS.get(kind, kind)} its address cannot be set"
        return LaunchPlan(program=launch.label, command=command, direct=problem)
    provider, variable, model_variable = _APIS[kind]
    model = option_value(launch.arguments, "-m", "--model") or env.get(model_variable, "")
    model = model or text_at(settings, "model", "name")
    if _is_in_catalog(settings, kind, model):
        problem = f"the address of {model} is in its settings (modelProviders), where nothing can override it"
        return LaunchPlan(program=launch.label, command=command, direct=problem)
    flag = option_value(launch.arguments, "--openai-base-url")
    if flag and provider == "openai" and not around.given:
        problem = "--openai-base-url names the address; set OPENAI_BASE_URL to it instead"
        return LaunchPlan(program=launch.label, command=command, direct=problem)
    routes = Routes(around)
    address = env.get(variable, "") or text_at(settings, "security", "auth", "baseUrl")
    variables = {variable: routes.add(variable, provider, address)}
    return LaunchPlan(
        program=launch.label,
        command=command,
        variables=variables,
        upstreams=routes.upstreams,
        sets=routes.sets,
        main=routes.main,
        model=model,
    )


def _is_in_catalog(settings: Mapping[str, Any], kind: str, model: str) -> bool:
    models = table(settings, "modelProviders").get(kind)
    entries = models if isinstance(models, list) else []
    return any(text_at(entry, "id") == model and text_at(entry, "baseUrl") for entry in entries)


def _texts(env: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in env.items() if isinstance(value, str)}
