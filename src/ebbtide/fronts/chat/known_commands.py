"""Commands that may be allowed by name: each with the options that neither start a program nor write where one says.

What is not listed here is allowed word for word or not at all. An option counts as listed only in the very form below:
abbreviations, other spellings and new options of later versions ask. Every argument, and the value of every option,
must stay inside the workspace if taken for a path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ebbtide.fronts.chat.shell import Command


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How a command may be called."""

    flags: str = ""
    """Letters of short options without a value: `-la`."""
    valued: str = ""
    """Letters of short options whose value may follow at once: `-n5`."""
    options: frozenset[str] = frozenset()
    """Whole words; `--name=` may carry a value."""
    has_count: bool = False
    """Whether `-5` means a number of lines."""
    has_arguments: bool = True
    first: re.Pattern[str] | None = None
    """What the first argument must look like."""


def _form(
    flags: str = "",
    valued: str = "",
    options: str = "",
    *,
    count: bool = False,
    arguments: bool = True,
    first: str = "",
) -> _Form:
    return _Form(
        flags=flags,
        valued=valued,
        options=frozenset(options.split()),
        has_count=count,
        has_arguments=arguments,
        first=re.compile(first) if first else None,
    )


_CHANGES = (
    "--stat --shortstat --numstat --name-only --name-status --summary --patch --no-patch --color= --no-color "
    "--word-diff --ignore-all-space --unified= --cached --staged --exit-code --quiet --no-ext-diff --no-textconv"
)
_COMMITS = (
    "--oneline --graph --all --decorate --no-decorate --no-merges --merges --first-parent --follow --reverse "
    "--abbrev-commit --since= --until= --after= --before= --author= --grep= --max-count= --skip= --date= "
    "--branches --tags"
)
_PYTEST = _form(
    "qvxsl",
    "kmnr",
    "--lf --ff --sw --co --collect-only --last-failed --failed-first --stepwise --exitfirst --verbose --quiet "
    "--no-header --no-summary --tb= --maxfail= --durations= --timeout= --showlocals",
)
_CARGO = _form(
    "qv",
    "pFj",
    "--release --workspace --all --lib --bins --tests --examples --benches --all-targets --all-features "
    "--no-default-features --features= --package= --test= --bin= --example= --doc --no-run --no-fail-fast --quiet "
    "--verbose --check -- --nocapture --exact --ignored --test-threads=",
)
_GO = _form(
    options="-v -race -short -cover -json -failfast -run -run= -count -count= -timeout -timeout= -bench -bench="
)

_FORMS: Mapping[Command, _Form] = {
    # They read files and print.
    ("basename",): _form("a", "s"),
    ("cat",): _form("nbsAeETtv", options="--number"),
    ("cmp",): _form("sl"),
    ("cut",): _form("s", "dfcb", "--delimiter= --fields= --characters= --complement"),
    ("date",): _form("u", arguments=False),
    ("df",): _form("hTik"),
    ("diff",): _form("uqNwbBiay", "U", "--unified= --brief --color= --side-by-side --ignore-all-space"),
    ("dirname",): _form(),
    ("du",): _form("shacbkm", "d", "--max-depth= --summarize --human-readable --apparent-size"),
    ("echo",): _form("neE"),
    ("false",): _form(arguments=False),
    ("file",): _form("bi", options="--brief --mime --mime-type"),
    ("find",): _form(
        options="-name -iname -path -ipath -type -maxdepth -mindepth -size -mtime -mmin -newer -not -o -a -and -or "
        "-print -print0 -prune -empty -regex -iregex -perm -user -group -ls -xdev -depth"
    ),
    ("grep",): _form(
        "nirlcovwxEFPhHsqLI",
        "ABCme",
        "--include= --exclude= --exclude-dir= --color= --line-number --ignore-case --recursive --count --context= "
        "--files-with-matches --word-regexp --only-matching --invert-match --fixed-strings --extended-regexp "
        "--max-count= --after-context= --before-context= --no-messages --",
        count=True,
    ),
    ("head",): _form("qv", "nc", "--lines= --bytes=", count=True),
    ("ls",): _form(
        "aAlh1RtrSdFisnp",
        options="--all --almost-all --color= --human-readable --recursive --reverse --sort= --time= --full-time "
        "--group-directories-first --size --",
    ),
    ("md5sum",): _form("bt"),
    ("nl",): _form("", "bnw"),
    ("pwd",): _form("P", arguments=False),
    ("readlink",): _form("fe"),
    ("realpath",): _form("e"),
    ("rg",): _form(
        "nilcovwxFSsuUNHIP",
        "ABCmegtT",
        "--files --hidden --no-ignore --line-number --no-heading --heading --ignore-case --files-with-matches --count "
        "--word-regexp --fixed-strings --glob= --iglob= --type= --type-not= --sort= --max-count= --max-depth= "
        "--context= --after-context= --before-context= --color= --no-messages --stats --json --multiline --",
    ),
    ("sed",): _form("n", options="--quiet --silent", first=r"\d{1,9}(?:,(?:\d{1,9}|\$|\+\d{1,9}))?p"),
    ("sha1sum",): _form("bt"),
    ("sha256sum",): _form("bt"),
    ("sort",): _form(
        "nruhVfbgMcs", "kt", "--numeric-sort --reverse --unique --key= --field-separator= --human-numeric-sort"
    ),
    ("stat",): _form("t", "c", "--format= --printf= --terse"),
    ("tail",): _form("qv", "nc", "--lines= --bytes=", count=True),
    ("tr",): _form("dscC"),
    ("tree",): _form("adfishDF", "LIP", "--gitignore --noreport --dirsfirst --prune --du"),
    ("true",): _form(arguments=False),
    ("uname",): _form("asrmnvop", arguments=False),
    ("uniq",): _form("cdui", "fsw", arguments=False),  # Its second argument is a file to write.
    ("wc",): _form("lwcmL", options="--lines --words --bytes"),
    ("which",): _form("a"),
    ("whoami",): _form(arguments=False),
    # They print what a repository holds.
    ("git", "blame"): _form("wse", "L", "--date= --show-email --"),
    ("git", "branch"): _form("avr", options="--list --all --remotes --show-current --verbose", arguments=False),
    ("git", "cat-file"): _form("tps"),
    ("git", "describe"): _form(options="--tags --always --long --abbrev= --dirty --all"),
    ("git", "diff"): _form("pwba", "U", f"{_CHANGES} --merge-base --check --"),
    ("git", "grep"): _form(
        "nilcwEFvhIPaLW",
        "ABCem",
        "--line-number --ignore-case --files-with-matches --count --word-regexp --cached --untracked --name-only "
        "--heading --break --show-function --and --or --not --fixed-strings --extended-regexp --",
    ),
    ("git", "log"): _form("pi", "nSGLU", f"{_CHANGES} {_COMMITS} --", count=True),
    ("git", "ls-files"): _form(
        "mocsdtuz", options="--others --modified --cached --deleted --exclude-standard --stage --"
    ),
    ("git", "ls-tree"): _form("rdltz", options="--name-only --full-tree --long --"),
    ("git", "merge-base"): _form("a", options="--all --is-ancestor"),
    ("git", "remote"): _form("v", options="--verbose", arguments=False),
    ("git", "rev-parse"): _form(
        options="--show-toplevel --abbrev-ref --short --short= --verify --git-dir --is-inside-work-tree --show-prefix"
    ),
    ("git", "shortlog"): _form("sne", options="--since= --until= --summary --numbered --email --all"),
    ("git", "show"): _form("pwba", "U", f"{_CHANGES} --oneline --abbrev-commit --date= --"),
    ("git", "stash", "list"): _form(arguments=False),
    ("git", "status"): _form("sbvz", options="--short --branch --porcelain --porcelain= --long --ignored --"),
    ("git", "tag"): _form("l", options="--list", arguments=False),
    # They run the project's own code, and a person who allows them for good means that.
    ("cargo", "build"): _CARGO,
    ("cargo", "check"): _CARGO,
    ("cargo", "clippy"): _CARGO,
    ("cargo", "fmt"): _CARGO,
    ("cargo", "test"): _CARGO,
    ("go", "test"): _GO,
    ("go", "vet"): _form(options="-v -json"),
    ("mypy",): _form("v", "p", "--strict --ignore-missing-imports --show-error-codes --pretty --no-error-summary"),
    ("pytest",): _PYTEST,
    ("python", "-m", "pytest"): _PYTEST,
    ("python3", "-m", "pytest"): _PYTEST,
    ("ruff", "check"): _form("q", options="--fix --diff --select= --ignore= --statistics --quiet --no-cache"),
    ("ruff", "format"): _form("q", options="--check --diff --quiet --no-cache"),
}
_SECONDS = re.compile(r"\d{1,6}[smh]?")


def known_name(command: Command, root: Path) -> Command:
    """The first words under which this call may be allowed for good; empty where only the very line may be."""
    if command[:1] == ("timeout",) and len(command) > 2 and _SECONDS.fullmatch(command[1]):
        command = command[2:]
    name = next((command[:n] for n in (3, 2, 1) if command[:n] in _FORMS), ())
    return name if name and _fits(command[len(name) :], _FORMS[name], root) else ()


def _fits(words: Command, form: _Form, root: Path) -> bool:
    # A word that begins with `-` is judged as an option wherever it stands: `--` may be the value of the one before it.
    arguments = [word for word in words if not word.startswith("-") or word == "-"]
    if arguments and not form.has_arguments:
        return False
    if form.first is not None and not (arguments and form.first.fullmatch(arguments[0])):
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
    """Whether a word, and each part of `a:b`, `a=b` and `a,b`, leads nowhere else if it is taken for a path."""
    if word.startswith(("@", "~")):
        return False  # `@file` holds more arguments for some programs.
    return all(
        Path(os.path.realpath(root / part)).is_relative_to(root) for part in {word, *re.split("[:=,]", word)} if part
    )
