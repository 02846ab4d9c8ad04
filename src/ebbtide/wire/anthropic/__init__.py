"""The Anthropic Messages API."""

from ebbtide.wire.anthropic import cache, messages, replies, requests, rules, turns
from ebbtide.wire.anthropic.history import History
from ebbtide.wire.protocol import Wire

WIRE = Wire(
    name="anthropic",
    list_key="messages",
    provider="anthropic",
    typical_model="claude-sonnet-4-5",
    messages=messages,
    cache=cache,
    replies=replies,
    requests=requests,
    turns=turns,
    rules=rules,
    history=History,
)
