"""Everything on the official SDKs or LiteLLM: the variables that these read.

Some programs read one variable of a provider, some another, and some both. So if the user set one of them, the others
stay unset: a program that reads those would send the user's key to a host that the user did not name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ebbtide.fronts.run.client_files import folders_up, read_env, read_text
from ebbtide.fronts.run.clients import opencode
from ebbtide.fronts.run.clients.gemini import vertex_address
from ebbtide.fronts.run.launch import Launch
from ebbtide.fronts.run.plan import PROXY, LaunchPlan, Routes, Surroundings, is_address, option_value

_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "gemini": ("GOOGLE_GEMINI_BASE_URL",),
    "vertex": ("GOOGLE_VERTEX_BASE_URL",),
}
_USER_SET = ("KIMI_BASE_URL",)
"""Variables that are led to the proxy only if the user set them: nothing else says where their programs send to."""
_OWN: Mapping[str, tuple[str, ...]] = {
    "aider": ("anthropic", "openai"),
    "llm": ("openai",),
    "mini": ("anthropic", "openai"),
}
"""The providers of programs that are known."""


def plan(around: Surroundings, launch: Launch) -> LaunchPlan:
    env, overriding = _read_environment(around, launch)
    routes = Routes(around)
    variables: dict[str, str] = {}
    for provider in _OWN.get(launch.program, tuple(_FAMILIES)):
        variables |= _route(around, routes, env, provider)
    if not launch.program:
        variables |= _route_user_set(routes, env)
        variables |= _route_opencode(around, routes)
    overridden = {name: value for name, value in variables.items() if name in overriding}
    model = option_value(launch.arguments, "-m", "--model") if launch.program else ""
    return LaunchPlan(
        program=launch.label,
        command=_with_aider_options(launch, overridden) if overridden else (*launch.head, *launch.arguments),
        variables=variables,
        upstreams=routes.upstreams,
        sets=routes.sets,
        main=_upstream_of(model, routes.sets),
        model=model,
        notes=_notes(around, launch),
    )


def _upstream_of(model: str, sets: Mapping[str, str]) -> str:
    """Return the upstream of a model that is named as `openai/gpt-5`; empty if the name does not say."""
    names = _FAMILIES.get(model.partition("/")[0], ()) if "/" in model else ()
    address = next((sets[name] for name in names if name in sets), "")
    return address.removeprefix(f"{PROXY}/").partition("/")[0]


def _route(around: Surroundings, routes: Routes, env: Mapping[str, str], provider: str) -> dict[str, str]:
    names = _FAMILIES[provider]
    is_set = tuple(name for name in names if is_address(env.get(name, "")))
    if provider in around.given or not is_set:
        location = vertex_address(env.get("GOOGLE_CLOUD_LOCATION", "")) if provider == "vertex" else ""
        return {name: routes.add(name, provider, location) for name in names}
    return {name: routes.add(name, provider, env[name]) for name in is_set}


def _route_user_set(routes: Routes, env: Mapping[str, str]) -> dict[str, str]:
    is_set = [name for name in _USER_SET if is_address(env.get(name, ""))]
    return {name: routes.add(name, "openai", env[name], name="kimi") for name in is_set}


def _route_opencode(around: Surroundings, routes: Routes) -> dict[str, str]:
    """A program may start OpenCode, which reads none of the others."""
    inner = opencode.plan(around, Launch(program="opencode", head=("opencode",), arguments=()))
    for name, address in inner.upstreams.items():
        routes.upstreams.setdefault(name, address)
    is_same = all(routes.upstreams[name] == address for name, address in inner.upstreams.items())
    return dict(inner.variables) if is_same else {}


def _read_environment(around: Surroundings, launch: Launch) -> tuple[dict[str, str], frozenset[str]]:
    """Return the environment with the `.env` files that the program reads, and the variables that these override."""
    if launch.program == "aider":
        return _read_for_aider(around, launch)
    for folder in folders_up(around.cwd, around.home):
        if (folder / ".env").is_file():
            return {**read_env(folder / ".env"), **around.environ}, frozenset()
    return dict(around.environ), frozenset()


def _read_for_aider(around: Surroundings, launch: Launch) -> tuple[dict[str, str], frozenset[str]]:
    """Its own `.env` files override the environment; an address in its settings or options overrides both."""
    named = option_value(launch.arguments, "--env-file")
    root = next((folder for folder in folders_up(around.cwd, around.home) if (folder / ".git").exists()), around.cwd)
    overriding: dict[str, str] = {}
    for path in dict.fromkeys(
        (around.home / ".env", root / ".env", around.cwd / ".env", around.cwd / (named or ".env"))
    ):
        overriding |= read_env(path)
    address = option_value(launch.arguments, "--openai-api-base") or _aider_setting(around, root)
    if address:
        overriding["OPENAI_API_BASE"] = address
    return {**around.environ, **overriding}, frozenset(overriding)


def _with_aider_options(launch: Launch, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Set variables by aider's options, which override its `.env` files. Of the address only the last option counts."""
    added: list[str] = []
    for name, value in variables.items():
        added += ["--openai-api-base", value] if name == "OPENAI_API_BASE" else ["--set-env", f"{name}={value}"]
    return (*launch.head, *launch.arguments, *added)


def _aider_setting(around: Surroundings, root: Path) -> str:
    """Return `openai-api-base` of its settings, which are YAML with one setting in a line."""
    address = ""
    for folder in dict.fromkeys((around.home, root, around.cwd)):
        for line in read_text(folder / ".aider.conf.yml").splitlines():
            key, separator, value = line.partition(":")
            if separator and key.strip() == "openai-api-base":
                address = value.partition(" #")[0].strip().strip("'\"")
    return address


def _notes(around: Surroundings, launch: Launch) -> tuple[str, ...]:
    if launch.program != "llm":
        return ()
    folder = Path(around.environ.get("LLM_USER_PATH") or around.home / ".config" / "io.datasette.llm")
    if "api_base" in read_text(folder / "extra-openai-models.yaml"):
        return ("models with an api_base in extra-openai-models.yaml do not pass the proxy",)
    return ()
