"""OpenAI Responses."""

from ebbtide.wire.openai_cache import OPENAI_CACHE
from ebbtide.wire.openai_responses import messages, replies, rules, turns
from ebbtide.wire.openai_responses.history import History
from ebbtide.wire.openai_responses.requests import Requests
from ebbtide.wire.protocol import Wire

WIRE = Wire(
    name="openai_responses",
    list_key="input",
    front_fields=rules.FRONT_FIELDS,
    response_key="output",
    provider="openai",
    typical_model="gpt-5",
    messages=messages,
    cache=OPENAI_CACHE,
    replies=replies,
    requests=Requests(),
    turns=turns,
    rules=rules,
    history=History,
)
