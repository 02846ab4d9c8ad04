"""Items as a wire would read them, for tests of facts."""

from __future__ import annotations

import hashlib
import json

from ebbtide.core.types import HARNESS, QUOTED, USER, Item


def _item(role: str, kind: str, text: str, **more: object) -> Item:
    digest = hashlib.sha256(f"{role}{kind}{text}{more}".encode("utf-8", "surrogatepass")).hexdigest()[:20]
    return Item(id=f"e1-{digest}-0", message=0, role=role, kind=kind, text=text, tokens=len(text) // 4 + 1, **more)  # type: ignore[arg-type]


def user(text: str) -> Item:
    return _item("user", "text", text, trust=USER, source="user")


def harness(text: str) -> Item:
    return _item("user", "text", text, trust=HARNESS, source="reminder")


def assistant(text: str) -> Item:
    return _item("assistant", "text", text, trust=QUOTED, source="assistant")


def call(name: str, given: object, id: str = "c1") -> Item:
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return _item("assistant", "call", text, name=name, call_id=id)


def result(text: str, id: str = "c1", *, error: bool = False) -> Item:
    return _item("tool", "result", text, call_id=id, is_failed=error)


def call_and_result(name: str, given: object, output: str = "ok", *, id: str = "c1", error: bool = False) -> list[Item]:
    """A call and its result."""
    return [call(name, given, id), result(output, id, error=error)]
