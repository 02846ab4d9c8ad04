"""Build the wheel and the sdist, check them, and use each as a stranger would: `python -m scripts.check_package`.

It needs a package index: build, twine and the package's own requirements are installed into new environments in a
temporary folder. Each step prints how long it took. It takes some minutes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
USES = (
    ("ebb --version", ["--version"]),
    ("ebb demo, in a pipe", ["demo", "--no-wait"]),
    ("ebb fit --example", ["fit", "--example", "--window", "120k", "--explain"]),
    ("ebb explain --example", ["explain", "--example", "--window", "100k"]),
)


def step(name: str, command: Sequence[str | Path], *, at: Path) -> str:
    start = time.monotonic()
    done = subprocess.run([str(word) for word in command], cwd=at, capture_output=True, text=True, check=False)
    print(f"{'ok' if done.returncode == 0 else 'FAILED':7}{name:45}{time.monotonic() - start:6.1f} s", flush=True)
    if done.returncode:
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    return done.stdout


def environment(folder: Path) -> Path:
    """Make an empty environment; return its folder of programs."""
    venv.create(folder, with_pip=True)
    return folder / "bin"


def build(folder: Path) -> list[Path]:
    tools = environment(folder / "tools")
    step("install build and twine", [tools / "pip", "install", "-q", "build", "twine"], at=folder)
    step("build", [tools / "python", "-m", "build", "--outdir", folder / "dist", ROOT], at=folder)
    built = sorted((folder / "dist").iterdir())
    step("twine check", [tools / "twine", "check", "--strict", *built], at=folder)
    for file in built:
        print(f"       {file.name}, {file.stat().st_size / 1e6:.2f} MB")
    return built


def use(file: Path, folder: Path) -> None:
    """Install one file where there is nothing else, and run what the README runs first."""
    kind = "wheel" if file.suffix == ".whl" else "sdist"
    programs = environment(folder / kind)
    step(f"{kind}: install", [programs / "pip", "install", "-q", file], at=folder)
    for name, words in USES:
        output = step(f"{kind}: {name}", [programs / "ebb", *words], at=folder)
        assert output.strip(), f"{name} printed nothing"
    if kind == "wheel":
        # The errors of the commands say this. pip takes the extras of what is installed, published or not.
        step(f"{kind}: add an extra by name", [programs / "pip", "install", "-q", "ebbtide[ui]"], at=folder)
        step(f"{kind}: ebb ui --help", [programs / "ebb", "ui", "--help"], at=folder)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in build(folder):
            use(file, folder)


if __name__ == "__main__":
    main()
