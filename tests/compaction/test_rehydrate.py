"""What a fold brings back from disk: the right files, as they are now, and none that should stay where it is."""

import os
import socket
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.compaction.rehydrate import read_notes, restore_files, restore_skills

WORDS = "reading = level - datum\n"


def quarter(text):
    return -(-len(text) // 4)


@pytest.fixture
def root(tmp_path):
    home = tmp_path / "project"
    home.mkdir()
    return home


def put(root, name, text="level = 1\n"):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def bring(root, *reads, **options):
    """Paths and texts that came back, and the reasons why others did not."""
    reasons = {}
    files = restore_files(reads, root=root, **{"count": quarter, "report": reasons.__setitem__, **options})
    return {file.path: file.text for file in files}, reasons


# ------------------------------------------------------------------------------------------------ which, how much


def test_the_five_files_read_last_are_restored_newest_first_and_once(root):
    names = [put(root, f"f{n}.py", f"n = {n}\n") for n in range(7)]

    files, _ = bring(root, "f6.py", "f5.py", "f6.py", "./f5.py", *reversed(names))

    assert list(files.items()) == [(f"f{n}.py", f"n = {n}\n") for n in (6, 5, 4, 3, 2)]


def test_a_file_is_restored_with_its_current_content(root):
    put(root, "a.py", "old\n")
    put(root, "a.py", "new\n")

    assert bring(root, str(root / "a.py"))[0] == {"a.py": "new\n"}


def test_each_file_is_cut_to_five_thousand_tokens_of_complete_lines_and_says_so(root):
    put(root, "long.py", WORDS * 2_000)

    (file,) = restore_files(["long.py"], root=root, count=quarter)

    assert file.text == WORDS * (20_000 // len(WORDS))
    assert file.tokens == quarter(file.text) <= 5_000 < quarter(file.text + WORDS)
    assert (file.truncated, file.last, file.lines) == (True, 20_000 // len(WORDS), 2_000)
    assert file.title == "long.py (lines 1-833 of 2000; the rest is omitted)"


def test_a_file_that_fits_is_complete_and_says_so(root):
    put(root, "a.py", "one\ntwo\x0c\nthree")

    (file,) = restore_files(["a.py"], root=root, count=quarter)

    assert (file.text, file.truncated, file.last, file.lines) == ("one\ntwo\x0c\nthree", False, 3, 3)
    assert file.title == "a.py (3 lines, complete)"


def test_fifty_thousand_tokens_in_all(root):
    names = [put(root, f"f{n}.py", "x" * 49 + "\n" + "y" * 4_000 * 4) for n in range(20)]

    files = restore_files(names, root=root, count=quarter, files=20, tokens_each=4_100)

    assert len(files) == 13
    assert sum(file.tokens for file in files) <= 50_000
    assert [one.truncated for one in files] == [False] * 12 + [True]


def test_the_defaults_never_allow_more_than_five_times_five_thousand(root):
    names = [put(root, f"f{n}.py", WORDS * 5_000) for n in range(9)]

    files = restore_files(names, root=root, count=quarter)

    assert len(files) == 5
    assert all(4_990 < file.tokens <= 5_000 for file in files)


def test_a_first_line_that_is_too_long_is_cut_within(root):
    put(root, "bundle.js", "潮" * 30_000)

    (file,) = restore_files(["bundle.js"], root=root, count=len)

    assert file.text == "潮" * 5_000
    assert file.title == "bundle.js (the beginning of line 1; the rest is omitted)"


def test_only_the_beginning_of_a_huge_file_is_read(root):
    """A terabyte, nearly all of it a hole: no memory holds it, and read further it would be found binary."""
    put(root, "huge.log", WORDS * 20_000)
    os.truncate(root / "huge.log", 2**40)

    (file,) = restore_files(["huge.log"], root=root, count=quarter)

    assert file.tokens <= 5_000
    assert (file.truncated, file.lines) == (True, None)
    assert file.title == "huge.log (lines 1-833; the rest is omitted)"


def test_a_character_cut_by_reading_is_not_a_broken_file(root):
    """Thirteen bytes a line, so limits fall inside of characters."""
    put(root, "潮汐.md", "潮位基准\n" * 10_000)

    for each in (11, 12, 13):
        (file,) = restore_files(["潮汐.md"], root=root, count=quarter, tokens_each=each)

        assert file.path == "潮汐.md"
        assert file.text == "潮位基准\n" * (each * 4 // 5)


def test_when_reading_stopped_before_the_cap_the_last_line_is_complete_and_the_file_is_marked_as_cut(root):
    """Blanks: so few tokens that the limit of bytes comes first."""
    put(root, "blank.txt", (" " * 99 + "|\n") * 1_000)

    (file,) = restore_files(["blank.txt"], root=root, count=lambda text: len(text) // 100, tokens_each=50)

    assert file.text == (" " * 99 + "|\n") * (50 * 64 // 101)
    assert (file.truncated, file.lines) == (True, None)


def test_a_byte_order_mark_is_removed(root):
    put(root, "a.cs", b"\xef\xbb\xbfclass A {}\n")

    assert bring(root, "a.cs")[0] == {"a.cs": "class A {}\n"}


@given(st.lists(st.text("ab潮 \n\r\x0c\u2028", max_size=30), max_size=8), st.integers(1, 40), st.integers(1, 90))
def test_restored_text_is_the_beginning_of_the_file_within_its_caps(tmp_path_factory, texts, each, total):
    root = tmp_path_factory.mktemp("root")
    names = [put(root, f"f{n}", text) for n, text in enumerate(texts)]

    files = restore_files(names, root=root, count=quarter, tokens_each=each, tokens_total=total)

    assert len(files) <= 5
    assert sum(file.tokens for file in files) <= total
    for one in files:
        text = texts[int(one.path[1:])]
        assert text.startswith(one.text)
        assert one.tokens == quarter(one.text) <= each
        assert one.truncated == (one.text != text)
        assert not one.truncated or one.text.endswith("\n") or "\n" not in one.text


# --------------------------------------------------------------------------------------------------- which do not


def test_a_file_that_cannot_be_restored_makes_room_for_the_next(root):
    put(root, "logo.png", b"\x89PNG\r\n\0\0")
    put(root, "old.txt", "Größe".encode("latin-1"))
    put(root, "empty.py", "\n")
    (root / "src").mkdir()
    put(root, "a.py")

    files, reasons = bring(root, "gone.py", "logo.png", "old.txt", "empty.py", "src", "a.py", files=1)

    assert list(files) == ["a.py"]
    assert reasons["logo.png"] == "binary"
    assert reasons["empty.py"] == "empty"
    assert reasons["src"] == "not a regular file"
    assert set(reasons) == {"gone.py", "logo.png", "old.txt", "empty.py", "src"}


@pytest.mark.parametrize(
    "name",
    [
        *(".env", "app/.ENV", ".env.production", "deploy/server.pem", "id_rsa", "keys/id_ed25519.pub", ".netrc"),
        *(".git/config", "vendor/.git/HEAD", "node_modules/x/index.js", ".ssh/config", ".aws/credentials"),
    ],
)
def test_secrets_and_other_peoples_trees_are_denied(root, name):
    put(root, name, "PASSWORD=hunter2\n")

    files, reasons = bring(root, name)

    assert not files
    assert reasons == {name: "denied"}


def test_names_that_only_look_like_secrets_are_not_denied(root):
    names = [
        put(root, name) for name in ("environment.py", "git/config", "keys.py", "my_node_modules/a.js", "docs/venv")
    ]

    assert list(bring(root, *names)[0]) == names


@pytest.mark.parametrize(("pattern", "denied"), [("private/", 2), ("private/*.sql", 1), ("*.sql", 1), ("docs/x/", 1)])
def test_a_caller_says_what_else_is_denied(root, pattern, denied):
    names = [put(root, name) for name in ("private/a.sql", "private/b.py", "docs/x/c.md", "docs/d.md")]

    _, reasons = bring(root, *names, deny=[pattern])

    assert list(reasons.values()) == ["denied"] * denied


def test_a_link_leads_neither_out_of_the_root_nor_to_what_is_denied(root, tmp_path):
    put(tmp_path, "outside/passwd", "root:x:0\n")
    put(root, ".env", "PASSWORD=hunter2\n")
    put(root, "config/production", "PASSWORD=hunter2\n")
    (root / "notes.txt").symlink_to(root / ".env")
    (root / ".env.local").symlink_to("config/production")
    (root / "way.txt").symlink_to(tmp_path / "outside" / "passwd")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "round").symlink_to("round")

    out = ("way.txt", "folder/passwd", "../outside/passwd", str(tmp_path / "outside" / "passwd"), "/etc/hostname")
    files, reasons = bring(root, *out, "notes.txt", ".env.local", "round")

    assert not files
    assert {reasons[name] for name in out if os.path.exists(root / name)} == {"lies outside the project"}
    assert reasons["notes.txt"] == reasons[".env.local"] == "denied"
    assert "round" in reasons


def test_a_link_within_the_root_is_the_file_it_leads_to(root):
    put(root, "src/a.py")
    (root / "latest").symlink_to("src/a.py")

    assert list(bring(root, "latest", "src/a.py")[0]) == ["src/a.py"]


def test_a_root_that_is_a_link_itself_is_followed(root, tmp_path):
    put(root, "a.py")
    put(root, "config/production")
    (root / ".env").symlink_to("config/production")
    (tmp_path / "alias").symlink_to(root)

    files, reasons = bring(tmp_path / "alias", str(tmp_path / "alias" / "a.py"), str(tmp_path / "alias" / ".env"))

    assert list(files) == ["a.py"]
    assert list(reasons.values()) == ["denied"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_a_socket_and_a_device_are_not_waited_for(root, monkeypatch):
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # a socket's name is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        files, reasons = bring(root, "pipe", "socket")
    null, told = bring("/dev", "null")

    assert not files
    assert not null
    assert {*reasons.values(), *told.values()} == {"not a regular file"}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_skipped(root):
    put(root, "locked.py")
    (root / "locked.py").chmod(stat.S_IWUSR)

    files, reasons = bring(root, "locked.py")

    assert not files
    assert "locked.py" in reasons


@pytest.mark.parametrize("name", ["a\0b", "\ud800.py", "x" * 5_000, "", ".", "..", "a.py/b.py", "~/a.py"])
def test_a_name_that_is_none_is_skipped(root, name):
    put(root, "a.py")

    files, reasons = bring(root, name, "a.py")

    assert list(files) == ["a.py"]
    assert name in reasons


# ---------------------------------------------------------------------------------------------- skills and the rest


def test_skills_in_use_are_restored_and_only_from_their_folder(root, tmp_path):
    put(root, "skills/review/SKILL.md", "Look twice.\n")
    put(root, "skills/deploy/SKILL.md", "Ask first.\n")
    put(tmp_path, "evil/SKILL.md", "Obey.\n")

    found = restore_skills(root / "skills", ["review", "gone", "../../evil"], count=quarter)

    assert [(one.path, one.text) for one in found] == [("review/SKILL.md", "Look twice.\n")]


def test_live_sources_keep_their_order_and_a_failing_one_becomes_a_note():
    def broken():
        raise RuntimeError("no database")

    sources = {
        "instructions": lambda: [("AGENTS.md", "Use tabs."), ("sub/AGENTS.md", "Use spaces.")],
        "plan": lambda: "1. measure",
        "mode": lambda: " \n",
        "to-dos": broken,
        "wrong": lambda: 7,
    }

    notes = read_notes(sources, count=quarter)

    assert [(note.name, note.text, note.tokens) for note in notes[:3]] == [
        ("instructions: AGENTS.md", "Use tabs.", 3),
        ("instructions: sub/AGENTS.md", "Use spaces.", 3),
        ("plan", "1. measure", 3),
    ]
    assert [(one.name, one.text, one.note) for one in notes[3:4]] == [("to-dos", "", "RuntimeError: no database")]
    assert notes[4].note.startswith("TypeError")
