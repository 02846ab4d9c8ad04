"""Requests that we write for the Gemini API: summary requests and tool definitions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ebbtide.wire.blocks import as_mapping, as_str
from ebbtide.wire.gemini.fields import (
    call_of,
    find,
    is_model_content,
    parts_of,
    remove_fields,
    replace_field,
    replace_settings,
    request_field,
    response_of,
    settings_of,
)
from ebbtide.wire.requests import THINKING_ROOM

_MODEL = re.compile(r"(?<![^/])([^/]+):\w+\Z")
_LAST_SEGMENT = re.compile(r"(?s)(?<![^/?])([^/?]+)(:\w+(?:\?.*)?)\Z")
"""Of an address: the model, and what follows it."""
_NOT_ASKED_AGAIN = (
    *("candidateCount", "stopSequences", "seed"),
    *("responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities"),
)
"""Settings that would cut an answer in words, or forbid it."""


class Requests:
    routes: Sequence[str] = (":generateContent", ":streamGenerateContent")
    side_routes: Mapping[str, str] = {":countTokens": "count"}

    def model(self, path: str, body: Mapping[str, Any]) -> str:
        """The path names the model: `.../models/gemini-2.5-pro:generateContent`."""
        match = _MODEL.search(path)
        return match[1] if match else as_str(body.get("model")).rpartition("/")[2]

    def wants_stream(self, path: str, _body: Mapping[str, Any]) -> bool:
        return path.endswith(":streamGenerateContent")

    def address(self, url: str, body: Mapping[str, Any], _wants_stream: bool) -> tuple[str, Mapping[str, Any]]:
        """The path says which model it is, and whether it streams."""
        model = quote(as_str(body.get("model")).rpartition("/")[2], safe="")
        fields = {name: value for name, value in body.items() if name != "model"}
        return _LAST_SEGMENT.sub(lambda segment: f"{model or segment[1]}{segment[2]}", url), fields

    def user_message(self, text: Any) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": text}]}

    def tool_definition(self, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
        # `parameters` knows a part of JSON Schema only.
        parameters = {key: value for key, value in schema.items() if key != "additionalProperties"}
        return {"functionDeclarations": [{"name": name, "description": description, "parameters": parameters}]}

    def tool_names(self, tools: Any) -> list[str]:
        """Return the names of functions. A tool of Google's own is one field, such as `googleSearch`."""
        names: list[str] = []
        for tool in tools if isinstance(tools, list) else ():
            functions = find(tool, "functionDeclarations")
            if isinstance(functions, list):
                names += [as_str(as_mapping(function).get("name")) for function in functions]
            else:
                names.append(as_str(as_mapping(tool).get("name")) or next(iter(as_mapping(tool)), ""))
        return names

    def add_tools(self, body: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """Add functions to the client's own: the API takes one list of them, and none beside `cachedContent`."""
        at = next((n for n, tool in enumerate(body.get("tools") or ()) if find(tool, "functionDeclarations")), None)
        has_one_answer = find(settings_of(body), "candidateCount") in (None, 1)
        if at is None or find(body, "cachedContent") or not has_one_answer:
            return None
        ours = [function for tool in tools for function in find(tool, "functionDeclarations")]
        theirs = body["tools"][at]
        more = replace_field(theirs, "functionDeclarations", [*find(theirs, "functionDeclarations"), *ours])
        return {**body, "tools": [*body["tools"][:at], more, *body["tools"][at + 1 :]]}

    def prepare_question(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A forced call goes too. That may miss the cache; keeping it would cost the answer."""
        calling = find(request_field(body, "toolConfig"), "functionCallingConfig")
        forced = ("toolConfig",) if as_str(find(calling, "mode")).upper() == "ANY" else ()
        rest = remove_fields(body, *forced)
        settings = settings_of(body)
        if any(find(settings, name) is not None for name in (*_NOT_ASKED_AGAIN, *forced)):
            rest = replace_settings(rest, remove_fields(settings, *_NOT_ASKED_AGAIN, *forced))
        return rest

    def thinking_room(self, body: Mapping[str, Any]) -> int:
        """Return the tokens that thinking may take before the answer begins. Models think unless told not to."""
        thinking = find(settings_of(body), "thinkingConfig")
        budget = find(thinking, "thinkingBudget")
        if isinstance(budget, int) and budget >= 0:
            return budget
        return 0 if re.search(r"gemini-[12]\.[0-4]|gemma", as_str(body.get("model"))) else THINKING_ROOM

    def limit_output(self, body: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        settings = settings_of(body)
        is_snake = "generation_config" in body or "config" in body
        name = "max_output_tokens" if is_snake else "maxOutputTokens"
        return replace_settings(body, {**remove_fields(settings, "maxOutputTokens"), name: tokens})

    def count_before_user_text(self, contents: Sequence[Any]) -> int:
        """G2, G3: either the last calls are all answered, or they are left out with the answers they have."""
        index = len(contents) - 1
        while index >= 0 and not is_model_content(contents[index]):
            index -= 1
        calls = sum(call_of(part) is not None for part in parts_of(contents[index])) if index >= 0 else 0
        answers = sum(response_of(part) is not None for content in contents[index + 1 :] for part in parts_of(content))
        return len(contents) if answers >= calls else index

    def add_user_text(self, body: Mapping[str, Any], text: str) -> list[Any]:
        """Add a part to the last content of the user, because roles alternate (G7)."""
        *before, last = body["contents"]
        if is_model_content(last):
            return [*before, last, self.user_message(text)]
        fields = {**last, "role": "user"} if last.get("role") == "function" else last
        return [*before, {**fields, "parts": [*parts_of(last), {"text": text}]}]
