"""Facts that a summary must mention or that are listed beside it."""

from __future__ import annotations

from ebbtide.facts import collect_facts, find_missing, required_facts
from facts.fact_items import call, call_and_result

ITEMS = [
    *call_and_result("Read", {"file_path": "/w/only_read.py"}),
    *call_and_result("Edit", {"file_path": "/w/a/main.py", "old_string": "x"}),
    *call_and_result("Edit", {"file_path": "/w/b/util.py", "old_string": "x"}),
    *call_and_result("Edit", {"file_path": "/w/c/util.py", "old_string": "x"}),
    *call_and_result("Bash", {"command": "rm /w/gone.py"}),
    *call_and_result("Bash", {"command": "make check"}, "Exit code 2\nerror: no rule", error=True),
    *call_and_result(
        "TodoWrite", {"todos": [{"content": "Ship It", "status": "pending"}, {"content": "old", "status": "completed"}]}
    ),
    call("Task", {"description": "survey"}, "t1"),
]


def test_changed_files_open_todos_errors_and_running_tasks_are_required() -> None:
    assert [(fact.kind, fact.text) for fact in required_facts(collect_facts(ITEMS))] == [
        ("changed", "/w/a/main.py"),
        ("changed", "/w/b/util.py"),
        ("changed", "/w/c/util.py"),
        ("deleted", "/w/gone.py"),
        ("todo", "Ship It"),
        ("error", "make check: error: no rule"),
        ("running", "survey"),
    ]


def test_a_resolved_error_is_not_required() -> None:
    resolved = collect_facts([*ITEMS, *call_and_result("Bash", {"command": "make check"}, "ok", id="c9")])

    assert "error" not in [fact.kind for fact in required_facts(resolved)]


def test_a_base_name_is_enough_when_only_one_file_has_it() -> None:
    text = "We changed main.py and util.py, removed gone.py. Next: ship it. make check fails; the survey runs."

    assert [fact.text for fact in find_missing(required_facts(collect_facts(ITEMS)), text)] == [
        "/w/b/util.py",
        "/w/c/util.py",
    ]
