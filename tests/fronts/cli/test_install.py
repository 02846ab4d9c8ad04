"""`ebb install` and `ebb uninstall` with real shells, files and processes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

EBB = [sys.executable, "-m", "ebbtide.fronts.cli.main"]
PATIENCE = 240.0
OWN = b"# mine\r\nexport X='caf\xe9'\nalias ll='ls -l'\nno newline at the end"


@pytest.fixture
def home(tmp_path):
    """A home with a client that says how it was started."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "claude").write_text('#!/bin/sh\necho "client got: $*"\n')
    (tools / "claude").chmod(0o755)
    return tmp_path


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LANG", "PYTHONPATH") if name in os.environ}
    path = os.pathsep.join((str(home / "bin"), os.environ["PATH"]))
    return {**kept, "PATH": path, "HOME": str(home), "SHELL": "/bin/bash", "EBB_HOME": str(home / "store"), **more}


def ebb(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*EBB, *arguments], env=environment(home, **more), capture_output=True, text=True, timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def shell(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment(home), capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
    )


def test_a_new_shell_starts_the_client_behind_ebbtide_until_it_is_uninstalled(home):
    installed = ebb(home, "install", "claude", "--yes")
    assert (installed.returncode, installed.stderr) == (0, "")
    assert "+function claude {" in installed.stdout, "the change is shown"
    behind = shell(home, "bash", "-ic", "claude -p 'a b'")
    assert behind.stdout == "client got: " + behind.stdout.partition("client got: ")[2]
    assert "-p a b" in behind.stdout
    assert "claude -> ebbtide -> api.anthropic.com" in behind.stderr

    doctor = json.loads(ebb(home, "doctor", "--json").stdout)
    assert [row["state"] for row in doctor if row["area"] == "clients"] == ["ok"]
    assert "starts behind Ebbtide" in next(row["told"] for row in doctor if row["name"] == "claude")

    assert ebb(home, "uninstall", "claude", "--yes").returncode == 0
    assert shell(home, "bash", "-ic", "claude hi").stdout == "client got: hi\n"


def test_if_ebbtide_is_gone_the_client_starts_by_itself_and_doctor_says_so(home):
    ebb(home, "install", "claude", "--yes")
    rc = home / ".bashrc"
    block = rc.read_text()
    (path,) = {word for word in shlex.split(block.replace("\n", " ; "), comments=False) if word.endswith("/ebb")}
    rc.write_text(block.replace(path, "/gone/ebb"))

    assert shell(home, "bash", "-ic", "claude hi").stdout == "client got: hi\n"
    rows = json.loads(ebb(home, "doctor", "--json").stdout)
    (row,) = [row for row in rows if row["area"] == "clients"]
    assert (row["state"], "without Ebbtide" in row["told"]) == ("warn", True)
    ebb(home, "install", "claude", "--yes")
    assert rc.read_text() == block, "installing it again corrects the path, at the same place"


def test_an_install_is_shown_backed_up_done_once_and_undone_whatever_changed_since(home):
    rc = home / "dotfiles-bashrc"
    rc.write_bytes(OWN)
    rc.chmod(0o600)
    (home / ".bashrc").symlink_to(rc)
    asked = ebb(home, "install", "claude")
    assert (asked.returncode, rc.read_bytes()) == (2, OWN)
    assert "nothing was written" in asked.stderr

    ebb(home, "install", "claude", "--yes")
    once = rc.read_bytes()
    assert once.startswith(OWN + b"\n# >>> ebbtide: claude >>>\n")
    assert (home / "dotfiles-bashrc.ebb-backup").read_bytes() == OWN
    assert (stat.S_IMODE(rc.stat().st_mode), (home / ".bashrc").is_symlink()) == (0o600, True)
    again = ebb(home, "install", "claude", "--yes")
    assert (again.returncode, rc.read_bytes()) == (0, once)
    assert "installed already" in again.stdout

    rc.write_bytes(b"# first\n" + once + b"# last\n")
    ebb(home, "uninstall", "claude", "--yes")
    assert rc.read_bytes() == b"# first\n" + OWN + b"\n# last\n"
    assert "nothing to undo" in ebb(home, "uninstall", "claude", "--yes").stdout


def doctor_rows(home: Path) -> list[dict]:
    return json.loads(ebb(home, "doctor", "--json").stdout)


def test_the_blocks_of_two_clients_do_not_touch_each_other(home):
    shutil.copy(home / "bin" / "claude", home / "bin" / "codex")
    for name in ("claude", "codex"):
        ebb(home, "install", name, "--yes")
    ebb(home, "uninstall", "claude", "--yes")

    text = (home / ".bashrc").read_text()
    assert ("function claude" in text, "function codex" in text) == (False, True)


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_other_shells_have_their_own_files(name, home):
    ebb(home, "install", "claude", "--yes", "--shell", name)
    file = home / (".zshrc" if name == "zsh" else ".config/fish/functions/claude.fish")
    text = file.read_text()
    assert "run -- claude" in text
    if shutil.which(name):
        assert "-> ebbtide ->" in shell(home, name, "-ic", "claude hi").stderr
    ebb(home, "uninstall", "claude", "--yes")
    assert not file.exists() or file.read_text() == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("install", "claud"), "there is no command claud on your PATH"),
        (("install", "../x"), "is not the name of a command"),
        (("install", "a b"), "is not the name of a command"),
        (("install", "claude", "--shell", "tcsh"), "'tcsh' is not one of bash, zsh, fish"),
        (("install", "claude", "--port", "1"), "--port belongs to"),
        (("install", "service", "--port", "0"), "a service needs a fixed port"),
        (("install", "service", "--port", "70000"), "70000 is not a port"),
        (("uninstall", "../x"), "is not the name of a command"),
    ],
)
def test_bad_input_is_explained_and_nothing_is_written(arguments, sentence, home):
    before = sorted(home.rglob("*"))
    done = ebb(home, *arguments, "--yes")

    assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr
    assert sorted(home.rglob("*")) == before


def test_what_would_hide_the_function_is_named(home):
    (home / ".bashrc").write_text("alias claude='claude --verbose'\n")
    aliased = ebb(home, "install", "claude", "--yes")
    unknown = ebb(home, "install", "claude", "--yes", SHELL="/bin/elvish")
    functions = home / ".config/fish/functions"
    functions.mkdir(parents=True)
    (functions / "claude.fish").write_text("function claude\nend\n")
    taken = ebb(home, "install", "claude", "--yes", "--shell", "fish")

    assert [run.returncode for run in (aliased, unknown, taken)] == [2, 2, 2]
    assert "has an alias claude" in aliased.stderr
    assert "name one of them with --shell" in unknown.stderr
    assert "has a function of yours" in taken.stderr
    assert (functions / "claude.fish").read_text() == "function claude\nend\n"


@pytest.mark.skipif(sys.platform == "darwin", reason="systemd's unit")
def test_the_service_runs_with_its_port_and_lets_in_only_who_has_the_token(home):
    first = ebb(home, "install", "service", "--port", "18991", "--yes")
    again = ebb(home, "install", "service", "--port", "18991", "--yes")
    unit = home / ".config/systemd/user/ebbtide-proxy.service"
    secret = home / ".config/ebbtide/proxy.env"
    settings = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line)
    token = secret.read_text().strip().partition("=")[2]

    assert (first.returncode, again.returncode) == (0, 0)
    assert token in first.stdout
    assert token in again.stdout, "a second install keeps the token"
    assert token not in unit.read_text()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert settings["EnvironmentFile"] == str(secret)
    (stopped,) = [row for row in doctor_rows(home) if row["name"] == "service"]
    assert (stopped["state"], "nothing answers at http://127.0.0.1:18991" in stopped["told"]) == ("warn", True)
    assert "systemctl --user enable --now ebbtide-proxy" in json.dumps(stopped)
    command = [*shlex.split(settings["ExecStart"]), "--announce"]
    with subprocess.Popen(
        command, env=environment(home, EBB_PROXY_TOKEN=token), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:  # fmt: skip
        try:
            address = json.loads(process.stdout.readline())["listening"]
            assert address == "http://127.0.0.1:18991"
            assert urllib.request.urlopen(f"{address}/ebb/t/{token}/healthz", timeout=PATIENCE).status == 200
            with pytest.raises(urllib.error.HTTPError, match=r"401|403"):
                urllib.request.urlopen(f"{address}/healthz", timeout=PATIENCE)
            (running,) = [row for row in doctor_rows(home) if row["name"] == "service"]
            assert (running["state"], running["told"]) == ("ok", "runs at http://127.0.0.1:18991")
        finally:
            process.terminate()
    removed = ebb(home, "uninstall", "service", "--yes")
    assert (removed.returncode, token in removed.stdout) == (0, False)
    assert not unit.exists()
    assert not secret.exists()
