"""The page that is shipped is the page that the sources make. Users need no Node; who changes the page needs one."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WEB, BUILT = ROOT / "web", ROOT / "src" / "ebbtide" / "fronts" / "ui" / "static"
SOURCES = ("src", "public", "index.html", "vite.config.ts", "tsconfig.json", "package.json", "package-lock.json")


def sources():
    found = [p for name in SOURCES for p in ((WEB / name).rglob("*") if (WEB / name).is_dir() else [WEB / name])]
    return sorted(p.relative_to(WEB).as_posix() for p in found if p.is_file() and ".test." not in p.name)


def test_the_shipped_page_was_built_from_these_sources():
    """After a change: `npm install && npm run build` in `web/`."""
    lines = [f"{name}\0{hashlib.sha256((WEB / name).read_bytes()).hexdigest()}\n" for name in sources()]
    told = (BUILT / "sources.sha256").read_text().strip()

    assert hashlib.sha256("".join(lines).encode()).hexdigest() == told


def test_the_shipped_page_runs_no_script_but_its_own():
    page = (BUILT / "index.html").read_text()

    assert page.count("<script") == 1
    assert 'src="/app.js"' in page
    assert "<style" not in page
    assert " style=" not in page


def test_the_lock_file_names_no_package_index():
    assert '"resolved"' not in (WEB / "package-lock.json").read_text()


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """A copy of the sources with what they need, so that a test leaves nothing behind."""
    if shutil.which("npm") is None:
        pytest.skip("no Node here: the page is not built again")
    copy = tmp_path_factory.mktemp("web") / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules"))
    if (WEB / "node_modules").is_dir():
        (copy / "node_modules").symlink_to((WEB / "node_modules").resolve())
        return copy
    # Not `npm ci`: it refuses where an index lacks a package that another platform would want.
    command = ["npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    try:
        subprocess.run(command, cwd=copy, check=True, capture_output=True, timeout=120)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip("the packages of the page cannot be had here: it is not built again")
    return copy


def run(script, *more, at):
    done = subprocess.run(["npm", "run", script, *more], cwd=at, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_the_sources_pass_lint_types_and_tests_of_their_own(workshop):
    run("check", at=workshop)


def test_the_sources_build_to_what_is_shipped(workshop):
    run("build", "--", "--outDir", "out", at=workshop)

    made = {path.name: path.read_bytes() for path in (workshop / "out").iterdir()}
    assert made == {path.name: path.read_bytes() for path in BUILT.iterdir()}
