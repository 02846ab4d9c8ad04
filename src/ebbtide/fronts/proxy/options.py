"""What a proxy was told, as one frozen value. Nothing below looks at the command line or at files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ebbtide.config import Settings

MB = 1 << 20
OWN_MODEL = "own"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    settings: Settings
    """Policy, store and windows, from all sources."""
    upstreams: Mapping[str, str] = field(default_factory=dict)
    """From a name to an address. One alone serves every path; see `upstreams.py` for several."""
    host: str = "127.0.0.1"
    port: int = 8787
    """0: one that is free."""
    token: str = field(default="", repr=False)
    """Asked of every request, where it is set."""
    allow_hosts: tuple[str, ...] = ()
    """Names in `Host` that are ours, beside the address itself and the names of loopback."""
    allow_origins: tuple[str, ...] = ()
    """Web pages that may call. None by default: what calls a model from a terminal sends no `Origin`."""
    recall: str = "path"
    """`path` where the client has a reader of files, `tool` where it has tools at all, or `off`."""
    summarizer: str = ""
    """The model that folds ask, at the conversation's own upstream; `own` is the conversation's own model."""
    shadow: bool = False
    """Plan, forward raw, and report what would have been saved."""
    announce: bool = False
    """The address as one line of JSON on stdout, for a program that started us."""
    idle_limit: float = 0.05
    """Seconds for a turn that has nothing to take out: more is felt at the first token."""
    acting_limit: float = 2.0
    """Seconds for a turn that takes something out, or begins a session."""
    waiting_limit: float = 60.0
    """Seconds that a request which may be over the window waits for a plan. Then it is refused: it is not sent so."""
    summary_limit: float = 60.0
    """Seconds for a summary: a slow model takes one minute, and the most patient clients wait for ten."""
    max_body_bytes: int = 64 * MB
    """Bytes of a request that is read. The largest that a provider takes is 32 MB; decompressed counts too."""
    max_sessions: int = 256
    """Conversations kept in memory. The others are on disk, and come back with their next request."""
    drain: float = 30.0
    """Seconds that streams under way may take to end after SIGTERM."""
    otel: bool = False
    """Spans and metrics for OpenTelemetry, the extra `otel`."""
