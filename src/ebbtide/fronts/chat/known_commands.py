"""Commands that may be allowed by name, with their options that neither start a program nor write to a given file.

A command that is not listed is allowed word for word or not at all. An option must be spelled as it is here:
abbreviations, other spellings and options of later versions ask. Every argument, and the value of every option, must
stay inside the workspace if it is read as a path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
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
    options: str = ""
    """Whole words; `--name=` may carry a value."""
    has_count: bool = False
    """Whether `-5` means a number of lines."""
    has_arguments: bool = True
    first: str = ""
    """Pattern of the first argument, which is then required."""


_CHANGES = (
    "--stat --shortstat --numstat --name-only --name-status --summary --patch --no-patch --color= --no-color "
    "--word-diff --ignore-all-space --unified= --cached --staged --exit-code --quiet --no-ext-diff --no-textconv"
)
_COMMITS = (
    "--oneline --graph --all --decorate --no-decorate --no-merges --merges --first-parent --follow --reverse "
    "--abbrev-commit --since= --until= --after= --before= --author= --grep= --max-count= --skip= --date= "
    "--branches --tags"
)
_PYTEST = _Form(
    "qvxsl",
    "kmnr",
    "--lf --ff --sw --co --collect-only --last-failed --failed-first --stepwise --exitfirst --verbose --quiet "
    "--no-header --no-summary --tb= --maxfail= --durations= --timeout= --showlocals",
)
_CARGO = _Form(
    "qv",
    "pFj",
    "--release --workspace --all --lib --bins --tests --examples --benches --all-targets --all-features "
    "--no-default-features --features= --package= --test= --bin= --example= --doc --no-run --no-fail-fast --quiet "
    "--verbose --check -- --nocapture --exact --ignored --test-threads=",
)
_GO = _Form(
    options="-v -race -short -cover -json -failfast -run -run= -count -count= -timeout -timeout= -bench -bench="
)

_FORMS: Mapping[Command, _Form] = {
    # These read files and print.
    ("basename",): _Form("a", "s"),
    ("cat",): _Form("nbsAeETtv", options="--number"),
    ("cmp",): _Form("sl"),
    ("cut",): _Form("s", "dfcb", "--delimiter= --fields= --characters= --complement"),
    ("date",): _Form("u", has_arguments=False),
    ("df",): _Form("hTik"),
    ("diff",): _Form("uqNwbBiay", "U", "--unified= --brief --color= --side-by-side --ignore-all-space"),
    ("dirname",): _Form(),
    ("du",): _Form("shacbkm", "d", "--max-depth= --summarize --human-readable --apparent-size"),
    ("echo",): _Form("neE"),
    ("false",): _Form(has_arguments=False),
    ("file",): _Form("bi", options="--brief --mime --mime-type"),
    ("find",): _Form(
        options="-name -iname -path -ipath -type -maxdepth -mindepth -size -mtime -mmin -newer -not -o -a -and -or "
        "-print -print0 -prune -empty -regex -iregex -perm -user -group -ls -xdev -depth"
    ),
    ("grep",): _Form(
        "nirlcovwxEFPhHsqLI",
        "ABCme",
        "--include= --exclude= --exclude-dir= --color= --line-number --ignore-case --recursive --count --context= "
        "--files-with-matches --word-regexp --only-matching --invert-match --fixed-strings --extended-regexp "
        "--max-count= --after-context= --before-context= --no-messages --",
        has_count=True,
    ),
    ("head",): _Form("qv", "nc", "--lines= --bytes=", has_count=True),
    ("ls",): _Form(
        "aAlh1RtrSdFisnp",
        options="--all --almost-all --color= --human-readable --recursive --reverse --sort= --time= --full-time "
        "--group-directories-first --size --",
    ),
    ("md5sum",): _Form("bt"),
    ("nl",): _Form("", "bnw"),
    ("pwd",): _Form("P", has_arguments=False),
    ("readlink",): _Form("fe"),
    ("realpath",): _Form("e"),
    ("rg",): _Form(
        "nilcovwxFSsuUNHIP",
        "ABCmegtT",
        "--files --hidden --no-ignore --line-number --no-heading --heading --ignore-case --files-with-matches --count "
        "--word-regexp --fixed-strings --glob= --iglob= --type= --type-not= --sort= --max-count= --max-depth= "
        "--context= --after-context= --before-context= --color= --no-messages --stats --json --multiline --",
    ),
    ("sed",): _Form("n", options="--quiet --silent", first=r"\d{1,9}(?:,(?:\d{1,9}|\$|\+\d{1,9}))?p"),
    ("sha1sum",): _Form("bt"),
    ("sha256sum",): _Form("bt"),
    ("sort",): _Form(
        "nruhVfbgMcs", "kt", "--numeric-sort --reverse --unique --key= --field-separator= --human-numeric-sort"
    ),
    ("stat",): _Form("t", "c", "--format= --printf= --terse"),
    ("tail",): _Form("qv", "nc", "--lines= --bytes=", has_count=True),
    ("tr",): _Form("dscC"),
    ("tree",): _Form("adfishDF", "LIP", "--gitignore --noreport --dirsfirst --prune --du"),
    ("true",): _Form(has_arguments=False),
    ("uname",): _Form("asrmnvop", has_arguments=False),
    ("uniq",): _Form("cdui", "fsw", has_arguments=False),  # Its second argument is a file to write.
    ("wc",): _Form("lwcmL", options="--lines --words --bytes"),
    ("which",): _Form("a"),
    ("whoami",): _Form(has_arguments=False),
    # These print what a repository holds.
    ("git", "blame"): _Form("wse", "L", "--date= --show-email --"),
    ("git", "branch"): _Form("avr", options="--list --all --remotes --show-current --verbose", has_arguments=False),
    ("git", "cat-file"): _Form("tps"),
    ("git", "describe"): _Form(options="--tags --always --long --abbrev= --dirty --all"),
    ("git", "diff"): _Form("pwba", "U", f"{_CHANGES} --merge-base --check --"),
    ("git", "grep"): _Form(
        "nilcwEFvhIPaLW",
        "ABCem",
        "--line-number --ignore-case --files-with-matches --count --word-regexp --cached --untracked --name-only "
        "--heading --break --show-function --and --or --not --fixed-strings --extended-regexp --",
    ),
    ("git", "log"): _Form("pi", "nSGLU", f"{_CHANGES} {_COMMITS} --", has_count=True),
    ("git", "ls-files"): _Form(
        "mocsdtuz", options="--others --modified --cached --deleted --exclude-standard --stage --"
    ),
    ("git", "ls-tree"): _Form("rdltz", options="--name-only --full-tree --long --"),
    ("git", "merge-base"): _Form("a", options="--all --is-ancestor"),
    ("git", "remote"): _Form("v", options="--verbose", has_arguments=False),
    ("git", "rev-parse"): _Form(
        options="--show-toplevel --abbrev-ref --short --short= --verify --git-dir --is-inside-work-tree --show-prefix"
    ),
    ("git", "shortlog"): _Form("sne", options="--since= --until= --summary --numbered --email --all"),
    ("git", "show"): _Form("pwba", "U", f"{_CHANGES} --oneline --abbrev-commit --date= --"),
    ("git", "stash", "list"): _Form(has_arguments=False),
    ("git", "status"): _Form("sbvz", options="--short --branch --porcelain --porcelain= --long --ignored --"),
    ("git", "tag"): _Form("l", options="--list", has_arguments=False),
    # These run the project's own code, which a user who allows them intends.
    ("cargo", "build"): _CARGO,
    ("cargo", "check"): _CARGO,
    ("cargo", "clippy"): _CARGO,
    ("cargo", "fmt"): _CARGO,
    ("cargo", "test"): _CARGO,
    ("go", "test"): _GO,
    ("go", "vet"): _Form(options="-v -json"),
    ("mypy",): _Form("v", "p", "--strict --ignore-missing-imports --show-error-codes --pretty --no-error-summary"),
    ("pytest",): _PYTEST,
    ("python", "-m", "pytest"): _PYTEST,
    ("python3", "-m", "pytest"): _PYTEST,
    ("ruff", "check"): _Form("q", options="--fix --diff --select= --ignore= --statistics --quiet --no-cache"),
    ("ruff", "format"): _Form("q", options="--check --diff --quiet --no-cache"),
}
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
    options = form.options.split()
    if option in options or f"{option}=" in options:
        return True
    name, equals, value = option.partition("=")
    if equals and name.startswith("-") and f"{name}=" in options:
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
