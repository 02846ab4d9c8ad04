"""Claude Agent SDK: it runs Claude Code, which talks to a proxy of ours.

with run_proxy(store="agents") as environment:
    query(prompt="Hello", options=ClaudeAgentOptions(env=environment))
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from . import require

require("claude-agent-sdk", "0.2.180")

_STOP_SECONDS = 20.0
"""The proxy finishes what it has begun before it stops."""


@contextmanager
def run_proxy(
    *, store: str = "", window: int = 0, recall: str = "", upstream: str = "", policy: str = ""
) -> Iterator[dict[str, str]]:
    """Run `ebb proxy` on this machine. Yield what `ClaudeAgentOptions(env=...)` needs to use it.

    Requests go to `upstream`, by default to Anthropic. The other arguments are options of `ebb proxy`. Needs the extra
    `proxy`.
    """
    values = {
        "--store": store,
        "--window": str(window or ""),
        "--recall": recall,
        "--policy": policy,
        "--upstream": upstream,
    }
    options = [part for option, value in values.items() if value for part in (option, value)]
    command = [sys.executable, "-m", "ebbtide", "proxy", "--port", "0", "--announce", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as proxy:  # noqa: S603 - our own program
        try:
            first_line = proxy.stdout.readline() if proxy.stdout else b""
            if not first_line:
                raise RuntimeError("ebb proxy did not start: its message is above")
            yield {"ANTHROPIC_BASE_URL": json.loads(first_line)["listening"]}
        finally:
            proxy.terminate()
            proxy.wait(_STOP_SECONDS)
