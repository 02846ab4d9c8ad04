"""What is published: a wheel and an sdist with all that they need, and nothing large or private.

`EBB_PACKAGE=1` also builds both as a release does, and installs and uses each in a new environment: some minutes, and it needs
a package index.
"""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LARGE = 500_000
"""Bytes of one file."""
PRIVATE = re.compile(
    r"node_modules|\.venv|__pycache__|\.env$|\.npmrc|\.pem$|\.key$|sessions-index|\.sqlite|(^|/)\.git/"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return folder


def files_of(archive):
    """Return the size of each file by its name, without the folder of the sdist."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {entry.filename: entry.file_size for entry in wheel.infolist()}
    with tarfile.open(archive) as sdist:
        return {entry.name.partition("/")[2]: entry.size for entry in sdist if entry.isfile()}


@pytest.mark.parametrize("ending", ["whl", "tar.gz"])
def test_nothing_large_or_private_is_published(built, ending):
    (archive,) = built.glob(f"*.{ending}")
    files = files_of(archive)

    assert [name for name in files if PRIVATE.search(name)] == []
    assert [name for name, size in files.items() if size > LARGE] == []
    assert archive.stat().st_size < 5_000_000


def test_the_wheel_has_the_example_the_page_and_the_types(built):
    (wheel,) = built.glob("*.whl")
    names = set(files_of(wheel))
    package = {
        f"ebbtide/{path.relative_to(ROOT / 'src' / 'ebbtide').as_posix()}"
        for path in (ROOT / "src" / "ebbtide").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert package <= names
    assert {"ebbtide/py.typed", "ebbtide/example/session.jsonl.gz", "ebbtide/fronts/ui/static/app.js"} <= names
    assert all(name.startswith(("ebbtide/", "ebbtide-")) for name in names)


def test_the_sdist_has_what_it_takes_to_build_to_test_and_to_read(built):
    (sdist,) = built.glob("*.tar.gz")
    names = set(files_of(sdist))

    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "requirements/dev.txt", "mkdocs.yml"} <= names
    assert {"tests/conftest.py", "scripts/check.py", "docs/index.md", "web/package.json", "web/src/app.tsx"} <= names
    pictures = re.findall(r"\(docs/(images/[^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert {f"docs/{picture}" for picture in pictures} <= names


@pytest.mark.skipif(not os.environ.get("EBB_PACKAGE"), reason="opt-in: EBB_PACKAGE=1")
def test_both_install_and_run_in_a_new_environment():
    subprocess.run([sys.executable, "-m", "scripts.check_package"], cwd=ROOT, check=True, timeout=1200)
