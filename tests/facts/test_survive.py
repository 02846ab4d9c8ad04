"""What a summary must name, or the fold shows it."""

from __future__ import annotations

from ebbtide.facts import collect_facts, find_missing, required_facts
from facts.ledger_items import call, used

ITEMS = [
    *used("Read", {"file_path": "/w/only_read.py"}),
    *used("Edit", {"file_path": "/w/a/main.py", "old_string": "x"}),
    *used("Edit", {"file_path": "/w/b/util.py", "old_string": "x"}),
    *used("Edit", {"file_path": "/w/c/util.py", "old_string": "x"}),
    *used("Bash", {"command": "rm /w/gone.py"}),
    *used("Bash", {"command": "make check"}, "Exit code 2\nerror: no rule", error=True),
    *used(
        "TodoWrite", {"todos": [{"content": "Ship It", "status": "pending"}, {"content": "old", "status": "completed"}]}
    ),
    call("Task", {"description": "survey"}, "t1"),
]


def test_changed_files_open_todos_errors_and_what_runs_must_survive() -> None:
    assert [(fact.kind, fact.text) for fact in required_facts(collect_facts(ITEMS))] == [
        ("changed", "/w/a/main.py"),
        ("changed", "/w/b/util.py"),
        ("changed", "/w/c/util.py"),
        ("deleted", "/w/gone.py"),
        ("todo", "Ship It"),
        ("error", "make check: error: no rule"),
        ("running", "survey"),
    ]


def test_an_error_that_is_over_need_not_survive() -> None:
    mended = collect_facts([*ITEMS, *used("Bash", {"command": "make check"}, "ok", id="c9")])

    assert "error" not in [fact.kind for fact in required_facts(mended)]


def test_a_base_name_is_enough_where_only_one_file_has_it() -> None:
    text = "We changed main.py and util.py, removed gone.py. Next: ship it. make check fails; the survey runs."

    assert [fact.text for fact in find_missing(required_facts(collect_facts(ITEMS)), text)] == [
        "/w/b/util.py",
        "/w/c/util.py",
    ]
