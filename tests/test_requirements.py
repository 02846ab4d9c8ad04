"""Every requirement has its row, and a row names only what exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "requirements.md"
ROWS = re.findall(r"^\| (R\d{3}) \| (.*) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
REASONS = ("issue 4: ", "issue 5: ", "issue 6: ", "out of scope: ")


@cache
def names_in(path: Path) -> frozenset[str]:
    """Functions, classes, fields and constants: `Class.field` for what is inside a class."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        [*_names(tree), *(f"{c.name}.{n}" for c in tree.body if isinstance(c, ast.ClassDef) for n in _names(c))]
    )


def _names(node):
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child.name
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            yield child.target.id
        elif isinstance(child, ast.Assign):
            yield from (name.id for target in child.targets for name in ast.walk(target) if isinstance(name, ast.Name))
        elif isinstance(child, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in child.names)


@cache
def functions_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_requirement_has_one_row_in_order():
    assert [number for number, _, _ in ROWS] == [f"R{n:03}" for n in range(1, 287)]


@pytest.mark.parametrize(("number", "covered", "proof"), ROWS, ids=[number for number, _, _ in ROWS])
def test_a_row_names_modules_names_and_tests_that_exist(number, covered, proof):
    for module, name in re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", covered):
        path = ROOT / module if module.startswith("examples/") else ROOT / "src" / "ebbtide" / module
        assert path.is_file(), f"{number}: {module} does not exist"
        assert not name or name in names_in(path), f"{number}: {module} has no {name}"
    tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", proof)
    for file, name in tests:
        assert (ROOT / file).is_file(), f"{number}: {file} does not exist"
        assert not name or name in functions_in(ROOT / file), f"{number}: {file} has no {name}"
    assert tests or proof.startswith(REASONS), f"{number}: neither a test nor a reason: {proof}"
    assert not tests or covered != "-", f"{number}: a test, and nothing that it tests"
