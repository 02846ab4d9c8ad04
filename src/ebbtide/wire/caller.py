"""Identify who sends a request: every credential and every id in its headers, query and body.

Names are matched by pattern: a gateway's own `x-acme-tenant-id` counts like the headers of known clients. Ids that
change from one request of a conversation to the next (request, trace, turn and message ids) do not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qsl

_SUBJECT = r"user|tenant|account|customer|org|organi[sz]ation|workspace|project|team"
_TALK = r"session|thread|conversation|conv|chat"
_ID = re.compile(
    rf"(?:^|[-_.])(?:(?:{_SUBJECT}|{_TALK})(?:[-_]?(?:id|uuid|name|email|slug))?|(?:agent|device|machine|installation)[-_]?id)\Z"
)
_CONVERSATION = re.compile(rf"(?:^|[-_.])(?:{_TALK})(?:[-_]?(?:id|uuid))?\Z")
_TALK_HEADERS = ("x-session-affinity", "x-affinity", "x-task-id", "x-kilocode-taskid")
_OTHER_FIELDS = ("prompt_cache_key", "safety_identifier")
_NO_IDS = ("vscode-sessionid", "vscode-session-id", "sec-fetch-user")
"""Ids of an editor's run and of a browser, which say nothing about a conversation."""
_CREDENTIAL = re.compile(
    r"(?:^|[-_])(?:api[-_]?key|auth|authorization|(?:auth|access|api)[-_]token|subscription[-_]key|virtual[-_]key)\Z"
)
_QUERY_CREDENTIALS = frozenset(("key", "code", "token", "access_token", "subscription-key", "x-amz-credential"))
_UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LONGEST_NAME = 100
"""Characters of a header or field that can name an id."""

Pairs = tuple[tuple[str, str], ...]


class Caller(NamedTuple):
    """Who sends a request. All pairs are names and values, sorted by name."""

    ids: Pairs
    """Of the conversation, the user, the organisation and so on."""
    conversation: str
    """The client's id of this conversation, or ''."""
    credentials: Pairs
    """Of a signature only the key's id, because the rest changes with each request."""

    @property
    def has_bearer(self) -> bool:
        """Tell whether a credential is a bearer token, which a client may renew during a conversation."""
        return any(_is_bearer(pair) for pair in self.credentials)

    @property
    def stable_pairs(self) -> Pairs:
        """Return what stays when a bearer token is renewed: ids, other credentials, and that there was a token."""
        credentials = [
            (name, "bearer") if _is_bearer((name, value)) else (name, value) for name, value in self.credentials
        ]
        return (*self.ids, *credentials)


def identify_caller(headers: Mapping[str, str], body: Mapping[str, object], query: str = "") -> Caller:
    """Identify the caller. Header names must be in lower case; `query` is without its question mark."""
    return add_body_ids(identify_sender(headers, query), body)


def identify_sender(headers: Mapping[str, str], query: str = "") -> Caller:
    """Identify the caller without a look at the body."""
    ids = tuple(sorted((name, value) for name, value in headers.items() if value and _is_id(name)))
    return Caller(ids, _conversation(ids), find_credentials(headers, query))


def add_body_ids(sender: Caller, body: Mapping[str, object]) -> Caller:
    """Return the caller with the ids that are in its body."""
    fields = [(name, value) for name, value in body.items() if name in _OTHER_FIELDS or _is_id(name)]
    metadata = body.get("metadata")
    if isinstance(metadata, Mapping):
        fields += [(f"metadata.{name}", value) for name, value in metadata.items() if _is_id(str(name))]
    ids = [(f"body.{name}", str(value)) for name, value in fields if isinstance(value, str | int) and value]
    if not ids:
        return sender
    pairs = tuple(sorted({*sender.ids, *ids}))
    return sender._replace(ids=pairs, conversation=_conversation(pairs))


def credentials_with(key: str) -> dict[str, Pairs]:
    """Return the credentials of a request with this key, by the header that a client may send it in."""
    values = [(name, key) for name in ("x-api-key", "api-key", "x-goog-api-key", "authorization")]
    bearer = ("authorization: Bearer", find_credentials({"authorization": f"Bearer {key}"}))
    return {**{name: find_credentials({name: value}) for name, value in values}, bearer[0]: bearer[1]}


def find_credentials(headers: Mapping[str, str], query: str = "") -> Pairs:
    """Return every credential in headers and query."""
    credentials = {(name, _key(value)) for name, value in headers.items() if _is_credential(name)}
    parameters = parse_qsl(query, keep_blank_values=True, max_num_fields=1000) if "=" in query else []
    for name, value in parameters:
        if name.lower() in _QUERY_CREDENTIALS or _is_credential(name.lower()):
            credentials.add(
                (f"?{name.lower()}", value.partition("/")[0] if name.lower() == "x-amz-credential" else value)
            )
    return tuple(sorted(credentials))


@lru_cache(maxsize=1024)
def _is_credential(name: str) -> bool:
    return bool(_CREDENTIAL.search(name[-_LONGEST_NAME:]))


def has_uuid(id: str) -> bool:
    """Tell whether an id is too long to guess."""
    return bool(_UUID.search(id))


@lru_cache(maxsize=1024)
def _is_id(name: str) -> bool:
    plain = _HUMP.sub("-", name[-_LONGEST_NAME:]).lower()
    return plain in _TALK_HEADERS or (bool(_ID.search(plain)) and plain not in _NO_IDS)


def _conversation(ids: Pairs) -> str:
    """Choose the client's id of this conversation: one that cannot be guessed first, a header before a field."""
    candidates = [value for name, value in ids if not name.startswith("body.") and _names_talk(name)]
    for name, value in ids:
        if name == "body.metadata.user_id":
            candidates += [session] if (session := _session_in(value)) else []
        elif name.startswith("body.") and _names_talk(name.removeprefix("body.").removeprefix("metadata.")):
            candidates.append(value)
        elif name == "body.prompt_cache_key" and has_uuid(value):
            # Without one it may name a prompt that many conversations share.
            candidates.append(value)
    return next(filter(has_uuid, candidates), candidates[0] if candidates else "")


@lru_cache(maxsize=1024)
def _names_talk(name: str) -> bool:
    plain = _HUMP.sub("-", name).lower()
    return plain in _TALK_HEADERS or bool(_CONVERSATION.search(plain))


_SESSION_FIELD = re.compile(r'"session_id"\s{0,9}:\s{0,9}"([^"\\]{1,400})"')


def _session_in(user: str) -> str:
    """Claude Code's `metadata.user_id`: JSON with `session_id`, formerly `..._session_UUID`."""
    if user.startswith("{"):
        match = _SESSION_FIELD.search(user)
        return match[1] if match else ""
    _, separator, session = user.rpartition("_session_")
    return session if separator else ""


def _is_bearer(credential: tuple[str, str]) -> bool:
    name, value = credential
    return name == "authorization" and value[:7].lower() == "bearer "


def _key(credential: str) -> str:
    """Return a credential; of an AWS signature only the key's id."""
    if not credential.startswith("AWS4-"):
        return credential
    return f"AWS4 {credential.partition('Credential=')[2].partition('/')[0]}"
