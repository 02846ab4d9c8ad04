import pytest

from store.stores import STORES


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    """Each store in turn: what it promises is tested for all alike."""
    return STORES[request.param](tmp_path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "index.sqlite"
