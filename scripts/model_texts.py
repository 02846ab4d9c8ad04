"""Write `docs/reference/model-texts.md`, every text of ours that a model reads: `python -m scripts.model_texts`.

`tests/core/test_texts.py` compares the page with the code, so a change of a text is seen as a change of the page.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ebbtide
from ebbtide.assembly import NO_OUTPUT, NOT_EXECUTED, build_switch, plan_reminder
from ebbtide.core import texts
from ebbtide.core.stub import Stub, render
from ebbtide.fronts.chat import chat_records, loop, permission, prompts
from ebbtide.fronts.chat.tools import TOOLS, Tool
from ebbtide.wire.recall_tools import recall_definitions

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "model-texts.md"

INTRO = """\
# What a model reads

Every text that Ebbtide writes for a model, in one place: the texts of `default`, of the recall tools and of `ebb chat`.
The [presets](presets.md) use the texts of the agents that they reproduce. Texts that an earlier version wrote stay as
they are in the sessions that have them, and are still recognised.

`python -m scripts.model_texts` writes this page."""

EXAMPLES: Mapping[str, tuple[object, ...] | Mapping[str, object]] = {
    "gateway_marker": (texts.REMOVED, 1_200, 80, "1a2b3c4d5e6f708192a3b4c5"),
    "exchange_count": (3,),
    "characters_omitted": (8_000,),
    "lines_shown": (812, 2310),
    "partial_heading": (texts.FILES_READ, 10, 30),
    "running_task": ("task", "bash_1", "npm run dev"),
    "todo": {"text": "write the release notes", "status": "in_progress", "is_open": True},
    "proposed_plan": (" (#1a2b3c4d)", "1. parse the dates 2. add a test"),
    "open_failure": (" (#1a2b3c4d)", "pytest: AssertionError: 31 != 30"),
    "resolved_failure": ("make check: error: unused import", "dates.py"),
    "command_run": {"command": "pytest -q", "status": 1, "run_count": 3, "last_line": "2 failed, 40 passed"},
    "sub_agent_result": ("search", "The parser is in src/dates.py."),
    "summary_opening": {"turns": texts.turns_covered(1, 14), "has_summary": False},
    "turns_covered": (1, 14),
    "recall_hint": {
        "transcript": "/agents/session.jsonl", "history": "/agents/tool-results/history-1a2b3c4d.txt",
        "tool": "ebb_recall", "has_handles": True,
    },
    "listed_range": (14,),
    "summary_request": (texts.SUMMARY_TASK,),
    "language_rule": ("Chinese",),
    "length_rule": {"max_tokens": 4_000, "has_analysis": True},
    "media_not_shown": ("image", "image/png 800x600"),
    "tokens_not_shown": (1_200,),
    "attachments_not_shown": (2,),
    "call_speaker": ("Read",),
    "result_speaker": ("Read",),
    "search_description": ("ebb_read",),
    "read_description": ("ebb_recall", 8_000),
    "next_page": (8_000,),
    "handle_hint": ("ebb_read",),
    "no_match": ("gauge_offset",),
    "recall_error": (texts.ARGUMENTS_NOT_JSON,),
    "unknown_tool": ("ebb_find",),
    "argument_not_text": ("query",),
    "argument_bad_text": ("query",),
    "argument_not_integer": ("start",),
    "image_removed": ("it could not be read",),
}  # fmt: skip
"""Arguments for each function of `core/texts.py`."""


# --- every single text ------------------------------------------------------------------------------------------------


def single_texts() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of everything that is public in `core/texts.py`, in its order."""
    for node in ast.parse(inspect.getsource(texts)).body:
        if isinstance(node, ast.FunctionDef):
            example = EXAMPLES[node.name]
            function = getattr(texts, node.name)
            yield node.name, function(**example) if isinstance(example, Mapping) else function(*example)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                value = getattr(texts, target.id) if isinstance(target, ast.Name) else None
                if isinstance(value, str | tuple):
                    yield target.id, _as_lines(value)


def _as_lines(value: object) -> str:
    """Write tuples as lines: a list of rules, or of headings with what belongs there."""
    if isinstance(value, tuple):
        return "\n".join("\n".join(part) if isinstance(part, tuple) else f"- {part}" for part in value)
    return str(value)


# --- put together -----------------------------------------------------------------------------------------------------

_STUBS = (
    Stub(kind="result", name="read_file", tokens=9_000, lines=412, path="/agents/tool-results/toolu_1.txt"),
    Stub(kind="result", name="bash", tokens=773, lines=58, path="memory:toolu_2.txt", preview="FAILED test_dates.py"),
    Stub(kind="call", name="Write", about="src/app.py", tokens=5_200, lines=210),
    Stub(kind="image", about="image/png 800x600", tokens=640, lines=0, path="/agents/tool-results/image.json"),
    Stub(
        kind=texts.MESSAGES_LISTED, about=texts.listed_range(14), tokens=9_400, lines=120,
        path="/agents/tool-results/user-messages.txt",
    ),
    Stub(kind="history", about=texts.exchange_count(3), tokens=4_100, lines=96, path="/agents/tool-results/h.txt"),
)  # fmt: skip


def _conversation() -> list[dict[str, Any]]:
    calls: Sequence[tuple[str, dict[str, object], str]] = (
        ("Read", {"file_path": "/w/src/dates.py"}, "def parse_date(text): return strptime(text, '%d.%m.%y')\n" * 30),
        ("Bash", {"command": "pytest -q"}, "Exit code 1\nE  AssertionError: 31 != 30\n1 failed, 40 passed"),
        ("Edit", {"file_path": "/w/src/dates.py", "old_string": "%y", "new_string": "%Y"}, "Changed."),
        ("TodoWrite", {"todos": [{"content": "test leap years", "status": "pending"}]}, "ok"),
    )
    messages: list[dict[str, Any]] = [{"role": "user", "content": "The dates are wrong. Do not change the API."}]
    for n, (name, arguments, output) in enumerate(calls):
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": arguments}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": output}
        if output.startswith("Exit code 1"):
            result["is_error"] = True
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    messages.append({"role": "assistant", "content": "parse_date in dates.py read two digits of the year."})
    for n in range(8):
        messages += [
            {"role": "user", "content": f"And now the test of leap years, number {n}."},
            {"role": "assistant", "content": f"Test {n} is written."},
        ]
    return [*messages, {"role": "user", "content": "Now run them."}]


def _compaction() -> tuple[str, str]:
    """Compact a short conversation. Return the summarizer's prompt, and what replaces the old turns."""
    prompts_sent: list[str] = []

    def summarize(request: dict[str, Any]) -> str:
        content = request["messages"][-1]["content"]
        prompts_sent.append(content if isinstance(content, str) else content[-1]["text"])
        return "<summary>\n## Intent\nThe user wants dates.py to read four digits of the year.\n</summary>"

    context = ebbtide.Context(
        model="claude-opus-4-5", window=60_000, summarizer=ebbtide.Summarizer(summarize), recall="tool",
        clock=lambda: 1_000_000.0,
    )  # fmt: skip
    request = {"model": "claude-opus-4-5", "max_tokens": 1_000, "messages": _conversation()}
    context.prepare(request)
    text = context.compact(request).text
    return prompts_sent[0], text


def _tool_text(name: str, description: str, schema: Mapping[str, Any]) -> str:
    fields = [
        f"  {field}: {about['description']}" for field, about in schema["properties"].items() if "description" in about
    ]
    return "\n".join((f"{name}: {description}", *fields))


def _chat_tool(tool: Tool) -> str:
    return _tool_text(tool.name, tool.description, tool.schema())


def _recall_answers() -> Iterator[tuple[str, str]]:
    context = ebbtide.Context(model="claude-opus-4-5", window=60_000, recall="tool", clock=lambda: 1_000_000.0)
    context.prepare({"model": "claude-opus-4-5", "max_tokens": 1_000, "messages": _conversation()})
    for arguments in ({"query": "parse_date"}, {"query": "gauge_offset"}):
        yield f"ebb_recall {json.dumps(arguments)}", context.recall_answer("ebb_recall", arguments)
    handle = context.recall("AssertionError")[0].handle
    for arguments in ({"handle": handle}, {"handle": "toolu_99.txt"}):
        yield f"ebb_read {json.dumps(arguments)}", context.recall_answer("ebb_read", arguments)


def _other_prompts() -> Iterator[str]:
    common = prompts.prompt_for("claude")
    for model in ("gpt-5", "gpt-4o", "gemini-3"):
        yield f"> {model}\n{prompts.prompt_for(model).removeprefix(common).strip()}"
    yield f"> a sub-agent\n{prompts.SUBAGENT_PROMPT.strip()}"
    yield f"> a very small model\n{prompts.SMALL_MODEL_PROMPT}"


def page() -> str:
    prompt, compaction = _compaction()
    chat_notices = (
        loop.NOT_RUN, chat_records.INTERRUPTED, permission.PLAN_REFUSAL, NOT_EXECUTED, NO_OUTPUT, plan_reminder(),
        build_switch(),
    )  # fmt: skip
    sections = (
        ("Stubs", "\n".join(map(render, _STUBS))),
        ("A compaction", compaction),
        ("The question to a summarizer", prompt),
        ("The recall tools", "\n\n".join(_tool_text(*definition) for definition in recall_definitions())),
        ("Answers of the recall tools", "\n\n".join(f"> {call}\n{answer}" for call, answer in _recall_answers())),
        ("The system prompt of `ebb chat`", prompts.prompt_for("claude-opus-4-5")),
        ("What other models and sub-agents get", "\n\n".join(_other_prompts())),
        ("The tools of `ebb chat`", "\n\n".join(map(_chat_tool, TOOLS))),
        ("Notices of `ebb chat` and of your own loop", "\n".join(chat_notices)),
    )
    shown = "\n".join(text for _, text in sections)
    others = [f"{name}: {text.strip()}" for name, text in single_texts() if not _is_shown(text, shown)]
    sections = (*sections, ("All others, by name", "\n".join(others)))
    return "\n\n".join((INTRO, *(f"## {title}\n\n{_fenced(text)}" for title, text in sections))) + "\n"


def _is_shown(text: str, shown: str) -> bool:
    """Whether every line of a text, without its bullet, is there already."""
    return len(text) > 3 and all(line.removeprefix("- ") in shown for line in text.strip().splitlines())


def _fenced(text: str) -> str:
    fence = "````" if "```" in text else "```"
    return f"{fence}text\n{text.rstrip()}\n{fence}"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
