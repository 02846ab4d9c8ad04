"""headroom's `compress()` as a subject of `isolation.py`: a process in a separate environment.

Removed text is in its compression store, which the whole process shares, and is read again by hash.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from headroom import compress
from headroom.cache.compression_store import get_compression_store


def main() -> None:
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        asked = json.loads(line)
        if "read" in asked:
            entry = get_compression_store().retrieve(asked["read"])
            answer: dict[str, Any] = {"text": str(entry.original_content) if entry else ""}
        else:
            body = asked["body"]
            found = compress(body["messages"], model=body["model"])
            answer = {"body": {**body, "messages": found.messages}}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
