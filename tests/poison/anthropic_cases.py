"""Histories the Messages API refused, for ever."""

from __future__ import annotations

from typing import Any

from poison.case import HOUR, MARK, THOUGHT, TOOLS, Case, Json, assistant, result, text, use, user
from poison.histories import picture


def case(name: str, source: str, rules: str, *messages: Any, refused: bool = False, **more: Any) -> Case:
    body: Json = {"model": "claude-sonnet-4-5", "max_tokens": 8192, "tools": TOOLS, "messages": [*messages], **more}
    return Case(name=name, source=source, wire="anthropic", rules=tuple(rules.split()), body=body, refused=refused)


def srv(identity: str, name: str = "web_search") -> Json:
    return {"type": "server_tool_use", "id": identity, "name": name, "input": {}}


def advice(identity: str) -> Json:
    return {"type": "advisor_tool_result", "tool_use_id": identity, "content": {"type": "advisor_result", "text": "x"}}


CODE = {"caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_c"}}
MANUAL = {"thinking": {"type": "enabled", "budget_tokens": 2048}}
ADVISOR = [*TOOLS, {"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-4-8"}]
HALF = "edited \ud83d"

CASES = [
    # structure
    case("prefill on a model without it", "nanobot#3297", "A6", user("go"), assistant("Sure"), model="claude-opus-4-6"),
    case("resume after an interrupted reply", "llxprt#3695", "A6", user("go"), assistant("I was"), model="claude-opus-4-8"),
    case("prefill with a trailing space", "litellm:factory.py", "A7", user("go"), assistant("The answer is ")),
    case("prefill block with a trailing newline", "litellm:factory.py", "A7", user("go"), assistant(text("{\n"))),
    case("empty assistant in the middle", "litellm#2549", "A8", user("a"), assistant(""), user("b")),
    case("empty user message", "claude-code#6774", "A8", user("a"), assistant("b"), user()),
    case("assistant without content", "CodePilot#629", "A8", user("a"), {"role": "assistant", "content": None}, user("b")),
    case("empty text block persisted", "claude-code#55369", "A9", user("a"), assistant(text(""), text("b")), user("c")),
    case("blank text beside a call", "claude-code#60837", "A9", user("a"), assistant(text("\n\n"), use("t1")), user(result("t1"))),
    case("empty text inside a result", "validity.md:A9", "A9", user("a"), assistant(use("t1")), user(result("t1", [text("")]))),
    case("blank system block", "validity.md:A9", "A9", user("a"), system=[text("be good"), text(" ")]),
    case("two user messages in a row", "copilot-cli#364", "A5", user("hello"), user("!ls -lah"), assistant("x"), user("y")),
    case("one reply over several rows", "validity.md:A5", "A5", user("a"), assistant("b"), assistant(use("t1")), user(result("t1"))),
    case("history cut to start with a reply", "validity.md:A4", "A4", assistant("as I said"), user("go on")),
    case("system role first, as OpenAI does", "validity.md:A2", "A2", {"role": "system", "content": "be good"}, user("hi")),
    case("operator text on an older model", "validity.md:A2", "A2", user("hi"), {"role": "system", "content": "note"}, assistant("x"), user("y")),
    case("operator text between two user turns", "validity.md:A3", "A3", user("hi"), {"role": "system", "content": "note"}, user("y"), model="claude-opus-4-8"),
    case("no messages at all", "validity.md:A1", "A1", refused=True),
    # fields
    case("text delta merged into a call", "claude-code#4378", "A10", user("a"), assistant(use("t1", text="")), user(result("t1"))),
    case("cache mark on thinking", "CLIProxyAPI#512", "A46", user("a"), assistant({**THOUGHT, **MARK}, text("b")), user("c")),
    case("beta field on a tool", "claude-code#31033", "", user("a"), tools=[{**TOOLS[0], "defer_loading": False}]),
    case("beta scope on a system mark", "copilot-api#145", "", user("a"), system=[text("s", cache_control={"type": "ephemeral", "scope": "global"})]),
    case("beta context management", "claude-code#14135", "", user("a"), context_management={"edits": []}),
    case("lone surrogate in a result", "claude-code#60394", "A11", user("a"), assistant(use("t1")), user(result("t1", HALF))),
    case("lone surrogate in the user's words", "claude-code#72995", "A11", user(HALF)),
    case("lone surrogate in a call's arguments", "claude-code#1709", "A11", user("a"), assistant(use("t1", input={"new": HALF})), user(result("t1"))),
    case("lone surrogate in the system prompt", "claude-code#9911", "A11", user("a"), system=HALF),
    case("lone surrogate in thinking", "mastra#15573", "A11", user("a"), assistant({**THOUGHT, "thinking": HALF}, text("b")), user("c")),
    # tools
    case("foreign call id", "bifrost#5097", "A14", user("a"), assistant(use("functions.bash:0")), user(result("functions.bash:0"))),
    case("Gemini's empty ids", "openclaw#21985", "A14", user("a"), assistant(use("")), user(result(""))),
    case("retried reply with the same id", "claude-code#20901", "A15", user("a"), assistant(use("t1"), use("t1")), user(result("t1"))),
    case("same id in two turns", "claude-code#20901", "A15", user("a"), assistant(use("t1")), user(result("t1")), assistant(use("t1")), user(result("t1"))),
    case("call without a result after a crash", "openclaw#10310", "A16", user("a"), assistant(use("t1")), user("are you there?")),
    case("interrupted by the user", "claude-code#1894", "A16", user("a"), assistant(use("t1"), use("t2")), user(result("t1"))),
    case("interrupted at the very end", "copilot-cli#762", "A16", user("a"), assistant(text("b"), use("t1"))),
    case("both of two calls lost", "copilot-cli#330", "A16", user("a"), assistant(use("t1"), use("t2")), user("b"), assistant("c"), user("d")),
    case("steering message before the result", "copilot-cli#3215", "A19", user("a"), assistant(use("t1")), user(text("wait"), result("t1"))),
    case("steering message in a message of its own", "copilot-cli#3215", "A16 A5", user("a"), assistant(use("t1")), user("wait"), user(result("t1"))),
    case("result without its call after compaction", "claude-code#24670", "A17", user(text("summary"), result("t0")), assistant("b"), user("c")),
    case("orphan in the first message", "claude-code#558", "A17", user(result("t0"), text("go"))),
    case("compaction cut between the pair", "copilot-cli#1005", "A17", user("summary"), assistant("b"), user(result("t0"))),
    case("result in a later message", "openclaw#5481", "A16 A17", user("a"), assistant(use("t1")), user("b"), assistant("c"), user(result("t1"))),
    case("two results for one call", "hindsight#4250", "A18", user("a"), assistant(use("t1")), user(result("t1", "old"), result("t1", "new"))),
    case("more results than calls", "strands#1435", "A17", user("a"), assistant(use("t1")), user(result("t1"), result("t2"))),
    case("empty error result", "strands#1435", "A22", user("a"), assistant(use("t1")), user(result("t1", [], is_error=True))),
    case("result inside the assistant message", "validity.md:A20", "A20", user("a"), assistant(use("t1"), result("t1"), text("b")), user("c")),
    case("call inside the user message", "validity.md:A20", "A20", user(use("t1")), refused=True),
    case("arguments left as JSON text", "validity.md:A21", "A21", user("a"), assistant(use("t1", input='{"command": "ls"}')), user(result("t1"))),
    case("partial JSON of a cut stream", "validity.md:B.6", "A21", user("a"), assistant(use("t1", input='{"comm')), user(result("t1"))),
    case("result content as an object", "validity.md:A22", "A22", user("a"), assistant(use("t1")), user(result("t1", {"exit": 0}))),
    case("MCP resource in a result", "validity.md:A22", "A22", user("a"), assistant(use("t1")), user(result("t1", [{"type": "resource", "uri": "x"}]))),
    case("reference to a tool that has gone", "claude-code#87047", "A23", user("a"), assistant(use("t1")), user(result("t1", [{"type": "tool_reference", "tool_name": "mcp__gone"}]))),
    case("programmatic call answered with text", "validity.md:A27", "A27", user("a"), assistant(srv("srvtoolu_c", "code_execution"), use("t1", **CODE)), user(result("t1"), text("hurry")), container="container_1"),
    case("container forgotten", "anthropic-sdk-python#1801", "A28", user("a"), assistant(srv("srvtoolu_c", "code_execution"), use("t1", **CODE)), user(result("t1")), refused=True),
    case("container forgotten by a harness", "inspect_ai#4603", "A28", user("a"), assistant(srv("srvtoolu_c", "code_execution"), use("t1", **CODE)), user(result("t1"), result("t2")), refused=True),
    case("two tools of one name", "validity.md:A25", "A25", user("a"), tools=[*TOOLS, *TOOLS], refused=True),
    # server tools
    case("advice without its question", "claude-code#64383", "A29", user("a"), assistant(advice("srvtoolu_1"), text("b")), user("c"), tools=ADVISOR),
    case("advice before its question", "claude-code#80439", "A29", user("a"), assistant(advice("srvtoolu_1"), srv("srvtoolu_1", "advisor"), text("b")), user("c"), tools=ADVISOR),
    case("advice after the advisor has gone", "validity.md:A26", "A26", user("a"), assistant(srv("srvtoolu_1", "advisor"), advice("srvtoolu_1"), text("b")), user("c")),
    case("search without its result", "validity.md:A29", "A29", user("a"), assistant(srv("srvtoolu_1"), text("b")), user("c")),
    # thinking
    case("thinking without signature", "gajae#4630", "A34", user("a"), assistant({"type": "thinking", "thinking": "x"}, text("b")), user("c")),
    case("thinking of a cut stream", "openclaw#84430", "A34", user("a"), assistant({"type": "thinking", "thinking": "x", "signature": ""}), user("c")),
    case("unsigned thinking in an open loop", "weave#860", "A34", user("a"), assistant({"type": "thinking", "thinking": "x"}, use("t1")), user(result("t1")), **MANUAL),
    case("redacted thinking without data", "validity.md:A40", "A40", user("a"), assistant({"type": "redacted_thinking", "data": ""}, text("b")), user("c")),
    case("loop begun without thinking", "validity.md:A37", "A37", user("a"), assistant(use("t1")), user(result("t1")), **MANUAL),
    case("bare prefill with thinking on", "validity.md:A37", "A37", user("a"), assistant("Sure"), **MANUAL),
    case("thinking switched off before a prefill", "forgecode#1853", "A38", user("a"), assistant(THOUGHT, text("b"))),
    case("calls voided by a fallback", "validity.md:A41", "A41", user("a"), assistant(THOUGHT, text("b"), use("t1"), {"type": "fallback"}, text("c")), user(result("t1"))),
    # caching
    case("five breakpoints", "validity.md:A45", "A45", *[m for n in range(5) for m in (user(text(str(n), **MARK)), assistant("x"))], user("y")),
    case("breakpoint on empty text", "claude-code#50082", "A47", user("a"), assistant("b"), user(text("", **MARK), text("c"))),
    case("breakpoint on the only, empty text", "claude-code#55302", "A47", user("a"), assistant("b"), user(text("", **MARK))),
    case("an hour after five minutes", "headroom#2939", "A48", user(text("a", **HOUR)), assistant("b"), user("c"), system=[text("s", **MARK)]),
    case("breakpoint inside a result", "validity.md:A46", "A46", user("a"), assistant(use("t1")), user(result("t1", [text("x", **MARK)]))),
    case("unknown kind of breakpoint", "validity.md:A49", "A49", user(text("a", cache_control={"type": "persistent"}))),
    # media
    case("image over 8000 px", "claude-code#4778", "A54", user(picture(9000, 100), text("what is it?"))),
    case("oversized image in a result", "oh-my-pi#10633", "A54", user("a"), assistant(use("t1")), user(result("t1", [picture(100, 9000)]))),
    case("the twenty-first image", "claude-code#14412", "A54", user(*[picture(2500, 100) for _ in range(21)], text("compare"))),
    case("PNG declared as JPEG", "validity.md:A56", "A56", user({"type": "image", "source": {**picture()["source"], "media_type": "image/jpeg"}})),
    case("PDF with newlines in its base64", "validity.md:A57", "A57", user({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE\nRi0x"}})),
    case("empty compaction block", "validity.md:A61", "A61", user("a"), assistant({"type": "compaction", "content": ""}, text("b")), user("c")),
]  # fmt: skip
