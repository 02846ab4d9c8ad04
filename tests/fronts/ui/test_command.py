"""`ebb ui` as a person starts it."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from ebbtide.fronts.cli.main import main
from fronts.ui.inspector import BilledAgent

EBB = [sys.executable, "-m", "ebbtide.fronts.cli.main", "ui"]


def test_it_prints_an_address_serves_the_page_and_ends_on_ctrl_c(tmp_path):
    BilledAgent(tmp_path).steps(1)
    command = [*EBB, "--store", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            address = run.stdout.readline().strip()
            with urllib.request.urlopen(address.partition("#")[0], timeout=120) as page:
                text = page.read().decode()
        finally:
            run.send_signal(signal.SIGINT)
            code = run.wait(120)
            rest, wrong = run.stdout.read(), run.stderr.read()

    assert "#token=" in address
    assert "Ebbtide" in text
    assert code == 130
    assert rest == "Open this address in a browser. Press Ctrl-C to stop.\n"
    assert "Traceback" not in wrong


def test_an_empty_store_is_reported_with_what_to_do_about_it(tmp_path):
    with subprocess.Popen([*EBB, "--store", str(tmp_path / "none")], stdout=subprocess.PIPE, text=True) as run:
        try:
            lines = [run.stdout.readline() for _ in range(3)]
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(120)

    assert "There are no sessions in" in lines[2]
    assert "ebb ui --example" in lines[2]
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["no-such-file.jsonl"], "no-such-file.jsonl cannot be read: No such file"),
        (["{tmp}/words.jsonl"], "words.jsonl is no session that we know"),
        (["{tmp}/empty.jsonl"], "empty.jsonl is empty"),
        (["{tmp}"], "{tmp} is a folder, and not one of OpenCode's"),
        (["--policy", "nope"], "nope"),
        (["--window", "wide"], "wide"),
        (["--store", "{tmp}/words.jsonl"], "words.jsonl is a file, not a folder of sessions"),
        (["--port", "99999"], "99999 is not a port; ports are 0 to 65535"),
        (["--port", "{taken}"], "{taken} is in use; leave --port out to use any free port"),
    ],
)
def test_bad_input_is_refused_before_anything_is_served(given, told, tmp_path, capsys):
    (tmp_path / "words.jsonl").write_text("hello\n")
    (tmp_path / "empty.jsonl").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = {"tmp": str(tmp_path), "taken": taken.getsockname()[1]}
        code = run(["--store", str(tmp_path), *(one.format(**words) for one in given)])
    output = capsys.readouterr()

    assert code == 2
    assert told.format(**words) in output.err
    assert "#token" not in output.out


def run(arguments):
    try:
        return main(["ui", *arguments])
    except SystemExit as end:
        return end.code


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_reported(tmp_path, capsys):
    file = tmp_path / "session.jsonl"
    file.write_text("{}\n")
    file.chmod(0)

    assert run(["--store", str(tmp_path), str(file)]) == 2
    assert "cannot be read: Permission denied" in capsys.readouterr().err


def test_the_help_teaches(capsys):
    assert run(["--help"]) == 0
    output = capsys.readouterr().out

    for word in ("--allow-undo", "ebb ui --example", "on this machine only", "Ctrl-C"):
        assert word in output


def test_without_its_extra_it_names_the_extra():
    code = "import sys; sys.modules['aiohttp'] = None; from ebbtide.fronts.cli.main import main; sys.exit(main(['ui']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)

    assert done.returncode == 2
    assert "pip install 'ebbtide[ui]'" in done.stderr
