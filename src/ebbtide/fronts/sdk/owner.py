"""Whose call it is, as far as the client and the request tell: its credential, its organisation, its own ids.

Two clients with different keys may share a store, and their conversations may begin alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from ebbtide.wire.blocks import digest
from ebbtide.wire.caller import identify_caller

_KEYS = ("api_key", "auth_token")
_PLACES = ("organization", "project", "project_id", "workspace_id", "aws_access_key", "aws_profile")
_PROVIDERS = ("_api_key_provider", "_azure_ad_token_provider")
"""Where a client is given a function that fetches its key. Such keys are short-lived and tell nothing that lasts."""


def owner_of(client: object, headers: Mapping[str, object], body: Mapping[str, object]) -> str:
    """A hash of all that tells. `headers` are those of this call, which stand above the client's own."""
    sent: dict[str, object] = {}
    with suppress(Exception):  # whatever a client of another version or class does there
        sent |= dict(getattr(client, "default_headers", {}))
    sent |= headers
    told = {name.lower(): value for name, value in sent.items() if isinstance(value, str)}
    is_fetched = any(callable(getattr(client, name, None)) for name in _PROVIDERS)
    if is_fetched:
        told.pop("authorization", None)
    names = _PLACES if is_fetched else (*_KEYS, *_PLACES)
    own = [(name, value) for name in names if isinstance(value := getattr(client, name, None), str)]
    caller = identify_caller(told, body)
    return digest([*map(list, (*caller.ids, *caller.credentials, *own))])
