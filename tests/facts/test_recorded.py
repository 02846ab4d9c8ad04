"""Facts of recorded sessions fit the limit and name every changed file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.facts import collect_facts, render_facts
from ebbtide.formats import load
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the recorded sessions are not here")
@pytest.mark.parametrize(
    "name",
    [
        "entireio-cli/375d5d79-9c13-419d-a5fd-72421f2af713.jsonl.gz",
        "entityprocess-agentv/019ed893-d2a6-7c30-a8b8-5a8a49cfa23e.jsonl.gz",
        "badlogic-pi-mono/before-compaction.jsonl.gz",
    ],
)
def test_facts_of_a_recorded_session_name_every_changed_file(name: str) -> None:
    recording = load(DATA / name)
    *_, last = recording.uncompacted()
    items = Reader(estimator=DEFAULT, wire=WIRES[recording.wire]).read(last.request).items
    facts = collect_facts(items)
    text = render_facts(facts, max_tokens=10_000, count=DEFAULT.text)

    assert DEFAULT.text(text) <= 10_000
    modified = [fact.path.rpartition("/")[2] for fact in facts.files.values() if fact.is_modified]
    assert [base for base in modified if base not in text] == []
    assert "Files changed (" not in text
