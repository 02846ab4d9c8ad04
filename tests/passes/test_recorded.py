"""Real sessions: every pass alone, and all of them together, propose only what the view accepts."""

from pathlib import Path

import pytest

import ebbtide
from ebbtide.core.planner import make_plan
from ebbtide.core.stub import BlobNames
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.view import View
from ebbtide.passes import ARRIVAL, PASSES
from ebbtide.wire.reader import Reader
from talk import budget, let, situation

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
FOLDERS = ("entireio-cli", "entireio-skills", "moonshot-kimi-cli", "badlogic-pi-mono", "swe-agent-demos")
SHELF = BlobNames(directory="/kept")

pytestmark = [pytest.mark.data, pytest.mark.skipif(not DATA.is_dir(), reason="the recorded sessions are not here")]


@pytest.fixture(params=FOLDERS)
def view(request):
    """The last request of a folder's smallest session, had its client never compacted."""
    path = min((DATA / request.param).iterdir(), key=lambda path: path.stat().st_size)
    *_, call = ebbtide.load(path).uncompacted()
    return View.of(Reader(estimator=DEFAULT).read(call.request).items)


def test_each_pass_is_accepted_and_quiet_on_its_own_output(view):
    within = budget(max(2_000, view.tokens // 2))
    for propose in PASSES:
        after = let(propose, view, situation(view, within=within, blob_names=SHELF))

        assert let(propose, after, situation(after, within=within, blob_names=SHELF)).edits == after.edits


def test_all_passes_together_are_never_refused(view):
    within = budget(max(2_000, view.tokens // 2))
    now = situation(view, within=within, blob_names=SHELF, trigger="manual", target=0)
    plan = make_plan(view, [propose for propose in PASSES if propose not in ARRIVAL], within, now, arrival=ARRIVAL)

    assert plan.rejected == ()
    assert plan.after.tokens < view.tokens
