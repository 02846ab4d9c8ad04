"""One browser and one inspector for all tests of a module. Not of the session: Playwright's loop would stop others'."""

import pytest

from fronts.ui.browser_page import browser
from fronts.ui.inspector import BilledAgent, library, running
from runtime.sessions import EARLY


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of an inspector that only looks: a billed session with edits, a fold and broken caches, and another one."""
    where = tmp_path_factory.mktemp("store")
    BilledAgent(where, session="other", project="/home/me/elsewhere").steps(1)
    talker = BilledAgent(where, policy=EARLY).steps(12)
    talker.context.compact()
    talker.steps(4, first=12)
    with running(library(where)) as found:
        yield found
