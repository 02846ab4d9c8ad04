"""Claude Code: an environment variable, or `--settings` where a settings file would override the variable.

Its settings files have an `env` table that overrides the environment: the user's, the project's, the project's local
one, `--settings`, and the administrator's, the last being the strongest.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbtide.fronts.run.client_files import merge, parse_json, read_json, table, text_at
from ebbtide.fronts.run.launch import Launch
from ebbtide.fronts.run.plan import FILE, PROXY, LaunchPlan, Routes, Surroundings, is_true, option_value

_UNREAD_MODES = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_MANTLE": "Amazon Bedrock",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": "Anthropic on AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": "Anthropic on Google Cloud",
    "CLAUDE_CODE_USE_GATEWAY": "an Anthropic gateway",
}
"""Modes that the proxy cannot serve, by their variable."""
_SIGNED = "signs each request (SigV4), and a request that was changed on the way would be refused"
_UNREAD = "has its own API, which Ebbtide does not read"
_REGIONS = {"global": "aiplatform.googleapis.com"}
_MULTI_REGIONS = ("us", "eu")
_ADMINISTRATOR = {
    "darwin": Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
    "linux": Path("/etc/claude-code/managed-settings.json"),
}


@dataclass(frozen=True, slots=True)
class _Settings:
    values: Mapping[str, Any]
    """All settings files merged, without the administrator's."""
    env: Mapping[str, str]
    """The environment that Claude Code works with."""
    overridden: frozenset[str]
    """Variables that a settings file sets."""
    fixed: frozenset[str]
    """Variables that the administrator sets."""
    flag: Mapping[str, Any]
    """What `--settings` says."""
    is_flag_file: bool


def plan(around: Surroundings, launch: Launch) -> LaunchPlan:
    settings = _read_settings(around, launch)
    model = option_value(launch.arguments, "--model") or settings.env.get("ANTHROPIC_MODEL", "")
    model = model or text_at(settings.values, "model") or "claude"
    direct = _why_direct(settings.env)
    routes = Routes(around)
    variables: dict[str, str] = {}
    if not direct:
        variables, direct = _route(routes, settings)
    fixed = sorted(settings.fixed & set(variables))
    if fixed:
        direct = f"the administrator's settings set {', '.join(fixed)}, which nothing here can override"
    command = (*launch.head, *launch.arguments)
    if direct:
        return LaunchPlan(program=launch.label, command=command, direct=direct)
    added = _added_settings(around, settings, variables)
    text = json.dumps(merge(settings.flag, added), ensure_ascii=False)
    return LaunchPlan(
        program=launch.label,
        command=_with_settings(launch, FILE if settings.is_flag_file else text) if added else command,
        file=text if settings.is_flag_file and added else "",
        variables=variables,
        upstreams=routes.upstreams,
        sets=routes.sets,
        main=routes.main,
        model=model if model.startswith("claude") else f"claude-{model}",
    )


def _why_direct(env: Mapping[str, str]) -> str:
    for variable, name in _UNREAD_MODES.items():
        if is_true(env.get(variable, "")):
            has_token = env.get("AWS_BEARER_TOKEN_BEDROCK") or not name.startswith("Amazon")
            return f"{name} {_UNREAD if has_token else _SIGNED}"
    return ""


def _route(routes: Routes, settings: _Settings) -> tuple[dict[str, str], str]:
    """Return the variable to set, or why none can be."""
    env = settings.env
    if is_true(env.get("CLAUDE_CODE_USE_VERTEX", "")):
        address, problem = _vertex_address(env)
        if problem:
            return {}, problem
        return {"ANTHROPIC_VERTEX_BASE_URL": routes.add("ANTHROPIC_VERTEX_BASE_URL", "vertex", address)}, ""
    if is_true(env.get("CLAUDE_CODE_USE_FOUNDRY", "")):
        resource = env.get("ANTHROPIC_FOUNDRY_RESOURCE", "")
        address = env.get("ANTHROPIC_FOUNDRY_BASE_URL", "") or f"https://{resource}.services.ai.azure.com/anthropic"
        name = "ANTHROPIC_FOUNDRY_BASE_URL"
        return {name: routes.add(name, "anthropic", address, name="foundry")}, ""
    address = env.get("ANTHROPIC_BASE_URL", "")
    return {"ANTHROPIC_BASE_URL": routes.add("ANTHROPIC_BASE_URL", "anthropic", address, path="")}, ""


def _vertex_address(env: Mapping[str, str]) -> tuple[str, str]:
    """Return the address of Vertex AI's region; or why there is none, if models are in several regions."""
    if env.get("ANTHROPIC_VERTEX_BASE_URL"):
        return env["ANTHROPIC_VERTEX_BASE_URL"], ""
    region = env.get("CLOUD_ML_REGION") or "us-east5"
    others = {value for name, value in env.items() if name.startswith("VERTEX_REGION_CLAUDE") and value}
    if others - {region}:
        return "", "its models are in several regions of Vertex AI, and the proxy can send to one"
    host = _REGIONS.get(region) or (
        f"aiplatform.{region}.rep.googleapis.com" if region in _MULTI_REGIONS else f"{region}-aiplatform.googleapis.com"
    )
    return f"https://{host}/v1", ""


def _read_settings(around: Surroundings, launch: Launch) -> _Settings:
    folder = Path(around.environ.get("CLAUDE_CONFIG_DIR") or around.home / ".claude")
    given = option_value(launch.arguments, "--settings")
    is_file = bool(given) and not given.lstrip().startswith("{")
    flag = read_json(around.cwd / given) if is_file else parse_json(given)
    files = [folder / "settings.json", *(around.cwd / ".claude" / f"settings{part}.json" for part in ("", ".local"))]
    layers = [*_chosen_sources(launch, [read_json(path) for path in files]), flag]
    administrator = read_json(_ADMINISTRATOR.get(sys.platform, _ADMINISTRATOR["linux"]))
    values: dict[str, Any] = {}
    for layer in layers:
        values = merge(values, layer)
    own, fixed = _texts(table(values, "env")), _texts(table(administrator, "env"))
    env = {**around.environ, **own, **fixed}
    return _Settings(values, env, frozenset(own), frozenset(fixed), flag, is_file)


def _chosen_sources(launch: Launch, layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the files that `--setting-sources` does not name."""
    chosen = option_value(launch.arguments, "--setting-sources")
    if not chosen:
        return layers
    names = {name.strip() for name in chosen.split(",")}
    return [layer for name, layer in zip(("user", "project", "local"), layers, strict=True) if name in names]


def _texts(env: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in env.items() if isinstance(value, str | int | float | bool)}


def _added_settings(around: Surroundings, settings: _Settings, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return what must be said by `--settings`: variables that a file would override, and leave to read our files."""
    added: dict[str, Any] = {}
    overridden = {name: value for name, value in variables.items() if name in settings.overridden}
    if overridden:
        added["env"] = overridden
    if around.store is not None:
        allowed = table(settings.flag, "permissions").get("allow")
        # A link in its path, as /tmp is one on macOS, is checked beside what it leads to.
        rules = dict.fromkeys(map(_read_rule, (around.store.absolute(), around.store.resolve())))
        added["permissions"] = {"allow": [*(allowed if isinstance(allowed, list) else []), *rules]}
    return {**added, **status_line(PROXY, settings.values)}


def status_line(address: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that show what Ebbtide does in Claude Code's status line; none if the user has one."""
    if settings.get("statusLine") or settings.get("disableAllHooks"):
        return {}
    command = f"{shlex.join([sys.executable, '-m', 'ebbtide', 'statusline'])} {address}"
    return {"statusLine": {"type": "command", "command": command, "padding": 0}}


def _read_rule(store: Path) -> str:
    """Allow reading what was removed, and nothing else of the store: neither its logs nor writing."""
    return f"Read(/{store.as_posix()}/projects/**/tool-results/**)"


def _with_settings(launch: Launch, value: str) -> tuple[str, ...]:
    """Replace the user's own `--settings`: of two, Claude Code takes only the last."""
    words, rest = list(launch.arguments), []
    if "--" in words:
        at = words.index("--")
        words, rest = words[:at], words[at:]
    kept: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--settings":
            words[:1] = []
        elif not word.startswith("--settings="):
            kept.append(word)
    return (*launch.head, "--settings", value, *kept, *rest)
