"""Who may import whom. The rules are the design's; breaking one is a design change, not a convenience."""

import ast
from functools import cache
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src" / "ebbtide"
FILES = sorted(SRC.rglob("*.py"))
NAMES = {
    ".".join(("ebbtide", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in FILES
}
PURE = ("core", "state", "accounting", "passes", "wire", "facts", "summary", "assembly", "display", "window_usage")
_ENGINE = ("runtime", "compaction", "recall", "audit", "effects")
_BELOW = (
    *("core", "state", "accounting", "passes", "facts", "summary", "wire", "formats", "store", "policy", "assembly"),
    *_ENGINE,
)
MAY = {
    "core": {"core"},
    "state": {"core", "state"},
    "accounting": {"core", "state", "wire", "accounting"},
    "facts": {"core", "facts"},
    "summary": {"core", "facts", "summary"},
    "wire": {"core", "wire"},
    "formats": {"core", "wire", "formats"},
    "store": {"core", "store"},
    "passes": {"core", "facts", "summary", "passes"},
    "policy": {"core", "passes", "facts", "summary", "policy"},
    "assembly": {"core", "wire", "assembly"},
    "workspace": {"assembly", "workspace"},
    "effects": {"core", "store"},
    "recall": {"core", "state", "store", "wire", "recall"},
    "compaction": {"core", "state", "store", "wire", "facts", "summary", "effects", "compaction"},
    "runtime": {*_BELOW} - {"audit", "formats", "assembly"},
    "audit": {*_BELOW} - {"assembly"},
    "config_keys": {"core", "policy"},
    "config": {*_BELOW, "workspace", "config_keys"},
    "example": set(),
    "replay": {*_BELOW, "prices", "replay"},
    "prices": {"core"},
    "display": {"core"},
    "money": {"core", "state", "accounting", "prices", "display"},
    "window_usage": {"core", "policy", "wire", "display", "palette"},
    "screen": {"display"},
    "argparse_errors": {"screen"},
    "live": set(),
    "palette": set(),
    "extend": {"core", "passes", "policy", "wire", "store"},
    "__main__": {"fronts"},
    "adapters": set(),  # they use the public names only
    "fronts": {
        *("core", "state", "accounting", *_ENGINE, "config", "config_keys", "policy", "formats", "store", "assembly"),
        *("workspace", "wire", "example", "fronts", "prices", "replay"),
        *("display", "window_usage", "money", "screen", "argparse_errors", "live", "palette"),
    },
}
IO = {"os", "io", "pathlib", "socket", "subprocess", "time", "random", "secrets", "urllib", "shutil", "tempfile", "sys"}


def layer(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


@cache
def imports(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """What a module imports: at its top, and inside a function."""
    found: tuple[set[str], set[str]] = (set(), set())

    def visit(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.Import):
            found[inside].update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
            found[inside].update([node.module, *(one for one in modules if one in NAMES)])
        for child in ast.iter_child_nodes(node):
            visit(child, inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(ast.parse(path.read_text(encoding="utf-8")), inside=False)
    return frozenset(found[False]), frozenset(found[True])


def named(path: Path) -> frozenset[str]:
    at_top, inside = imports(path)
    return at_top | inside


def own(path: Path) -> set[str]:
    return {name.split(".")[1] for name in named(path) if name.startswith("ebbtide.")}


def test_a_module_imports_only_layers_below_it():
    for path in FILES:
        if path != SRC / "__init__.py":
            allowed = MAY[layer(path)]
            assert own(path) <= allowed, f"{path} may import {sorted(allowed)}"


def test_no_own_module_is_imported_inside_a_function():
    for path in FILES:
        _, inside = imports(path)
        assert not [name for name in inside if name.split(".")[0] == "ebbtide"], path


def test_pure_layers_do_no_io_and_know_no_clock():
    for path in (path for path in FILES if layer(path) in PURE):
        read = named(path) - {"urllib.parse"}  # it only takes texts apart
        assert not {name.split(".")[0] for name in read} & IO, path


def test_the_environment_is_read_in_config_alone():
    for path in (path for path in FILES if layer(path) != "config"):
        text = path.read_text(encoding="utf-8")
        assert "os.environ" not in text, path
        assert "os.getenv" not in text, path


def test_no_pass_imports_a_pass_and_no_front_a_front():
    for path in FILES:
        part = path.relative_to(SRC).parts
        if part[0] == "passes" and path.name not in ("__init__.py", "when.py"):
            assert not [name for name in named(path) if name.startswith("ebbtide.passes.")], path
        if part[0] == "fronts" and len(part) > 1:
            mine = part[1].removesuffix(".py")
            others = {name.split(".")[2] for name in named(path) if name.startswith("ebbtide.fronts.")}
            assert others <= {mine}, path


def test_the_packages_of_the_engine_do_not_import_each_other_in_a_circle():
    packages = ("effects", "recall", "compaction", "runtime", "audit")
    for number, package in enumerate(packages):
        above = set(packages[number + 1 :])
        for path in (SRC / package).rglob("*.py"):
            assert not own(path) & above, path


def test_there_is_no_import_cycle():
    graph = {name: {one for one in named(path) if one in NAMES and one != name} for name, path in NAMES.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name in done:
            return
        for one in graph[name]:
            # A package's own modules may import their siblings through it; only a real loop is refused.
            visit(one, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())
