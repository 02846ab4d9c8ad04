"""The Gemini API: `generateContent`, of Google AI Studio and of Vertex AI."""

from ebbtide.wire.gemini import messages, replies, rules, turns
from ebbtide.wire.gemini.fields import FRONT_FIELDS
from ebbtide.wire.gemini.history import History
from ebbtide.wire.gemini.requests import Requests
from ebbtide.wire.gemini.rules.signatures import remove_signatures
from ebbtide.wire.implicit_cache import IMPLICIT_CACHE
from ebbtide.wire.protocol import Wire

WIRE = Wire(
    name="gemini",
    list_key="contents",
    front_fields=FRONT_FIELDS,
    response_key="candidates",
    provider="gcp.gemini",
    typical_model="gemini-2.5-pro",
    messages=messages,
    cache=IMPLICIT_CACHE,
    replies=replies,
    requests=Requests(),
    turns=turns,
    rules=rules,
    history=History,
    remove_signatures=remove_signatures,
)
