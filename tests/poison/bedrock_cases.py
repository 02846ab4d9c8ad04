"""Histories that Bedrock's Converse API refused, for ever."""

from __future__ import annotations

from typing import Any

from poison.case import Case, Json

TOOL_CONFIG = {"tools": [{"toolSpec": {"name": "Bash", "inputSchema": {"json": {"type": "object"}}}}]}
CLAUDE = "anthropic.claude-sonnet-4-5-20250929-v1:0"


def bedrock(name: str, source: str, rules: str, *messages: Any, **more: Any) -> Case:
    return from_start(name, source, rules, user(words("go")), *messages, **more)


def from_start(name: str, source: str, rules: str, *messages: Any, refused: bool = False, **more: Any) -> Case:
    body: Json = {"modelId": CLAUDE, "toolConfig": TOOL_CONFIG, "messages": list(messages), **more}
    body = {key: value for key, value in body.items() if value is not None}
    return Case(
        name=name, source=source, wire="bedrock_converse", rules=tuple(rules.split()), body=body, refused=refused
    )


def user(*blocks: Any) -> Json:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def words(text: str) -> Json:
    return {"text": text}


def call(id: Any = "t1", **more: Any) -> Json:
    return {"toolUse": {"toolUseId": id, "name": "Bash", "input": {"command": "ls"}, **more}}


def told(id: Any = "t1", *content: Json, **more: Any) -> Json:
    return {"toolResult": {"toolUseId": id, "content": list(content) or [{"text": "ok"}], **more}}


POINT = {"cachePoint": {"type": "default"}}
MISTRAL = {"modelId": "mistral.mistral-large-2407-v1:0"}

BEDROCK = [
    bedrock("a result to no call", "strands#1435", "K1", assistant(words("hm")), user(told(), words("and?"))),
    bedrock("one call, two results", "strands#1435", "K1", assistant(call()), user(told(), told("t2"))),
    bedrock("two results under one id", "strands#1435", "K1", assistant(call()), user(told(), told())),
    from_start("a result with nothing before it", "strands#1435", "K1", user(told()), assistant(words("so")), user(words("and?"))),
    bedrock("two calls, one result", "strands#1435", "K1", assistant(call(), call("t2")), user(told())),
    bedrock("a call without its result", "strands#1435", "K1", assistant(call()), user(words("never mind"))),
    bedrock("a call at the very end", "strands#1435", "K1", assistant(call())),
    bedrock("a result after the next words", "strands#1435", "K1", assistant(call()), user(words("wait")), assistant(words("ok")), user(told())),
    bedrock("a call of the user", "validity.md:K1", "K1", assistant(words("hm")), user(call(), words("so?"))),
    bedrock("words before the result", "validity.md:A19", "A19", assistant(call()), user(words("note"), told())),
    bedrock("words beside a call", "validity.md:K2", "K2", assistant(words("I look."), call()), user(told()), **MISTRAL),
    bedrock("words beside a result", "validity.md:K2", "K2", assistant(call()), user(told(), words("go on")), **MISTRAL),
    bedrock("a failure without content", "validity.md:K3", "K3", assistant(call()), user({"toolResult": {"toolUseId": "t1", "content": [], "status": "error"}})),
    bedrock("a failure with a blank text", "validity.md:K3", "K4 K3", assistant(call()), user(told("t1", {"text": " "}, status="error"))),
    bedrock("a blank text", "validity.md:K4", "K4", assistant(words(""), words("hm")), user(words("and?"))),
    bedrock("an assistant that said nothing", "validity.md:K4", "K4 A5", assistant(), user(words("and?"))),
    bedrock("only white space", "validity.md:K4", "K4 A5", assistant(words(" \n")), user(words("and?"))),
    from_start("begins with the assistant", "validity.md:K5", "K5", assistant(words("hm")), user(words("and?"))),
    bedrock("no tools are defined", "validity.md:K5", "K5", assistant(call()), user(told()), toolConfig=None),
    bedrock("two of the user in a row", "validity.md:A5", "A5", user(words("and?"))),
    bedrock("ends with the assistant", "validity.md:A6", "A6", assistant(words("hm"))),
    bedrock("an id with a colon", "validity.md:A14", "A14", assistant(call("functions.Bash:0")), user(told("functions.Bash:0"))),
    bedrock("a result whose id is a list", "fuzz.py:request-bedrock_converse", "A14 K1", assistant(call()), user(told(["t1"]))),
    bedrock("one id in two turns", "validity.md:A15", "A15", assistant(call()), user(told()), assistant(call()), user(told())),
    bedrock("arguments as text", "validity.md:A21", "A21", assistant(call(input='{"command": "ls"}')), user(told())),
    bedrock("a result as text", "validity.md:A22", "A22", assistant(call()), user({"toolResult": {"toolUseId": "t1", "content": "ok"}})),
    bedrock("thinking without its signature", "validity.md:A34", "A34", assistant({"reasoningContent": {"reasoningText": {"text": "hm"}}}, words("so")), user(words("and?"))),
    bedrock("five cache points", "validity.md:A45", "A45", assistant(words("hm"), POINT), user(words("a"), POINT, words("b"), POINT, words("c"), POINT, words("d"), POINT)),
    bedrock("a block of another provider", "validity.md:A10", "shape", assistant({"type": "text", "text": "hm"}), user(words("and?"))),
    bedrock("a message as text", "validity.md:shape", "shape", {"role": "assistant", "content": "hm"}, user(words("and?"))),
    bedrock("half a letter", "mastra#15573", "A11", assistant(words("half \ud83d")), user(words("and?"))),
    bedrock("a block that is two things", "validity.md:shape", "shape", assistant({"text": "hm", **call()}), user(told()), refused=True),
]  # fmt: skip
