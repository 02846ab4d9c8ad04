"""What is looked at in a session that was walked through: each check asserts one thing of one request or of the log."""

from __future__ import annotations

import json

from ebbtide.core.stub import digest as blob_digest
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import USER
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader
from ebbtide.wire.validity import violations
from laws.promises import JOINED
from runtime.sessions import digest, without_breakpoints
from runtime.walks import Walk, WalkStep
from upstream import signing
from upstream.check import refusals


def items(wire: str, body: dict[str, object]) -> tuple:
    return Reader(DEFAULT, wire=WIRES[wire]).read(body).items


def out(stop: WalkStep) -> str:
    return digest(stop.ready.body) if stop.ready else ""


def edits(stop: WalkStep) -> list[str]:
    return [edit.id for edit in stop.ready.report.edits] if stop.ready else []


def repeats(wire: str, body: dict[str, object]) -> bool:
    """Equal thinking: see `test_an_item_removed_without_a_replacement_cannot_be_distinguished_from_its_equal`."""
    marks = [item.id.rpartition("-")[0] for item in items(wire, body) if item.kind == "thinking"]
    return len(set(marks)) < len(marks)


def check_valid(wire: str, stop: WalkStep) -> None:
    body = dict(stop.ready.body)
    assert [str(one) for one in violations(WIRES[wire], body)] == []
    assert [str(one) for one in refusals(wire, body)] == []
    # The generator signs over the client's history. What binds to ours is in `test_upstream_loop`.
    assert [str(one) for one in signing.refusals(wire, body) if one.rule != "A63"] == []


def check_repairs(stop: WalkStep) -> None:
    """A valid history needs none, and our edits only what joins neighbours: the hardener hides what we break."""
    assert {told.partition(" ")[0] for told in stop.ready.report.repairs} <= JOINED


def check_extends(wire: str, last: WalkStep | None, stop: WalkStep) -> None:
    if last is None or stop.ready.report.edits:
        return
    before, now = last.sent(wire), stop.sent(wire)
    assert now[: len(before)] == before, "no edit was recorded, and the prefix moved"


def check_words(walk: Walk, stop: WalkStep) -> None:
    """Verbatim; or, where a fold had no room for them below the hard level, in a file that the request names."""
    if stop.ready is None:
        return
    text, log = json.dumps(stop.ready.body, ensure_ascii=False), walk.store.peek("default")
    kept = "".join(log.read_blob(blob.name) for blob in log.list_blobs() if blob.name in text)
    for item in items(walk.wire, stop.asked):
        if item.role == "user" and item.trust == USER and item.kind == "text":
            there = json.dumps(item.text, ensure_ascii=False)[1:-1] in text or item.text in kept
            assert there, f"lost: {item.text[:60]!r}"


def check_log(wire: str, walk: Walk, requests: list[dict[str, object]], last: WalkStep | None) -> None:
    """What left can be read back byte for byte: messages from the log, offloaded content from the shelf."""
    if last is None:
        return
    log = walk.store.peek("default")
    records = log.read().records
    known = {
        digest(without_breakpoints(record.get("wire") or record["message"])) for record in records if record.get("uuid")
    }
    missing = [
        n for n, one in enumerate(last.asked[WIRES[wire].list_key]) if digest(without_breakpoints(one)) not in known
    ]
    assert missing == [], "messages that are not in the log"
    kept = [pair for record in records if record.get("kind") == "plan" for pair in record["blobs"]]
    assert [name for name, mark in kept if blob_digest(log.read_blob(name)) != mark] == []
