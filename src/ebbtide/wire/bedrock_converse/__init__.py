"""The Converse API of Amazon Bedrock."""

from ebbtide.wire.bedrock_converse import cache, messages, replies, rules, turns
from ebbtide.wire.bedrock_converse.blocks import FRONT_FIELDS
from ebbtide.wire.bedrock_converse.history import History
from ebbtide.wire.bedrock_converse.requests import Requests
from ebbtide.wire.protocol import Wire

WIRE = Wire(
    name="bedrock_converse",
    list_key="messages",
    front_fields=FRONT_FIELDS,
    response_key="stopReason",
    provider="aws.bedrock",
    typical_model="anthropic.claude-sonnet-4-5-20250929-v1:0",
    messages=messages,
    cache=cache,
    replies=replies,
    requests=Requests(),
    turns=turns,
    rules=rules,
    history=History,
)
