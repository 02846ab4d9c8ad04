"""File actions are guessed from the words of a command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.facts.tool_calls import shell_actions


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a.py b.py", "read a.py, read b.py"),
        ("cat -n a.py | head -5", "read a.py"),
        ("head -n 20 a.py", "read a.py 1-20"),
        ("head -40 a.py", "read a.py 1-40"),
        ("tail -n +3 a.py", "read a.py"),
        ("sed -n '10,20p' src/a.py", "read src/a.py 10-20"),
        ("nl -ba a.py | sed -n '1,5p'", "read a.py"),
        ("sed -i 's/a/b/' a.py", "change a.py"),
        ("sed -i '' 's/a/b/' a.py", "change a.py"),
        ("cd /w/src && cat ../a.py", "read /w/a.py"),
        ("echo hi > out.txt", "create out.txt"),
        ("echo hi >> out.txt 2>&1", "change out.txt"),
        ("make > /dev/null 2>&1", ""),
        ("make 2> err.log", "create err.log"),
        ("ls | tee list.txt", "create list.txt"),
        ("rm -rf build/x.o", "delete build/x.o"),
        ("mv a.py b.py", "delete a.py, create b.py"),
        ("cp a.py lib/", "create lib/a.py"),
        ("touch a.py", "create a.py"),
        ("git rm a.py && git mv b.py c.py", "delete a.py, delete b.py, create c.py"),
        ("git checkout -- a.py", "change a.py"),
        ("git checkout main", ""),
        ("git restore a.py", "change a.py"),
        ("cat > a.py <<'EOF'\nrm b.py\nEOF\ncat c.py", "create a.py, read c.py"),
        ("cat <<EOF >> a.py\nx\nEOF", "change a.py"),
        (
            "rm b.py\ncat <<A > a.py\nx\nA\ncat c.py; cat >d.py <<-'B'\n> e.py\nB",
            "delete b.py, create a.py, read c.py, create d.py",
        ),
        ("cat > a.py\ncat <<< word", "create a.py"),
        ("git apply <<'P'\n--- a/x.py\n+++ b/x.py\n@@\nP", "change x.py"),
        ("FOO=1 sudo cat a.py", "read a.py"),
        ("for f in *.py; do cat $f; done", ""),
        ('git commit -m "first\nrm a.py"', ""),
        ("grep -n foo a.py", ""),
        ("echo 'it > works'", ""),
        ("cat 'with space.txt'", "read with space.txt"),
        ("cat 数据.txt", "read 数据.txt"),
        ('cat a.py\necho "never closed\ncat b.py', "read a.py, read b.py"),
    ],
)
def test_file_actions_of_a_command(command: str, expected: str) -> None:
    actions = [
        f"{action.verb} {action.path}"
        + (f" {action.line_range.first}-{action.line_range.last}" if action.line_range.first else "")
        for action in shell_actions(command)
    ]
    assert sorted(actions) == sorted(filter(None, expected.split(", ")))


@given(st.text(alphabet=st.sampled_from("cat rm'\"<>|&;$()\n\\EOF<<-*"), max_size=60))
def test_any_text_can_be_read_as_a_command(command: str) -> None:
    for action in shell_actions(command):
        assert action.path
        assert "\n" not in action.path
