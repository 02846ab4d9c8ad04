"""The clients, as their users start them: nothing of theirs is changed but the address of the provider.

Each gets a home of its own and no key but a made-up one. Updates and telemetry are off by the clients' own switches.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

PROMPT = "Read all parts, one after the other."
PATIENCE = 1100.0
"""Seconds: half a minute of work, on a machine that may have no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    command: list[str]
    environ: Mapping[str, str]
    stdin: str = ""
    """What the user types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    name: str
    wire: str
    window: int
    """Tokens: some three times what the client sends before it has read anything."""
    broken: int
    """Requests of 48 that may break the prefix: a third more than was seen."""
    folds: int
    """That there must be, at least: where clearing alone had to do, no room would be left in the end."""
    opens: bool = False
    """Whether it is also asked to open what left, with its own tools."""
    start: Callable[[Path, str, Path], ProgramRun]
    """From the program's file, the proxy's address and a home."""


CLAUDE = {
    "IS_SANDBOX": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ANTHROPIC_API_KEY": "sk-made-up",
}


def _claude(file: Path, proxy: str, home: Path) -> ProgramRun:
    command = [str(file), "-p", PROMPT, "--model", "claude-opus-4-8", "--allowedTools", "Bash"]
    return ProgramRun(command=command, environ={"ANTHROPIC_BASE_URL": proxy, **CLAUDE})


def _codex(file: Path, proxy: str, home: Path) -> ProgramRun:
    place = home / ".codex"
    place.mkdir(parents=True)
    config = (
        'model = "gpt-5-codex"\nmodel_provider = "here"\n'
        f'[model_providers.here]\nname = "here"\nbase_url = "{proxy}/v1"\nenv_key = "HERE_KEY"\nwire_api = "responses"\n'
    )
    (place / "config.toml").write_text(config, encoding="utf-8")
    command = [str(file), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT]
    return ProgramRun(command=command, environ={"HERE_KEY": "sk-made-up"})


def _opencode(file: Path, proxy: str, home: Path) -> ProgramRun:
    # The window is ours to keep: one that it knew it would watch itself. For an answer it reserves 32,000 tokens of it.
    limits = {"context": 1_000_000, "output": 1_000_000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{proxy}/v1", "apiKey": "sk-made-up"},
        "models": {"small": {"name": "small", "tool_call": True, "limit": limits}},
    }
    still = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
    config = {"provider": {"here": provider}, "autoupdate": False, "share": "disabled", "permission": {"bash": "allow"}}
    environ = {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_MODELS_FETCH": "1", **still}
    return ProgramRun(command=[str(file), "run", "-m", "here/small", PROMPT], environ=environ)


_FUNCTION = '''
def read_part(name: str) -> str:
    """Read one part."""
    return open(name, encoding="utf-8").read()
'''


def _llm(file: Path, proxy: str, home: Path) -> ProgramRun:
    place = home / "llm"
    place.mkdir()
    config = f"- model_id: small\n  model_name: small\n  api_base: {proxy}/v1\n  supports_tools: true\n"
    (place / "extra-openai-models.yaml").write_text(config, encoding="utf-8")
    command = [str(file), "-m", "small", "--functions", _FUNCTION, "--chain-limit", "0", "--key", "sk-made-up", PROMPT]
    return ProgramRun(command=command, environ={"LLM_USER_PATH": str(place)})


def _gemini(file: Path, proxy: str, home: Path) -> ProgramRun:
    place = home / ".gemini"
    place.mkdir()
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
        "privacy": {"usageStatisticsEnabled": False},
    }
    (place / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [str(file), "--yolo", "-m", "gemini-3-pro-preview", "-p", PROMPT]
    environ = {"GOOGLE_GEMINI_BASE_URL": proxy, "GEMINI_API_KEY": "made-up", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return ProgramRun(command=command, environ=environ)


PROGRAMS = (
    Program(name="llm", wire="openai_chat", window=16_000, broken=12, folds=0, start=_llm),
    Program(name="claude", wire="anthropic", window=60_000, broken=24, folds=2, start=_claude),
    Program(name="codex", wire="openai_responses", window=64_000, broken=12, folds=0, start=_codex),
    Program(name="opencode", wire="openai_chat", window=40_000, broken=24, folds=2, start=_opencode),
    Program(name="gemini", wire="gemini", window=40_000, broken=24, folds=2, opens=True, start=_gemini),
)


def environment(home: Path, more: Mapping[str, str]) -> dict[str, str]:
    """What a login would give, and not what this process happens to have: keys and proxies stay out."""
    plain = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8"}
    return {**plain, "NO_COLOR": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **more}


def run_program(started: ProgramRun, work: Path, home: Path) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr. Its children end with it."""
    process = subprocess.Popen(
        started.command, cwd=work, env=environment(home, started.environ), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        output, complaints = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode, output, complaints
