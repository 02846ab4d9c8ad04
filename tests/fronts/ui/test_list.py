"""The list of sessions: ours and the clients', the newest first, with what each cost and saved."""

import asyncio
import os
import time

from ebbtide.fronts.ui.library import Library, Setting
from ebbtide.fronts.ui.listing import ClientFolders
from ebbtide.store import open_store
from formats.test_codex_folder import rollout
from fronts.cli.terminal import recorded
from fronts.ui.inspector import WINDOW, BilledAgent, page
from runtime.sessions import EARLY

HOUR = 3600


def machine(root, *files):
    """A machine with a session of ours, and older ones of Claude Code and Codex."""
    BilledAgent(root / "store", policy=EARLY).steps(12)
    folder = root / "claude" / "projects" / "-home-me-tides"
    folder.mkdir(parents=True)
    claude = recorded(folder / "s1.jsonl", steps=6, usage=9_000)
    reminder = "<system-reminder>Today is Monday.</system-reminder>"
    claude.write_text(claude.read_text().replace("fix the gauge", f"{reminder} draw the tides"))
    codex = rollout(root / "codex" / "sessions" / "2026" / "rollout-x.jsonl", prompt="count the waves")
    now = time.time()
    os.utime(claude, (now - HOUR, now - HOUR))
    os.utime(codex, (now - 2 * HOUR, now - 2 * HOUR))
    folders = ClientFolders(claude=root / "claude", codex=root / "codex")
    setting = Setting(policy="default", window=WINDOW)
    return Library(
        open_store(root / "store"), files=files, setting=setting, window_for=lambda _: WINDOW, clients=folders
    )


async def added_up(ask, **query):
    """The list, once nothing is left to be added up."""
    async with asyncio.timeout(120):
        while (listed := await ask.get("sessions", **query))["waiting"]:
            await asyncio.sleep(0.02)
    return listed


async def test_the_clients_own_sessions_are_listed_beside_ours_with_what_the_user_asked(tmp_path):
    async with page(machine(tmp_path)) as ask:
        listed = await ask.get("sessions")

    rows = {row["source"]: row for row in listed["sessions"]}
    assert [row["source"] for row in listed["sessions"]][:2] == ["claude-code", "codex"]
    assert rows["claude-code"]["title"] == "draw the tides"
    assert rows["codex"]["title"] == "count the waves"
    assert rows["codex"]["project"] == "/home/me/tides"
    assert rows["store"]["title"].startswith("fix the gauge")
    assert listed["totals"]["ours"] == 1


async def test_a_file_of_the_command_line_comes_first_however_old_it_is(tmp_path):
    file = recorded(tmp_path / "old.jsonl", steps=3)
    os.utime(file, (0, 0))
    async with page(machine(tmp_path, str(file))) as ask:
        listed = await ask.get("sessions")

    changes = [row["modified"] for row in listed["sessions"][1:]]
    assert listed["sessions"][0]["source"] == "file"
    assert changes == sorted(changes, reverse=True)


async def test_each_session_is_added_up_and_the_totals_count_only_what_was_really_saved(tmp_path):
    file = recorded(tmp_path / "given.jsonl", steps=24, usage=9_000)
    async with page(machine(tmp_path, str(file))) as ask:
        listed = await added_up(ask)
        found = {row["source"]: row["figures"] for row in listed["sessions"]}
        key = next(row["key"] for row in listed["sessions"] if row["source"] == "store")
        summary = await ask.get(f"session/{key}")

    assert found["store"]["calls"] == 12
    assert found["store"]["saved_usd"] == summary["saved_usd"]
    assert found["store"]["cost"] == summary["cost"] > 0
    assert found["store"]["window"] == WINDOW
    assert found["claude-code"]["calls"] == 6
    assert found["claude-code"]["cost"] > 0
    assert found["claude-code"]["saved_usd"] is None
    assert found["codex"]["tokens"] == 41_000
    assert found["file"]["simulated"]
    assert found["file"]["saved_usd"] > 0
    assert listed["totals"]["saved_usd"] == found["store"]["saved_usd"]
    assert listed["totals"]["cost"] == round(sum(one["cost"] for one in found.values() if one["cost"]), 6)


async def test_a_session_of_a_client_opens_simulated_and_says_so(tmp_path):
    async with page(machine(tmp_path)) as ask:
        rows = (await ask.get("sessions"))["sessions"]
        key = next(row["key"] for row in rows if row["source"] == "claude-code")
        head, row = await ask.get(f"session/{key}/head"), await ask.get(f"session/{key}/row")

    assert head["played"]
    assert head["calls"] == 6
    assert row["title"] == head["title"] == "draw the tides"
    assert head["commands"]["show"].startswith("ebb show ")
    assert head["commands"]["undo"] == ""


async def test_replies_that_claude_code_wrote_itself_do_not_hide_the_price(tmp_path):
    file = recorded(tmp_path / "s.jsonl", steps=8, usage=9_000)
    lines = file.read_text().splitlines()
    lines[5] = lines[5].replace('"claude-opus-4-5"', '"<synthetic>"')
    file.write_text("\n".join(lines) + "\n")
    async with page(machine(tmp_path, str(file))) as ask:
        key = (await ask.get("sessions"))["sessions"][0]["key"]
        summary = await ask.get(f"session/{key}")
        listed = await added_up(ask)

    assert summary["cost"] > 0
    assert summary["models"] == ["claude-opus-4-5"]
    assert listed["sessions"][0]["figures"]["cost"] > 0


async def test_a_file_that_cannot_be_added_up_has_no_figures_and_holds_up_nothing(tmp_path):
    library = machine(tmp_path)
    (row,) = (row for row in library.list() if row.source == "claude-code")
    async with page(library) as ask:
        with open(row.path, "ab") as log:
            log.write(b"\xff\xfe not json at all\n" * 3)
        listed = await added_up(ask)

    assert {one["source"] for one in listed["sessions"] if one["figures"]} >= {"store", "codex"}
