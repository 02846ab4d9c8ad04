"""One task for the agents of all frameworks, a scripted provider that checks every request, and a verdict on the run.

The agent is told to read files one after the other. Each file is about 900 tokens and ends with a code that no other file has.
Halfway the agent stops and its user says "Go on.". Later the model searches for a name in the third file, which has left
the request by then, and reads what it finds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from upstream.finding import Body
from upstream.prefix import tokens, units
from upstream.provider import TOO_LONG, Exchange, wire_of
from upstream.script import Part, Say, Think, Turn, Use

WINDOW = 20_000
STEPS, PAUSE, RECALL_AT = 66, 33, 50
WORDS = "Remember that the datum of Brest is 4.02 m, whatever the files say."
"""What the user says once, at the beginning, and must still be there at the end."""
SYSTEM = "You repair a program that counts high tides."
_HANDLE = re.compile(r"<recalled>.*?handle (\w+)", re.DOTALL)
_CONVERSATION = re.compile(r"conversation (main[a-z0-9-]*)|src/(main[a-z0-9-]*)/f\d")
"""As the user names it, or by its files where a compaction has left only the user's requirements."""
_SUMMARY_REQUEST = "create a detailed summary"
"""How Claude Code asks for one, with its tools. Others ask without tools."""
TOO_LONG_RULES = {"A60", *(rule for rule, _ in TOO_LONG.values())}  # A60: with `max_tokens`


def task(conversation: str) -> str:
    return f"This is conversation {conversation}. {WORDS} Read all files, one after the other."


def summary(conversation: str, steps: int) -> str:
    """Return what the model says when a framework asks for a summary: what happened, in its own words."""
    return (
        f"This is conversation {conversation}. The user wants all files read, one after the other, and named a datum. "
        f"The agent is at step {steps}; it has read src/{conversation}/f1.py up to src/{conversation}/f{steps}.py. "
        "None of them had an error. Next: read the file that follows."
    )


def code_of(path: str) -> str:
    return hashlib.sha256(f"code of {path}".encode()).hexdigest()[:16]


def _seed(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()


def read_page(path: str) -> str:
    """Return what the tool `read_file` prints."""
    seed = _seed(path)
    lines = [f"{n:3d}  def gauge_{seed[n : n + 6]}_{n}(level, datum): return level - datum * {n}" for n in range(36)]
    return f"file {path}\n" + "\n".join(lines) + f"\nCODE = '{code_of(path)}'\n"


def path_of(conversation: str, step: int) -> str:
    return f"src/{conversation}/f{step}.py"


@dataclass
class Script:
    """Says what the model says next, in each conversation for itself. `asks_helper`: the step that calls a sub-agent."""

    asks_helper: int = 0
    steps: dict[str, int] = field(default_factory=dict)

    def __call__(self, body: Body) -> Turn:
        conversation = conversation_of(body)
        if not conversation:
            return "A title."
        if not body.get("tools") or _SUMMARY_REQUEST in json.dumps(_entries(body)[-1]):
            return summary(conversation, self.steps.get(conversation, 0))
        step = self.steps[conversation] = self.steps.get(conversation, 0) + 1
        if step >= STEPS or step == PAUSE:
            return done(step, tool_names(body))
        names = tool_names(body)
        if step == self.asks_helper and "ask_helper" in names:
            argument = "request" if '"request"' in names else "task"  # of ADK, of the others
            return [Use("ask_helper", {argument: task(f"{conversation}-helper")})]
        if step == self.asks_helper and '"task"' in names:  # of deepagents
            asked = [task(f"{conversation}-helper{n}") for n in (1, 2)]
            return [Use("task", {"description": text, "subagent_type": "general-purpose"}) for text in asked]
        if step == RECALL_AT and "ebb_recall" in names:
            return [Use("ebb_recall", {"query": f"gauge_{_seed(path_of(conversation, 3))[3:9]}_3"})]
        hashes = re.findall("hash=([0-9a-f]{24})", json.dumps(_entries(body)))
        if step == RECALL_AT and "headroom_retrieve" in names and len(hashes) > 2:
            return [Use("headroom_retrieve", {"hash": hashes[2]})]  # of the third file: the first results go first
        handle = _HANDLE.search(json.dumps(_entries(body)[-1]))
        if handle and "ebb_read" in names:
            return [Use("ebb_read", {"handle": handle[1]})]
        reads = [path_of(conversation, number) for number in ((step, 1000 + step) if step % 7 == 0 else (step,))]
        calls = [
            Use("Read", {"file_path": path}) if '"Read"' in names else Use("read_file", {"path": path})
            for path in reads
        ]
        said: list[Part] = [Say(f"Step {step}.")] if step % 5 == 0 else []
        return [*_thinking(body, step), *said, *calls]


def done(step: int, tools: str) -> Turn:
    """Return how the model ends a turn: in smolagents, with a call."""
    if "final_answer" in tools:
        return [Use("final_answer", {"answer": f"Done at step {step}."})]
    return f"Done at step {step}."


def _thinking(body: Body, step: int) -> Sequence[Part]:
    is_on = (body.get("thinking") or {}).get("type") in ("adaptive", "enabled") or "reasoning" in body
    return [Think(f"File {step} is next, since the one before was no help.")] if is_on else []


def conversation_of(body: Body) -> str:
    found = _CONVERSATION.search(json.dumps(_entries(body)))
    return found[1] or found[2] if found else ""


def _entries(body: Body) -> list[Body]:
    return body.get("messages") or body.get("input") or body.get("contents") or []


def tool_names(body: Body) -> str:
    return json.dumps(body.get("tools") or [])


@dataclass
class Verdict:
    """What became of a run, as the provider saw it."""

    accepted: int = 0
    too_long: int = 0
    invalid: int = 0
    largest: int = 0
    breaks: int = 0
    """Requests that do not extend the one before in their conversation."""
    unexplained: int = 0
    """Those of them that have no new edit."""
    edits: int = 0
    """Requests with new edits."""
    keeps_words: bool = False
    """Whether the last request still has the user's words."""
    recalled: bool = False
    """Whether the model could read the code of the third file after it had left."""
    is_finished: bool = False
    sessions: list[str] = field(default_factory=list)
    conversations: list[str] = field(default_factory=list)
    error: str = ""
    examples: list[str] = field(default_factory=list)
    """Of refused requests."""

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def judge(exchanges: Sequence[Exchange], reports: Sequence[tuple[str, object]], error: str = "") -> Verdict:
    """Judge a run by what the provider received. `reports` are those of `on_report`, in order of acceptance."""
    verdict = Verdict(error=error, sessions=sorted({session for session, _ in reports}))
    verdict.edits = sum(bool(report.edits) for _, report in reports)
    last: dict[str, list[str]] = {}
    steps: dict[str, int] = {}
    for exchange in exchanges:
        if exchange.refused:
            rule = exchange.refused[0].rule
            verdict.too_long += rule in TOO_LONG_RULES
            verdict.invalid += rule not in TOO_LONG_RULES
            verdict.examples = [*verdict.examples, str(exchange.refused[0])][:3]
            continue
        conversation = conversation_of(exchange.parsed)
        if exchange.usage is None or not conversation or not exchange.parsed.get("tools"):
            continue  # it only counts tokens, or asks for a title
        run = units(wire_of(exchange.path) or "", exchange.parsed)
        texts = [unit.text for unit in run]
        verdict.accepted += 1
        verdict.largest = max(verdict.largest, tokens(run))
        steps[conversation] = steps.get(conversation, 0) + 1
        if conversation in last and texts[: len(last[conversation])] != last[conversation]:
            verdict.breaks += 1
        last[conversation] = texts
        main = min(last, key=len)
        if conversation == main:
            verdict.keeps_words = WORDS in exchange.raw.decode()
            verdict.is_finished = steps[main] >= STEPS
            verdict.recalled |= steps[main] > RECALL_AT and code_of(path_of(main, 3)) in exchange.raw.decode()
    verdict.conversations = sorted(last)
    verdict.unexplained = max(0, verdict.breaks - verdict.edits)
    return verdict
