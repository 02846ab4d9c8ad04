"""OpenAI Chat Completions, which many other servers speak."""

from ebbtide.wire.openai_cache import OPENAI_CACHE
from ebbtide.wire.openai_chat import messages, replies, rules, turns
from ebbtide.wire.openai_chat.history import History
from ebbtide.wire.openai_chat.requests import Requests
from ebbtide.wire.protocol import Wire

WIRE = Wire(
    name="openai_chat",
    list_key="messages",
    front_fields=frozenset(("tools", "functions")),
    response_key="choices",
    provider="openai",
    typical_model="gpt-4o",
    messages=messages,
    cache=OPENAI_CACHE,
    replies=replies,
    requests=Requests(),
    turns=turns,
    rules=rules,
    history=History,
)
