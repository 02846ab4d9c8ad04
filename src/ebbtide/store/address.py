"""Addresses of stores: which are databases, and how they are shown without a password."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_SCHEMES = ("postgresql://", "postgres://")
_SECRETS = re.compile(r"((?:^|&)(?:pass|ssl)\w*=)[^&\s]*", re.IGNORECASE)


def is_database(where: str) -> bool:
    return where.startswith(_SCHEMES)


def show_store(where: str) -> str:
    """The store's address as it may be shown: a path as it is, a URL without its password."""
    if "://" not in where:
        return where
    try:
        parts = urlsplit(where)
        user = f"{parts.username}@" if parts.username else ""
        place = parts.netloc.rpartition("@")[2]
    except ValueError:
        return f"{where.partition('://')[0]}://..."
    query = _SECRETS.sub(r"\1***", parts.query)
    return f"{parts.scheme}://{user}{place}{parts.path}{f'?{query}' if query else ''}"
