"""What the pages say is so: their code runs, their commands parse or run, their links lead somewhere.

The Python of a page runs in one namespace, in an empty directory. In a block marked `console run` every `$ ebb` line runs
too, between the Python around it; in `console` and `sh` blocks it must parse.
"""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from ebbtide.fronts.cli.main import command_line, main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```([a-z ]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def named(path):
    return str(path.relative_to(ROOT))


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(text):
    """The arguments of every `ebb` in a line: behind a prompt, at the end of a chain, before a redirection."""
    for line in text.splitlines():
        for part in re.split(r"&&|\||;", line.removeprefix("$ ")):
            words = shlex.split(re.split(r"\s\d?>", part)[0], comments=True)
            if words and Path(words[0]).name == "ebb":
                yield words[1:]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(kind == "python" for kind, _ in blocks(page))], ids=named
)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EBB_HOME", str(tmp_path / "ebb-home"))
    names = {"__name__": "page"}
    for kind, text in blocks(page):
        if kind == "python":
            exec(compile(text, named(page), "exec"), names)
        if kind == "console run":
            codes = [(words, main(words)) for words in commands(text)]
            assert codes
            assert not [words for words, code in codes if code], capsys.readouterr().err


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_on_a_page_parses(page):
    parser = command_line()
    for kind, text in blocks(page):
        for words in commands(text) if kind.split(" ")[0] in ("console", "sh") else ():
            assert parser.parse_args(words), words


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]

    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize(("window", "why"), [("100k", "old result"), ("64k", "folded into the ledger's facts")])
def test_the_readmes_command_fits_the_example(window, why, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)

    assert main(["fit", "--example", "--window", window, "--explain"]) == 0
    told = capfd.readouterr()
    assert told.out.startswith('{"model":')
    assert why in told.err


def test_the_context_of_the_example_is_a_grid_and_a_table(capfd):
    """R241."""
    assert main(["context", "--example", "--window", "200k"]) == 0
    told = capfd.readouterr().out

    assert "claude-example" in told
    assert "Estimated usage by category" in told
    assert len(re.findall("[⛁⛝⛶] ", told)) >= 100


def test_ci_runs_the_readmes_test_command_and_nothing_else():
    (command,) = [text.strip() for kind, text in blocks(ROOT / "README.md") if "scripts.check" in text]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()

    assert script[-1] == command
    assert all(line.startswith(("#", "set ", "cd ")) for line in script[:-1])


def test_the_picture_and_the_readmes_figures_are_what_the_script_measures():
    drawing = runpy.run_path(str(ROOT / "scripts" / "draw_session.py"))
    session = drawing["replayed"]()
    raw, fitted = f"{session.raw[-1] / 1000:.0f}k", f"{session.fitted[-1] / 1000:.0f}k"
    told = f"{raw} to {fitted} tokens in the last request, {len(session.batches)} batches in {len(session.raw)} calls"

    assert drawing["drawn"](session) == drawing["TARGET"].read_text(encoding="utf-8")
    assert told in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_the_example_runs_and_is_short(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")

    assert capsys.readouterr().out
    assert len(example.read_text(encoding="utf-8").splitlines()) <= 40


def test_there_are_few_examples():
    assert 1 <= len(EXAMPLES) <= 7


def test_the_tree_of_the_architecture_is_the_tree():
    """What it names exists, and no module of the core, the drive or the top is left out."""
    src = ROOT / "src" / "ebbtide"
    tree = next(text for kind, text in blocks(ROOT / "ARCHITECTURE.md") if text.startswith("src/ebbtide/"))
    named_there = set(re.findall(r"[\w-]+\.py", tree))
    there = {path.name for folder in (src, ROOT / "scripts") for path in folder.rglob("*.py")}
    owed = {path.name for folder in (src, src / "core", src / "drive") for path in folder.glob("*.py")}

    assert named_there <= there
    assert owed <= named_there | {"__init__.py"}
