"""Point clients at the proxy through the variables and options that they read. An address set there is the upstream.

The proxy serves each upstream under its own first path segment, as in `http://127.0.0.1:PORT/anthropic`, so that all
of a client's requests reach it and not only those whose paths we know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from urllib.parse import urlsplit

from ebbtide.core.errors import BadConfig

Environment = Mapping[str, str]

_VARIABLES = {
    "ANTHROPIC_BASE_URL": "anthropic",
    "ANTHROPIC_API_BASE": "anthropic",
    "OPENAI_BASE_URL": "openai",
    "OPENAI_API_BASE": "openai",
    "GOOGLE_GEMINI_BASE_URL": "gemini",
    "GOOGLE_VERTEX_BASE_URL": "vertex",
}
PROVIDERS = ("anthropic", "openai", "gemini", "vertex")
_GOOGLE_VARIABLES = ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL")
_OPENCODE_VARIABLE = "OPENCODE_CONFIG_CONTENT"
_OPENCODE_PROVIDERS = ("anthropic", "openai")
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LOOPBACK = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program, and how it is pointed at the proxy."""

    name: str
    command: str
    """Its command; empty for a library."""
    sets: tuple[str, ...]
    """The variables that are set, or the option that is added."""
    note: str = ""


CLIENTS = (
    Client(name="Claude Code", command="claude", sets=("ANTHROPIC_BASE_URL",)),
    Client(name="Codex", command="codex", sets=("-c openai_base_url",), note="with an API key; for a login see --help"),
    Client(name="OpenCode", command="opencode", sets=(_OPENCODE_VARIABLE,), note="its providers anthropic and openai"),
    Client(
        name="Gemini CLI",
        command="gemini",
        sets=_GOOGLE_VARIABLES,
        note="with an API key or Vertex AI; with a Google login it reads neither",
    ),
    Client(name="aider", command="aider", sets=("OPENAI_API_BASE", "ANTHROPIC_API_BASE")),
    Client(name="Qwen Code", command="qwen", sets=("OPENAI_BASE_URL",)),
    Client(name="llm", command="llm", sets=("OPENAI_BASE_URL",), note="OpenAI's models"),
    Client(name="Anthropic's SDKs", command="", sets=("ANTHROPIC_BASE_URL",)),
    Client(name="OpenAI's SDKs", command="", sets=("OPENAI_BASE_URL",)),
    Client(name="Google's SDKs", command="", sets=_GOOGLE_VARIABLES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One upstream of the proxy."""

    name: str
    address: str
    """As the user set it; empty for the proxy's default."""
    path: str
    """What follows the upstream's name in the client's base URL."""

    def base_url(self, proxy: str) -> str:
        return f"{proxy}/{self.name}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutePlan:
    """Where each variable will point to."""

    routes: Mapping[str, Route]
    """By variable, and by `opencode.PROVIDER`."""

    def upstreams(self) -> list[str]:
        """Return arguments for the proxy. It takes what the user did not set from its configuration."""
        addresses = {route.name: route.address for route in self.routes.values() if route.address}
        return [part for name, address in addresses.items() for part in ("--upstream", f"{name}={address}")]

    def environment(self, environ: Environment, proxy: str) -> dict[str, str]:
        """Return the user's environment with every address pointed at the proxy."""
        variables = {**environ, **{variable: self.routes[variable].base_url(proxy) for variable in _VARIABLES}}
        base_urls = {name: self.routes[f"opencode.{name}"].base_url(proxy) for name in _OPENCODE_PROVIDERS}
        settings = _opencode_settings(environ)
        if settings is not None:
            variables[_OPENCODE_VARIABLE] = json.dumps(_set_base_urls(settings, base_urls), ensure_ascii=False)
        if any(environ.get(name) or environ.get(name.lower()) for name in _PROXY_VARIABLES):
            # A company's proxy cannot reach this machine's loopback address.
            variables |= {name: _except_loopback(environ.get(name, "")) for name in ("NO_PROXY", "no_proxy")}
        return variables

    def command(self, command: Sequence[str], proxy: str) -> list[str]:
        """Add Codex's option: since April 2026 it reads no variable, and takes settings before its other arguments."""
        first, *rest = command
        if PurePath(first).stem.lower() != "codex":
            return [first, *rest]
        return [first, "-c", f'openai_base_url="{self.routes["OPENAI_BASE_URL"].base_url(proxy)}"', *rest]


def plan_routes(environ: Environment, upstreams: Sequence[str] = ()) -> RoutePlan:
    """Plan the routes. `upstreams` are `URL` or `NAME=URL` from the command line, and override the environment."""
    given = _parse_upstreams(upstreams)
    routes: dict[str, Route] = {}
    for variable, provider in _VARIABLES.items():
        if provider in given:
            routes[variable] = Route(name=provider, address=given[provider], path=_path(provider, given[provider]))
        elif environ.get(variable):
            address = environ[variable].rstrip("/")
            path = "/v1" if provider == "openai" and address.endswith("/v1") else ""
            routes[variable] = Route(name=_unused_name(provider, address, routes), address=address, path=path)
        else:
            same = next((route for name, route in routes.items() if _VARIABLES[name] == provider), None)
            address = _vertex_address(environ) if provider == "vertex" else ""
            routes[variable] = same or Route(name=provider, address=address, path=_path(provider, ""))
    return RoutePlan(routes={**routes, **_opencode_routes(environ, routes, given)})


def _opencode_routes(environ: Environment, routes: Mapping[str, Route], given: Mapping[str, str]) -> dict[str, Route]:
    """OpenCode expects `/v1` in Anthropic's address too. An address in its own settings is its upstream."""
    by_provider = {"anthropic": replace(routes["ANTHROPIC_BASE_URL"], path="/v1"), "openai": routes["OPENAI_BASE_URL"]}
    for name in _OPENCODE_PROVIDERS:
        address = _opencode_base_url(_opencode_settings(environ), name)
        if address and name not in given:
            path = "/v1" if address.endswith("/v1") else ""
            by_provider[name] = Route(name=f"opencode-{name}", address=address, path=path)
    return {f"opencode.{name}": route for name, route in by_provider.items()}


def _parse_upstreams(upstreams: Sequence[str]) -> dict[str, str]:
    addresses: dict[str, str] = {}
    for upstream in upstreams:
        name, separator, address = upstream.partition("=")
        if not separator or "://" in name:
            addresses |= dict.fromkeys(PROVIDERS, upstream.rstrip("/"))
        elif name in PROVIDERS:
            addresses[name] = address.rstrip("/")
        else:
            raise BadConfig(f"--upstream {name[:40]!r}: use {', '.join(PROVIDERS)}, or one address for all of them")
    return addresses


def _path(provider: str, address: str) -> str:
    """OpenAI's clients expect `/v1` in the address, unless it has another path."""
    path = urlsplit(address).path
    return "/v1" if provider == "openai" and (not path or path.endswith("/v1")) else ""


def _vertex_address(environ: Environment) -> str:
    """Return the address of the location that Google's programs read; empty for `global`, the proxy's default."""
    location = environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    return "" if location == "global" else f"https://{location}-aiplatform.googleapis.com"


def _unused_name(provider: str, address: str, routes: Mapping[str, Route]) -> str:
    """Return a name for the address. Two variables with two addresses are two upstreams."""
    addresses = {route.name: route.address for route in routes.values()}
    name, number = provider, 1
    while addresses.get(name, address) != address:
        number += 1
        name = f"{provider}-{number}"
    return name


def _opencode_settings(environ: Environment) -> Mapping[str, object] | None:
    """Return OpenCode's settings from the environment; None if they are not JSON, and must be left alone."""
    try:
        settings = json.loads(environ.get(_OPENCODE_VARIABLE) or "{}")
    except ValueError:
        return None
    return settings if isinstance(settings, dict) else None


def _opencode_base_url(settings: Mapping[str, object] | None, provider: str) -> str:
    address = _table(_table(_table(settings, "provider"), provider), "options").get("baseURL")
    return address.rstrip("/") if isinstance(address, str) else ""


def _set_base_urls(settings: Mapping[str, object], base_urls: Mapping[str, str]) -> dict[str, object]:
    providers = dict(_table(settings, "provider"))
    for name, address in base_urls.items():
        provider = _table(providers, name)
        providers[name] = {**provider, "options": {**_table(provider, "options"), "baseURL": address}}
    return {**settings, "provider": providers}


def _table(parent: object, key: str) -> Mapping[str, object]:
    table = parent.get(key) if isinstance(parent, Mapping) else None
    return table if isinstance(table, Mapping) else {}


def _except_loopback(hosts: str) -> str:
    return ",".join(dict.fromkeys([*filter(None, hosts.split(",")), *_LOOPBACK]))
