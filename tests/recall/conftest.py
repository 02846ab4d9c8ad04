import pytest

from ebbtide.store import DirectoryStore, MemoryStore, PrivateLog


@pytest.fixture(params=["private", "memory", "directory"])
def kept(request, tmp_path):
    """A log, and the store behind it, if any."""
    if request.param == "private":
        return PrivateLog("s", now=1.0), None
    store = MemoryStore() if request.param == "memory" else DirectoryStore(tmp_path)
    return store.open("s", now=1.0), store


@pytest.fixture
def store(tmp_path):
    return DirectoryStore(tmp_path)
