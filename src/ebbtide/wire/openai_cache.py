"""The cache facet of OpenAI's two APIs: no breakpoints, but a key that brings a session's requests to one machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ebbtide.wire.implicit_cache import ImplicitCache

_KEPT_A_DAY = re.compile(
    r"(gpt-4\.1|gpt-5(-codex)?|gpt-5\.1(-codex(-max|-mini)?|-chat-latest)?|gpt-5\.[245]|gpt-5\.5-pro)(-\d{4}-\d\d-\d\d)?"
)
"""Models that OpenAI's guide lists for `prompt_cache_retention: 24h` (2026). Later ones have no such choice."""


class _OpenAICache(ImplicitCache):
    def session_fields(self, body: Mapping[str, Any], *, key: str, retention: str = "") -> dict[str, Any]:
        fields = {"prompt_cache_key": key} if key and body.get("prompt_cache_key") is None else {}
        is_free = body.get("prompt_cache_retention") is None and "prompt_cache_options" not in body
        if retention and is_free and _KEPT_A_DAY.fullmatch(str(body.get("model", ""))):
            fields["prompt_cache_retention"] = retention
        return fields


OPENAI_CACHE = _OpenAICache()
