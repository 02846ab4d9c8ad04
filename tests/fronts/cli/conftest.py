import pytest

from fronts.cli.terminal import Ebb


@pytest.fixture
def ebb(monkeypatch, tmp_path):
    return Ebb(monkeypatch, tmp_path)
