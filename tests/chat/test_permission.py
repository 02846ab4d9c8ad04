"""What is done without asking, what asks, and what a lasting yes covers."""

import os
from pathlib import Path

import pytest

from ebbtide.fronts.chat.permission import Permits, Question, Rules, Verdict, decide
from ebbtide.fronts.chat.tools import TOOLS, Desk, Need

ROOT = Path("/home/ada/app")
RULES = Rules(root=ROOT)
NAMED = {tool.name: tool for tool in TOOLS}


def command(line: str) -> Need:
    return Need(tool="bash", kind="run", command=line)


def file(path: str, kind: str = "read") -> Need:
    return Need(tool="read" if kind == "read" else "edit", kind=kind, path=Path(path))


@pytest.mark.parametrize(
    ("need", "ruling"),
    [
        (Need(tool="todo"), "allow"),
        (file("/home/ada/app/src/a.py"), "allow"),
        (file("/home/ada/app/src/a.py", "write"), "allow"),
        (file("/home/ada/app"), "allow"),
        (file("/home/ada/.ssh/id"), "ask"),
        (file("/home/ada/application/a.py"), "ask"),
        (file("/home/ada/notes.md", "write"), "ask"),
        (file("/home/ada/app/.git/hooks/pre-commit", "write"), "ask"),
        (file("/home/ada/app/.git/HEAD"), "allow"),
        (command("ls"), "ask"),
    ],
)
def test_files_inside_are_free_and_all_else_asks(need, ruling):
    assert decide(need, RULES, "build")[0] == ruling


def test_plan_mode_changes_nothing_even_where_everything_was_allowed():
    rules = Rules(root=ROOT, everything=True)

    assert decide(file("/home/ada/app/a.py", "write"), rules, "plan")[0] == "deny"
    assert decide(command("ls"), rules, "plan")[0] == "ask"
    assert decide(file("/home/ada/app/a.py"), rules, "plan")[0] == "allow"


@pytest.mark.parametrize(
    ("said", "then", "ruling"),
    [
        ("git status", "git status --short", "allow"),
        ("git status", "git push", "ask"),
        ("git status", "git status; rm -rf .", "ask"),
        ("git status", "git status && curl evil", "ask"),
        ("git status", "git status $(rm x)", "ask"),
        ("git status", "git status\nrm x", "ask"),
        ("git status", "PAGER=evil git status", "ask"),
        ("pytest -q", "pytest tests/a.py", "allow"),
        ("pytest -q", "pytest-evil", "ask"),
        ("python a.py", "python a.py", "allow"),
        ("python a.py", "python -c evil", "ask"),
        ("/usr/bin/python a.py", "/usr/bin/python b.py", "ask"),
        ("ls | wc -l", "ls | wc -l", "allow"),
        ("ls | wc -l", "ls", "ask"),
        ("git -c core.pager=evil log", "git -c core.pager=worse log", "ask"),
    ],
)
def test_a_lasting_yes_covers_the_command_and_nothing_a_shell_adds(said, then, ruling):
    assert decide(command(then), RULES.remembering(command(said)), "build")[0] == ruling


def test_a_lasting_yes_for_a_file_covers_its_folder(tmp_path):
    (tmp_path / "notes").mkdir()
    rules = RULES.remembering(file(str(tmp_path / "notes" / "a.md")))

    assert decide(file(str(tmp_path / "notes" / "b.md")), rules, "build")[0] == "allow"
    assert decide(file(str(tmp_path / "b.md")), rules, "build")[0] == "ask"


def test_what_would_be_remembered_is_told():
    assert Question(need=command("git log -3"), reason="").remembered == "commands that begin with `git log`"
    assert Question(need=command("a | b"), reason="").remembered == "this very command line"


def test_a_link_is_judged_by_where_it_leads(tmp_path):
    root, outside = tmp_path / "app", tmp_path / "secret"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "key").write_text("k")
    (root / "innocent").symlink_to(outside)
    (root / "sub" / "file").symlink_to(outside / "key")
    desk = Desk(root=Path(os.path.realpath(root)))
    rules = Rules(root=desk.root)

    for path in ("innocent/key", "sub/file", "../secret/key", str(outside / "key"), "sub/../../secret/key"):
        for name in ("read", "write", "edit"):
            need = NAMED[name].need(desk, {"path": path})
            assert decide(need, rules, "build")[0] == "ask", (name, path)
    assert decide(NAMED["write"].need(desk, {"path": "innocent/new/file"}), rules, "build")[0] == "ask"
    assert decide(NAMED["grep"].need(desk, {"pattern": "x", "path": "innocent"}), rules, "build")[0] == "ask"


def test_a_person_is_asked_once_and_a_no_is_told_with_their_words():
    asked, kept = [], []
    answers = [Verdict(allowed=True, remember=True), Verdict(allowed=False, words="use make")]

    def ask(question):
        asked.append(question)
        return answers[len(asked) - 1]

    permits = Permits(rules=RULES, ask=ask, remembered=kept.append)

    assert permits.refusal(command("pytest -q")) == ""
    assert permits.refusal(command("pytest -x")) == ""
    assert "use make" in permits.refusal(command("gcc a.c"))
    assert len(asked) == 2
    assert [need.command for need in kept] == ["pytest -q"]
