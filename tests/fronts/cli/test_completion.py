"""Completions, asked of the shells themselves."""

import os
import shutil
import subprocess
import sys

import pytest

from fronts.cli.terminal import PROGRAM, stored

pytest.importorskip("shtab", reason="shtab is not installed")

ASK = """
source "$1"; shift
for typed in "$@"; do
  read -ra COMP_WORDS <<< "$typed"
  [[ "$typed" == *" " ]] && COMP_WORDS+=("")
  COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
  _shtab_ebb
  echo "$typed|${COMPREPLY[*]}"
done
"""


def needs(shell):
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def script(ebb, tmp_path):
    def made(shell):
        result = ebb("completion", shell)
        assert result.code == 0, result.err
        path = tmp_path / f"ebb.{shell}"
        path.write_bytes(result.out)
        return path

    return made


def with_ebb(folder):
    """An environment in which `ebb` is this very one."""
    shim = folder / "bin" / "ebb"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {" ".join(PROGRAM)} "$@"\n')
    shim.chmod(0o755)
    path = os.pathsep.join([*(one for one in sys.path if one), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": path}


@needs("bash")
def test_bash_completes_commands_options_choices_files_policies_and_sessions(script, tmp_path):
    stored(tmp_path, steps=2)
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.jsonl").touch()
    (work / "agents").mkdir()
    asked = {
        "ebb con": {"context"},
        "ebb context --asc": {"--ascii"},
        "ebb fit --wire openai_r": {"openai_responses"},
        "ebb explain --policy cl": {"claude-code"},
        "ebb context no": {"notes.jsonl"},
        "ebb gc --store ag": {"agents"},
        "ebb demo --no": {"--no-wait"},
        "ebb completion f": {"fish"},
        "ebb undo ni": {"nightly"},
        "ebb show l": {"last"},
    }

    result = subprocess.run(
        ["bash", "-c", ASK, "ask", script("bash"), *asked],
        capture_output=True, text=True, cwd=work, env=with_ebb(tmp_path), timeout=300,
    )  # fmt: skip
    told = dict(line.split("|") for line in result.stdout.splitlines())

    assert result.stderr == ""
    assert {line: set(words.split()) for line, words in told.items()} == asked


@needs("fish")
def test_fish_completes_commands_options_and_choices(script, tmp_path):
    asked = {"ebb con": "context", "ebb context --asc": "--ascii", "ebb explain --policy cl": "claude-code"}
    lines = "; ".join(f"complete -C '{line}'" for line in asked)

    result = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script('fish')}; {lines}"], capture_output=True, text=True, timeout=120
    )

    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == list(asked.values())


@needs("zsh")
def test_zsh_reads_its_script(script):
    result = subprocess.run(["zsh", "-n", script("zsh")], capture_output=True, text=True, timeout=120)

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh", "powershell"])
def test_every_shell_gets_a_script_that_names_the_commands(script, shell):
    text = script(shell).read_text()

    assert all(name in text for name in ("context", "--policy", "doctor"))


def test_a_shell_that_is_none_is_refused_with_those_that_are(ebb):
    result = ebb("completion", "bsh")

    assert result.code == 2
    assert "did you mean bash" in result.err


def test_ids_are_those_of_the_store_and_of_claude_code_and_nothing_that_would_break_a_line(ebb, tmp_path, monkeypatch):
    stored(tmp_path, steps=2)
    stored(tmp_path, "with spaces", steps=2)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "none"))

    assert ebb("completion", "sessions").text.split("\n") == ["last", "nightly", ""]
