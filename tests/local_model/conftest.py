"""A real model for the tests here, or a visible skip."""

from collections.abc import Iterator

import pytest

from local_model.serving import Model, missing, served

WINDOW = 2_048


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    """A llama server with a small window, one for all tests of a worker."""
    if absent := missing():
        pytest.skip(f"no local model: {absent} not installed (requirements/dev.txt has it)")
    with served(WINDOW) as up:
        yield up
