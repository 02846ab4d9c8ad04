"""How each client is led to the proxy: one module for each, with `plan(around, launch)`.

A client's module reads the settings that the client itself would read, in the client's order, and takes the address
that results as the upstream. If it cannot lead the client without changing where its requests end, the plan says why
and leaves the client alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from ebbtide.core.errors import BadConfig
from ebbtide.fronts.run.launch import Launch
from ebbtide.fronts.run.plan import LaunchPlan, Surroundings

Planner = Callable[[Surroundings, Launch], LaunchPlan]

_MODULES: Mapping[str, str] = {
    "claude": "claude",
    "codex": "codex",
    "opencode": "opencode",
    "gemini": "gemini",
    "qwen": "qwen",
    "kimi": "kimi",
    "vibe": "vibe",
    "aider": "sdks",
    "llm": "sdks",
    "mini": "sdks",
}
"""Imported when needed: most runs start one client."""
CLIENTS: Mapping[str, str] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "opencode": "OpenCode",
    "gemini": "Gemini CLI",
    "qwen": "Qwen Code",
    "kimi": "Kimi CLI",
    "vibe": "Mistral Vibe",
    "aider": "aider",
    "llm": "llm",
    "mini": "mini-swe-agent",
}
"""Their names, by command."""


def plan_launch(around: Surroundings, launch: Launch) -> LaunchPlan:
    """Plan how this program is started. Raises `BadConfig` if an address that was given cannot be used."""
    module = import_module(f"ebbtide.fronts.run.clients.{_MODULES.get(launch.program, 'sdks')}")
    planner: Planner = module.plan
    try:
        return planner(around, launch)
    except BadConfig as error:
        if around.given:
            raise
        return LaunchPlan(program=launch.label, command=(*launch.head, *launch.arguments), direct=str(error))
