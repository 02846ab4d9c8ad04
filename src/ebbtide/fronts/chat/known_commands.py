"""Commands that may be allowed by name, with their options that neither start a program nor write to a given file.

A command that is not listed is allowed word for word or not at all. An option must be spelled as it is here:
abbreviations, other spellings and options of later versions ask. Every argument, and the value of every option, must
stay inside the workspace if it is read as a path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ebbtide.fronts.chat.shell import Command


@dataclass(frozen=True, slots=True)
class _Form:
    """How a command may be called."""

    flags: str = ""
    """Letters of short options without a value: `-la`."""
    valued: str = ""
    """Letters of short options whose value may follow at once: `-n5`."""
    first: str = ""
    """Pattern of the first argument, which is then required."""
    has_count: bool = False
    """Whether `-5` means a number of lines."""
    has_arguments: bool = True
    options: tuple[str, ...] = ()
    """Whole words; `--name=` may carry a value."""


_CHANGES = (
    "--stat --shortstat --numstat --name-only --name-status --summary --patch --no-patch --color= --no-color "
    "--word-diff --ignore-all-space --unified= --cached --staged --exit-code --quiet --no-ext-diff --no-textconv"
)
_COMMITS = (
    "--oneline --graph --all --decorate --no-decorate --no-merges --merges --first-parent --follow --reverse "
    "--abbrev-commit --since= --until= --after= --before= --author= --grep= --max-count= --skip= --date= "
    "--branches --tags"
)
_PRINTING = r"""
basename: flags=a valued=s
cat: flags=nbsAeETtv --number
cmp: flags=sl
cut: flags=s valued=dfcb --delimiter= --fields= --characters= --complement
date: no-arguments flags=u
df: flags=hTik
diff: flags=uqNwbBiay valued=U --unified= --brief --color= --side-by-side --ignore-all-space
dirname:
du: flags=shacbkm valued=d --max-depth= --summarize --human-readable --apparent-size
echo: flags=neE
false, true, whoami: no-arguments
file: flags=bi --brief --mime --mime-type
find: -name -iname -path -ipath -type -maxdepth -mindepth -size -mtime -mmin -newer -not -o -a -and -or -print -print0
    -prune -empty -regex -iregex -perm -user -group -ls -xdev -depth
grep: flags=nirlcovwxEFPhHsqLI valued=ABCme count --include= --exclude= --exclude-dir= --color= --line-number
    --ignore-case --recursive --count --context= --files-with-matches --word-regexp --only-matching --invert-match
    --fixed-strings --extended-regexp --max-count= --after-context= --before-context= --no-messages --
head, tail: flags=qv valued=nc count --lines= --bytes=
ls: flags=aAlh1RtrSdFisnp --all --almost-all --color= --human-readable --recursive --reverse --sort= --time=
    --full-time --group-directories-first --size --
md5sum, sha1sum, sha256sum: flags=bt
nl: valued=bnw
pwd: no-arguments flags=P
readlink: flags=fe
realpath: flags=e
rg: flags=nilcovwxFSsuUNHIP valued=ABCmegtT --files --hidden --no-ignore --line-number --no-heading --heading
    --ignore-case --files-with-matches --count --word-regexp --fixed-strings --glob= --iglob= --type= --type-not=
    --sort= --max-count= --max-depth= --context= --after-context= --before-context= --color= --no-messages --stats
    --json --multiline --
sed: first=\d{1,9}(?:,(?:\d{1,9}|\$|\+\d{1,9}))?p flags=n --quiet --silent
sort: flags=nruhVfbgMcs valued=kt --numeric-sort --reverse --unique --key= --field-separator= --human-numeric-sort
stat: flags=t valued=c --format= --printf= --terse
tr: flags=dscC
tree: flags=adfishDF valued=LIP --gitignore --noreport --dirsfirst --prune --du
uname: no-arguments flags=asrmnvop
uniq: no-arguments flags=cdui valued=fsw
wc: flags=lwcmL --lines --words --bytes
which: flags=a
"""
"""They read files and print. The second argument of `uniq` would be a file to write."""

_GIT = f"""
git blame: flags=wse valued=L --date= --show-email --
git branch: no-arguments flags=avr --list --all --remotes --show-current --verbose
git cat-file: flags=tps
git describe: --tags --always --long --abbrev= --dirty --all
git diff: flags=pwba valued=U {_CHANGES} --merge-base --check --
git grep: flags=nilcwEFvhIPaLW valued=ABCem --line-number --ignore-case --files-with-matches --count --word-regexp
    --cached --untracked --name-only --heading --break --show-function --and --or --not --fixed-strings
    --extended-regexp --
git log: flags=pi valued=nSGLU count {_CHANGES} {_COMMITS} --
git ls-files: flags=mocsdtuz --others --modified --cached --deleted --exclude-standard --stage --
git ls-tree: flags=rdltz --name-only --full-tree --long --
git merge-base: flags=a --all --is-ancestor
git remote: no-arguments flags=v --verbose
git rev-parse: --show-toplevel --abbrev-ref --short --short= --verify --git-dir --is-inside-work-tree --show-prefix
git shortlog: flags=sne --since= --until= --summary --numbered --email --all
git show: flags=pwba valued=U {_CHANGES} --oneline --abbrev-commit --date= --
git stash list: no-arguments
git status: flags=sbvz --short --branch --porcelain --porcelain= --long --ignored --
git tag: no-arguments flags=l --list
"""
"""They print what a repository holds."""

_RUNNING = """
cargo build, cargo check, cargo clippy, cargo fmt, cargo test: flags=qv valued=pFj --release --workspace --all --lib
    --bins --tests --examples --benches --all-targets --all-features --no-default-features --features= --package=
    --test= --bin= --example= --doc --no-run --no-fail-fast --quiet --verbose --check -- --nocapture --exact --ignored
    --test-threads=
go test: -v -race -short -cover -json -failfast -run -run= -count -count= -timeout -timeout= -bench -bench=
go vet: -v -json
mypy: flags=v valued=p --strict --ignore-missing-imports --show-error-codes --pretty --no-error-summary
pytest, python -m pytest, python3 -m pytest: flags=qvxsl valued=kmnr --lf --ff --sw --co --collect-only --last-failed
    --failed-first --stepwise --exitfirst --verbose --quiet --no-header --no-summary --tb= --maxfail= --durations=
    --timeout= --showlocals
ruff check: flags=q --fix --diff --select= --ignore= --statistics --quiet --no-cache
ruff format: flags=q --check --diff --quiet --no-cache
"""
"""They run the project's own code, which a user who allows them intends."""


def _read_table(table: str) -> Iterator[tuple[Command, _Form]]:
    """Read lines of names, a colon, and a form; indented lines continue it. A word that is no field is an option."""
    for row in table.strip().replace("\n    ", " ").splitlines():
        names, _, words = row.partition(":")
        fields = dict(re.findall(r"(?<!\S)(flags|valued|first)=(\S+)", words))
        rest = [word for word in words.split() if word.partition("=")[0] not in fields]
        options = tuple(word for word in rest if word.startswith("-"))
        form = _Form(**fields, has_count="count" in rest, has_arguments="no-arguments" not in rest, options=options)
        yield from ((tuple(name.split()), form) for name in names.split(", "))


_FORMS = dict(form for table in (_PRINTING, _GIT, _RUNNING) for form in _read_table(table))
_SECONDS = re.compile(r"\d{1,6}[smh]?")


def known_name(command: Command, root: Path) -> Command:
    """Return the name under which 'always' may allow this call; empty if only the exact line may be allowed."""
    if command[:1] == ("timeout",) and len(command) > 2 and _SECONDS.fullmatch(command[1]):
        command = command[2:]
    name = next((command[:n] for n in (3, 2, 1) if command[:n] in _FORMS), ())
    return name if name and _fits(command[len(name) :], _FORMS[name], root) else ()


def _fits(words: Command, form: _Form, root: Path) -> bool:
    # A word that starts with `-` must be a listed option even after `--`, which may be the value of another option.
    arguments = [word for word in words if not word.startswith("-") or word == "-"]
    if arguments and not form.has_arguments:
        return False
    if form.first and not (arguments and re.fullmatch(form.first, arguments[0])):
        return False
    return all(_is_listed(word, form, root) for word in words if word not in arguments) and all(
        _stays_inside(word, root) for word in arguments
    )


def _is_listed(option: str, form: _Form, root: Path) -> bool:
    if option in form.options or f"{option}=" in form.options:
        return True
    name, equals, value = option.partition("=")
    if equals and name.startswith("-") and f"{name}=" in form.options:
        return _stays_inside(value, root)
    if option.startswith("--"):
        return False
    if form.has_count and option[1:].isascii() and option[1:].isdigit():
        return True
    for at, letter in enumerate(option[1:], 2):
        if letter in form.valued:
            return _stays_inside(option[at:], root)
        if letter not in form.flags:
            return False
    return True


def _stays_inside(word: str, root: Path) -> bool:
    """Whether a word, and each part of `a:b`, `a=b` and `a,b`, stays in the workspace if it is read as a path."""
    if word.startswith(("@", "~")):
        return False  # Some programs read more arguments from `@file`.
    return all(
        Path(os.path.realpath(root / part)).is_relative_to(root) for part in {word, *re.split("[:=,]", word)} if part
    )
