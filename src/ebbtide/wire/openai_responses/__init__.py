"""OpenAI Responses."""

from ebbtide.wire.implicit_cache import IMPLICIT_CACHE
from ebbtide.wire.openai_responses import messages, replies, requests, rules, turns
from ebbtide.wire.openai_responses.history import History
from ebbtide.wire.protocol import Wire

WIRE = Wire(
    name="openai_responses",
    list_key="input",
    provider="openai",
    typical_model="gpt-5",
    messages=messages,
    cache=IMPLICIT_CACHE,
    replies=replies,
    requests=requests,
    turns=turns,
    rules=rules,
    history=History,
)
