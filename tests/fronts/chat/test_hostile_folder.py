"""Processes of our own, started in a folder with modules named like ours and like the standard library's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.fronts.chat.local import missing_packages

EBB = "import sys; from ebbtide.fronts.cli.main import main; sys.exit(main())"
LOCAL = "from ebbtide.fronts.chat.local import run_local_server\nwith run_local_server(512) as url: print(url)"
PATIENCE = 240


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Whoever imports from here leaves a trace, and ends."""
    folder = tmp_path / "clone"
    (folder / "ebbtide").mkdir(parents=True)
    for name in ("ebbtide/__init__.py", "json.py", "ssl.py", "argparse.py"):
        (folder / name).write_text(f"open({str(tmp_path / 'sprung')!r}, 'w').close()\nraise SystemExit(9)\n")
    return folder


def started(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As the installed `ebb` is: without the folder on the path of modules."""
    paths = [path for path in sys.path if path and Path(path).is_dir()]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=PATIENCE)


def test_ebb_run_imports_nothing_from_the_folder_it_is_started_in(folder):
    done = started(folder, EBB, "run", "--", "true")

    assert not (folder.parent / "sprung").exists()
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(bool(missing_packages()), reason="no local model is installed")
def test_the_local_model_imports_nothing_from_the_folder_it_is_started_in(folder):
    done = started(folder, LOCAL)

    assert not (folder.parent / "sprung").exists()
    assert done.stdout.startswith("http://127.0.0.1:"), done.stderr
