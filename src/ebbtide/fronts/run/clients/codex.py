"""Codex: the option `-c`, since it reads no variable. Which key depends on its provider, and on how one logged in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ebbtide.fronts.run.client_files import folders_up, merge, parse_toml, read_json, read_toml, text_at
from ebbtide.fronts.run.launch import Launch
from ebbtide.fronts.run.plan import LaunchPlan, Routes, Surroundings, option_value

_CHATGPT = "https://chatgpt.com/backend-api/codex"
"""Where requests go after a login with ChatGPT."""
_DEFAULT_MODEL = "gpt-5-codex"
"""For the size of the window only: all of its models have the same."""
_LOCAL = {"ollama": "http://localhost:11434/v1", "lmstudio": "http://localhost:1234/v1"}
"""Addresses of the local providers, unless CODEX_OSS_BASE_URL names another."""


def plan(around: Surroundings, launch: Launch) -> LaunchPlan:
    config = _read_config(around, launch.arguments)
    provider = text_at(config, "model_provider") or "openai"
    if "--oss" in launch.arguments:
        provider = option_value(launch.arguments, "--local-provider") or text_at(config, "oss_provider") or "ollama"
    routes = Routes(around)
    command, variables, direct = _route(around, launch, routes, config, provider)
    if direct:
        return LaunchPlan(program=launch.label, command=(*launch.head, *launch.arguments), direct=direct)
    model = option_value(launch.arguments, "-m", "--model") or text_at(config, "model")
    return LaunchPlan(
        program=launch.label,
        command=command,
        variables=variables,
        upstreams=routes.upstreams,
        sets=routes.sets,
        main=routes.main,
        model=model or (_DEFAULT_MODEL if provider == "openai" else ""),
    )


def _route(
    around: Surroundings, launch: Launch, routes: Routes, config: Mapping[str, Any], provider: str
) -> tuple[tuple[str, ...], dict[str, str], str]:
    """Return the command and the variables; or why it cannot be led."""
    given, command = around.given.get("openai", ""), (*launch.head, *launch.arguments)
    if provider in _LOCAL:
        address = around.environ.get("CODEX_OSS_BASE_URL", "") or _local_address(around, provider)
        return command, {"CODEX_OSS_BASE_URL": routes.add("CODEX_OSS_BASE_URL", "openai", address, name=provider)}, ""
    if provider == "openai":
        address = text_at(config, "openai_base_url") or _openai_address(around, config)
        if not address and not given:
            return (
                command,
                {},
                (
                    "its login is not in auth.json, so it is not known whether its requests go to api.openai.com or to "
                    f"chatgpt.com; say it with --upstream openai={_CHATGPT}, or openai=https://api.openai.com/v1"
                ),
            )
        return _with_option(launch, "openai_base_url", routes.add("-c openai_base_url", "openai", address)), {}, ""
    address = text_at(config, "model_providers", provider, "base_url")
    if not address and not given:
        return command, {}, f"its provider {provider!r} has no base_url in config.toml"
    key = f"model_providers.{_key(provider)}.base_url"
    return _with_option(launch, key, routes.add(f"-c {key}", "openai", address, name=f"codex-{provider}")), {}, ""


def _local_address(around: Surroundings, provider: str) -> str:
    port = around.environ.get("CODEX_OSS_PORT", "")
    return f"http://localhost:{port}/v1" if port.isdigit() else _LOCAL[provider]


def _openai_address(around: Surroundings, config: Mapping[str, Any]) -> str:
    """Return where the login leads; empty if it is kept where only Codex can read it."""
    login = read_json(_home(around) / "auth.json")
    has_tokens = isinstance(login.get("tokens"), dict)
    if login.get("auth_mode") == "chatgpt" or (has_tokens and not login.get("OPENAI_API_KEY")):
        return _CHATGPT
    if login.get("OPENAI_API_KEY") or around.environ.get("CODEX_API_KEY"):
        return "https://api.openai.com/v1"
    is_elsewhere = text_at(config, "cli_auth_credentials_store") in ("keyring", "auto")
    if is_elsewhere or around.environ.get("CODEX_ACCESS_TOKEN"):
        return ""
    # There is no login, so what it sends has no key that could reach a wrong host.
    return "https://api.openai.com/v1"


def _home(around: Surroundings) -> Path:
    return Path(around.environ.get("CODEX_HOME") or around.home / ".codex")


def _read_config(around: Surroundings, arguments: Sequence[str]) -> dict[str, Any]:
    """Read its settings: the user's, those of the project and its parents, a profile's, and `-c`."""
    home = _home(around)
    config = read_toml(home / "config.toml")
    trusted = config.get("projects")
    for folder in reversed(list(folders_up(around.cwd, around.home))):
        is_trusted = isinstance(trusted, Mapping) and text_at(trusted, str(folder), "trust_level") == "trusted"
        if folder != around.home and is_trusted:
            config = merge(config, read_toml(folder / ".codex" / "config.toml"))
    profile = option_value(arguments, "-p", "--profile") or text_at(config, "profile")
    if profile:
        own = config.get("profiles")
        table = own.get(profile) if isinstance(own, Mapping) else None
        config = merge(merge(config, table if isinstance(table, Mapping) else {}), _profile_file(home, profile))
    for setting in _settings_on_command_line(arguments):
        config = merge(config, setting)
    return config


def _profile_file(home: Path, profile: str) -> dict[str, Any]:
    is_plain = profile.replace("-", "").replace("_", "").isalnum()
    return read_toml(home / f"{profile}.config.toml") if is_plain else {}


def _settings_on_command_line(arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Read `-c KEY=VALUE`, where a value that is no TOML is a text."""
    settings = []
    for n, word in enumerate(arguments):
        if word == "--":
            break
        flag, separator, rest = word.partition("=")
        text = ""
        if word in ("-c", "--config") and n + 1 < len(arguments):
            text = arguments[n + 1]
        elif flag == "--config" and separator:
            text = rest
        elif word.startswith("-c") and len(word) > 2 and not word.startswith("--"):
            text = word[2:].removeprefix("=")
        key, separator, value = text.partition("=")
        if separator:
            settings.append(parse_toml(text) or parse_toml(f"{key} = {json.dumps(value)}"))
    return settings


def _with_option(launch: Launch, key: str, address: str) -> tuple[str, ...]:
    """Set the key before all other arguments. The user's own `-c` of the same key would win, so it goes."""
    words, kept = list(launch.arguments), []
    while words:
        word = words.pop(0)
        if word == "--":
            kept += [word, *words]
            break
        text = words[0] if word in ("-c", "--config") and words else word.removeprefix("--config=").removeprefix("-c")
        if text.replace(" ", "").replace('"', "").removeprefix("=").startswith(f"{key.replace(chr(34), '')}="):
            words[: 1 if word in ("-c", "--config") else 0] = []
            continue
        kept.append(word)
    return (*launch.head, "-c", f"{key}={json.dumps(address)}", *kept)


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() else json.dumps(name)
