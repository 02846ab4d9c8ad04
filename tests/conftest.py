"""Hypothesis profiles: `quick` in CI, `nightly` by EBB_HYPOTHESIS=nightly. And what every test may rely on."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

_CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True, suppress_health_check=_CALM)
settings.register_profile("nightly", max_examples=2000, deadline=None, suppress_health_check=_CALM)
settings.load_profile(os.environ.get("EBB_HYPOTHESIS", "quick"))
if settings().derandomize:
    # Hypothesis also draws what constants it finds in modules of ours that are loaded by then: which those are depends on
    # the tests that a worker had before, and on every change of the code. The same examples each time, or it is chance.
    providers._get_local_constants = lambda: providers._local_constants

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Who runs the tests behind `&` has Ctrl-C ignored, and so would every program that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data() -> Path:
    """The recorded sessions beside the project."""
    if not DATA.is_dir():
        pytest.skip("the recorded sessions are not beside the project")
    return DATA
