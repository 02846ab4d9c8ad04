"""Histories that Gemini refused, for ever."""

from __future__ import annotations

from typing import Any

from poison.case import Case, Json

SIGNED = {"thoughtSignature": "c2lnbmVk"}


def gemini(name: str, source: str, rules: str, *contents: Any, **more: Any) -> Case:
    body: Json = {"model": "gemini-2.5-pro", "contents": [user(words("go")), *contents], **more}
    refused = more.pop("refused", False)
    body.pop("refused", None)
    return Case(name=name, source=source, wire="gemini", rules=tuple(rules.split()), body=body, refused=refused)


def from_start(name: str, source: str, rules: str, *contents: Any, **more: Any) -> Case:
    body: Json = {"model": "gemini-2.5-pro", "contents": list(contents), **more}
    return Case(name=name, source=source, wire="gemini", rules=tuple(rules.split()), body=body)


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": list(parts)}


def words(text: str, **more: Any) -> Json:
    return {"text": text, **more}


def call(name: str = "Bash", id: str = "", **more: Any) -> Json:
    return {"functionCall": {**({"id": id} if id else {}), "name": name, "args": {"command": "ls"}}, **more}


def told(name: str = "Bash", id: str = "", response: Any = None) -> Json:
    response = {"output": "ok"} if response is None else response
    return {"functionResponse": {**({"id": id} if id else {}), "name": name, "response": response}}


NEW = {"model": "gemini-3-pro-preview"}

GEMINI = [
    from_start("begins with the model", "gemini-cli#26486", "G1", model(call()), user(told())),
    from_start("begins with a call after a lost beginning", "gemini-cli#11814", "G1", model(words("hm"), call()), user(told())),
    from_start("a response with nothing before it", "langchain#27799", "G2", user(told()), model(words("so")), user(words("and?"))),
    gemini("a response to no call", "langchain#27799", "G2", model(words("hm")), user(told())),
    gemini("a response after the next words", "langchain#27799", "G3 G2", model(call()), user(words("wait")), model(words("ok")), user(told())),
    gemini("two calls, one response", "validity.md:G3", "G3", model(call(), call()), user(told())),
    gemini("one call, two responses", "validity.md:G3", "G3", model(call()), user(told(), told())),
    gemini("a call without its response", "validity.md:G3", "G3", model(call()), user(words("never mind"))),
    gemini("a call at the very end", "validity.md:G3", "G3", model(call())),
    gemini("two calls in two contents, two responses", "validity.md:G3", "G7", model(call()), model(call("Read")), user(told(), told("Read"))),
    gemini("responses in another order", "gemini-cli:hardenHistory", "G4", model(call("A", "a1"), call("B", "b1")), user(told("B", "b1"), told("A", "a1"))),
    gemini("words before the response", "gemini-cli:hardenHistory", "G4", model(call()), user(words("note"), told())),
    gemini("a response under another name", "validity.md:G4", "G4", model(call("default_api:Bash")), user(told("Bash"))),
    gemini("a response with an id of its own", "validity.md:G4", "G4", model(call()), user(told(id="made_up"))),
    gemini("an id that no call has", "gemini-cli:hardenHistory", "G3", model(call(id="a1")), user(told(id="b1"))),
    gemini("an unsigned call", "validity.md:G5", "G5", model(call()), user(told()), **NEW),
    gemini("the second step unsigned", "validity.md:G5", "G5", model(call(**SIGNED)), user(told()), model(call()), user(told()), **NEW),
    gemini("signed parallel calls, the first one gone", "gemini-cli:config.ts", "G5", model(words("ok"), call("B")), user(told("B")), **NEW),
    gemini("a step of another model, unsigned", "validity.md:G5", "G5", model(call(**SIGNED)), user(told()), model(call()), user(told()), model=""),
    gemini("two users in a row", "crewAI#6973", "G7", user(words("and?"))),
    gemini("two models in a row", "crewAI#6973", "G7", model(words("a")), model(words("b")), user(words("and?"))),
    gemini("ends with the model", "crewAI#6973", "G7", model(words("done"))),
    gemini("a content without parts", "crewAI#6973", "G7", model(), user(words("and?"))),
    gemini("an empty text", "crewAI#6973", "G7", model(words("")), user(words("and?"))),
    gemini("a signature without a part", "validity.md:G7", "G7", model(dict(SIGNED), words("ok")), user(words("and?"))),
    gemini("an unsigned thought", "validity.md:G8", "G8", model(words("hm", thought=True), words("ok")), user(words("and?"))),
    gemini("nothing but an unsigned thought", "validity.md:G8", "G8 G7", model(words("hm", thought=True)), user(words("and?"))),
    gemini("a response that is text", "validity.md:G9", "G9", model(call()), user(told(response="ok"))),
    gemini("a response that is a list", "validity.md:G9", "G9", model(call()), user(told(response=["a", "b"]))),
    gemini("arguments as JSON in a text", "validity.md:G9", "shape", model({"functionCall": {"name": "Bash", "args": '{"command": "ls"}'}}), user(told())),
    gemini("half an emoji", "mastra#15573", "A11", user(words("x \udc4d"))),
    gemini("parts as a bare text", "validity.md:G7", "shape G7", {"role": "user", "parts": "and?"}),
    gemini("a text and a call in one part", "validity.md:G7", "shape", model({**call(), "text": "ok"}), user(told()), refused=True),
    gemini("a role of another provider", "validity.md:G7", "shape", {"role": "assistant", "parts": [words("ok")]}, user(words("and?")), refused=True),
    gemini("content in place of parts", "validity.md:G7", "shape", {"role": "user", "content": "and?"}, refused=True),
    gemini("both spellings in one history", "python-genai:types.py", "", {"role": "model", "parts": [{"function_call": {"name": "Bash", "args": {}}, "thought_signature": "c2ln"}]}, user(told()), **NEW),
    gemini("old turns without signatures", "validity.md:G5", "", model(call()), user(told()), model(words("done")), user(words("and?")), **NEW),
    gemini("the placeholder of a client", "gemini-cli:hardenHistory", "", model(call(thoughtSignature="skip_thought_signature_validator")), user(told()), **NEW),
    gemini("kinds of parts that are new", "validity.md:A13", "", model({"somethingNew": {"a": 1}}, words("ok")), user(words("and?"))),
    gemini("code that Google ran", "python-genai:types.py", "", model({"executableCode": {"language": "PYTHON", "code": "1"}}, {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}, words("1")), user(words("and?"))),
    gemini("old clients answer with the role function", "python-genai:types.py", "", model(call()), {"role": "function", "parts": [told()]}),
    from_start("an answer to a call that the cache holds", "validity.md:G2", "", user(told()), cachedContent="cachedContents/abc"),
]  # fmt: skip
