"""What holds of all passes together."""

import ast
from pathlib import Path

import pytest

import ebbtide.passes
from ebbtide.core.planner import make_plan
from ebbtide.core.stub import BlobNames
from ebbtide.core.view import View
from ebbtide.passes import ARRIVAL, PASSES
from talk import budget, situation, talk

FOLDER = Path(ebbtide.passes.__file__).parent
FILES = sorted(path for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "when"))


def test_every_pass_is_listed():
    assert {propose.__module__.rpartition(".")[2] for propose in PASSES} == {path.stem for path in FILES}
    assert len(set(PASSES)) == len(PASSES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_pass_imports_another(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]

    assert not [name for name in imported if name.startswith("ebbtide.passes")]


LINES = (
    *("user:go", "+image:1500", "think:hm", "say:900"),
    *("call:Read a.py", "call:Write 3000", "call:bash", "result:9000", "result:ok", "result:30000"),
    *("say:ok", "user:more", *("call:Read a.py", "result:9000") * 5, "media result#zz:40", "say:1200"),
    *("user:and", "pinned user:never lose this", "call:grep x", "call:grep y", "result:20000", "result:700"),
)


def test_passes_in_sequence_are_never_refused_and_every_pair_stays_together():
    view, within = View.of(talk(*LINES)), budget(20_000)
    now = situation(view, within=within, blob_names=BlobNames(directory="/kept"), trigger="manual", target=0)
    plan = make_plan(view, [propose for propose in PASSES if propose not in ARRIVAL], within, now, arrival=ARRIVAL)

    assert plan.rejected == ()
    assert plan.tokens_after < plan.tokens_before / 5
    sides = [[entry.call_id for entry in plan.after.entries if entry.kind == kind] for kind in ("call", "result")]
    assert sorted([*sides[0], "zz"]) == sorted([*sides[1], *([] if "zz" in sides[1] else ["zz"])])
    names = [(blob.name, blob.text) for edit in plan.edits for blob in edit.blobs]
    assert len({name for name, _ in names}) == len(set(names))
    assert "never lose this" in [entry.text for entry in plan.after.entries]


def test_together_they_are_quiet_the_second_time():
    view, within = View.of(talk(*LINES)), budget(20_000)
    now = situation(view, within=within, blob_names=BlobNames(directory="/kept"), trigger="manual", target=0)
    passes = [propose for propose in PASSES if propose not in ARRIVAL]
    plan = make_plan(view, passes, within, now, arrival=ARRIVAL)
    after = View.of(view.originals, plan.edits)
    again = make_plan(
        after, passes, within, situation(after, within=within, trigger="manual", target=0), arrival=ARRIVAL
    )

    assert plan.edits
    assert again.edits == ()
