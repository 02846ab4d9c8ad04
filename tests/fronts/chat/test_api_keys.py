"""Keys come from the environment, are never printed, and do not reach the commands that a model runs."""

import os
import subprocess
import sys
from pathlib import Path

from ebbtide.config import Account, load_access


def test_keys_and_addresses_are_those_of_the_environment():
    environ = {"ANTHROPIC_API_KEY": "k1", "OPENAI_BASE_URL": "http://127.0.0.1:8080/v1", "XDG_CONFIG_HOME": "/etc/mine"}

    access = load_access(environ=environ, home=Path("/home/ada"), platform="linux")

    assert access.accounts["anthropic"] == Account(key="k1")
    assert access.accounts["openai"] == Account(url="http://127.0.0.1:8080/v1")
    assert access.config == Path("/etc/mine/ebbtide")
    assert "k1" not in repr(access)


def test_commands_run_without_the_keys_and_with_all_else():
    code = "from ebbtide.config import environment_without_keys as e; print('OPENAI_API_KEY' in e(), e()['COLOUR'])"
    environ = {**os.environ, "OPENAI_API_KEY": "secret", "COLOUR": "red"}

    stdout = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    ).stdout

    assert stdout.split() == ["False", "red"]
