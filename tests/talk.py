"""Builds conversations from words, so that a test reads like the sentence it proves.

    talk("user:fix it", "call:read a.py", "result:900", "say:done")

A line is `speaker:words`. Digits alone mean so many tokens of filler. The speakers:

    user, say, think, system        what they say
    reason                          reasoning that only the provider can read
    reminder, hook, ide, memory     what the harness injects into the user's side
    image, document                 `image:1500` in the user's message, so many tokens
    call                            `call:read`, `call:read a.py` (its file), `call:write 2000` (so many tokens),
                                    `call:write {"file_path": ...}` (its arguments)
    result                          answers the oldest open call, or with `result#c2:` that one

Before the speaker: `pinned`, `locked`, `error` (a failed result), `media` (a result with an image, 2,000 tokens more),
`listed` (a result whose content is a list). Behind it: `#id` sets a call's id, else they are c1, c2, and so on. Items of one role that
follow each other share a message; `+` before a line joins it to the last message whatever its role.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace

from ebbtide.core.cache.prefix import Prices
from ebbtide.core.edit_rules import rejection_reason
from ebbtide.core.planner import Budget, Pass, PlanInput, Thresholds
from ebbtide.core.types import HARNESS, QUOTED, SYSTEM, USER, Edit, Item, Kind, Role
from ebbtide.core.view import View

_LINE = re.compile(
    r"(?P<join>\+?)(?P<flags>(?:(?:pinned|locked|error|media|listed) )*)(?P<who>[a-z]+)(?:#(?P<id>[^:]+))?:"
)

_SPEAKERS: dict[str, tuple[Role, Kind, int, str]] = {
    "user": ("user", "text", USER, "user"),
    "say": ("assistant", "text", QUOTED, "assistant"),
    "think": ("assistant", "thinking", QUOTED, "assistant"),
    "call": ("assistant", "call", QUOTED, "assistant"),
    "result": ("tool", "result", QUOTED, "tool"),
    "reason": ("assistant", "opaque", QUOTED, "assistant"),
    "system": ("system", "text", SYSTEM, "system"),
    "reminder": ("user", "text", HARNESS, "reminder"),
    "hook": ("user", "text", HARNESS, "hook"),
    "ide": ("user", "text", HARNESS, "ide"),
    "memory": ("user", "text", HARNESS, "memory"),
    "image": ("user", "image", USER, "user"),
    "document": ("user", "document", USER, "user"),
}

IMAGE = 2_000
"""Tokens of an image inside a result, as the seeds count it (R037)."""


@dataclass(slots=True)
class _ItemBuilder:
    items: list[Item] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    """From an open call's id to its tool."""
    tools: dict[str, str] = field(default_factory=dict)
    made: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    def write(self, line: str) -> None:
        match = _LINE.match(line)
        if match is None or match["who"] not in _SPEAKERS:
            raise ValueError(f"not a line of talk: {line!r}")
        role, kind, tier, source = _SPEAKERS[match["who"]]
        words, flags = line[match.end() :], match["flags"].split()
        call_id, name = self._pair(kind, match["id"] or "", words)
        text = _arguments(words) if kind == "call" else filler(int(words)) if words.isdecimal() else words
        item = Item(
            id="",
            message=self._message(role, bool(match["join"])),
            role=role,
            kind=kind,
            text="" if kind in ("image", "document") else text,
            tokens=(int(words) if words.isdecimal() else quarter(text)) + IMAGE * ("media" in flags),
            name=name,
            call_id=call_id,
            trust=tier,
            source=source,
            media=int("media" in flags),
            pinned="pinned" in flags,
            locked="locked" in flags,
            is_failed="error" in flags,
            raw=_raw(kind, text, flags),
        )
        self.items.append(replace(item, id=self._id(item)))

    def _pair(self, kind: Kind, given: str, words: str) -> tuple[str, str]:
        if kind == "call":
            self.made += 1
            call_id, name = given or f"c{self.made}", words.split(" ", 1)[0]
            self.calls[call_id] = self.tools[call_id] = name
            return call_id, name
        if kind == "result":
            call_id = given or next(iter(self.calls), "orphan")
            self.calls.pop(call_id, "")
            return call_id, self.tools.get(call_id, "")
        return "", ""

    def _message(self, role: Role, join: bool) -> int:
        if not self.items:
            return 0
        last = self.items[-1]
        return last.message if join or last.role == role else last.message + 1

    def _id(self, item: Item) -> str:
        content = "\0".join((item.role, item.kind, item.text, item.name, item.call_id, item.source, str(item.tokens)))
        mark = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        self.seen[mark] += 1
        return f"e1-{mark}-{self.seen[mark]}"


def talk(*lines: str) -> tuple[Item, ...]:
    """Items of a conversation. More lines extend it: the items before stay the same."""
    scribe = _ItemBuilder()
    for line in lines:
        scribe.write(line)
    return tuple(scribe.items)


def quarter(text: str) -> int:
    """Four characters a token, as `Situation.count` has it unless told otherwise."""
    return -(-len(text) // 4)


def filler(tokens: int) -> str:
    """Text of so many tokens, in lines of sixteen characters."""
    return ("all work no fun\n" * (tokens // 4 + 1))[: 4 * tokens]


def _arguments(words: str) -> str:
    _, _, given = words.partition(" ")
    if given.startswith("{") or not given:
        return given or "{}"
    if given.isdecimal():
        return json.dumps({"file_path": "big.py", "content": filler(int(given))})
    return json.dumps({"file_path": given})


def _raw(kind: Kind, text: str, flags: list[str]) -> object:
    if kind == "opaque":
        return {"type": "reasoning", "encrypted_content": text}
    if kind in ("image", "document"):
        return {"type": kind, "source": {"type": "base64", "media_type": "image/png", "data": text}}
    if not {"error", "media", "listed"} & set(flags):
        return None
    parts = [{"type": "text", "text": text}] + [{"type": "image", "source": {}}] * ("media" in flags)
    plain = "media" not in flags and "listed" not in flags
    return {"type": "tool_result", "content": text if plain else parts, "is_error": "error" in flags}


def let(propose: Pass, view: View, now: PlanInput) -> View:
    """The view after a pass had its say. Every edit must be one that the view accepts."""
    edits = [step for step in propose(view, now) if isinstance(step, Edit) and step.saved > 0]
    assert [rejection_reason(view, edit) for edit in edits] == [""] * len(edits)
    return view.apply(edits)


def shown(view: View, kind: Kind = "result") -> list[str]:
    """What the model reads, by kind."""
    return [entry.text for entry in view.entries if entry.kind == kind]


def budget(window: int = 200_000, *, overhead: int = 0, **levels: int) -> Budget:
    """A budget with levels at the usual parts of the window, unless told otherwise."""
    parts = {"warning": 0.6, "soft": 0.7, "auto": 0.8, "hard": 0.9, "blocking": 0.97, "low": 0.5}
    marks = {name: levels.get(name, int(window * part)) for name, part in parts.items()}
    return Budget(window=window, levels=Thresholds(**marks), overhead=overhead)


def situation(view: View, *, within: Budget | None = None, **changes: object) -> PlanInput:
    """What a pass may know, for a view in a wide window, with changes."""
    within = within or budget()
    tokens = view.tokens + within.overhead
    now = PlanInput(
        budget=within, tokens=tokens, utilisation=tokens / within.window, prices=Prices(read=0.1, write=1.25)
    )
    return now._replace(**changes)  # type: ignore[arg-type]
