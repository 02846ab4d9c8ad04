"""What is done without asking, what asks, and what a lasting yes covers."""

import itertools
import os
import subprocess
from pathlib import Path

import pytest

from ebbtide.fronts.chat.permission import PermissionAnswer, PermissionQuestion, Permissions, Rules, decide
from ebbtide.fronts.chat.tools import TOOLS, Action, Arguments, ToolState

ROOT = Path("/home/ada/app")
RULES = Rules(root=ROOT)
NAMED = {tool.name: tool for tool in TOOLS}


def command(line: str) -> Action:
    return Action(tool="bash", kind="run", command=line)


def file(path: str, kind: str = "read") -> Action:
    return Action(tool="read" if kind == "read" else "edit", kind=kind, path=Path(path))


@pytest.mark.parametrize(
    ("need", "ruling"),
    [
        (Action(tool="todo"), "allow"),
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


def test_plan_mode_changes_nothing_even_when_everything_was_allowed():
    rules = Rules(root=ROOT, allow_all=True)

    assert decide(file("/home/ada/app/a.py", "write"), rules, "plan")[0] == "deny"
    assert decide(command("ls"), rules, "plan")[0] == "ask"
    assert decide(file("/home/ada/app/a.py"), rules, "plan")[0] == "allow"


def test_permission_to_read_covers_the_folder_and_not_writing(tmp_path):
    (tmp_path / "notes").mkdir()
    rules = RULES.grant(file(str(tmp_path / "notes" / "a.md")))

    assert decide(file(str(tmp_path / "notes" / "deep" / "b.md")), rules, "build")[0] == "allow"
    assert decide(file(str(tmp_path / "b.md")), rules, "build")[0] == "ask"
    for name in ("a.md", "b.md"):
        assert decide(file(str(tmp_path / "notes" / name), "write"), rules, "build")[0] == "ask"


def test_permission_to_write_covers_that_file_alone(tmp_path):
    rules = RULES.grant(file(str(tmp_path / "a.md"), "write"))

    assert decide(file(str(tmp_path / "a.md"), "write"), rules, "build")[0] == "allow"
    assert decide(file(str(tmp_path / "a.md")), rules, "build")[0] == "allow"
    assert decide(file(str(tmp_path / "b.md"), "write"), rules, "build")[0] == "ask"
    assert decide(file(str(tmp_path / "b.md")), rules, "build")[0] == "ask"


def test_permission_to_read_a_file_at_home_does_not_cover_the_home_folder(tmp_path):
    home = tmp_path / "home"
    (home / "app").mkdir(parents=True)
    rules = Rules(root=home / "app", home=home)
    at_home, above = file(str(home / ".bashrc")), file(str(tmp_path / "x"))

    for need in (at_home, above):
        granted = rules.grant(need)
        assert decide(need, granted, "build")[0] == "allow"
        assert decide(file(str(home / ".ssh" / "id")), granted, "build")[0] == "ask"
        assert PermissionQuestion(action=need, reason="", rules=rules).grant_scope == f"reading {need.path}"


def test_the_question_says_what_would_be_remembered_of_a_file(tmp_path):
    def told(need):
        return PermissionQuestion(action=need, reason="", rules=RULES).grant_scope

    (tmp_path / "a.md").write_text("a")
    assert told(file(str(tmp_path / "a.md"))) == f"reading everything in {tmp_path}"
    assert told(file(str(tmp_path))) == f"reading everything in {tmp_path}"
    assert told(file(str(tmp_path / "a.md"), "write")) == f"writing {tmp_path}/a.md"


GITS_OWN = [
    *(
        ".git/config",
        ".git/hooks/pre-commit",
        ".git",
        ".GIT/config",
        ".Git/hooks/x",
        "sub/.git/config",
        "sub/.git",
        "GIT~1/config",
    ),
    *(".git /config", ".git./config", ".g\u200cit/config", ".git::$INDEX_ALLOCATION/config", ".gitconfig"),
    *("HEAD", "sub/HEAD", "sub/head", "link/config", "link/hooks/x", "link", "alias/HEAD"),
    *(
        "half/config",
        "half/objects/x",
        "half/hooks/post-checkout",
        "half/Config",
        "half/commondir",
        "half/info/attributes",
    ),
    *("stored/config", "stored/refs/heads/x", "stored/HOOKS/x"),
]
FREE = [
    "a.py",
    "config",
    "src/config",
    "src/hooks/use.ts",
    "src/refs/x",
    "src/objects/x",
    ".gitignore",
    ".github/x.yml",
]
FREE += [".gitattributes", "src/Head/index.tsx", "git/config", "a.git.py", "HEAD.md", "info/x", "link.py"]


@pytest.fixture
def workspace(tmp_path):
    """A project with a link into `.git`, a folder that is half a repository, and one that is a whole one."""
    root = Path(os.path.realpath(tmp_path)) / "app"
    for folder in (".git/hooks", "sub", "src", "half/refs", "stored/objects", "stored/refs", "real"):
        (root / folder).mkdir(parents=True)
    (root / "stored" / "HEAD").write_text("ref: refs/heads/x\n")
    (root / "link").symlink_to(root / ".git")
    (root / "alias").symlink_to(root / "real")
    return root


@pytest.mark.parametrize("path", GITS_OWN)
@pytest.mark.parametrize("name", ["write", "edit"])
def test_files_that_decide_what_git_runs_ask_first(workspace, name, path):
    need = NAMED[name].action(ToolState(root=workspace), Arguments({"path": path}))

    assert decide(need, Rules(root=workspace), "build") == ("ask", "git runs what this file says")
    # Leave to write files is not leave to run commands; who has that may do both.
    assert decide(need, Rules(root=workspace, tools=frozenset((name,))), "build")[0] == "ask"
    assert decide(need, Rules(root=workspace, tools=frozenset((name, "bash"))), "build")[0] == "allow"
    assert decide(need, Rules(root=workspace, allow_all=True), "build")[0] == "allow"


@pytest.mark.parametrize("path", FREE)
def test_other_files_with_such_names_are_allowed(workspace, path):
    need = NAMED["write"].action(ToolState(root=workspace), Arguments({"path": path}))

    assert decide(need, Rules(root=workspace), "build")[0] == "allow"


def test_a_bare_repository_cannot_be_written_piece_by_piece_without_a_question(tmp_path):
    """In whichever order: real git takes the folder for a repository only after somebody was asked."""
    parts = {"HEAD": "ref: refs/heads/x\n", "config": "[core]\n\tbare = true\n", "objects/x": "x", "refs/x": "x"}
    for n, order in enumerate(itertools.permutations(parts)):
        root = Path(os.path.realpath(tmp_path)) / str(n)
        root.mkdir()
        state, asked = ToolState(root=root), False
        for name in order:
            need = NAMED["write"].action(state, Arguments({"path": name}))
            asked |= decide(need, Rules(root=root), "build")[0] == "ask"
            NAMED["write"].run(state, Arguments({"path": name, "content": parts[name]}))
            folder = subprocess.run(["git", "rev-parse", "--git-dir"], cwd=root, capture_output=True, text=True).stdout
            assert asked or folder.strip() != ".", order


def test_our_own_settings_ask_even_inside_the_workspace(tmp_path):
    home = Path(os.path.realpath(tmp_path))
    rules = Rules(root=home, home=home, own_folders=(home / ".config" / "ebbtide",))

    assert decide(file(f"{home}/.config/ebbtide/trusted-folders.json", "write"), rules, "build")[0] == "ask"
    assert decide(file(f"{home}/.config/other", "write"), rules, "build")[0] == "allow"


def test_a_link_is_judged_by_its_target(tmp_path):
    root, outside = tmp_path / "app", tmp_path / "secret"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "key").write_text("k")
    (root / "innocent").symlink_to(outside)
    (root / "sub" / "file").symlink_to(outside / "key")
    state = ToolState(root=Path(os.path.realpath(root)))
    rules = Rules(root=state.root)

    for path in ("innocent/key", "sub/file", "../secret/key", str(outside / "key"), "sub/../../secret/key"):
        for name in ("read", "write", "edit"):
            need = NAMED[name].action(state, Arguments({"path": path}))
            assert decide(need, rules, "build")[0] == "ask", (name, path)
    assert decide(NAMED["write"].action(state, Arguments({"path": "innocent/new/file"})), rules, "build")[0] == "ask"
    assert (
        decide(NAMED["grep"].action(state, Arguments({"pattern": "x", "path": "innocent"})), rules, "build")[0] == "ask"
    )


def test_a_person_is_asked_once_and_a_no_is_reported_with_their_words():
    asked, kept = [], []
    answers = [PermissionAnswer(allowed=True, remember=True), PermissionAnswer(allowed=False, instruction="use make")]

    def ask(question):
        asked.append(question)
        return answers[len(asked) - 1]

    permits = Permissions(rules=RULES, ask=ask, on_grant=kept.append)

    assert permits.refusal_reason(command("pytest -q")) == ""
    assert permits.refusal_reason(command("pytest -x")) == ""
    assert "use make" in permits.refusal_reason(command("gcc a.c"))
    assert len(asked) == 2
    assert [need.command for need in kept] == ["pytest -q"]
