"""`ebb ui` as a person starts it."""

import signal
import subprocess
import sys
import urllib.request

import pytest

from ui.inspected import Talker

EBB = [sys.executable, "-m", "ebbtide.fronts.cli.main", "ui"]


def test_it_prints_an_address_serves_the_page_and_ends_on_ctrl_c(tmp_path):
    Talker(tmp_path).steps(1)
    with subprocess.Popen([*EBB, "--store", str(tmp_path)], stdout=subprocess.PIPE, text=True) as run:
        try:
            address = run.stdout.readline().strip()
            with urllib.request.urlopen(address.partition("#")[0], timeout=60) as page:
                told = page.read().decode()
        finally:
            run.send_signal(signal.SIGINT)
            code = run.wait(60)

    assert "#token=" in address
    assert "Ebbtide" in told
    assert code == 130


@pytest.mark.parametrize(
    ("given", "told"),
    [(["no-such-file.jsonl"], "no-such-file.jsonl"), (["--policy", "nope"], "nope"), (["--window", "wide"], "wide")],
)
def test_bad_input_is_refused_before_anything_is_served(given, told, tmp_path):
    done = subprocess.run([*EBB, "--store", str(tmp_path), *given], capture_output=True, text=True, timeout=120)

    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_without_its_extra_it_names_the_extra():
    code = "import sys; sys.modules['aiohttp'] = None; from ebbtide.fronts.cli.main import main; sys.exit(main(['ui']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)

    assert done.returncode == 2
    assert "pip install 'ebbtide[ui]'" in done.stderr
