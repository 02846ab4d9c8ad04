"""What the page is told is what the log says."""

import asyncio
import gzip
import json

import pytest

from ebbtide import example
from ebbtide.audit.history import build_history
from ebbtide.runtime import Context
from ebbtide.store import open_store
from fronts.ui.inspector import SECRET, BilledAgent, Clock, library, page
from runtime.sessions import body


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    where = tmp_path_factory.mktemp("store")
    talker = BilledAgent(where)
    talker.steps(6)
    talker.step(6, output=f"GAUGE_SECRET={SECRET}\n" + "needle in the 水位 log\n" + "padding line\n" * 300)
    talker.steps(14, first=7)
    talker.step(21, pause=4000)
    talker.steps(3, first=22)
    BilledAgent(where, session="other", project="/home/me/elsewhere").steps(2)
    return where


async def key_of(ask, session="nightly"):
    listed = await ask.get("sessions")
    return next(one["key"] for one in listed["sessions"] if one["session"] == session)


async def test_sessions_are_listed_and_found_by_any_word(root):
    async with page(library(root)) as ask:
        listed = await ask.get("sessions")
        found = await ask.get("sessions", q="ELSE other")

    assert {session["session"] for session in listed["sessions"]} == {"nightly", "other"}
    assert [one["session"] for one in found["sessions"]] == ["other"]
    assert found["total"] == 2


async def test_columns_add_up_to_what_was_billed(root):
    async with page(library(root)) as ask:
        key = await key_of(ask)
        told, calls = await ask.get(f"session/{key}"), await ask.get(f"session/{key}/calls")

    assert told["calls"] == len(calls["tokens"]) == 25
    assert all(calls["billed"])
    assert told["cost"] > 0
    for nth, tokens in enumerate(calls["tokens"]):
        assert tokens == calls["read"][nth] + calls["write"][nth] + calls["fresh"][nth]
    assert all(after <= before for after, before in zip(calls["tokens"], calls["untouched"], strict=True))
    assert calls["untouched"][-1] > 2 * calls["tokens"][-1]
    assert calls["batches"]
    assert all(batch["saved"] > 0 for batch in calls["batches"])


async def test_a_cache_break_is_shown_with_its_cause(root):
    async with page(library(root)) as ask:
        key = await key_of(ask)
        calls = await ask.get(f"session/{key}/calls")
        first = calls["breaks"][0]
        one = await ask.get(f"session/{key}/cache", at=first["call"])

    assert {one["cause"] for one in calls["breaks"]} >= {"message"}
    assert one["break"] == first
    assert len(one["messages"]) > 3
    assert one["usage"]["cache_read"] == 0


async def test_the_cached_part_is_no_more_than_the_earlier_messages(root):
    """After an edit, too, when an older and longer request left only its beginning in the cache."""
    async with page(library(root)) as ask:
        key = await key_of(ask)
        calls = await ask.get(f"session/{key}/calls")
        maps = [await ask.get(f"session/{key}/cache", at=at) for at in range(1, 26)]

    parts = [one["overhead"] + sum(m["tokens"] for m in one["messages"][: one["warm"]["messages"]]) for one in maps]
    edited = [nth for nth in range(1, 25) if 0 < maps[nth]["warm"]["messages"] < len(maps[nth - 1]["messages"])]
    assert edited
    for nth, one in enumerate(maps):
        assert calls["warm"][nth] <= calls["tokens"][nth]
        assert nth == 0 or nth in edited or calls["warm"][nth] in (0, calls["tokens"][nth - 1])
        if one["warm"]["messages"]:
            assert one["warm"]["tokens"] <= parts[nth]
    assert all(calls["warm"][nth] == min(maps[nth]["warm"]["tokens"], calls["tokens"][nth]) for nth in edited)


async def test_a_request_is_shown_as_the_model_saw_it(root):
    """Every call, page by page, is what the history says went out."""
    log = open_store(root).peek("nightly", project="/home/me/tides")
    history = build_history(log.read().records, session="nightly")
    async with page(library(root)) as ask:
        key = await key_of(ask)
        for at in (1, 9, 25):
            rows = []
            while True:
                part = await ask.get(f"session/{key}/request", at=at, start=len(rows), limit=7)
                rows += part["rows"]
                if len(rows) >= part["total"]:
                    break
            view = history.sent_request(at)[1]

            assert [row["id"] for row in rows] == [entry.id for entry in view.entries]
            assert [row["chars"] for row in rows] == [len(entry.text) for entry in view.entries]
            assert {row["id"] for row in rows if "stub" in row} == set(view.edit_by_entry)


async def test_the_original_of_a_stub_opens_through_its_handle(root):
    async with page(library(root)) as ask:
        key = await key_of(ask)
        rows = (await ask.get(f"session/{key}/request", at=25, limit=400))["rows"]
        stubs = [row for row in rows if "stub" in row]
        under = await ask.get(f"session/{key}/under", at=25, edit=stubs[0]["stub"]["id"])
        texts = [await ask.get(f"session/{key}/read", handle=row["id"]) for row in under["rows"]]

    assert under["total"] == stubs[0]["stub"]["covers"] == len(texts)
    assert sum(text["total"] for text in texts) > 3000
    assert all(text["text"].startswith(row["text"][:200]) for text, row in zip(texts, under["rows"], strict=True))


async def test_a_long_text_is_served_in_pages(root):
    async with page(library(root)) as ask:
        key = await key_of(ask)
        hit = (await ask.get(f"session/{key}/recall", q="gauge"))["hits"][0]
        whole, start = "", 0
        while start is not None:
            part = await ask.get(f"session/{key}/read", handle=hit["handle"], start=start)
            whole, start = whole + part["text"], part["next"]

    assert len(whole) == part["total"] == hit["total"]


async def test_an_edit_has_two_sides_and_a_worth(root):
    async with page(library(root)) as ask:
        key = await key_of(ask)
        batches = (await ask.get(f"session/{key}/edits"))["batches"]
        edit = batches[0]["edits"][0]
        sides = await ask.get(f"session/{key}/edit", id=edit["id"])

    assert edit["by"]
    assert edit["reason"]
    assert edit["saved"] > 0
    assert edit["usd"] > 0
    assert sides["before"]
    assert sum(len(one["text"]) for one in sides["after"]) < sides["before"][0]["chars"]
    assert batches[0]["before"] > batches[0]["after"]


async def test_the_facts_name_files_and_user_messages(root):
    async with page(library(root)) as ask:
        key = await key_of(ask)
        facts = await ask.get(f"session/{key}/ledger")

    assert "src/f3.py" in {file["path"] for file in facts["files"]}
    assert facts["words"][0]["text"].startswith("fix the gauge")


async def test_recall_highlights_matches_and_masks_secrets(root):
    """In the hit, in the text behind it, and in rows and diffs."""
    async with page(library(root)) as ask:
        key = await key_of(ask)
        hits = (await ask.get(f"session/{key}/recall", q="needle"))["hits"]
        hit = hits[0]
        text = await ask.get(f"session/{key}/read", handle=hit["handle"])
        everything = json.dumps(
            [
                hits,
                text,
                (await ask.get(f"session/{key}/recall", q="GAUGE_SECRET"))["hits"],
                await ask.get(f"session/{key}/request", at=8, limit=400),
                [
                    await ask.get(f"session/{key}/edit", id=edit["id"])
                    for batch in (await ask.get(f"session/{key}/edits"))["batches"]
                    for edit in batch["edits"]
                ],
            ]
        )

    assert "needle" in [hit["snippet"][start:end] for start, end in hit["spans"]]
    assert text["masked"] == 1
    assert "needle" in text["text"]
    assert SECRET not in everything
    assert "redacted" in everything


async def test_a_handle_that_was_never_recorded_opens_nothing(root, tmp_path):
    (tmp_path / "passwd").write_text("root")
    async with page(library(root)) as ask:
        key = await key_of(ask)
        for handle in (str(tmp_path / "passwd"), "../../sessions-index.json", "deadbeef", ""):
            assert await ask.status("GET", f"/api/session/{key}/read", params={"handle": handle}) == 400
        assert await ask.status("GET", "/api/session/0011223344556677aa/calls") == 404
        assert await ask.status("GET", "/api/session/%2e%2e%2fnightly/calls") == 404


async def test_a_recorded_file_is_played_under_the_policy_that_the_page_chooses(root):
    file = str(example.path())
    async with page(library(root, file)) as ask:
        key = next(session["key"] for session in (await ask.get("sessions"))["sessions"] if not session["stored"])
        tight = await ask.get(f"session/{key}", window=40_000)
        other = await ask.get(f"session/{key}", window=40_000, policy="opencode")
        hits = (await ask.get(f"session/{key}/recall", q="gauge", window=40_000))["hits"]
        refused = await ask.status("GET", f"/api/session/{key}", params={"policy": "nope"})
        choice = (await ask.get("sessions"))["policies"]
        balanced = await ask.get(f"session/{key}", window=40_000, policy="balanced")

    assert choice[:3] == ["keep-more", "default", "spend-less"]
    assert balanced["edits"] == tight["edits"]
    assert tight["calls"] == other["calls"] == 76
    assert other["edits"] != tight["edits"]
    assert other["policy"] == "opencode"
    assert hits
    assert refused == 400
    assert tight["window"] == 40_000


async def test_nothing_is_undone_unless_it_was_allowed_at_the_start(root):
    async with page(library(root)) as ask:
        key = await key_of(ask)
        batch = (await ask.get(f"session/{key}/edits"))["batches"][-1]["id"]

        assert (await ask.post(f"session/{key}/undo", batch=batch))[0] == 403
        assert not (await ask.get(f"session/{key}"))["undone"]


async def test_undo_and_redo_are_written_to_the_log(tmp_path):
    BilledAgent(tmp_path).steps(12)
    async with page(library(tmp_path), allow_undo=True) as ask:
        key = await key_of(ask)
        batch = (await ask.get(f"session/{key}/edits"))["batches"][-1]["id"]
        missing = (await ask.post(f"session/{key}/undo", batch="p999"))[0]
        undone = (await ask.post(f"session/{key}/undo", batch=batch))[1]
        shown = (await ask.get(f"session/{key}/edits"))["batches"][-1]["undone"]
        redone = (await ask.post(f"session/{key}/redo"))[1]

    assert missing == 404
    assert undone["undone"] == [batch]
    assert shown
    assert redone["undone"] == []
    kinds = [
        record.get("kind") for record in open_store(tmp_path).peek("nightly", project="/home/me/tides").read().records
    ]
    assert kinds[-2:] == ["undo", "redo"]


async def test_a_session_that_grows_is_followed(tmp_path):
    talker = BilledAgent(tmp_path).steps(2)
    async with page(library(tmp_path)) as ask:
        key = await key_of(ask)
        async with ask.http.get(f"{ask.base}/api/session/{key}/events") as stream:

            async def heard():
                while True:
                    line = await asyncio.wait_for(stream.content.readline(), 15)
                    if line.startswith(b"data:"):
                        return json.loads(line[5:])

            first = await heard()
            await asyncio.to_thread(talker.step, 2)
            then = await heard()
            calls = await ask.get(f"session/{key}/calls")

    # A step is a request, its turn, and a reply with its bill: the two commits may be seen apart.
    assert first["calls"] == 2
    assert then["calls"] == 3
    assert len(calls["tokens"]) == 3


async def test_two_policies_are_compared_on_the_same_calls(root):
    async with page(library(root)) as ask:
        key = await key_of(ask)
        found = await ask.get(f"session/{key}/compare", policies="default,raw")
        refused = await ask.status("GET", f"/api/session/{key}/compare", params={"policies": "default,nope"})

    ours, raw = found["arms"]
    assert found["calls"] == len(ours["series"]) == len(raw["series"]) == 25
    assert ours["peak"] <= found["window"] < raw["peak"]
    assert ours["cost"] < raw["cost"]
    assert refused == 400


@pytest.mark.parametrize(
    ("model", "input_price", "unpriced"), [("claude-opus-4-5", 5, []), ("claude-haiku-4-5", 1, []), ("x", 3, ["x"])]
)
async def test_a_comparison_has_the_prices_of_the_model_that_was_called(tmp_path, model, input_price, unpriced):
    """One call with nothing cached, at the full price. Where there is none it is a Sonnet's, and that is said."""
    context = Context(store=tmp_path, session="nightly", model=model, window=20_000, clock=Clock())
    context.prepare({**body([{"role": "user", "content": "gauge " * 2000}]), "model": model})
    context.record({"role": "assistant", "type": "message", "content": [{"type": "text", "text": "done"}]})
    async with page(library(tmp_path)) as ask:
        found = await ask.get(f"session/{await key_of(ask)}/compare", policies="default,raw")

    raw = found["arms"][1]
    assert raw["cost"] * 1e6 / raw["tokens"] == pytest.approx(input_price)
    assert found["unpriced"] == unpriced


async def test_a_recorded_file_that_grows_is_replayed_again_for_its_viewers(root, tmp_path):
    """Under every setting that is open, not only for the first to ask."""
    rows = gzip.decompress(example.path().read_bytes()).splitlines(keepends=True)
    file = tmp_path / "session.jsonl"
    file.write_bytes(b"".join(rows[:40]))
    async with page(library(root, str(file))) as ask:
        key = next(session["key"] for session in (await ask.get("sessions"))["sessions"] if not session["stored"])
        before = [(await ask.get(f"session/{key}", policy=name))["calls"] for name in ("default", "opencode")]
        file.write_bytes(b"".join(rows[:60]))
        after = [(await ask.get(f"session/{key}", policy=name))["calls"] for name in ("default", "opencode")]

    assert before[0] == before[1] < after[0] == after[1]
