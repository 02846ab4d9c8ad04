"""Requests that we write for the Converse API: summary requests and tool definitions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from ebbtide.wire.bedrock_converse.blocks import CACHE_POINT, blocks_of, calls_of, field, is_cache_point
from ebbtide.wire.blocks import as_mapping, as_str, as_text
from ebbtide.wire.requests import THINKING_ROOM

MAX_CACHE_POINTS = 4
"""As of Anthropic's own API (A45)."""
_MODEL = re.compile(r"(?s)/model/([^/?]+)/converse")
_TARGET = re.compile(r"(?s)/model/[^/?]+/converse(?:-stream)?(?=\?|\Z)")
_SCHEMA_LIMITS = ("additionalModelResponseFieldPaths",)


class Requests:
    routes: Sequence[str] = ("/converse", "/converse-stream")
    side_routes: Mapping[str, str] = {}

    def model(self, path: str, body: Mapping[str, Any]) -> str:
        """The path names the model: `/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse`."""
        match = _MODEL.search(path)
        return unquote(match[1]) if match else as_str(body.get("modelId") or body.get("model"))

    def wants_stream(self, path: str, _body: Mapping[str, Any]) -> bool:
        return path.endswith("/converse-stream")

    def address(self, url: str, body: Mapping[str, Any], wants_stream: bool) -> tuple[str, Mapping[str, Any]]:
        model = as_str(body.get("modelId") or body.get("model")) or self.model(url, {})
        target = f"/model/{quote(model, safe='')}/converse{'-stream' if wants_stream else ''}"
        fields = {name: value for name, value in body.items() if name not in ("model", "modelId")}
        return _TARGET.sub(lambda _: target, url), fields

    def user_message(self, text: Any) -> dict[str, Any]:
        return {"role": "user", "content": [{"text": text}]}

    def tool_definition(self, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
        return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}}

    def tool_names(self, tools: Any) -> list[str]:
        """Return the names of tools; of one that is no function, its kind."""
        names: list[str] = []
        for tool in map(as_mapping, tools if isinstance(tools, list) else ()):
            spec = field(tool, "toolSpec") or field(tool, "systemTool")
            if not is_cache_point(tool):
                names.append(as_text((spec or {}).get("name")) or next(iter(tool), ""))
        return names

    def add_tools(self, body: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """Add tools behind the client's own, and before a cache point that ends them."""
        config = as_mapping(body.get("toolConfig"))
        own = config.get("tools")
        if not isinstance(own, list) or not own:
            return None
        end = len(own) - 1 if is_cache_point(own[-1]) else len(own)
        return {**body, "toolConfig": {**config, "tools": [*own[:end], *tools, *own[end:]]}}

    def prepare_question(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A forced call goes, and words that would cut the answer. The format goes as well."""
        rest = {name: value for name, value in body.items() if name not in ("outputConfig", *_SCHEMA_LIMITS)}
        config = as_mapping(rest.get("toolConfig"))
        if {"any", "tool"} & as_mapping(config.get("toolChoice")).keys():
            rest["toolConfig"] = {name: value for name, value in config.items() if name != "toolChoice"}
        settings = as_mapping(rest.get("inferenceConfig"))
        if "stopSequences" in settings:
            rest["inferenceConfig"] = {name: value for name, value in settings.items() if name != "stopSequences"}
        return rest

    def thinking_room(self, body: Mapping[str, Any]) -> int:
        """Return the tokens that thinking may take before the answer begins; 0 if the request does not think."""
        more = as_mapping(body.get("additionalModelRequestFields"))
        thinking = as_mapping(more.get("thinking") or more.get("reasoning_config") or more.get("reasoningConfig"))
        if thinking.get("type") in (None, "disabled"):
            return 0
        budget = thinking.get("budget_tokens")
        return budget if isinstance(budget, int) else THINKING_ROOM

    def limit_output(self, body: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        """The model is named as boto3 does."""
        rest = dict(body)
        if "model" in rest and "modelId" not in rest:
            rest["modelId"] = rest["model"]
        rest.pop("model", None)
        return {**rest, "inferenceConfig": {**as_mapping(rest.get("inferenceConfig")), "maxTokens": tokens}}

    def count_before_user_text(self, messages: Sequence[Any]) -> int:
        """K1: behind calls come only their results."""
        count = len(messages)
        while count and as_mapping(messages[count - 1]).get("role") == "assistant" and calls_of(messages[count - 1]):
            count -= 1
        return count

    def add_user_text(self, body: Mapping[str, Any], text: str) -> list[Any]:
        """Add blocks to the last user message, because roles alternate."""
        added: list[dict[str, Any]] = [{"text": text}]
        if 0 < _count_cache_points(body) < MAX_CACHE_POINTS:
            added.append({CACHE_POINT: {"type": "default"}})
        *before, last = body["messages"]
        if last.get("role") != "user":
            return [*before, last, {"role": "user", "content": added}]
        return [*before, {**last, "content": [*blocks_of(last), *added]}]


def _count_cache_points(body: Mapping[str, Any]) -> int:
    tools = as_mapping(body.get("toolConfig")).get("tools")
    sections = [section for section in (tools, body.get("system")) if isinstance(section, list)]
    return sum(is_cache_point(block) for section in (*sections, *map(blocks_of, body["messages"])) for block in section)
