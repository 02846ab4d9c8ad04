"""The only reader of files and environment. What it finds becomes a frozen `Settings`; nothing else looks.

Argument, environment (`EBB_*`), project file, user file, preset: the first that says something is heard. An unknown key
is refused with the list of known ones. A project file comes with somebody's repository: it may say how its
conversations are kept small, and nothing about where they are written.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ebbtide.config_keys import KEY_BY_VARIABLE, KEYS, PROJECT_KEYS, Key, Tables, Value
from ebbtide.core.errors import BadConfig
from ebbtide.policy import Policy, preset
from ebbtide.policy.adjust import with_levels, with_overflow, with_passes, with_ttl
from ebbtide.policy.variables import CLAUDE_CODE_VARIABLES, SAGE_VARIABLES, apply_variables
from ebbtide.policy.windows import FALLBACK_WINDOW, known_window
from ebbtide.runtime.context import Context
from ebbtide.runtime.report import Listener

_log = logging.getLogger("ebbtide")

_LARGEST_FILE = 1 << 20
"""Bytes. A configuration is a page; what is larger is a mistake or an attack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What was asked for, from all sources, checked."""

    preset: str = "default"
    model: str = ""
    window: int | None = None
    """None: by the model's name."""
    store: str = ""
    """Where sessions are kept: a directory."""
    durable: bool = True
    ttl: float | None = None
    """Seconds that marks of ours ask for; None leaves it to the wire."""
    overflow: str | None = None
    windows: Mapping[str, int] = field(default_factory=dict)
    """Windows by model; `*` and `?` in a name stand for any letters."""
    levels: Mapping[str, float] = field(default_factory=dict)
    passes: Tables = field(default_factory=dict)
    proxy: Mapping[str, Value] = field(default_factory=dict, repr=False)
    """For `ebb proxy`: `upstreams` (name to address), `port`, `token`, `recall`, `summarizer`, `allow_hosts`,
    `allow_origins`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The seeds' variables, as found (R060-R066). They act only under the presets of their seeds."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """From a key to who set it, for people."""

    def policy(self) -> Policy:
        """The preset with all that was set applied. The seeds' variables are environment: they beat levels of files."""
        policy = with_levels(with_passes(preset(self.preset, model=self.model), self.passes), self.levels)
        policy, _ = apply_variables(policy, self.variables)
        policy = with_ttl(policy, self.ttl) if self.ttl else policy
        return with_overflow(policy, self.overflow) if self.overflow else policy

    def window_for(self, model: str) -> int:
        """The window that was set, else that of the first pattern that matches, else what the model's name tells."""
        return self.known_window_for(model) or FALLBACK_WINDOW

    def known_window_for(self, model: str) -> int | None:
        """The same; None where it would be a guess."""
        if self.window:
            return self.window
        named = self.windows.get(model)
        matching = (tokens for pattern, tokens in self.windows.items() if fnmatch.fnmatchcase(model, pattern))
        return named or next(matching, None) or known_window(model)

    def context(
        self,
        *,
        session: str = "default",
        project: str = "",
        wire: str | None = None,
        marks: bool = False,
        on_event: Listener | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Context:
        """A context with these settings."""
        return Context(
            model=self.model,
            window=lambda model: self.window_for(model or self.model),
            policy=self.policy(),
            store=self.store or None,
            session=session,
            project=project,
            durable=self.durable,
            wire=wire,
            marks=marks,
            on_event=on_event,
            clock=clock,
        )


def load_settings(
    *,
    arguments: Mapping[str, Value] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    home: Path | None = None,
    platform: str = sys.platform,
) -> Settings:
    """Settings from all sources. An argument that is None says nothing. What is left out is the process's own."""
    environ = os.environ if environ is None else environ
    home = Path.home() if home is None else home
    sources = (
        _Layer("argument", {key: value for key, value in (arguments or {}).items() if value is not None}),
        _environment(environ),
        _project(Path.cwd() if cwd is None else cwd, home),
        _file(_user_file(environ, home, platform)),
    )
    found, origins = _merged(sources)
    settings = Settings(
        **{"store": str(_data_directory(environ, home, platform)), **found},  # type: ignore[arg-type]
        variables={name: environ[name] for name in (*CLAUDE_CODE_VARIABLES, *SAGE_VARIABLES) if environ.get(name)},
        origins=origins,
    )
    _, complaints = apply_variables(preset(settings.preset), settings.variables)
    for complaint in complaints:
        _log.warning(complaint)
    return settings


def context(*, session: str = "default", **arguments: Value) -> Context:
    """A context as configuration and environment want it. `Context(...)` itself looks at neither."""
    return load_settings(arguments=arguments).context(session=session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How `ebb chat` gets at a model: keys and addresses, as the environment names them. Never printed."""

    anthropic_key: str = field(default="", repr=False)
    anthropic_url: str = ""
    openai_key: str = field(default="", repr=False)
    openai_url: str = ""
    home: Path
    config: Path
    """The directory of the user's own settings."""
    trust: Path
    """Where `ebb chat` remembers which folders the user trusts. EBB_CONFIG does not move it: the file that it names may
    come with a repository."""


_SECRETS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")


def load_access(
    *, environ: Mapping[str, str] | None = None, home: Path | None = None, platform: str = sys.platform
) -> Access:
    environ = os.environ if environ is None else environ
    home = Path.home() if home is None else home
    return Access(
        anthropic_key=environ.get("ANTHROPIC_API_KEY", ""),
        anthropic_url=environ.get("ANTHROPIC_BASE_URL", ""),
        openai_key=environ.get("OPENAI_API_KEY", ""),
        openai_url=environ.get("OPENAI_BASE_URL", ""),
        home=home,
        config=_user_file(environ, home, platform).parent,
        trust=_usual_file(environ, home, platform).with_name("trusted-folders.json"),
    )


def claude_directory() -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSource:
    """Where settings come from, as found. Values are not told: one may be a key."""

    name: str
    keys: tuple[str, ...] = ()
    problem: str = ""


def inspect_sources() -> tuple[ConfigSource, ...]:
    """Each source by itself, so that a mistake in one does not hide those of the others."""
    found, home = [], Path.home()
    makers: Mapping[str, Callable[[], _Layer]] = {
        "environment": lambda: _environment(os.environ),
        "project file": lambda: _project(Path.cwd(), home),
        "user file": lambda: _file(_user_file(os.environ, home, sys.platform)),
    }
    for name, make in makers.items():
        try:
            source = make()
            list(source.read())
            found.append(ConfigSource(name=source.name, keys=tuple(source.values)))
        except BadConfig as wrong:
            found.append(ConfigSource(name=name, problem=str(wrong)))
    return tuple(found)


def environment_without_keys() -> dict[str, str]:
    """For commands that a model runs: it need not see the key that pays for it."""
    return {name: value for name, value in os.environ.items() if name not in _SECRETS}


def process_environment() -> dict[str, str]:
    """A copy of all of it, for a program that is started from here."""
    return dict(os.environ)


# --- sources ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layer:
    """What one source says, not yet checked."""

    name: str
    values: Mapping[str, Value]
    trusted: bool = True

    def read(self) -> Iterator[tuple[str, Value]]:
        """Fields and their values, checked. The message of what is wrong says where and which key."""
        for key, value in self.values.items():
            known = KEYS.get(key)
            if known is None or (not known.safe and not self.trusted):
                raise BadConfig(f"{self.name}: {key}: {self._refusal(known)}")
            try:
                yield known.field, known.parse(value)
            except BadConfig as wrong:
                told = str(wrong)
                raise BadConfig(f"{self.name}: {told if told.startswith(key) else f'{key}: {told}'}") from wrong

    def _refusal(self, known: Key | None) -> str:
        if known is None:
            return f"unknown; there are {', '.join(KEYS if self.trusted else PROJECT_KEYS)}"
        return "a project may not set this; set it in your own file, the environment or an argument"


def _merged(sources: Iterable[_Layer]) -> tuple[dict[str, Value], dict[str, str]]:
    """The first source wins; tables are merged entry by entry."""
    found: dict[str, Value] = {}
    origins: dict[str, str] = {}
    for source in sources:
        for name, value in source.read():
            before = found.get(name)
            if isinstance(value, Mapping) and isinstance(before, Mapping):
                found[name] = _under(before, value)
            elif name not in found:
                found[name], origins[name] = value, source.name
    return found, origins


def _under(over: Mapping[str, Value], under: Mapping[str, Value]) -> Mapping[str, Value]:
    both = {key for key in over if isinstance(over[key], Mapping) and isinstance(under.get(key), Mapping)}
    deeper = {key: {**cast(Tables, under)[key], **cast(Tables, over)[key]} for key in both}
    return {**under, **over, **deeper}


def _environment(environ: Mapping[str, str]) -> _Layer:
    told: dict[str, Value] = {key: environ[name] for name, key in KEY_BY_VARIABLE.items() if environ.get(name)}
    if environ.get("EBB_PROXY_TOKEN"):
        told["proxy"] = {"token": environ["EBB_PROXY_TOKEN"]}
    return _Layer("environment (EBB_*)", told)


def _project(cwd: Path, home: Path) -> _Layer:
    """The nearest project file, from here up. At home it would be a user file, and that has its own place."""
    for directory in (cwd, *cwd.parents):
        if directory == home:
            break
        for path in (directory / "ebbtide.toml", directory / "pyproject.toml"):
            told = _read(path)
            if told is not None and path.name == "pyproject.toml":
                told = _section(told)
            if told is not None:
                return _Layer(str(path), told, trusted=False)
    return _Layer("project file", {})


def _section(pyproject: Mapping[str, Value]) -> Mapping[str, Value] | None:
    tools = pyproject.get("tool")
    section = tools.get("ebbtide") if isinstance(tools, Mapping) else None
    return section if isinstance(section, Mapping) else None


def _file(path: Path) -> _Layer:
    return _Layer(str(path), _read(path) or {})


def _read(path: Path) -> Mapping[str, Value] | None:
    """A TOML file; None where there is none. A pipe of that name would keep us waiting."""
    if not os.path.isfile(path):
        return None
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
    except (FileNotFoundError, PermissionError):
        return None
    except OSError as failed:
        raise BadConfig(f"{path}: {failed.strerror}") from failed
    if path.name == "pyproject.toml" and b"ebbtide" not in raw:
        return None
    if len(raw) > _LARGEST_FILE:
        raise BadConfig(f"{path}: larger than {_LARGEST_FILE} bytes")
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as wrong:  # also a number with more digits than Python reads
        raise BadConfig(f"{path}: not TOML: {wrong}") from wrong


# --- places -----------------------------------------------------------------------------------------------------------


def _data_directory(environ: Mapping[str, str], home: Path, platform: str) -> Path:
    if platform == "darwin":
        return home / "Library" / "Application Support" / "ebbtide"
    if platform == "win32":
        return _base(environ, "LOCALAPPDATA", home / "AppData" / "Local") / "ebbtide"
    return _base(environ, "XDG_DATA_HOME", home / ".local" / "share") / "ebbtide"


def _user_file(environ: Mapping[str, str], home: Path, platform: str) -> Path:
    if environ.get("EBB_CONFIG"):
        named = Path(environ["EBB_CONFIG"])
        if not os.path.isfile(named):
            raise BadConfig(f"EBB_CONFIG: there is no file {named}")
        return named
    return _usual_file(environ, home, platform)


def _usual_file(environ: Mapping[str, str], home: Path, platform: str) -> Path:
    if platform == "darwin":
        return _data_directory(environ, home, platform) / "config.toml"
    if platform == "win32":
        return _base(environ, "APPDATA", home / "AppData" / "Roaming") / "ebbtide" / "config.toml"
    return _base(environ, "XDG_CONFIG_HOME", home / ".config") / "ebbtide" / "config.toml"


def _base(environ: Mapping[str, str], name: str, usual: Path) -> Path:
    """A relative path there is to be ignored, says the XDG specification."""
    given = Path(environ.get(name) or "")
    return given if given.is_absolute() else usual
