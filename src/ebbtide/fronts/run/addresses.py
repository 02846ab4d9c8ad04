"""Where clients look for their provider, and what is put there. What the user had put there becomes the upstream.

A proxy serves several upstreams, each under a first path segment of its own, so that a client's whole traffic, and not
only the paths that we know, finds its way: `http://127.0.0.1:PORT/anthropic`.
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
}
PROVIDERS = ("anthropic", "openai", "gemini")
_INLINE = "OPENCODE_CONFIG_CONTENT"
_OPENCODE = ("anthropic", "openai")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_HERE = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program, and how it is led here."""

    name: str
    command: str
    """What it is called on the command line; empty where it is a library."""
    sets: tuple[str, ...]
    """Variables, or the option that is added."""
    note: str = ""


CLIENTS = (
    Client(name="Claude Code", command="claude", sets=("ANTHROPIC_BASE_URL",)),
    Client(name="Codex", command="codex", sets=("-c openai_base_url",), note="with an API key; for a login see --help"),
    Client(name="OpenCode", command="opencode", sets=(_INLINE,), note="its providers anthropic and openai"),
    Client(name="Gemini CLI", command="gemini", sets=("GOOGLE_GEMINI_BASE_URL",), note="passed through untouched"),
    Client(name="aider", command="aider", sets=("OPENAI_API_BASE", "ANTHROPIC_API_BASE")),
    Client(name="Qwen Code", command="qwen", sets=("OPENAI_BASE_URL",)),
    Client(name="llm", command="llm", sets=("OPENAI_BASE_URL",), note="OpenAI's models"),
    Client(name="Anthropic's SDKs", command="", sets=("ANTHROPIC_BASE_URL",)),
    Client(name="OpenAI's SDKs", command="", sets=("OPENAI_BASE_URL",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One upstream of the proxy."""

    name: str
    address: str
    """As the user had it; empty where the proxy's own is meant."""
    tail: str
    """What the client's base URL has behind the upstream's name."""

    def base(self, proxy: str) -> str:
        return f"{proxy}/{self.name}{self.tail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What each variable will point to."""

    routes: Mapping[str, Route]
    """By variable, and `opencode.PROVIDER`."""

    def upstreams(self) -> list[str]:
        """Arguments for the proxy. What nobody set is left to its own configuration."""
        told = {route.name: route.address for route in self.routes.values() if route.address}
        return [part for name, address in told.items() for part in ("--upstream", f"{name}={address}")]

    def environment(self, environ: Environment, proxy: str) -> dict[str, str]:
        """The program's environment: the user's own, with every address led through the proxy."""
        out = {**environ, **{variable: self.routes[variable].base(proxy) for variable in _VARIABLES}}
        bases = {name: self.routes[f"opencode.{name}"].base(proxy) for name in _OPENCODE}
        inline = _inline(environ)
        if inline is not None:
            out[_INLINE] = json.dumps(_with_bases(inline, bases), ensure_ascii=False)
        if any(environ.get(name) or environ.get(name.lower()) for name in _PROXIES):
            # A company's proxy cannot reach an address of this machine.
            out |= {name: _with_here(environ.get(name, "")) for name in ("NO_PROXY", "no_proxy")}
        return out

    def command(self, command: Sequence[str], proxy: str) -> list[str]:
        """Codex reads no variable since April 2026, and takes settings in front of everything else."""
        first, *rest = command
        if PurePath(first).stem.lower() != "codex":
            return [first, *rest]
        return [first, "-c", f'openai_base_url="{self.routes["OPENAI_BASE_URL"].base(proxy)}"', *rest]


def planned(environ: Environment, given: Sequence[str] = ()) -> Plan:
    """`given` are `URL` or `NAME=URL` from the command line; they stand above what the environment has."""
    told = _told(given)
    routes: dict[str, Route] = {}
    for variable, provider in _VARIABLES.items():
        if provider in told:
            routes[variable] = Route(name=provider, address=told[provider], tail=_tail(provider, told[provider]))
        elif environ.get(variable):
            address = environ[variable].rstrip("/")
            tail = "/v1" if provider == "openai" and address.endswith("/v1") else ""
            routes[variable] = Route(name=_free(provider, address, routes), address=address, tail=tail)
        else:
            known = next((one for name, one in routes.items() if _VARIABLES[name] == provider), None)
            routes[variable] = known or Route(name=provider, address="", tail=_tail(provider, ""))
    return Plan(routes={**routes, **_opencode_routes(environ, routes, told)})


def _opencode_routes(environ: Environment, routes: Mapping[str, Route], told: Mapping[str, str]) -> dict[str, Route]:
    """OpenCode takes `/v1` for a part of Anthropic's address too. An address in its own settings is its upstream."""
    usual = {
        "anthropic": replace(routes["ANTHROPIC_BASE_URL"], tail="/v1"),
        "openai": routes["OPENAI_BASE_URL"],
    }
    for name in _OPENCODE:
        own = _option(_inline(environ), name)
        if own and name not in told:
            usual[name] = Route(name=f"opencode-{name}", address=own, tail="/v1" if own.endswith("/v1") else "")
    return {f"opencode.{name}": route for name, route in usual.items()}


def _told(given: Sequence[str]) -> dict[str, str]:
    told: dict[str, str] = {}
    for one in given:
        name, marked, address = one.partition("=")
        if not marked or "://" in name:
            told |= dict.fromkeys(PROVIDERS, one.rstrip("/"))
        elif name in PROVIDERS:
            told[name] = address.rstrip("/")
        else:
            raise BadConfig(
                f"--upstream {name[:40]!r}: there are {', '.join(PROVIDERS)}, or an address for all of them"
            )
    return told


def _tail(provider: str, address: str) -> str:
    """OpenAI's clients take `/v1` for a part of the address. An address with another path is whole as it is."""
    path = urlsplit(address).path
    return "/v1" if provider == "openai" and (not path or path.endswith("/v1")) else ""


def _free(provider: str, address: str, routes: Mapping[str, Route]) -> str:
    """Two variables with two addresses are two upstreams."""
    taken = {route.name: route.address for route in routes.values()}
    name, number = provider, 1
    while taken.get(name, address) != address:
        number += 1
        name = f"{provider}-{number}"
    return name


def _inline(environ: Environment) -> Mapping[str, object] | None:
    """OpenCode's settings in the environment; None where they are no JSON: those are not ours to lose."""
    try:
        told = json.loads(environ.get(_INLINE) or "{}")
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _option(inline: Mapping[str, object] | None, provider: str) -> str:
    found = _table(_table(_table(inline, "provider"), provider), "options").get("baseURL")
    return found.rstrip("/") if isinstance(found, str) else ""


def _with_bases(inline: Mapping[str, object], bases: Mapping[str, str]) -> dict[str, object]:
    providers = dict(_table(inline, "provider"))
    for name, address in bases.items():
        settings = _table(providers, name)
        providers[name] = {**settings, "options": {**_table(settings, "options"), "baseURL": address}}
    return {**inline, "provider": providers}


def _table(inside: object, key: str) -> Mapping[str, object]:
    found = inside.get(key) if isinstance(inside, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _with_here(excepted: str) -> str:
    return ",".join(dict.fromkeys([*filter(None, excepted.split(",")), *_HERE]))
