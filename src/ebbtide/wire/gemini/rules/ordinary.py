"""Most requests are ordinary: words, calls and their responses, in turn. One walk over the new contents sees it.

Yes is a promise that no rule is broken; no only means that the rules must be asked. Everything rare is a no.
"""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.wire.gemini.fields import FRONT_FIELDS
from ebbtide.wire.gemini.rules.content import has_address, is_list_of_parts
from ebbtide.wire.gemini.rules.signatures import wants_signatures
from ebbtide.wire.validity import Json, is_encodable

Part = Mapping[str, Json]

_WORDS = frozenset(("text", "thought", "thoughtSignature"))
_CALL = frozenset(("functionCall", "thoughtSignature"))
_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("systemInstruction", "system_instruction", "generationConfig", "generation_config"), dict),
    **dict.fromkeys(("cachedContent", "cached_content"), str),
    "tools": list,
}
"""Of the fields beside the contents."""


def is_ordinary(body: Mapping[str, Json], since: int) -> bool:
    accepted = FRONT_FIELDS if since else ()
    for name, value in body.items():
        if type(value) is not _TYPES.get(name, type(value)):
            return False
        if name != "contents" and name not in accepted and not is_encodable(value):
            return False
    contents, walk = body["contents"], _Walk()
    for n in range(since, len(contents)):
        if (not n and _role(contents[n]) == "model") or not walk.accepts(contents[n]):
            return False
    model = body.get("model")
    is_signed = not walk.is_unsigned or (isinstance(model, str) and model != "" and not wants_signatures(model))
    return walk.role == "user" and is_signed


def _role(content: Json) -> Json:
    return content.get("role") if type(content) is dict else None


class _Walk:
    """Content after content. Knows which calls wait for responses."""

    def __init__(self) -> None:
        self.role = ""
        self.calls: list[Part] = []
        """Function calls of the content before."""
        self.is_unsigned = False
        """Whether a step of the current turn is not signed."""

    def accepts(self, content: Json) -> bool:
        if type(content) is not dict:
            return False
        parts, role = content.get("parts"), content.get("role", "user")
        if type(parts) is not list or not parts or role == self.role or not is_encodable(content):
            return False
        self.role = role
        return self._accepts_model(parts) if role == "model" else role == "user" and self._accepts_user(parts)

    def _accepts_model(self, parts: list[Json]) -> bool:
        for part in parts:
            call = part.get("functionCall") if type(part) is dict else None
            if call is None:
                if not _is_words(part):
                    return False
                continue
            arguments, id = (call.get("args"), call.get("id")) if type(call) is dict else (0, 0)
            if (arguments is not None and type(arguments) is not dict) or not (id is None or type(id) is str):
                return False
            if type(call.get("name")) is not str or not call["name"] or not part.keys() <= _CALL:
                return False
            signature = part.get("thoughtSignature")
            if not (signature is None or type(signature) is str):
                return False
            if not self.calls and not signature:
                self.is_unsigned = True
            self.calls.append(call)
        return True

    def _accepts_user(self, parts: list[Json]) -> bool:
        calls, self.calls = self.calls, []
        if len(parts) < len(calls):
            return False
        if not calls:
            self.is_unsigned = False  # the user's own words begin a turn
        for call, part in zip(calls, parts, strict=False):
            response = part.get("functionResponse") if type(part) is dict and len(part) == 1 else None
            if type(response) is not dict or type(response.get("response")) is not dict:
                return False
            if not is_list_of_parts(response.get("parts")):
                return False
            id = response.get("id")
            if response.get("name") != call["name"] or not (id is None or (type(id) is str and id == call.get("id"))):
                return False
        return all(_is_words(part) or _is_media(part) for part in parts[len(calls) :])


def _is_words(part: Json) -> bool:
    text = part.get("text") if type(part) is dict else None
    if type(text) is not str:
        return False
    if len(part) == 1:
        return text != ""
    return part.keys() <= _WORDS and type(part.get("thoughtSignature")) is str and part["thoughtSignature"] != ""


def _is_media(part: Json) -> bool:
    return type(part) is dict and len(part) == 1 and has_address(part.get("inlineData"))
