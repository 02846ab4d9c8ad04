"""How far the token estimate is from the provider's bill, on every recorded call.

    python benchmarks/tokens.py [--data DIR] [--json] [--split fit|report|all]

*Cold*: the request's own text, and one constant for the system prompt and tools, which recordings lack, taken from the
session's first usage. *Anchored*: the usage of the longest earlier request that this one extends, its reply, and an
estimate of what came after, with a ratio learned from earlier calls of the same session. Nothing looks ahead. The
weights were fitted on files whose sha256 in the manifest is even; by default the table is for the odd ones.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ebbtide.core.text.media import HEAD, base64_head, image_pixels
from ebbtide.core.tokens.estimator import CLAUDE_CODE, DEFAULT, OPENCODE, Estimator
from ebbtide.core.tokens.size import (
    Calibration,
    keeps_thinking,
    prior,
    reply_tokens,
    scale_from_anchor,
    scale_from_anchor_upper,
)
from ebbtide.core.types import Usage
from ebbtide.formats import load
from ebbtide.formats.steps import RecordedCall

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"

Block = Mapping[str, object]

TARGETS = {"anchored": 0.03, "cold": 0.12, "exceeded": 0.01, "class": 0.15}
_FROM_MODEL = ("reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call")
SEEDS = {"opencode (chars/4)": OPENCODE, "claude-code (chars/4 x 4/3)": CLAUDE_CODE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One message, counted once."""

    tokens: int
    """Without thinking."""
    thinking: int = 0
    seeds: tuple[int, ...] = ()
    chars: int = 0
    cjk: int = 0
    numbered: int = 0
    """Characters of results with line numbers: code as file readers print it."""
    as_json: int = 0
    asks: bool = False
    """A user message: thinking of earlier turns may be dropped."""
    answers: bool = False
    """A model's message: billed in its own usage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One call. Errors are signed and relative to the billed prompt."""

    classes: tuple[str, ...]
    cold: float
    cold_held: bool
    """The cold bound was not exceeded."""
    fresh: float
    """Cold, with a new constant after each compaction, when clients attach files that recordings lack."""
    fresh_held: bool
    seeds: tuple[float, ...]
    anchored: float
    anchor: bool
    """Whether there was one; if not, the estimate is cold with the learned ratio."""
    held: bool
    room: float
    """How far the bound is above the bill."""


def blocks(message: Block) -> Iterator[tuple[str, str, Block]]:
    """Yield kind, text and raw block of an Anthropic message, a chat message or a Responses item."""
    kind = message.get("type")
    if kind in ("function_call", "custom_tool_call"):
        yield "call", f"{message.get('name')} {message.get('arguments') or message.get('input') or ''}", message
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield from _inside("result", message.get("output"), message)
    elif kind == "reasoning":
        yield "thinking", "", message
    else:
        yield from _content(message)


def _content(message: Block) -> Iterator[tuple[str, str, Block]]:
    content = message.get("content")
    role = message.get("role")
    if role == "tool":
        yield from _inside("result", content, message)
    elif isinstance(content, str):
        yield "text", content, message
    for part in content if isinstance(content, list) and role != "tool" else []:
        yield from _part(part)
    for call in message.get("tool_calls") or ():  # type: ignore[attr-defined]
        yield "call", f"{call['function']['name']} {call['function']['arguments']}", call


def _part(part: Block) -> Iterator[tuple[str, str, Block]]:
    kind = part.get("type")
    if kind == "tool_use":
        yield "call", f"{part.get('name')} {json.dumps(part.get('input'), ensure_ascii=False)}", part
    elif kind == "tool_result":
        yield from _inside("result", part.get("content"), part)
    elif kind in ("thinking", "redacted_thinking"):
        yield "thinking", str(part.get("thinking") or ""), part
    elif kind in ("image", "input_image", "image_url"):
        yield "image", "", part
    elif isinstance(part.get("text"), str):
        yield "text", str(part["text"]), part


def _inside(kind: str, content: object, raw: Block) -> Iterator[tuple[str, str, Block]]:
    if not isinstance(content, list):
        yield kind, content if isinstance(content, str) else json.dumps(content) if content else "", raw
        return
    yield kind, "\n".join(str(p.get("text") or "") for p in content if isinstance(p, Mapping)), raw
    for part in content:
        if isinstance(part, Mapping) and part.get("type") in ("image", "input_image", "image_url"):
            yield "image", "", part


def pixels(part: Block) -> tuple[int, int] | None:
    source = part.get("source")
    data = source.get("data") if isinstance(source, Mapping) else part.get("image_url")
    return image_pixels(base64_head(data, HEAD)) if isinstance(data, str) else None


def block_tokens(estimator: Estimator, kind: str, text: str, raw: Block) -> int:
    if kind == "image":
        return estimator.image(pixels(raw))
    if kind == "thinking":
        return estimator.thinking(text, str(raw.get("signature") or raw.get("data") or ""))
    return estimator.block(kind, text)  # type: ignore[arg-type]


def counted(message: Block) -> Counted:
    found = list(blocks(message))
    texts = [text for kind, text, _ in found if kind != "thinking"]
    results = [text for kind, text, _ in found if kind == "result"]
    seeds = tuple(sum(block_tokens(seed, *block) for block in found) for seed in SEEDS.values())
    user = message.get("role") == "user" and any(kind == "text" for kind, _, _ in found)
    return Counted(
        tokens=DEFAULT.per_message + sum(block_tokens(DEFAULT, *block) for block in found if block[0] != "thinking"),
        thinking=sum(block_tokens(DEFAULT, *block) for block in found if block[0] == "thinking"),
        seeds=seeds,
        chars=sum(map(len, texts)),
        cjk=sum(sum("\u3000" <= c <= "\u9fff" for c in text) for text in texts if not text.isascii()),
        numbered=sum(len(text) for text in results if "\u2192" in text[:12] or "\t" in text[:8]),
        as_json=sum(len(text) for text in results if text.lstrip()[:1] in ("{", "[")),
        asks=user and not results,
        answers=message.get("role") == "assistant" or message.get("type") in _FROM_MODEL,
    )


def counted_messages(
    call: RecordedCall, cache: dict[int, tuple[Block, Counted]]
) -> tuple[tuple[int, ...], list[Counted]]:
    """Consecutive calls share their message objects, so each is counted once; the cache keeps them alive."""
    head = [
        {"role": "system", "content": call.request[key]} for key in ("system", "instructions") if key in call.request
    ]
    messages: list[Block] = call.request.get("messages") or call.request.get("input") or []
    for message in messages:
        if id(message) not in cache:
            cache[id(message)] = (message, counted(message))
    parts = [counted(message) for message in head] + [cache[id(message)][1] for message in messages]
    return (0,) * len(head) + tuple(id(message) for message in messages), parts


def whole(parts: list[Counted], model: str) -> int:
    """Return the request with the thinking that the model still counts."""
    turn = max((place for place, part in enumerate(parts) if part.asks), default=0)
    kept = parts if keeps_thinking(model) else parts[turn:]
    return sum(part.tokens for part in parts) + sum(part.thinking for part in kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """One earlier call, and what its usage anchors."""

    ids: tuple[int, ...]
    usage: Usage
    hidden: int
    """Thinking of the turn it belongs to, in its prompt."""


@dataclass
class Conversation:
    """What is known about one conversation before a call, and nothing from after it."""

    overhead: float | None = None
    """System prompt and tools, in the estimator's own tokens."""
    recent: float | None = None
    """The same, since the last compaction."""
    seed_overhead: tuple[int, ...] = ()
    billed: list[Billed] = field(default_factory=list)
    calibration: Calibration = field(default_factory=Calibration)

    def begin(self, parts: list[Counted], call: RecordedCall, usage: Usage) -> None:
        self.overhead = self.recent = max(0.0, usage.prompt / prior(call.model) - whole(parts, call.model))
        sums = [sum(part.seeds[n] for part in parts) for n in range(len(SEEDS))]
        self.seed_overhead = tuple(
            usage.prompt - seed.total(n, 0) for seed, n in zip(SEEDS.values(), sums, strict=True)
        )

    def anchor(self, ids: tuple[int, ...]) -> Billed | None:
        """Return the newest earlier call whose whole request is a prefix of this one."""
        return next((billed for billed in reversed(self.billed) if ids[: len(billed.ids)] == billed.ids), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """Return an anchored estimate, before the bill is known."""

    base: int
    since: int
    hidden: int


def gauge(known: Conversation, ids: tuple[int, ...], parts: list[Counted], model: str) -> Gauge | None:
    before = known.anchor(ids)
    if before is None:
        return None
    ratio = known.calibration.ratio(model)
    fresh = parts[len(before.ids) :]
    answer = list(itertools.takewhile(lambda part: part.answers, fresh))
    visible = round(sum(part.tokens for part in answer) * ratio)
    thinking = round(sum(part.thinking for part in answer) * ratio)
    back = reply_tokens(before.usage.output, visible + thinking) if answer else 0
    base, hidden = before.usage.prompt + back, before.hidden + max(0, back - visible)
    added = fresh[len(answer) :]
    if any(part.asks for part in added) and not keeps_thinking(model):
        base, hidden = base - hidden, 0
    return Gauge(base=base, since=sum(part.tokens + part.thinking for part in added), hidden=hidden)


def classes(recording: str, parts: list[Counted], model: str) -> tuple[str, ...]:
    chars = sum(part.chars for part in parts) or 1
    share = {name: sum(getattr(part, name) for part in parts) / chars for name in ("cjk", "numbered", "as_json")}
    content = "json" if share["as_json"] > 0.2 else "numbered code" if share["numbered"] > 0.4 else "logs and prose"
    family = re.sub(r"-20\d{6}$", "", model)
    # Three in a thousand: these sessions are a Chinese conversation over English files and tool output.
    language = "with Chinese" if share["cjk"] > 0.003 else "English"
    return "all", f"format: {recording}", f"model: {family}", f"language: {language}", f"content: {content}"


def score(
    known: Conversation, call: RecordedCall, usage: Usage, ids: tuple[int, ...], parts: list[Counted], fmt: str
) -> Score:
    """Predict, then learn from the bill."""
    model, bill = call.model, usage.prompt
    text = whole(parts, model)
    assert known.overhead is not None
    assert known.recent is not None
    cold, fresh = (DEFAULT.total(round(text + more), 0) * prior(model) for more in (known.overhead, known.recent))
    reading = gauge(known, ids, parts, model)
    if reading is None:
        guess = scale_from_anchor(0, round(text + known.overhead), known.calibration, model)
        upper = DEFAULT.upper(guess)
    else:
        guess = scale_from_anchor(reading.base, reading.since, known.calibration, model)
        upper = scale_from_anchor_upper(reading.base, reading.since, known.calibration, model)
        known.calibration = known.calibration.observe(model, reading.since, bill - reading.base)
    sums = [sum(part.seeds[n] for part in parts) for n in range(len(SEEDS))]
    seeds = zip(SEEDS.values(), sums, known.seed_overhead, strict=True)
    known.billed.append(Billed(ids=ids, usage=usage, hidden=reading.hidden if reading else 0))
    return Score(
        classes=classes(fmt, parts, model),
        cold=cold / bill - 1,
        cold_held=bill <= DEFAULT.upper(round(cold)),
        fresh=fresh / bill - 1,
        fresh_held=bill <= DEFAULT.upper(round(fresh)),
        seeds=tuple((seed.total(n, 0) + more) / bill - 1 for seed, n, more in seeds),
        anchored=guess / bill - 1,
        anchor=reading is not None,
        held=bill <= upper,
        room=upper / bill - 1,
    )


def scores(path: Path, left: Counter[str]) -> Iterator[Score]:
    """Yield every call of a recording that can be scored; `left` counts the others by reason."""
    recording = load(path)
    cache: dict[int, tuple[Block, Counted]] = {}
    known: dict[str, Conversation] = defaultdict(Conversation)
    for call in recording.requests():
        if call.usage is None or call.usage.prompt == 0:
            left[f"no usage recorded ({recording.format})"] += 1
            continue
        ids, parts = counted_messages(call, cache)
        if call.usage.prompt < whole(parts, call.model) * prior(call.model) / 2:
            left["impossible: bills less than half of its own text (hand-written fixtures)"] += 1
            continue
        conversation = known[call.episode]
        if conversation.overhead is None:
            left["first of a conversation: gives the constant"] += 1
            conversation.begin(parts, call, call.usage)
            conversation.billed.append(Billed(ids=ids, usage=call.usage, hidden=0))
            continue
        if call.compacted:
            conversation.recent = max(0.0, call.usage.prompt / prior(call.model) - whole(parts, call.model))
        yield score(conversation, call, call.usage, ids, parts, recording.format)


def middle(values: Iterable[float]) -> float:
    return statistics.median(map(abs, values))


def row(found: list[Score]) -> dict[str, float]:
    n = len(found)
    return {
        "calls": n,
        "cold": middle(s.cold for s in found),
        "bias": statistics.median(s.cold for s in found),
        "fresh": middle(s.fresh for s in found),
        "anchored": middle(s.anchored for s in found),
        "p99": sorted(abs(s.anchored) for s in found)[int(n * 0.99)],
        "exceeded": sum(not s.held for s in found) / n,
        "room": statistics.median(s.room for s in found),
        "cold exceeded": sum(not s.cold_held for s in found) / n,
        "fresh exceeded": sum(not s.fresh_held for s in found) / n,
        "unanchored": sum(not s.anchor for s in found),
    } | {name: middle(s.seeds[n] for s in found) for n, name in enumerate(SEEDS)}


def verdicts(table: Mapping[str, Mapping[str, float]]) -> dict[str, bool]:
    return {
        "anchored, median at most 3 %": table["all"]["anchored"] <= TARGETS["anchored"],
        "cold, median at most 12 %": table["all"]["cold"] <= TARGETS["cold"],
        "bound exceeded in at most 1 % of calls": table["all"]["exceeded"] <= TARGETS["exceeded"],
        "no class of 30 calls or more over 15 % cold": all(
            line["cold"] <= TARGETS["class"] for line in table.values() if line["calls"] >= 30
        ),
    }


def shown(table: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    names = [name for name in table["all"] if name not in ("calls", "unanchored")]
    yield " ".join(["class".ljust(30), "calls", *(name.rjust(max(8, len(name))) for name in names)])
    for name, line in table.items():
        cells = (f"{line[key]:.2%}".rjust(max(8, len(key))) for key in names)
        yield " ".join([name.ljust(30), f"{line['calls']:5.0f}", *cells])


def wanted(manifest: Mapping[str, str], split: str) -> bool:
    parity = int(manifest["sha256"], 16) % 2
    return manifest["kind"] == "session" and (split == "all" or parity == (split == "report"))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--split", choices=("fit", "report", "all"), default="report")
    options = parser.parse_args(argv)
    with (options.data / "MANIFEST.csv").open(newline="", encoding="utf-8") as file:
        files = [line["file"] for line in csv.DictReader(file) if wanted(line, options.split)]
    grouped: dict[str, list[Score]] = defaultdict(list)
    left: Counter[str] = Counter()
    for name in files:
        for found in scores(options.data / name, left):
            for key in found.classes:
                grouped[key].append(found)
    table = {key: row(grouped[key]) for key in sorted(grouped, key=lambda key: (key != "all", key))}
    if options.json:
        print(json.dumps({"table": table, "left out": left, "targets": verdicts(table)}, indent=2))
        return 0
    print(*shown(table), sep="\n")
    print(*(f"left out: {count} {reason}" for reason, count in sorted(left.items())), sep="\n")
    print(*(f"{'met' if met else 'MISSED'}: {target}" for target, met in verdicts(table).items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
