"""Each rule of Anthropic's wire refuses its bad example, in the provider's words, and accepts its good one."""

from __future__ import annotations

import base64

import pytest

from upstream.check import RULES, WARNED, refusals, warnings
from upstream.finding import Body, Json
from upstream.pixels import png

OLD, NEW, LATEST = "claude-sonnet-4-5", "claude-opus-4-8", "claude-fable-5"
READ = {"name": "Read", "input_schema": {"type": "object"}}
MARK: Body = {"cache_control": {"type": "ephemeral"}}
HOUR: Body = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def user(*blocks: Json) -> Body:
    return {"role": "user", "content": blocks[0] if blocks and isinstance(blocks[0], str) else list(blocks)}


def model(*blocks: Json) -> Body:
    return {"role": "assistant", "content": blocks[0] if blocks and isinstance(blocks[0], str) else list(blocks)}


def text(words: str = "hi", **more: Json) -> Body:
    return {"type": "text", "text": words, **more}


def use(name: str = "toolu_1", **more: Json) -> Body:
    return {"type": "tool_use", "id": name, "name": "Read", "input": {}, **more}


def result(name: str = "toolu_1", content: Json = "ok", **more: Json) -> Body:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def think(**more: Json) -> Body:
    return {"type": "thinking", "thinking": "hm", "signature": "s", **more}


def srv(name: str = "srvtoolu_1", tool: str = "web_search") -> Body:
    return {"type": "server_tool_use", "id": name, "name": tool, "input": {}}


def found(name: str = "srvtoolu_1", kind: str = "web_search") -> Body:
    return {"type": f"{kind}_tool_result", "tool_use_id": name, "content": []}


def image(width: int = 10, height: int = 10) -> Body:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(width, height)}}


def pdf(pages: int = 1, data: str = "", **more: Json) -> Body:
    raw = base64.b64encode(b"%PDF " + b"/Type /Pages /Type /Page " + b"/Type/Page " * (pages - 1)).decode()
    return {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": data or raw},
        **more,
    }


def body(*messages: Body, of: str = OLD, **settings: Json) -> Body:
    return {"model": of, "max_tokens": 4096, "tools": [READ], "messages": list(messages), **settings}


def loop(*blocks: Json, **settings: Json) -> Body:
    """A call and its result, in an open loop."""
    return body(user("go"), model(*blocks, use()), user(result()), **settings)


FALLBACK = {"type": "fallback"}
BUDGET: Body = {"thinking": {"type": "enabled", "budget_tokens": 2048}}
CODE = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
CODED = (user("go"), model(srv(tool="code_execution"), use(caller=CODE)))
MCP = {"name": "docs", "type": "url", "url": "https://example.org"}
TOOLSET = {"type": "mcp_toolset", "mcp_server_name": "docs"}
REFERENCE = {"type": "tool_reference", "tool_name": "Grep"}
UNANSWERED = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: {}. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
ORPHAN = (
    "messages.{}.content.{}: unexpected `tool_use_id` found in `tool_result` blocks: {}. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)
PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
SIDES = "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size"

REFUSED: list[tuple[str, Body, str]] = [
    ("A1", body(), "messages: at least one message is required"),
    ("A1", body(*[user("a")] * 100_001), "messages: at most 100000"),
    ("A2", body(user("a"), {"role": "system", "content": "b"}), "role 'system' is not supported on this model"),
    ("A2", body({"role": "tool", "content": "b"}), "messages.0.role"),
    ("A3", body({"role": "system", "content": "b"}, user("a"), of=NEW), "messages.0: "),
    ("A3", body(user("a"), model("b"), {"role": "system", "content": "b"}, of=NEW), "must follow a user message"),
    ("A3", body(user("a"), {"role": "system", "content": "b"}, user("c"), of=NEW), "followed by an assistant"),
    ("A3", body(user("a"), {"role": "system", "content": [image()]}, of=NEW), "only text"),
    ("A4", body(model("a"), user("b")), 'messages: first message must use the "user" role'),
    ("A5", body(user("a"), user("b")), 'messages: roles must alternate between "user" and "assistant"'),
    ("A5", body(user("a"), model("b"), model("c"), user("d")), "roles must alternate"),
    ("A6", body(user("a"), model("b"), of=NEW), PREFILL),
    ("A6", body(user("a"), model("b"), of="claude-sonnet-5-20260701"), PREFILL),
    ("A7", body(user("a"), model("b ")), "messages: final assistant content cannot end with trailing whitespace"),
    (
        "A8",
        body(user("a"), model(), user("c")),
        "messages.1: all messages must have non-empty content except for the optional final assistant message",
    ),
    ("A8", body(user("")), "messages.0: all messages must have non-empty content"),
    ("A8", body({"role": "user", "content": None}), "messages.0.content"),
    ("A8", body(user(text(), 7)), "messages.0.content"),
    ("A9", body(user(text(""))), "messages: text content blocks must be non-empty"),
    ("A9", body(user(" \n")), "messages: text content blocks must contain non-whitespace text"),
    ("A9", body(user("a"), system=[text("")]), "system: text content blocks must be non-empty"),
    ("A9", body(user("a"), model(use()), user(result(content=[text("")]))), "text content blocks must be non-empty"),
    (
        "A10",
        body(user("a"), model(use(text="x")), user(result())),
        "messages.1.content.0.tool_use.text: Extra inputs are not permitted",
    ),
    (
        "A10",
        body(user("a"), system=[text(), text(cache_control={"type": "ephemeral", "scope": "global"})]),
        "system.1.cache_control.ephemeral.scope: Extra inputs are not permitted",
    ),
    ("A11", body(user("a \ud83d")), "surrogates not allowed"),
    ("A11", body(user("a"), temperature=float("nan")), "not valid JSON"),
    (
        "A14",
        body(user("a"), model(use("a.b")), user(result("a.b"))),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    (
        "A15",
        body(user("a"), model(use(), use()), user(result())),
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    ("A16", body(user("a"), model(use()), user("b")), UNANSWERED.format("toolu_1")),
    ("A16", body(user("a"), model(use(), use("b"), use("c")), user(result())), UNANSWERED.format("b, c")),
    ("A16", body(user("a"), model(use())), UNANSWERED.format("toolu_1")),
    ("A16", body(user("a"), model(use()), user("b"), model("c"), user(result())), UNANSWERED.format("toolu_1")),
    ("A17", body(user(result())), ORPHAN.format(0, 0, "toolu_1")),
    ("A17", body(user("a"), model("b"), user(text(), result())), ORPHAN.format(2, 1, "toolu_1")),
    (
        "A18",
        body(user("a"), model(use()), user(result(), result())),
        "each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_1",
    ),
    ("A20", body(user(use())), "messages.0.content.0"),
    ("A20", body(user("a"), model(result()), user("b")), "messages.1.content.0"),
    ("A21", body(user("a"), model(use(input="x")), user(result())), "Input should be a valid dictionary"),
    ("A22", body(user("a"), model(use()), user(result(content=7))), "messages.2.content.0.tool_result.content"),
    ("A22", body(user("a"), model(use()), user(result(content="", is_error=True))), "messages.2.content.0.tool_result"),
    (
        "A22",
        body(user("a"), model(use()), user(result(content=[use("b")]))),
        "messages.2.content.0.tool_result.content",
    ),
    (
        "A23",
        body(user("a"), model(use()), user(result(content=[REFERENCE]))),
        "Tool reference 'Grep' not found in available tools",
    ),
    ("A25", body(user("a"), tools=[{"name": "a b"}]), "tools.0"),
    ("A25", body(user("a"), tools=[{"name": "a" * 129}]), "tools.0"),
    ("A25", body(user("a"), tools=[READ, READ]), "tools: Tool names must be unique."),
    ("A25", body(user("a"), tools=[{**READ, "defer_loading": True}]), "All tools have defer_loading set"),
    ("A26", body(user("a"), model(srv(tool="advisor"), found(kind="advisor")), user("b")), "messages.1.content.1"),
    ("A27", body(*CODED, user(result(), text()), container="c"), "messages.2.content.1"),
    (
        "A28",
        body(*CODED, user(result())),
        "container_id is required when there are pending tool uses generated by code execution with tools.",
    ),
    (
        "A29",
        body(
            user("a"), model(found(kind="advisor")), user("b"), tools=[READ, {"type": "advisor_1", "name": "advisor"}]
        ),
        "messages.1.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_1. "
        "Each `advisor_tool_result` block must have a corresponding `server_tool_use` block before it.",
    ),
    ("A29", body(user("a"), model(found(), srv()), user("b")), "before it"),
    ("A29", body(user("a"), model(srv()), user("b"), model(found()), user("c")), "without a corresponding result"),
    ("A32", body(user("a"), mcp_servers=[MCP]), "'docs'"),
    ("A32", body(user("a"), tools=[READ, TOOLSET]), "'docs'"),
    (
        "A34",
        body(user("a"), model({"type": "thinking", "thinking": "x"}, text()), user("b")),
        "messages.1.content.0.thinking.signature: Field required",
    ),
    (
        "A37",
        loop(**BUDGET),
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` "
        "is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
        "`tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. "
        "To avoid this requirement, disable `thinking`.",
    ),
    ("A37", loop(text(), think(), **BUDGET), "but found `text`"),
    (
        "A38",
        body(user("a"), model(think(), text())),
        "messages.1.content.0: When thinking is disabled, an `assistant` message in the final position cannot contain "
        "`thinking`. To use thinking blocks, enable `thinking` in your request.",
    ),
    ("A40", body(user("a"), model({"type": "redacted_thinking"}, text()), user("b")), "redacted_thinking.data"),
    ("A41", body(user("a"), model(think(), text(), FALLBACK, text()), user("b")), "messages.1.content.0"),
    ("A41", body(user("a"), model(text(), srv(), FALLBACK, text()), user("b")), "messages.1.content.1"),
    ("A42", body(user("a"), thinking={"type": "enabled", "budget_tokens": 1023}), "1024"),
    ("A42", body(user("a"), thinking={"type": "enabled", "budget_tokens": 4096}), "max_tokens"),
    ("A42", body(user("a"), of=LATEST, **BUDGET), "`enabled` is not supported"),
    ("A42", body(user("a"), of=LATEST, thinking={"type": "disabled"}), "`disabled` is not supported"),
    ("A42", body(user("a"), of=NEW, temperature=1), "temperature"),
    (
        "A45",
        body(user(*[text(**MARK)] * 3), system=[text(**MARK)], tools=[{**READ, **MARK}]),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    (
        "A46",
        body(user("a"), model(think(**MARK), text()), user("b")),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    ("A46", body(user("a"), model(use()), user(result(content=[text(**MARK)]))), "tool_result.content.0"),
    (
        "A47",
        body(user(text("", **MARK), text())),
        "messages.0.content.0.text: cache_control cannot be set for empty text",
    ),
    (
        "A48",
        body(user(text(**MARK), text(**HOUR))),
        "messages.0.content.1.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
        "cache_control block. Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
    ),
    ("A48", body(user("a"), system=[text(**HOUR)], tools=[{**READ, **MARK}]), "system.0.cache_control.ttl"),
    ("A49", body(user(text(cache_control={"type": "forever"}))), "messages.0.content.0.cache_control"),
    ("A49", body(user(text(cache_control={"type": "ephemeral", "ttl": "2h"}))), "messages.0.content.0.cache_control"),
    ("A53", body(user("a"), max_tokens=0, stream=True), "stream"),
    ("A53", body(user("a"), max_tokens=0, tool_choice={"type": "any"}), "tool_choice"),
    ("A54", body(user(image(8001, 1), text())), f"{SIDES}: 8000 pixels"),
    ("A54", body(user(image(2001, 1), *[image()] * 20)), f"{SIDES} for many-image requests: 2000 pixels"),
    ("A54", body(user("a"), model(use()), user(result(content=[image(1, 8001)]))), "8000 pixels"),
    (
        "A55",
        body(user({"type": "image", "source": {"type": "base64", "data": "A" * 10_000_001}})),
        "image exceeds 10 MB",
    ),
    ("A57", body(user(pdf(data="JVBE\nRg=="))), "newlines"),
    ("A57", body(user(pdf(601))), "600 PDF pages"),
    (
        "A58",
        body(user(pdf(citations={"enabled": True})), output_config={"format": {"type": "json_schema"}}),
        "citations",
    ),
    ("A61", body(user("a"), model({"type": "compaction", "content": ""}, text()), user("b")), "compaction"),
]

ACCEPTED: list[tuple[str, Body]] = [
    ("A1", body(user("a"))),
    ("A2", body(user("a"), {"role": "system", "content": "b"}, of=NEW)),
    ("A3", body(user("a"), {"role": "system", "content": "b"}, model("c"), user("d"), of=NEW)),
    ("A3", body(user("a"), model(srv()), {"role": "system", "content": "b"}, of=NEW)),
    ("A4", body(user("a"), model("b"), user("c"))),
    ("A5", body(user("a"), model(srv()), model(found(), text()), user("c"))),
    ("A6", body(user("a"), model("b"), of=OLD)),
    ("A6", body(user("a"), model(text(), srv()), of=NEW)),
    ("A7", body(user("a"), model("b "), user("c"))),
    ("A8", body(user("a"), model())),
    ("A9", body(user("a"), model(use()), user(result(content="")), system="")),
    ("A10", loop(text("x", something_new=1))),
    ("A11", body(user("a 🙂 中文"), temperature=0.5)),
    ("A14", body(user("a"), model(use("a-B_9")), user(result("a-B_9")))),
    ("A15", body(user("a"), model(use(), use("b")), user(result(), result("b")))),
    ("A16", body(user("a"), model(use(), use("b")), user(result("b"), result()))),
    ("A17", body(user("a"), model(use()), user(result(), text()))),
    ("A18", body(user("a"), model(use()), user(result()), model(use("b")), user(result("b")))),
    ("A20", loop()),
    ("A21", loop()),
    ("A22", body(user("a"), model(use()), user(result(content=[text(), image(), pdf()])))),
    ("A23", body(user("a"), model(use()), user(result(content=[REFERENCE])), tools=[READ, {"name": "Grep"}])),
    ("A25", body(user("a"), tools=[READ, {"name": "a" * 128, "defer_loading": True}])),
    (
        "A26",
        body(
            user("a"),
            model(srv(tool="advisor"), found(kind="advisor")),
            user("b"),
            tools=[READ, {"type": "advisor_20260301", "name": "advisor"}],
        ),
    ),
    ("A27", body(user("a"), model(use(caller={"type": "direct"})), user(result(), text()))),
    ("A28", body(*CODED, user(result()), container="c")),
    ("A28", body(*CODED, user(result()), model(found(kind="code_execution"), text()), user("b"))),
    ("A29", body(user("a"), model(srv(), found(), text()), user("b"))),
    ("A32", body(user("a"), mcp_servers=[MCP], tools=[READ, TOOLSET])),
    ("A34", body(user("a"), model(think(thinking=""), text()), user("b"))),
    ("A37", loop(think(), **BUDGET)),
    ("A37", loop({"type": "redacted_thinking", "data": "x"}, **BUDGET)),
    ("A37", body(user("a"), model(think(), use()), user(result()), model(use("b")), user(result("b")), **BUDGET)),
    ("A37", body(user("a"), model("b"), user("c"), **BUDGET)),
    ("A37", loop()),
    ("A38", body(user("a"), model(think(), text()), user("b"))),
    ("A38", body(user("a"), model(think(), text()), **BUDGET)),
    ("A40", body(user("a"), model({"type": "redacted_thinking", "data": "x"}, text()), user("b"))),
    ("A41", body(user("a"), model(think(), FALLBACK, think(), text()), user("b"))),
    ("A41", body(user("a"), model(text(), srv(), found(), FALLBACK, think(), text()), user("b"))),
    ("A42", body(user("a"), temperature=1, **BUDGET)),
    ("A42", body(user("a"), of=NEW, thinking={"type": "adaptive"})),
    ("A45", body(user(*[text(**MARK)] * 3), system=[text(**MARK)])),
    ("A46", body(user("a"), model(use()), user(result(**MARK)))),
    ("A47", body(user(text(**MARK)))),
    ("A48", body(user(text(**MARK)), system=[text(**HOUR)], tools=[{**READ, **HOUR}])),
    ("A49", body(user(text(**HOUR)))),
    ("A53", body(user("a"), max_tokens=0)),
    ("A54", body(user(image(8000, 1), *[image()] * 19))),
    ("A54", body(user(image(2000, 1), *[image()] * 20))),
    ("A55", body(user(image()))),
    ("A57", body(user(pdf(600)))),
    ("A58", body(user(pdf(citations={"enabled": True})))),
    ("A61", body(user("a"), model({"type": "compaction", "content": None}, text()), user("b"))),
]


@pytest.mark.parametrize(("rule", "request_body", "message"), REFUSED)
def test_a_broken_rule_is_refused_in_the_providers_words(rule: str, request_body: Body, message: str) -> None:
    assert message in next(
        (refusal.message for refusal in refusals("anthropic", request_body) if refusal.rule == rule), ""
    )


@pytest.mark.parametrize(("rule", "request_body"), ACCEPTED)
def test_a_kept_rule_is_accepted(rule: str, request_body: Body) -> None:
    assert refusals("anthropic", request_body) == []


def test_betas_matter_only_when_the_header_is_known() -> None:
    """A61 and A62: without the header nothing is known, with it the field needs its beta."""
    compacted = body(user("a"), model({"type": "compaction", "content": "x"}, text()), user("b"), context_management={})
    beta = "compact-2026-01-12"

    assert refusals("anthropic", compacted) == refusals("anthropic", compacted, betas=[beta]) == []
    assert [refusal.rule for refusal in refusals("anthropic", compacted, betas=[])] == ["A61", "A62"]
    assert refusals("anthropic", compacted, betas=[])[1].message == "context_management: Extra inputs are not permitted"


def test_every_rule_has_a_refused_and_an_accepted_example() -> None:
    elsewhere = {"A12", "A62"}

    assert {rule for rule, *_ in REFUSED} == {rule for rule, _ in ACCEPTED} == set(RULES["anthropic"]) - elsewhere


WARNS: list[tuple[str, Body]] = [
    ("A10", body({**user("a"), "id": "m1"})),
    ("A10", body(user(text("a", ebb_id="x")))),
    ("A13", body(user("a"), model({"type": "hologram"}), user("b"))),
    ("A19", body(user("a"), model(use()), user(text(), result()))),
    ("A24", loop(tools=[])),
    ("A31", body(user("a"), model(srv(), {**found(), "content": [{"type": "web_search_result"}]}), user("b"))),
    ("A33", body(user("a"), model(text("b", citations=[{"document_index": 0}])), user("c"))),
    ("A43", body(user("a"), tool_choice={"type": "any"}, **BUDGET)),
    ("A45", body(user(*[text(**MARK)] * 4), **MARK)),
    ("A55", body(user({"type": "image", "source": {"type": "base64", "data": "A" * 7_000_000}}))),
    ("A56", body(user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}))),
    ("A57", body(user(pdf(101)))),
    ("A58", body(user(pdf(), pdf(citations={"enabled": True})))),
]


@pytest.mark.parametrize(("rule", "request_body"), WARNS)
def test_an_unverified_rule_warns_and_does_not_refuse(rule: str, request_body: Body) -> None:
    assert rule in {found.rule for found in warnings("anthropic", request_body)}
    assert refusals("anthropic", request_body) == []


def test_every_warning_has_its_example() -> None:
    assert {rule for rule, _ in WARNS} == set(WARNED["anthropic"])


@pytest.mark.parametrize("junk", [{}, {"messages": 7}, {"messages": [7]}, {"messages": [{"content": [7]}], "tools": 7}])
def test_a_body_that_is_no_request_is_refused_and_never_raises(junk: Body) -> None:
    assert refusals("anthropic", junk)
    warnings("anthropic", junk)
