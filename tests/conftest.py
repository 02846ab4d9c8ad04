"""Hypothesis profiles: `quick` in CI, `nightly` by EBB_HYPOTHESIS=nightly."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True, suppress_health_check=_CALM)
settings.register_profile("nightly", max_examples=2000, deadline=None, suppress_health_check=_CALM)
settings.load_profile(os.environ.get("EBB_HYPOTHESIS", "quick"))

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data() -> Path:
    """The recorded sessions beside the project."""
    if not DATA.is_dir():
        pytest.skip("the recorded sessions are not beside the project")
    return DATA
