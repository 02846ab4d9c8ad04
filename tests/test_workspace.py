"""The surroundings are looked at once, from the general to the particular, and nothing leads out of them."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from ebbtide.assembly import Conversation, frames
from ebbtide.workspace import (
    FILE_CAP,
    FILES_CAP,
    _refuse_link_local,
    changed_files,
    facts,
    fetch_text,
    file_times,
    gather_attachments,
    git_status,
    instructions,
    limit_lines,
    look_around,
)


class Site(BaseHTTPRequestHandler):
    """A small real server. `asked` keeps every path that was asked for."""

    asked: list[str]
    elsewhere: str

    def do_GET(self) -> None:
        self.asked.append(self.path)
        moved = {
            "/moved": "/rules",
            "/away": f"{self.elsewhere}/rules",
            "/loop": "/loop",
            "/file": "file:///etc/passwd",
        }
        if self.path in moved:
            self.send_response(302)
            self.send_header("Location", moved[self.path])
            self.end_headers()
            return
        if self.path == "/drip":
            self.drip()
            return
        bodies = {"/rules": b"be brief", "/huge": b"x" * (FILE_CAP + 1), "/binary": b"a\0b", "/latin": b"caf\xe9"}
        self.send_response(200 if self.path in bodies else 404)
        self.end_headers()
        self.wfile.write(bodies.get(self.path, b"no"))

    def drip(self) -> None:
        """A byte at a time, each well within any time-out, until the other side hangs up."""
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(200):
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.05)

    def log_message(self, *args: object) -> None:
        pass


def serve(elsewhere: str = "") -> tuple[ThreadingHTTPServer, list[str], str]:
    asked: list[str] = []
    handler = type("Handler", (Site,), {"asked": asked, "elsewhere": elsewhere})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, asked, f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[str, list[str]]]:
    """An address, and the paths that the *other* host, to which `/away` leads, was asked for."""
    other, asked, elsewhere = serve()
    server, _, address = serve(elsewhere)
    yield address, asked
    for one in (server, other):
        one.shutdown()
        one.server_close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """home, config and a project with a package in it."""
    for folder in ("home/.claude", "config", "home/app/.git", "home/app/pkg"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path / "home" / "app"


def found(project: Path, cwd: Path | None = None, **settings: Any) -> list[tuple[str, str]]:
    base = project.parent.parent
    got = instructions(cwd or project, home=base / "home", config_dir=base / "config", **settings)
    return [(os.path.relpath(source, base) if "://" not in source else source, text) for source, text in got]


# -------------------------------------------------------------------------------------------------- instructions


def test_instructions_go_from_the_general_to_the_particular(project: Path) -> None:
    base = project.parent.parent
    (base / "config/AGENTS.md").write_text("config")
    (base / "home/.claude/CLAUDE.md").write_text("global")
    (project / "AGENTS.md").write_text("root")
    (project / "pkg/CLAUDE.md").write_text("package")
    (project / "extra.md").write_text("extra")

    told = found(project, project / "pkg", extra_paths=["extra.md"], urls=["http://x/"], fetch=lambda url, _: "web")

    assert told == [
        ("config/AGENTS.md", "config"),
        ("home/.claude/CLAUDE.md", "global"),
        ("home/app/AGENTS.md", "root"),
        ("home/app/pkg/CLAUDE.md", "package"),
        ("home/app/extra.md", "extra"),
        ("http://x/", "web"),
    ]


def test_the_first_name_speaks_for_its_directory_unless_all_are_asked_for(project: Path) -> None:
    for name in ("CONTEXT.md", "CLAUDE.md", "AGENTS.md"):
        (project / name).write_text(name)

    assert [text for _, text in found(project)] == ["AGENTS.md"]
    assert [text for _, text in found(project, rule="all")] == ["AGENTS.md", "CLAUDE.md", "CONTEXT.md"]


def test_nothing_above_the_project_is_read(project: Path) -> None:
    (project.parent / "AGENTS.md").write_text("above")
    skipped: list[str] = []

    assert found(project, project / "pkg", report=lambda source, _: skipped.append(source)) == []
    assert skipped == []


def test_outside_a_project_only_the_directory_itself_is_read(project: Path) -> None:
    """Anyone can write to a shared parent."""
    folder = project.parent.parent / "tmp" / "work"
    folder.mkdir(parents=True)
    (folder.parent / "AGENTS.md").write_text("planted")
    (folder / "AGENTS.md").write_text("mine")

    assert [text for _, text in found(project, folder)] == ["mine"]


def test_a_link_out_of_the_project_is_refused_and_reported(project: Path) -> None:
    secret = project.parent / ".netrc"
    secret.write_text("password")
    (project / "AGENTS.md").symlink_to(secret)
    skipped: list[tuple[str, str]] = []

    assert found(project, report=lambda *told: skipped.append(told)) == []
    assert skipped == [(str(project / "AGENTS.md"), "a link leads out of the project")]


def test_a_link_inside_the_project_is_followed_and_read_once(project: Path) -> None:
    (project / "CLAUDE.md").write_text("rules")
    (project / "AGENTS.md").symlink_to("CLAUDE.md")

    assert [text for _, text in found(project, rule="all")] == ["rules"]


@pytest.mark.parametrize("pattern", ["../.netrc", "out/.netrc", "../*"])
def test_a_relative_pattern_stays_in_the_project(project: Path, pattern: str) -> None:
    (project.parent / ".netrc").write_text("password")
    (project.parent / "visible").write_text("password")
    (project / "out").symlink_to(project.parent)

    assert found(project, extra_paths=[pattern], report=lambda *_: None) == []


def test_patterns_may_name_what_is_the_users_and_nobody_elses(project: Path) -> None:
    (project.parent / "mine.md").write_text("mine")
    (project.parent.parent / "theirs.md").write_text("theirs")
    skipped: list[str] = []
    patterns = ["~/mine.md", str(project.parent.parent / "theirs.md"), "missing.md"]

    told = found(project, extra_paths=patterns, report=lambda source, _: skipped.append(source))

    assert [text for _, text in told] == ["mine"]
    assert skipped == ["missing.md", patterns[1]]


def test_a_pattern_gives_its_files_in_order_and_not_without_end(project: Path) -> None:
    odd = project / "docs[1]"
    odd.mkdir()
    for n in range(FILES_CAP + 3):
        (odd / f"{n:03}.md").write_text(f"rule {n}")
    (odd / ".git").mkdir()
    skipped: list[str] = []

    told = found(project, odd, extra_paths=["*.md"], report=lambda _, reason: skipped.append(reason))

    assert [text for _, text in told] == [f"rule {n}" for n in range(FILES_CAP)]
    assert len(skipped) == 1


@pytest.mark.parametrize("data", [b"a\0b", b"caf\xe9", b"x" * (FILE_CAP + 1)])
def test_what_is_not_a_text_of_sane_length_is_skipped_whole(project: Path, data: bytes) -> None:
    (project / "AGENTS.md").write_bytes(data)
    skipped: list[str] = []

    assert found(project, report=lambda source, _: skipped.append(source)) == []
    assert len(skipped) == 1


def test_a_pipe_does_not_keep_the_session_waiting(project: Path) -> None:
    pipe = project.parent.parent / "config/AGENTS.md"
    os.mkfifo(pipe)
    skipped: list[tuple[str, str]] = []

    assert found(project, report=lambda *told: skipped.append(told)) == []
    assert skipped == [(str(pipe), "not a regular file")]


def test_skipped_sources_are_logged_where_nobody_listens(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    (project / "AGENTS.md").write_bytes(b"\0")
    with caplog.at_level(logging.WARNING):
        found(project)

    assert "AGENTS.md: binary" in caplog.text


# ----------------------------------------------------------------------------------------------------- addresses


def test_a_text_is_fetched_and_may_move_within_its_host(site: tuple[str, list[str]]) -> None:
    assert fetch_text(f"{site[0]}/rules", 5) == "be brief"
    assert fetch_text(f"{site[0]}/moved", 5) == "be brief"


@pytest.mark.parametrize("path", ["/away", "/file", "/loop", "/huge", "/binary", "/latin", "/nothing"])
def test_what_an_address_may_not_do_skips_it_and_is_reported(
    project: Path, site: tuple[str, list[str]], path: str
) -> None:
    skipped: list[str] = []

    told = found(project, urls=[site[0] + path, f"{site[0]}/rules"], report=lambda source, _: skipped.append(source))

    assert told == [(f"{site[0]}/rules", "be brief")]
    assert skipped == [site[0] + path]
    assert site[1] == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://x/y", "http:///x", "http://me:secret@127.0.0.1:1/", "rules"]
)
def test_only_plain_web_addresses_are_asked(url: str) -> None:
    with pytest.raises(ValueError):
        fetch_text(url, 5)


def test_a_server_that_drips_is_not_waited_for(site: tuple[str, list[str]]) -> None:
    with pytest.raises(TimeoutError):
        fetch_text(f"{site[0]}/drip", 0.3)


@pytest.mark.parametrize("peer", ["169.254.169.254", "fe80::1%eth0", "::ffff:169.254.1.1"])
def test_a_machines_own_credential_service_is_never_asked(peer: str) -> None:
    """The check is on the open connection, before a byte is sent: names can be made to resolve to it."""
    connection: Any = Opened(peer)
    with pytest.raises(URLError, match="link-local"):
        _refuse_link_local(connection)
    assert connection.closed


class Opened:
    """A connection to somewhere this machine cannot really connect to."""

    def __init__(self, peer: str) -> None:
        self.peer, self.sock, self.closed = peer, self, False

    def getpeername(self) -> tuple[str, int]:
        return self.peer, 80

    def close(self) -> None:
        self.closed = True


def test_an_address_that_hangs_is_left_behind(project: Path) -> None:
    never = threading.Event()
    skipped: list[tuple[str, str]] = []

    def fetch(url: str, timeout: float) -> str:
        if url == "http://slow/":
            never.wait()
        return "rules"

    told = found(
        project,
        urls=["http://slow/", "http://quick/"],
        fetch=fetch,
        timeout=0.2,
        report=lambda *one: skipped.append(one),
    )

    assert told == [("http://quick/", "rules")]
    assert skipped == [("http://slow/", "took too long")]
    never.set()


# ----------------------------------------------------------------------------------------------------------- git


def git(cwd: Path, *words: str, say: str = "") -> str:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=a@b", *words]
    return subprocess.run(command, cwd=cwd, input=say, text=True, check=True, capture_output=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "trunk")
    git(tmp_path, "config", "user.name", "Ada")
    (tmp_path / "a.txt").write_text("a")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_git_tells_branch_user_status_and_commits(repository: Path) -> None:
    (repository / "new.txt").write_text("n")

    lines = git_status(repository).splitlines()

    assert lines[1:5] == ["Branch: trunk", "User: Ada", "Status:", "?? new.txt"]
    assert lines[5] == "Recent commits:"
    assert lines[6].endswith(" first")


def test_a_clean_tree_says_so_and_a_large_one_is_cut_at_a_line(repository: Path) -> None:
    assert "(clean)" in git_status(repository)
    for n in range(400):
        (repository / f"file{n:03}.txt").write_text("")

    status = git_status(repository)

    kept = [line for line in status.splitlines() if line.startswith("?? ")]
    assert all(len(line) == len("?? file000.txt") for line in kept)
    assert f"({400 - len(kept)} more: run git status)" in status


def test_outside_a_repository_git_says_nothing(tmp_path: Path) -> None:
    assert git_status(tmp_path) == ""


def sign(repository: Path) -> None:
    """Puts a signature on the last commit, which git checks by running a program the repository names."""
    commit = git(repository, "cat-file", "commit", "HEAD")
    head, _, message = commit.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    signed = git(repository, "hash-object", "-w", "-t", "commit", "--stdin", say=f"{head}\n{signature}\n\n{message}")
    git(repository, "update-ref", "HEAD", signed.strip())


def test_programs_that_a_repository_names_are_not_run(repository: Path) -> None:
    sign(repository)
    trap = repository.parent / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {repository.parent}/sprung\n")
    trap.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(trap))
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "gpg.program", str(trap))

    assert "Branch: trunk" in git_status(repository)
    assert not (repository.parent / "sprung").exists()


# -------------------------------------------------------------------------------------------- files, attachments


def test_files_changed_between_turns_are_found_by_their_time(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("same", "changed", "gone", "made")]
    for path in paths[:3]:
        Path(path).write_text("x")
    before = file_times(paths)
    os.utime(paths[1], ns=(1, 1))
    os.remove(paths[2])
    Path(paths[3]).write_text("x")

    changed = changed_files(before)

    assert changed == {paths[1]: 1, paths[2]: None, paths[3]: os.stat(paths[3]).st_mtime_ns}
    assert changed_files({**before, **changed}) == {}


def test_attachments_come_in_the_order_asked_for_whichever_is_ready_first() -> None:
    second_done = threading.Event()

    def slow() -> str:
        second_done.wait()
        return "one"

    def quick() -> str:
        second_done.set()
        return "two"

    told = gather_attachments({"todo": slow, "files": quick, "team": lambda: " "}, timeout=10)

    assert told == [("attachment:todo", "one"), ("attachment:files", "two")]


def test_a_broken_or_late_attachment_is_left_out_and_reported() -> None:
    never = threading.Event()
    skipped: list[tuple[str, str]] = []

    def late() -> str:
        never.wait()
        return "late"

    told = gather_attachments(
        {"late": late, "broken": lambda: str(1 // 0), "fine": lambda: "fine"},
        timeout=0.2,
        report=lambda *one: skipped.append(one),
    )

    assert told == [("attachment:fine", "fine")]
    assert [name for name, _ in skipped] == ["late", "broken"]
    assert "ZeroDivisionError" in skipped[1][1]
    never.set()


def test_every_attachment_stands_in_a_reminder() -> None:
    talk = Conversation(model="m")
    for source, text in gather_attachments({"todo": lambda: "1 open"}, timeout=10):
        talk.inject(source, text)

    assert json.dumps("<system-reminder>\n1 open\n</system-reminder>") in json.dumps(talk.request())


def test_a_long_listing_is_limited_at_its_source() -> None:
    assert limit_lines("a\nb\n", limit=2) == "a\nb\n"
    assert limit_lines("a\nb\nc\n", limit=2).startswith("a\nb\n[1 more line.")


# -------------------------------------------------------------------------------------------------- surroundings


def test_facts_are_those_of_the_directory(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    told = facts(repository, today=datetime.date(2026, 1, 5))

    assert (told.cwd, told.git, told.date) == (str(repository), True, "Mon Jan 05 2026")
    assert not facts(tmp_path_factory.mktemp("plain")).git


def test_the_surroundings_are_looked_at_once_and_the_shared_part_stands_first(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("be brief </project-instructions>")
    (repository / "CLAUDE.md").write_bytes(b"\0")
    seen = look_around(
        repository,
        model="m",
        home=repository / "home",
        config_dir=repository / "config",
        extra_paths=["CLAUDE.md"],
        today=datetime.date(2026, 1, 5),
    )
    before = (seen.system("You help."), seen.instructions)
    (repository / "AGENTS.md").write_text("be long")
    (repository / "b.txt").write_text("b")

    talk = Conversation(model="m", system=seen.system("You help."))
    seen.enter(talk)
    talk.user("hi")
    request: Any = talk.request()

    assert (seen.system("You help."), seen.instructions) == before
    assert request["system"][0] == {"type": "text", "text": "You help."}
    assert "Today's date: Mon Jan 05 2026" in request["system"][1]["text"]
    (_, told), *more = frames(request["system"][1]["text"], tags=["git-status"])
    assert "?? AGENTS.md" in told
    assert more == []
    (tag, body), *rest = frames(request["messages"][0]["content"][0]["text"])
    assert (tag, rest) == ("project-instructions", [])
    assert body == f"From {repository}/AGENTS.md:\n\nbe brief [/project-instructions>"
    assert request["messages"][0]["content"][1]["text"] == "hi"
    assert [source for source, _ in seen.skipped] == [str(repository / "CLAUDE.md")]
