"""Reads settings from arguments, environment and files into a frozen `Settings`. No other module reads them.

The first source that sets a key wins: argument, environment (`EBB_*`), project file, user file, preset. An unknown key
is refused with the list of known ones. A project file comes with a repository that may not be yours: it may change how
conversations are kept small, but not where they are written.
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
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ebbtide.config_keys import KEY_BY_VARIABLE, KEYS, PROJECT_KEYS, Key, Tables, Value
from ebbtide.core.errors import BadConfig
from ebbtide.policy import Policy, preset
from ebbtide.policy.adjust import (
    CLAUDE_CODE_VARIABLES,
    SAGE_VARIABLES,
    apply_variables,
    with_levels,
    with_overflow,
    with_passes,
    with_ttl,
)
from ebbtide.policy.levels import FALLBACK_WINDOW, known_window

if TYPE_CHECKING:
    from ebbtide.runtime.context import Context

_log = logging.getLogger("ebbtide")

_SMALLEST_WINDOW = 1_000
"""Tokens."""
_LARGEST_FILE = 1 << 20
"""Bytes. Anything larger is a mistake or an attack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Checked settings from all sources."""

    preset: str = "default"
    model: str = ""
    window: int | None = None
    """None: the model's window."""
    store: str = ""
    """The directory of sessions."""
    durable: bool = True
    ttl: float | None = None
    """Cache lifetime in seconds that our breakpoints ask for; None: the API format's default."""
    overflow: str | None = None
    windows: Mapping[str, int] = field(default_factory=dict)
    """Windows by model name; `*` and `?` are wildcards."""
    levels: Mapping[str, float] = field(default_factory=dict)
    passes: Tables = field(default_factory=dict)
    proxy: Mapping[str, Value] = field(default_factory=dict, repr=False)
    """For `ebb proxy`: `upstreams` (name to address), `port`, `token`, `recall`, `summarizer`, `allow_hosts`,
    `allow_origins`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the reference agents (R060-R066). Each affects only the preset of its agent."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """The source that set each key, for display."""

    def policy(self) -> Policy:
        """The preset with all settings applied. Variables of reference agents override levels from files."""
        policy = with_levels(with_passes(preset(self.preset, model=self.model), self.passes), self.levels)
        policy, _ = apply_variables(policy, self.variables)
        policy = with_ttl(policy, self.ttl) if self.ttl else policy
        return with_overflow(policy, self.overflow) if self.overflow else policy

    def window_for(self, model: str) -> int:
        """The window that was set, else that of the first matching pattern, else the model's."""
        return self.known_window_for(model) or FALLBACK_WINDOW

    def known_window_for(self, model: str) -> int | None:
        """Like `window_for`, but None instead of a guess."""
        if self.window:
            return self.window
        matches = (tokens for pattern, tokens in self.windows.items() if fnmatch.fnmatchcase(model, pattern))
        return self.windows.get(model) or next(matches, None) or known_window(model)

    def check_window(self) -> None:
        """Refuse a window in which no agent can work. Requests that are only looked at may have any."""
        if self.window is not None and self.window < _SMALLEST_WINDOW:
            raise BadConfig(
                f"a window of {self.window} tokens is smaller than that of any model; write it like 8k, 200k or 1M"
            )

    def context(self, *, session: str = "default", project: str = "") -> Context:
        """Create a context with these settings."""
        # Only here: commands that start another program need settings, and not the engine.
        context: type[Context] = import_module("ebbtide.runtime.context").Context
        return context(
            model=self.model,
            window=lambda model: self.window_for(model or self.model),
            policy=self.policy(),
            store=self.store or None,
            session=session,
            project=project,
            durable=self.durable,
            clock=time.time,
        )


def load_settings(
    *,
    arguments: Mapping[str, Value] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    home: Path | None = None,
    platform: str = sys.platform,
) -> Settings:
    """Load settings from all sources, ignoring arguments that are None. Other parameters default to the process."""
    environ = os.environ if environ is None else environ
    home = Path.home() if home is None else home
    sources = (
        _Layer("argument", {key: value for key, value in (arguments or {}).items() if value is not None}),
        _environment(environ),
        _project(Path.cwd() if cwd is None else cwd, home),
        _file(_user_file(environ, home, platform)),
    )
    values, origins = _merge(sources)
    settings = Settings(
        **{"store": str(_folders(environ, home, platform)[0]), **values},  # type: ignore[arg-type]
        variables={name: environ[name] for name in (*CLAUDE_CODE_VARIABLES, *SAGE_VARIABLES) if environ.get(name)},
        origins=origins,
    )
    _, complaints = apply_variables(preset(settings.preset), settings.variables)
    for complaint in complaints:
        _log.warning(complaint)
    return settings


def context(*, session: str = "default", **arguments: Value) -> Context:
    """Create a context from settings and environment, which `Context(...)` itself does not read."""
    return load_settings(arguments=arguments).context(session=session)


ACCOUNT_VARIABLES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "anthropic": (("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"),
    "openai": (("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "gemini": (("GEMINI_API_KEY", "GOOGLE_API_KEY"), "GOOGLE_GEMINI_BASE_URL"),
}
"""By provider: the variables of its key, of which the first that is set counts, and that of its address."""
_SECRETS = ("ANTHROPIC_AUTH_TOKEN", *(name for names, _ in ACCOUNT_VARIABLES.values() for name in names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """How to reach a provider."""

    key: str = field(default="", repr=False)
    """Never printed."""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """With what `ebb chat` reaches a model, and where the user's files are."""

    accounts: Mapping[str, Account] = field(default_factory=lambda: dict.fromkeys(ACCOUNT_VARIABLES, Account()))
    """By provider."""
    home: Path
    config: Path
    """The directory of the user's settings."""
    trust: Path
    """Where `ebb chat` records which folders the user trusts. EBB_CONFIG does not move it: that file may come with a
    repository."""


def load_access(
    *, environ: Mapping[str, str] | None = None, home: Path | None = None, platform: str = sys.platform
) -> Access:
    environ = os.environ if environ is None else environ
    home = Path.home() if home is None else home
    return Access(
        accounts={
            provider: Account(key=next(filter(None, map(environ.get, keys)), ""), url=environ.get(url, ""))
            for provider, (keys, url) in ACCOUNT_VARIABLES.items()
        },
        home=home,
        config=_user_file(environ, home, platform).parent,
        trust=_default_file(environ, home, platform).with_name("trusted-folders.json"),
    )


def claude_directory() -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")


def codex_directory() -> Path:
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")


def agent_directories() -> Mapping[str, Path]:
    """Where coding agents keep their sessions, by client."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return {
        "Claude Code": claude_directory(),
        "Codex": codex_directory(),
        "OpenCode": data / "opencode" / "storage",
        "pi": home / ".pi" / "agent",
        "Gemini CLI": home / ".gemini",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFiles:
    """Files in which commands are turned on for good."""

    shell: str
    """The user's shell, as in `bash`; empty if it is not known."""
    shells: Mapping[str, Path]
    """By shell, the file that it reads when it starts; for fish the folder of its functions."""
    services: Path
    """The folder of the user's services: of systemd, or of launchd on macOS."""
    config: Path
    """The folder of our own settings."""


def find_start_files(
    *, environ: Mapping[str, str] | None = None, home: Path | None = None, platform: str = sys.platform
) -> StartFiles:
    environ = os.environ if environ is None else environ
    home = Path.home() if home is None else home
    config = _base(environ, "XDG_CONFIG_HOME", home / ".config")
    is_mac = platform == "darwin"
    return StartFiles(
        shell=Path(environ.get("SHELL", "")).name,
        shells={
            # macOS starts login shells, which read this one.
            "bash": home / (".bash_profile" if is_mac and (home / ".bash_profile").exists() else ".bashrc"),
            "zsh": _base(environ, "ZDOTDIR", home) / ".zshrc",
            "fish": config / "fish" / "functions",
        },
        services=home / "Library" / "LaunchAgents" if is_mac else config / "systemd" / "user",
        config=_default_file(environ, home, platform).parent,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSource:
    """A source of settings. Values are left out: one may be a key."""

    name: str
    keys: tuple[str, ...] = ()
    problem: str = ""


def inspect_sources() -> tuple[ConfigSource, ...]:
    """Check each source separately, so that a mistake in one does not hide those in others."""
    sources, home = [], Path.home()
    loaders: Mapping[str, Callable[[], _Layer]] = {
        "environment": lambda: _environment(os.environ),
        "project file": lambda: _project(Path.cwd(), home),
        "user file": lambda: _file(_user_file(os.environ, home, sys.platform)),
    }
    for name, load in loaders.items():
        try:
            source = load()
            list(source.read())
            sources.append(ConfigSource(name=source.name, keys=tuple(source.values)))
        except BadConfig as error:
            sources.append(ConfigSource(name=name, problem=str(error)))
    return tuple(sources)


def environment_without_keys() -> dict[str, str]:
    """The environment for commands that a model runs, without API keys."""
    return {name: value for name, value in os.environ.items() if name not in _SECRETS}


def process_environment() -> dict[str, str]:
    """A copy of the environment for a child process."""
    return dict(os.environ)


# --- sources ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layer:
    """The unchecked values of one source."""

    name: str
    values: Mapping[str, Value]
    trusted: bool = True

    def read(self) -> Iterator[tuple[str, Value]]:
        """Yield checked fields and values. An error names the source and the key."""
        for key, value in self.values.items():
            known = KEYS.get(key)
            if known is None or (not known.safe and not self.trusted):
                raise BadConfig(f"{self.name}: {key}: {self._refusal(known)}")
            try:
                yield known.field, known.parse(value)
            except BadConfig as error:
                reason = str(error)
                raise BadConfig(f"{self.name}: {reason if reason.startswith(key) else f'{key}: {reason}'}") from error

    def _refusal(self, known: Key | None) -> str:
        if known is None:
            return f"unknown; there are {', '.join(KEYS if self.trusted else PROJECT_KEYS)}"
        return "a project may not set this; set it in your user file, the environment or an argument"


def _merge(sources: Iterable[_Layer]) -> tuple[dict[str, Value], dict[str, str]]:
    """The first source wins; tables are merged entry by entry."""
    merged: dict[str, Value] = {}
    origins: dict[str, str] = {}
    for source in sources:
        for name, value in source.read():
            earlier = merged.get(name)
            if isinstance(value, Mapping) and isinstance(earlier, Mapping):
                merged[name] = _merge_tables(earlier, value)
            elif name not in merged:
                merged[name], origins[name] = value, source.name
    return merged, origins


def _merge_tables(first: Mapping[str, Value], second: Mapping[str, Value]) -> Mapping[str, Value]:
    """Merge two tables, and the tables in them; the first wins."""
    shared = {key for key in first if isinstance(first[key], Mapping) and isinstance(second.get(key), Mapping)}
    inner = {key: {**cast(Tables, second)[key], **cast(Tables, first)[key]} for key in shared}
    return {**second, **first, **inner}


def _environment(environ: Mapping[str, str]) -> _Layer:
    values: dict[str, Value] = {key: environ[name] for name, key in KEY_BY_VARIABLE.items() if environ.get(name)}
    if environ.get("EBB_PROXY_TOKEN"):
        values["proxy"] = {"token": environ["EBB_PROXY_TOKEN"]}
    return _Layer("environment (EBB_*)", values)


def _project(cwd: Path, home: Path) -> _Layer:
    """The nearest project file in this folder or a parent, up to the home folder, which has the user file."""
    for directory in (cwd, *cwd.parents):
        if directory == home:
            break
        for path in (directory / "ebbtide.toml", directory / "pyproject.toml"):
            values: object = _read(path)
            for key in ("tool", "ebbtide") if path.name == "pyproject.toml" else ():
                values = values.get(key) if isinstance(values, Mapping) else None
            if isinstance(values, Mapping):
                return _Layer(str(path), values, trusted=False)
    return _Layer("project file", {})


def _file(path: Path) -> _Layer:
    return _Layer(str(path), _read(path) or {})


def _read(path: Path) -> Mapping[str, Value] | None:
    """Read a TOML file; None if there is none. Only regular files are opened: a pipe would block."""
    if not os.path.isfile(path):
        return None
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
    except (FileNotFoundError, PermissionError):
        return None
    except OSError as error:
        raise BadConfig(f"{path}: {error.strerror}") from error
    if path.name == "pyproject.toml" and b"ebbtide" not in raw:
        return None
    if len(raw) > _LARGEST_FILE:
        raise BadConfig(f"{path}: larger than {_LARGEST_FILE} bytes")
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also for a number with too many digits for Python
        raise BadConfig(f"{path}: not TOML: {error}") from error


# --- places -----------------------------------------------------------------------------------------------------------


def _folders(environ: Mapping[str, str], home: Path, platform: str) -> tuple[Path, Path]:
    """Where sessions are kept, and where settings are."""
    if platform == "darwin":
        folder = home / "Library" / "Application Support" / "ebbtide"
        return folder, folder
    places = ("XDG_DATA_HOME", ".local/share"), ("XDG_CONFIG_HOME", ".config")
    if platform == "win32":
        places = ("LOCALAPPDATA", "AppData/Local"), ("APPDATA", "AppData/Roaming")
    data, config = (_base(environ, name, home / default) / "ebbtide" for name, default in places)
    return data, config


def _user_file(environ: Mapping[str, str], home: Path, platform: str) -> Path:
    if environ.get("EBB_CONFIG"):
        path = Path(environ["EBB_CONFIG"])
        if not os.path.isfile(path):
            raise BadConfig(f"EBB_CONFIG: there is no file {path}")
        return path
    return _default_file(environ, home, platform)


def _default_file(environ: Mapping[str, str], home: Path, platform: str) -> Path:
    return _folders(environ, home, platform)[1] / "config.toml"


def _base(environ: Mapping[str, str], name: str, default: Path) -> Path:
    """The XDG specification says to ignore relative paths."""
    path = Path(environ.get(name) or "")
    return path if path.is_absolute() else default
