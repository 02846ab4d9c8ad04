"""The size of things. A function fits on a screen, a file is one idea, the public names are the ones meant."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import ebbtide

ROOT = Path(__file__).resolve().parents[1]
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
FILES = sorted(path for folder in ("src/ebbtide", "scripts", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def test_files_stay_under_500_lines():
    assert not [path for path in (*FILES, *TESTS) if path.read_text(encoding="utf-8").count("\n") > 500]


def test_functions_stay_under_60_lines():
    for path in (*FILES, *TESTS):
        functions = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, FUNCTION)]
        assert not [node.name for node in functions if node.end_lineno - node.lineno >= 60], path


def test_names_say_what_they_hold():
    assert not {path.stem for path in (*FILES, *TESTS)} & {"utils", "helpers", "manager", "base", "common", "misc"}


def test_public_names_are_sorted_and_exist():
    assert sorted(ebbtide.__all__, key=lambda name: (not name.isupper(), name)) == ebbtide.__all__
    assert all(hasattr(ebbtide, name) for name in ebbtide.__all__)


def test_importing_loads_nothing_of_the_engine():
    """Whoever imports it and never uses it pays nothing."""
    code = "import sys, ebbtide; print([name for name in sys.modules if name.startswith('ebbtide.')])"

    stdout = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert stdout.strip() == "[]"


def test_no_committed_file_names_a_package_index_or_a_path_of_the_machine():
    hosts = ("/simple/", "files.pythonhosted", "pypi.org/simple")

    assert [str(path) for path, text in texts() if any(host in text for host in hosts)] == []


def test_no_committed_file_has_the_marks_of_a_conflict():
    mark = re.compile(r"(?m)^(<{7}|>{7}) ")

    assert [str(path) for path, text in texts() if mark.search(text)] == []


def texts():
    tracked = [p for p in ROOT.rglob("*") if p.is_file() and not {".git", ".venv"} & set(p.relative_to(ROOT).parts)]
    for path in tracked:
        if path.suffix in {".py", ".md", ".toml", ".txt", ".json", ".yml"} and path != Path(__file__).resolve():
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8", errors="replace")
