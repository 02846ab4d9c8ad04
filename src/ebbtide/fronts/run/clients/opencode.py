"""OpenCode: settings in OPENCODE_CONFIG_CONTENT, which override those of its files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ebbtide.fronts.run.client_files import folders_up, merge, parse_json, read_json, read_text, table, text_at
from ebbtide.fronts.run.launch import Launch
from ebbtide.fronts.run.plan import LaunchPlan, Routes, Surroundings, is_address, option_value

VARIABLE = "OPENCODE_CONFIG_CONTENT"
_PROVIDERS = ("anthropic", "openai")
"""Those whose addresses are known without settings."""
_NAMES = ("config.json", "opencode.json", "opencode.jsonc")
_SUBSTITUTE = re.compile(r"\{(env|file):([^{}]+)\}")


def plan(around: Surroundings, launch: Launch) -> LaunchPlan:
    own = around.environ.get(VARIABLE, "")
    content = parse_json(own)
    command = (*launch.head, *launch.arguments)
    if own.strip() and not content:
        problem = f"{VARIABLE} is not JSON, so nothing can be added to it"
        return LaunchPlan(program=launch.label, command=command, direct=problem)
    settings = merge(_read_files(around), content)
    routes = Routes(around)
    model = option_value(launch.arguments, "-m", "--model") or text_at(settings, "model")
    added, notes = _providers(around, routes, settings, model.partition("/")[0])
    if around.store is not None:
        added = merge(added, _permission(settings, around.store))
    return LaunchPlan(
        program=launch.label,
        command=command,
        variables={VARIABLE: json.dumps(merge(content, added), ensure_ascii=False)},
        upstreams=routes.upstreams,
        sets=routes.sets,
        main=routes.main if model else "",
        model=model.partition("/")[2],
        recall="path" if _may_read(settings) else "tool",
        notes=notes,
    )


def _providers(
    around: Surroundings, routes: Routes, settings: Mapping[str, Any], chosen: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return settings that lead each provider with a known address to the proxy, the chosen one first."""
    login = read_json(_data_folder(around) / "auth.json")
    providers = table(settings, "provider")
    names = sorted({*_PROVIDERS, *providers}, key=lambda name: (name != chosen, name not in _PROVIDERS, name))
    added: dict[str, Any] = {}
    notes: list[str] = []
    for name in names:
        address = _substitute(around, text_at(providers, name, "options", "baseURL"))
        if name == "openai" and text_at(login, name, "type") == "oauth":
            notes.append("its provider openai has a ChatGPT login, whose requests do not pass the proxy")
        elif is_address(address) or name in _PROVIDERS:
            added[name] = {"options": {"baseURL": _base_url(around, routes, name, address)}}
    if chosen and chosen not in added and not notes:
        notes.append(f"its provider {chosen} has no address in its settings, so those requests do not pass the proxy")
    return {"provider": added}, tuple(notes)


def _base_url(around: Surroundings, routes: Routes, name: str, address: str) -> str:
    """Anthropic's address ends in `/v1` here too."""
    provider = name if name in _PROVIDERS else "openai"
    if not address and name == "anthropic":
        address = around.environ.get("ANTHROPIC_BASE_URL", "")
        return routes.add("provider.anthropic.options.baseURL", provider, address, path="/v1")
    if not address:
        return routes.add("provider.openai.options.baseURL", provider, around.environ.get("OPENAI_BASE_URL", ""))
    return routes.add(f"provider.{name}.options.baseURL", provider, address, name=f"opencode-{name}")


def _permission(settings: Mapping[str, Any], store: Path) -> dict[str, Any]:
    """Let it read what was removed, and nothing else of the store. The last rule that matches wins."""
    if not _may_read(settings):
        return {}
    pattern = f"{store.absolute().as_posix()}/projects/*/tool-results/*"
    permission = settings.get("permission")
    if isinstance(permission, str):
        return {"permission": {"*": permission, "external_directory": {"*": permission, pattern: "allow"}}}
    outside = table(settings, "permission").get("external_directory", "ask")
    rules = {"*": outside} if isinstance(outside, str) else dict(outside)
    return {"permission": {"external_directory": {**rules, pattern: "allow"}}}


def _may_read(settings: Mapping[str, Any]) -> bool:
    """Whether the user left it open that files outside the project are read. What is forbidden stays forbidden."""
    permission = settings.get("permission")
    outside = permission if isinstance(permission, str) else table(settings, "permission").get("external_directory")
    return outside != "deny" and not (isinstance(outside, Mapping) and outside.get("*") == "deny")


def _read_files(around: Surroundings) -> dict[str, Any]:
    """Merge its files, the nearest last."""
    config = Path(around.environ.get("XDG_CONFIG_HOME") or around.home / ".config") / "opencode"
    paths = [config / name for name in _NAMES]
    if around.environ.get("OPENCODE_CONFIG"):
        paths.append(around.cwd / around.environ["OPENCODE_CONFIG"])
    for folder in reversed(list(folders_up(around.cwd, around.home))):
        paths += [folder / inner / name for inner in ("", ".opencode") for name in _NAMES[1:]]
    named = around.environ.get("OPENCODE_CONFIG_DIR", "")
    paths += [around.cwd / named / name for name in _NAMES] if named else []
    settings: dict[str, Any] = {}
    for path in paths:
        settings = merge(settings, read_json(path))
    return settings


def _data_folder(around: Surroundings) -> Path:
    return Path(around.environ.get("XDG_DATA_HOME") or around.home / ".local" / "share") / "opencode"


def _substitute(around: Surroundings, text: str) -> str:
    """Fill in `{env:NAME}` and `{file:PATH}` as it does."""

    def value(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind == "env":
            return around.environ.get(name, "")
        return read_text(around.cwd / Path(name).expanduser()).strip()

    return _SUBSTITUTE.sub(value, text)
