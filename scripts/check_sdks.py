"""Run the tests of `ebbtide.wrap` with other versions of the SDKs, each in its own environment. Opt-in: it installs.

    python -m scripts.check_sdks                     the versions below
    python -m scripts.check_sdks 'openai==2.1.0'     others

CI tests the current versions. These are the previous major version, and versions without the hook that we use now.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = (
    "anthropic<2",
    "anthropic<1",
    "anthropic==0.50.0",  # no middleware yet
    "openai<3",
    "openai<2",
    "google-genai<3",  # before 2.34 Vertex and automatic calling miss their first answers
    "aioboto3",  # it wants an older boto3 than the other tests
)
MODULES = {"google-genai": "google.genai"}
"""The modules of packages that are not called like them."""
TOOLS = ("pytest>=9", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis")


def main(wanted: Sequence[str]) -> int:
    failed = [one for one in wanted or VERSIONS if not _passes(one)]
    print("failed: " + ", ".join(failed) if failed else "all passed")
    return 1 if failed else 0


def _passes(wanted: str) -> bool:
    with tempfile.TemporaryDirectory() as place:
        python = Path(place) / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", wanted, *TOOLS, "rich"], check=True)
        package = wanted.partition("=")[0].partition("<")[0]
        name = MODULES.get(package, package)
        told = f"import {name}; print({name}.__version__)"
        version = subprocess.run([python, "-c", told], check=True, capture_output=True, text=True).stdout.strip()
        print(f"--- {wanted}: {version}", flush=True)
        # Tests of an SDK that is not installed are skipped. The local model does not depend on the version.
        tests = [python, "-m", "pytest", "tests/fronts/sdk", "-q", "--ignore=tests/fronts/sdk/test_local_model.py"]
        return subprocess.run(tests, cwd=ROOT).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
