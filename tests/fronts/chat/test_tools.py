"""Each tool by itself: what it gives, what it refuses, and that a refusal says what to do instead."""

import os
import stat
import time
import tracemalloc
from pathlib import Path

import pytest

from ebbtide.fronts.chat.tools import TOOLS, Arguments, ToolError, ToolState
from ebbtide.fronts.chat.tools.bash import report_ended_commands, stop_all
from ebbtide.fronts.chat.tools.files import replace_text, show_change
from ebbtide.fronts.chat.tools.processes import truncate_output

NAMED = {tool.name: tool for tool in TOOLS}


@pytest.fixture
def state(tmp_path: Path):
    made = ToolState(root=Path(os.path.realpath(tmp_path)))
    yield made
    stop_all(made)


def run(state: ToolState, name: str, **given: object):
    return NAMED[name].run(state, Arguments(given))


def refused(state: ToolState, name: str, **given: object) -> str:
    with pytest.raises(ToolError) as why:
        run(state, name, **given)
    return str(why.value)


def running(pid: int) -> bool:
    """A process that has ended may wait a moment for somebody to hear of it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


# --- read ------------------------------------------------------------------------------------------------------


def test_read_numbers_lines_and_accepts_a_range(state):
    (state.root / "a.txt").write_text("one\ntwo\nthree\n")

    assert run(state, "read", path="a.txt").text == "     1\tone\n     2\ttwo\n     3\tthree"
    assert run(state, "read", path="a.txt", offset=2, limit="1").text == "     2\ttwo"


def test_read_refuses_a_large_file_until_a_range_is_given(state):
    (state.root / "big.log").write_text("a line of the log\n" * 20_000)

    assert "`offset` and `limit`" in refused(state, "read", path="big.log")
    assert run(state, "read", path="big.log", offset=19_999, limit=5).text.count("\n") == 1


def test_reading_one_line_needs_no_more_memory_than_is_shown_however_long_it_is(state):
    """A file may be one line. 8 MB of it stand for any size: what is held does not grow with it."""
    length = 8 * 1024 * 1024
    (state.root / "one.json").write_bytes(b"x" * length + b"\nlast\n")

    tracemalloc.start()
    try:
        first = run(state, "read", path="one.json", offset=1, limit=1).text
        last = run(state, "read", path="one.json", offset=2, limit=1).text
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert first == f"     1\t{'x' * 2_000} [line cut]"
    assert last == "     2\tlast"
    assert peak < length / 10


def test_a_nul_far_into_a_line_shows_that_it_is_no_text(state):
    (state.root / "late.bin").write_bytes(b"x" * 100_000 + b"\0" + b"x" * 100_000)

    assert "not text" in refused(state, "read", path="late.bin", offset=1, limit=1)


def test_read_refuses_more_than_25000_tokens_even_below_the_byte_limit(state):
    (state.root / "dense.txt").write_text("x1 y2 z3 q4\n" * 15_000)

    assert (state.root / "dense.txt").stat().st_size < 256 * 1024
    assert "25,000" in refused(state, "read", path="dense.txt")


def test_read_refuses_binary_data_folders_and_missing_files(state):
    (state.root / "raw.bin").write_bytes(b"ab\0cd\n")

    assert "not text" in refused(state, "read", path="raw.bin")
    assert "directory" in refused(state, "read", path=".")
    assert "no file" in refused(state, "read", path="gone.py")
    assert "`path`" in refused(state, "read")


# --- write and edit --------------------------------------------------------------------------------------------


def test_write_creates_folders_and_a_known_file_may_be_replaced(state):
    assert run(state, "write", path="deep/er/a.py", content="x = 1\n").text == "Created deep/er/a.py, 1 line."
    assert run(state, "write", path="deep/er/a.py", content="x = 2\n").text.startswith("Replaced")
    assert (state.root / "deep/er/a.py").read_text() == "x = 2\n"
    assert not list(state.root.glob("**/.ebb-*"))


def test_a_file_that_was_not_read_or_has_changed_since_is_not_overwritten(state):
    target = state.root / "a.py"
    target.write_text("theirs\n")

    assert "Read it first" in refused(state, "write", path="a.py", content="mine\n")
    run(state, "read", path="a.py")
    os.utime(target, ns=(1, 1))
    assert "changed on disk" in refused(state, "edit", path="a.py", old="theirs", new="mine")
    assert target.read_text() == "theirs\n"


def test_an_edit_keeps_the_mode_and_shows_the_place(state):
    target = state.root / "run.sh"
    target.write_text("a\nb\nc\nd\ne\nf\n")
    target.chmod(0o755)
    run(state, "read", path="run.sh")

    text = run(state, "edit", path="run.sh", old="d\n", new="D\nDD\n").text

    assert target.read_text() == "a\nb\nc\nD\nDD\ne\nf\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o755
    assert text.splitlines()[1:] == ["     2\tb", "     3\tc", "     4\tD", "     5\tDD", "     6\te", "     7\tf"]


def test_replacing_needs_one_match_or_all():
    assert replace_text("a b a", "b", "c", everywhere=False) == "a c a"
    assert replace_text("a b a", "a", "c", everywhere=True) == "c b c"
    assert replace_text("a\r\nb\r\n", "a\nb", "c\nd", everywhere=False) == "c\r\nd\r\n"
    for whole, old, new, word in (
        ("a a", "a", "b", "2 times"),
        ("a", "z", "b", "does not occur"),
        ("a", "a", "a", "same"),
    ):
        with pytest.raises(ToolError, match=word):
            replace_text(whole, old, new, everywhere=False)


def test_an_excerpt_after_a_deletion_at_the_end_is_not_the_whole_file():
    before = "".join(f"{n}\n" for n in range(100))

    assert show_change(before, before[:-3]).splitlines()[0] == "    98\t97"


# --- bash ------------------------------------------------------------------------------------------------------


def test_bash_gives_output_and_exit_code(state):
    assert run(state, "bash", command="echo hello; echo there >&2").text == "hello\nthere"
    failed = run(state, "bash", command="echo no; exit 3")
    assert (failed.text, failed.is_error) == ("Exit code 3\nno", True)
    assert run(state, "bash", command="true").text == "(no output)"


def test_bash_keeps_250_lines_and_says_how_many_bytes_there_were(state):
    text = run(state, "bash", command="seq 1 1000").text

    assert text.splitlines()[249] == "250"
    assert "251" not in text
    assert text.endswith("[Output truncated, 3893 bytes total. Save to file with > if you need full output.]")


def test_output_without_line_ends_is_limited_too(state):
    text = run(state, "bash", command="head -c 1000000 /dev/zero | tr '\\0' x").text

    assert len(text) < 31_000
    assert "1000000 bytes total" in text


def test_a_command_over_its_time_is_ended_with_all_its_children(state):
    told = run(state, "bash", command="sleep 60 & echo $! > child; echo begun; sleep 60", timeout=1)

    assert told.is_error
    assert told.text == "begun\n[Ended: it ran longer than 1 s.]"
    assert not running(int((state.root / "child").read_text()))


def test_a_command_ends_when_the_person_says_so(state):
    state.stop.set()

    assert run(state, "bash", command="sleep 60").text == "[Interrupted by the user.]"


def test_background_commands_are_inspected_reported_and_stopped(state):
    assert "as b1" in run(state, "bash", command="echo up; sleep 60", background=True).text
    assert "as b2" in run(state, "bash", command="exit 4", background=True).text
    deadline = time.monotonic() + 60
    while (
        state.background["b2"].exit_code is None or not state.background["b1"].total
    ) and time.monotonic() < deadline:
        time.sleep(0.02)

    assert report_ended_commands(state) == "Background command b2 ended with exit code 4."
    assert report_ended_commands(state) == ""
    assert run(state, "bash", task="b1").text == "[b1: still running]\nup"
    assert run(state, "bash", task="b1").text == "[b1: still running]\n(no new output)"
    assert "ended" in run(state, "bash", task="b1", stop=True).text
    assert "b9" in refused(state, "bash", task="b9")


def test_a_shell_command_sees_the_environment_it_was_given(state):
    state.environ = {"PATH": os.defpath + ":/usr/bin:/bin", "COLOUR": "red"}

    assert run(state, "bash", command="echo $COLOUR $HOME").text == "red"


def test_programs_in_the_folder_with_the_names_of_our_tools_are_not_run(state, monkeypatch):
    for name in ("bash", "rg", "grep"):
        (state.root / name).write_text("#!/bin/sh\ntouch sprung\n")
        (state.root / name).chmod(0o755)
    monkeypatch.chdir(state.root)
    monkeypatch.setenv("PATH", os.pathsep.join((".", "", os.environ["PATH"])))
    (state.root / "a.txt").write_text("tide\n")

    assert "tide" in run(state, "grep", pattern="tide", path="a.txt").text
    assert run(state, "bash", command="echo hello").text == "hello"
    assert not (state.root / "sprung").exists()


def test_the_limit_is_exact():
    assert truncate_output(b"abc\n", 4) == "abc"
    assert truncate_output(b"abc\n", 5).startswith("abc\n\n[Output truncated, 5 bytes")


# --- grep and glob ---------------------------------------------------------------------------------------------


def test_grep_finds_by_expression_file_name_and_case(state):
    (state.root / "src").mkdir()
    (state.root / "src/a.py").write_text("import os\nDatum = 1\n")
    (state.root / "notes.md").write_text("datum\n")

    assert run(state, "grep", pattern="[Dd]atum", glob="*.py").text.endswith("src/a.py:2:Datum = 1")
    assert len(run(state, "grep", pattern="datum", ignore_case=True).text.splitlines()) == 2
    assert run(state, "grep", pattern="nowhere").text == "No matches."
    assert run(state, "grep", pattern="(").is_error


def test_a_pattern_that_looks_like_an_option_is_a_pattern(state):
    (state.root / "a.txt").write_text("--version\n")

    assert "a.txt:1:--version" in run(state, "grep", pattern="--version").text


def test_grep_and_glob_do_not_follow_links_out_of_the_workspace(state, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("token\n")
    (state.root / "link").symlink_to(outside)
    (state.root / "own.txt").write_text("token\n")

    assert "secret" not in run(state, "grep", pattern="token").text
    assert run(state, "glob", pattern="**/*.txt").text == "own.txt"
    assert run(state, "glob", pattern="link/*.txt").text == "No files match."
    assert "stay below" in refused(state, "glob", pattern="../*")


def test_glob_gives_what_changed_last_first(state):
    for n, name in enumerate(("old.py", "new.py", "mid.py")):
        (state.root / name).write_text("")
        os.utime(state.root / name, (0, (1, 3, 2)[n]))

    assert run(state, "glob", pattern="*.py").text.split() == ["new.py", "mid.py", "old.py"]


# --- todo, task, recall ----------------------------------------------------------------------------------------


def test_a_todo_list_replaces_the_last_one(state):
    rows = [{"content": "read it", "status": "completed"}, {"content": "mend it", "status": "in_progress"}]

    assert run(state, "todo", todos=rows).text == "[x] read it\n[>] mend it"
    assert run(state, "todo", todos=rows[1:]).text == "[>] mend it"
    assert "status" in refused(state, "todo", todos=[{"content": "x", "status": "perhaps"}])


def test_a_task_is_delegated_once_and_not_further(state):
    asked = []
    state.run_subagent = lambda title, prompt: asked.append((title, prompt)) or "found it"

    assert run(state, "task", title="find", prompt="Where is it?").text == "found it"
    assert asked == [("find", "Where is it?")]
    state.run_subagent = None
    assert "cannot start sub-agents" in refused(state, "task", title="find", prompt="Where?")


def test_recall_is_answered_by_the_engine(state):
    state.recall = lambda name, given: "Error: no such handle" if name == "ebb_read" else "here"

    assert state.run_recall("ebb_recall", Arguments(query="x")).text == "here"
    assert state.run_recall("ebb_read", Arguments(handle="x")).is_error
