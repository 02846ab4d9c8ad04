"""An Anthropic body as the rules walk it: messages of blocks, each knowing its path. Never raises on bad input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from upstream.finding import Body, Json, dicts, text_of
from upstream.models import Model, model

THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    path: str
    data: Body

    @property
    def type(self) -> str:
        return text_of(self.data.get("type"))

    @property
    def typed(self) -> str:
        """The path as the provider spells it: the block's type is one more step."""
        return f"{self.path}.{self.type}"

    @property
    def server_use(self) -> bool:
        return self.type in ("server_tool_use", "mcp_tool_use")

    @property
    def server_result(self) -> bool:
        return self.type.endswith("_tool_result")

    @property
    def programmatic(self) -> bool:
        """A client tool called from code that runs at the provider."""
        caller = self.data.get("caller")
        return self.type == "tool_use" and isinstance(caller, dict) and caller.get("type") != "direct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    index: int
    role: str
    content: Json
    blocks: tuple[Block, ...]

    @property
    def path(self) -> str:
        return f"messages.{self.index}"

    @property
    def last_type(self) -> str:
        return self.blocks[-1].type if self.blocks else ""

    @property
    def ends_in_server_tool(self) -> bool:
        """What `pause_turn` leaves behind; such a message is sent back as it came (A30)."""
        return self.role == "assistant" and bool(self.blocks) and _server(self.blocks[-1])

    def of(self, *types: str) -> list[Block]:
        return [block for block in self.blocks if block.type in types]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    body: Body
    model: Model
    messages: tuple[Message, ...]
    system: tuple[Block, ...]
    tools: tuple[Block, ...]
    betas: frozenset[str] | None
    """From the header; None where nobody told us."""

    @property
    def last(self) -> Message | None:
        return self.messages[-1] if self.messages else None

    @property
    def thinking(self) -> str:
        setting = self.body.get("thinking")
        return text_of(setting.get("type")) if isinstance(setting, dict) else ""

    @property
    def forced_tool(self) -> bool:
        choice = self.body.get("tool_choice")
        return isinstance(choice, dict) and choice.get("type") in ("any", "tool")

    @property
    def output_format(self) -> bool:
        config = self.body.get("output_config")
        return bool(isinstance(config, dict) and config.get("format")) or bool(self.body.get("output_format"))

    def blocks(self, *types: str) -> Iterator[Block]:
        for message in self.messages:
            yield from message.of(*types) if types else message.blocks

    def parts(self) -> Iterator[Block]:
        """What results hold inside."""
        for block in self.blocks():
            if block.type == "tool_result" or block.server_result:
                yield from within(block)

    def deep(self, *types: str) -> Iterator[Block]:
        """Blocks of these types, also inside results."""
        for message in self.messages:
            for block in message.blocks:
                if block.type in types:
                    yield block
                yield from (part for part in within(block) if part.type in types)


def read(body: Body, betas: frozenset[str] | None = None) -> Request:
    messages = body.get("messages")
    found = [_message(index, entry) for index, entry in enumerate(messages if isinstance(messages, list) else [])]
    return Request(
        body=body,
        model=model(body.get("model")),
        messages=tuple(found),
        system=_blocks("system", body.get("system")),
        tools=_blocks("tools", body.get("tools")),
        betas=betas,
    )


def within(block: Block) -> tuple[Block, ...]:
    return _blocks(f"{block.typed}.content", block.data.get("content")) if block.type.endswith("tool_result") else ()


def _message(index: int, entry: Json) -> Message:
    if not isinstance(entry, dict):
        return Message(index=index, role="", content=None, blocks=())
    content = entry.get("content")
    blocks = _blocks(f"messages.{index}.content", content)
    return Message(index=index, role=text_of(entry.get("role")), content=content, blocks=blocks)


def _blocks(path: str, content: Json) -> tuple[Block, ...]:
    """A bare string is one text block, as the provider reads it."""
    if isinstance(content, str):
        return (Block(path=f"{path}.0", data={"type": "text", "text": content}),) if content else ()
    if isinstance(content, dict):
        return (Block(path=path, data=content),)
    indexed = enumerate(content) if isinstance(content, list) else ()
    return tuple(Block(path=f"{path}.{at}", data=entry) for at, entry in indexed if isinstance(entry, dict))


def _server(block: Block) -> bool:
    return block.server_use or block.server_result


def references(block: Block) -> list[Body]:
    """`tool_reference` entries, wherever a result keeps them."""
    direct = [part.data for part in within(block) if part.type == "tool_reference"]
    inner = block.data.get("content")
    return direct + (dicts(inner.get("tool_references")) if isinstance(inner, dict) else [])
