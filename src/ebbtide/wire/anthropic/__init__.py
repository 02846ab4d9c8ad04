"""The Anthropic Messages API."""

from ebbtide.wire.anthropic import cache, messages, replies, rules, turns
from ebbtide.wire.anthropic.history import History
from ebbtide.wire.anthropic.requests import Requests
from ebbtide.wire.protocol import Wire

WIRE = Wire(
    name="anthropic",
    list_key="messages",
    front_fields=frozenset(("system", "tools")),
    response_key="content",
    provider="anthropic",
    typical_model="claude-sonnet-4-5",
    messages=messages,
    cache=cache,
    replies=replies,
    requests=Requests(),
    turns=turns,
    rules=rules,
    history=History,
)
