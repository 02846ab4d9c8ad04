"""Run all checks that a change must pass: `python -m scripts.check`. CI runs this and nothing else.

If a step fails, the others still run, so that you see all problems at once.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS = {
    "lint": ("ruff", "check", "."),
    "format": ("ruff", "format", "--check", "."),
    "types": ("mypy", "--strict", "src/ebbtide"),
    # Two workers, as many as a small CI machine has cores. A test that hangs fails after five minutes.
    "tests": ("pytest", "-n", "2", "--timeout", "300"),
}


def run(name: str) -> tuple[bool, float]:
    print(f"--- {name}: {' '.join(STEPS[name])}", flush=True)
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-m", *STEPS[name]], cwd=ROOT, check=False)
    return done.returncode == 0, time.monotonic() - begun


def main(wanted: list[str]) -> int:
    """Run the named steps, or all. Return 0 if they passed."""
    unknown = [name for name in wanted if name not in STEPS]
    if unknown:
        print(f"no step is called {', '.join(unknown)}; there are {', '.join(STEPS)}", file=sys.stderr)
        return 2
    results = {name: run(name) for name in wanted or STEPS}
    print("---")
    for name, (passed, seconds) in results.items():
        print(f"{'passed' if passed else 'FAILED'}  {name:<7} {seconds:6.1f} s")
    return 0 if all(passed for passed, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
