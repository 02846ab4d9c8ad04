"""What is true of Claude whichever API it is asked through."""

from __future__ import annotations

import re
from functools import lru_cache

_BOUND = re.compile(r"(fable|mythos)-5-[12]|(opus|sonnet|haiku)-5-5")
"""Models whose signed thinking is bound to its prefix (A63)."""


@lru_cache(maxsize=64)
def binds_thinking_to_prefix(model: str) -> bool:
    return bool(_BOUND.search(model.replace(".", "-")))
