"""The proxy's options as one frozen value. The rest of the package reads neither the command line nor files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ebbtide.config import Settings

MB = 1 << 20
OWN_MODEL = "own"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One field for each thing that can be set, by an option, a setting or a test: that is why there are so many."""

    settings: Settings
    """Policy, store and windows, from all sources."""
    upstreams: Mapping[str, str] = field(default_factory=dict)
    """Addresses by name. A single one gets every path; see `upstreams.py` for several."""
    host: str = "127.0.0.1"
    port: int = 8787
    """0 takes a free one."""
    listen_fd: int | None = None
    """A socket to listen at, opened by the program that starts the proxy; host and port are then its own."""
    token: str = field(default="", repr=False)
    """If set, every request must carry it."""
    allow_hosts: tuple[str, ...] = ()
    """Names accepted in `Host`, besides the address itself and the names of loopback."""
    allow_origins: tuple[str, ...] = ()
    """Web pages that may call. None by default: programs in a terminal send no `Origin`."""
    recall: str = "path"
    """How the model reads saved output: `path` if it can read files, `tool` if it has any tools, or `off`."""
    summarizer: str = ""
    """The model that writes summaries, at the session's own upstream; `own` is the session's own model."""
    raise_lifetimes: bool = False
    """Let the client's own cache breakpoints on system prompt and tools ask Claude for an hour, where that pays."""
    shadow: bool = False
    """Plan, send requests unchanged, and report what would have been saved."""
    asks_for_windows: bool = True
    """Ask the provider for the window of a model whose name says nothing."""
    announce: bool = False
    """Print the address as one line of JSON on stdout, for a program that starts the proxy."""
    idle_limit: float = 0.05
    """Seconds to plan a turn without edits. A person notices a longer wait for the first token."""
    acting_limit: float = 2.0
    """Seconds to plan a turn with edits, or the first of a session."""
    waiting_limit: float = 60.0
    """Seconds that a request which may be over the window waits for a plan before it is refused."""
    summary_limit: float = 60.0
    """Seconds for a summary. A slow model takes one minute; the most patient clients wait for ten."""
    max_body_bytes: int = 64 * MB
    """Largest request, also after decompression. Providers accept up to 32 MB."""
    max_sessions: int = 256
    """Sessions kept in memory. The others are on disk, and are loaded with their next request."""
    drain: float = 30.0
    """Seconds for running streams to end after SIGTERM."""
    otel: bool = False
    """Export spans and metrics for OpenTelemetry; needs the extra `otel`."""
