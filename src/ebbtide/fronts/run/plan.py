"""What a program is started with so that its requests reach the proxy, and where the proxy sends them.

The proxy serves each upstream under its own first path segment, as in `http://127.0.0.1:PORT/anthropic`, so that all
of a client's requests reach it and not only those whose paths we know. A plan is made before there is a port: `PROXY`
stands for the address until the program starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ebbtide.core.errors import BadConfig

PROXY = "http://ebb-proxy.invalid"
"""Stands for the proxy's address. No such host exists: if it were ever left in place, nothing would be sent."""
FILE = "ebb-settings.invalid"
"""Stands for the path of the settings file that is written for the program."""
PROVIDERS: Mapping[str, str] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com",
    "vertex": "https://aiplatform.googleapis.com",
}
"""Addresses that official SDKs use if none is set."""
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LOOPBACK = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a program would find: the user's environment and folders, and what was asked of `ebb run`."""

    environ: Mapping[str, str]
    cwd: Path
    home: Path
    given: Mapping[str, str] = field(default_factory=dict)
    """Addresses from `--upstream`, by provider. They override the program's own settings."""
    configured: Mapping[str, str] = field(default_factory=dict)
    """Addresses of `[proxy.upstreams]`, which replace the providers' own."""
    store: Path | None = None
    """Where removed content is saved; None if the program is not to read it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """How a program is started."""

    program: str
    """What people call it."""
    command: tuple[str, ...]
    """The whole command, with `PROXY` for the proxy's address."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What is set in its environment, with `PROXY` likewise."""
    upstreams: Mapping[str, str] = field(default_factory=dict)
    """Where the proxy sends to, by name."""
    file: str = field(default="", repr=False)
    """The content of a settings file to write, which `FILE` in the command stands for. What the user keeps in a file
    may be secret, and everybody can read commands."""
    sets: Mapping[str, str] = field(default_factory=dict)
    """The settings that carry an address of the proxy, each with that address: what `--list` shows."""
    main: str = ""
    """The upstream of its model; empty if it is not known which it asks."""
    model: str = ""
    """The model it will ask for, if its settings say."""
    recall: str = "path"
    """How the model reads what was removed, unless the user says otherwise."""
    direct: str = ""
    """Why it runs without the proxy; empty if it does not."""
    notes: tuple[str, ...] = ()
    """What of it the proxy does not see, one sentence each."""

    def proxy_arguments(self) -> list[str]:
        return [part for name, address in self.upstreams.items() for part in ("--upstream", f"{name}={address}")]

    def environment(self, environ: Mapping[str, str], proxy: str) -> dict[str, str]:
        """Return the environment to start the program in."""
        variables = {**environ, **{name: value.replace(PROXY, proxy) for name, value in self.variables.items()}}
        if any(environ.get(name) or environ.get(name.lower()) for name in _PROXY_VARIABLES):
            # A company's proxy cannot reach this machine's loopback address.
            variables |= {name: _except_loopback(environ.get(name, "")) for name in ("NO_PROXY", "no_proxy")}
        return variables

    def command_for(self, proxy: str, file: str = "") -> list[str]:
        return [word.replace(PROXY, proxy).replace(FILE, file) for word in self.command]

    def hosts(self) -> list[str]:
        """Return where its model requests go, as people write it."""
        names = [self.main] if self.main else list(self.upstreams)
        return list(dict.fromkeys(urlsplit(self.upstreams[name]).netloc for name in names))


class Routes:
    """Collects the upstreams of a plan. Two addresses never share a name."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.upstreams: dict[str, str] = {}
        self.sets: dict[str, str] = {}
        self.main = ""

    def add(self, setting: str, provider: str, address: str = "", *, name: str = "", path: str | None = None) -> str:
        """Add an upstream for a setting and return the address to set it to.

        Without an address it is the provider's. `path` is what the program expects at the end of the address, if that
        is not the upstream's own `/v1`.
        """
        given = self._around.given.get(provider, "")
        known = given or address or self._around.configured.get(provider, "") or PROVIDERS.get(provider, "")
        target = check_address(known)
        label = self._free_name(_slug(name or provider), target)
        self.upstreams[label] = target
        self.main = self.main or label
        if path is None:
            needs_version = provider == "openai" and not urlsplit(target).path
            path = "/v1" if target.endswith("/v1") or needs_version else ""
        self.sets[setting] = f"{PROXY}/{label}{path}"
        return self.sets[setting]

    def _free_name(self, name: str, address: str) -> str:
        label, number = name, 1
        while self.upstreams.get(label, address) != address:
            number += 1
            label = f"{name}-{number}"
        return label


def is_address(text: str) -> bool:
    """Whether requests can be sent there: no key and no query may be in it."""
    try:
        parts = urlsplit(text)
        return bool(
            parts.scheme in ("http", "https") and parts.hostname and not parts.username and not parts.query
        ) and not (parts.fragment or re.search(r"[\s{}<>]", text))
    except ValueError:
        return False


def check_address(text: str) -> str:
    """Return the address without a slash at its end. Raises `BadConfig`."""
    if not is_address(text):
        raise BadConfig(
            f"{text[:200]!r} is not an address such as https://api.example.com, so nothing can be sent there"
        )
    return text.rstrip("/")


def parse_upstreams(upstreams: Sequence[str]) -> dict[str, str]:
    """Read `--upstream URL` and `--upstream NAME=URL`."""
    addresses: dict[str, str] = {}
    for upstream in upstreams:
        name, separator, address = upstream.partition("=")
        if not separator or "://" in name:
            addresses |= dict.fromkeys(PROVIDERS, check_address(upstream))
        elif name in PROVIDERS:
            addresses[name] = check_address(address)
        else:
            raise BadConfig(f"--upstream {name[:40]!r}: use {', '.join(PROVIDERS)}, or one address for all of them")
    return addresses


def is_true(value: str) -> bool:
    """Whether a variable that turns something on does so."""
    return value.strip().lower() in ("1", "true", "yes", "on")


def option_value(arguments: Sequence[str], *names: str) -> str:
    """Return the value of an option in a program's arguments, the last one; empty if it is not there."""
    value = ""
    for n, word in enumerate(arguments):
        if word == "--":
            break
        flag, separator, rest = word.partition("=")
        if flag in names:
            value = rest if separator else (arguments[n + 1] if n + 1 < len(arguments) else "")
    return value


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:32] or "upstream"


def _except_loopback(hosts: str) -> str:
    return ",".join(dict.fromkeys([*filter(None, hosts.split(",")), *_LOOPBACK]))
