"""Thinking blocks, as far as one request shows it (A34 to A43). What only the issuer can know is in `signing`."""

from __future__ import annotations

from collections.abc import Iterator

from upstream.anthropic_request import THINKING, Block, Message, Request
from upstream.finding import Rules, Said, text_of

LEAST_BUDGET = 1024
SAMPLING = ("temperature", "top_p", "top_k")
MUST_START = (
    "{path}.type: Expected `thinking` or `redacted_thinking`, but found `{type}`. When `thinking` is enabled, a final "
    "`assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` "
    "blocks). We recommend you include thinking blocks from previous turns. "
    "To avoid this requirement, disable `thinking`."
)
DISABLED = (
    "{path}: When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`. "
    "To use thinking blocks, enable `thinking` in your request."
)


def _signature(request: Request) -> Iterator[Said]:
    for block in request.blocks("thinking"):
        for field in ("signature", "thinking"):
            if not isinstance(block.data.get(field), str):
                yield f"{block.typed}.{field}", f"{block.typed}.{field}: Field required"


def _starts_with_thinking(request: Request) -> Iterator[Said]:
    """Manual thinking only. Without interleaving the model thinks once per turn: the turn's first message has it."""
    loop = open_loop(request)
    if request.thinking != "enabled" or not loop or _thinks_first(loop[0]) or _thinks_first(loop[-1]):
        return
    block = loop[-1].blocks[0]
    yield block.path, MUST_START.format(path=block.path, type=block.type)


def open_loop(request: Request) -> list[Message]:
    """The assistant messages since the last user message without results, while the last message answers a call."""
    last = request.last
    if last is None or last.role != "user" or not last.of("tool_result"):
        return []
    loop: list[Message] = []
    for message in reversed(request.messages):
        if message.role == "user" and not message.of("tool_result"):
            break
        if message.role == "assistant" and message.blocks:
            loop.insert(0, message)
    return loop


def _thinks_first(message: Message) -> bool:
    # A fallback may stand before the first thinking run; it says nothing itself.
    spoken = [block for block in message.blocks if block.type != "fallback"]
    return bool(spoken) and spoken[0].type in THINKING


def _none_when_disabled(request: Request) -> Iterator[Said]:
    last = request.last
    # Where manual thinking is refused, leaving `thinking` out does not mean off.
    off = request.thinking == "disabled" or (not request.thinking and request.model.manual_thinking)
    if last and last.role == "assistant" and off:
        for block in last.of(*THINKING)[:1]:
            yield block.path, DISABLED.format(path=block.path)


def _redacted(request: Request) -> Iterator[Said]:
    for block in request.blocks("redacted_thinking"):
        if not text_of(block.data.get("data")):
            yield f"{block.typed}.data", f"{block.typed}.data: Field required"


def _fallback(request: Request) -> Iterator[Said]:
    """A fallback after only thinking keeps its place; one after output makes what it replaced unsendable."""
    for message in request.messages:
        places = [at for at, block in enumerate(message.blocks) if block.type == "fallback"]
        before = message.blocks[: places[-1]] if places else ()
        if any(block.type not in (*THINKING, "fallback") for block in before):
            for block in _unsendable(before):
                yield block.path, f"{block.path}: `{block.type}` is not allowed before a `fallback` block"


def _unsendable(before: tuple[Block, ...]) -> Iterator[Block]:
    paired = {block.data.get("tool_use_id") for block in before if block.server_result}
    for block in before:
        if block.type in (*THINKING, "tool_use") or (block.server_use and block.data.get("id") not in paired):
            yield block


def _settings(request: Request) -> Iterator[Said]:
    model, kind = request.model, request.thinking
    if kind == "enabled":
        yield from _budget(request)
    if kind == "enabled" and not model.manual_thinking:
        yield "thinking.type", "thinking.type: `enabled` is not supported on this model"
    if kind == "disabled" and model.always_thinking:
        yield "thinking.type", "thinking.type: `disabled` is not supported on this model"
    for field in SAMPLING:
        if not model.manual_thinking and request.body.get(field) is not None:
            yield field, f"{field}: not supported on this model"


def _budget(request: Request) -> Iterator[Said]:
    budget, most = request.body["thinking"].get("budget_tokens"), request.body.get("max_tokens")
    path = "thinking.enabled.budget_tokens"
    if not isinstance(budget, int) or budget < LEAST_BUDGET:
        yield path, f"{path}: Input should be greater than or equal to {LEAST_BUDGET}"
    elif isinstance(most, int) and budget >= most:
        yield path, "`max_tokens` must be greater than `thinking.budget_tokens`."


def _dry_run(request: Request) -> Iterator[Said]:
    if request.body.get("max_tokens") != 0:
        return
    clashes = {
        "stream": request.body.get("stream") is True,
        "thinking": request.thinking == "enabled",
        "output_config.format": request.output_format,
        "tool_choice": request.forced_tool,
    }
    for field, clash in clashes.items():
        if clash:
            yield field, f"`max_tokens: 0` cannot be combined with `{field}`"


RULES: Rules[Request] = {
    "A34": _signature,
    "A37": _starts_with_thinking,
    "A38": _none_when_disabled,
    "A40": _redacted,
    "A41": _fallback,
    "A42": _settings,
    "A53": _dry_run,
}


def forced_while_thinking(request: Request) -> Iterator[Said]:
    if request.thinking == "enabled" and request.forced_tool:
        yield "tool_choice", "Thinking may not be enabled when tool_choice forces tool use."
