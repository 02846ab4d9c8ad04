"""No id becomes a path unchecked. Two ids never share a file, on a file system that ignores case either.

An id is a file name as it stands only if it is short, lower case and plain. Any other becomes a readable beginning, a
tilde, which no plain id contains, and a hash. The id itself is kept inside the file.
"""

from __future__ import annotations

import hashlib
import re

from ebbtide.core.errors import StoreError

INDEX_NAME = "index.sqlite"
"""At the root of a store; derived, and may be deleted at any time."""

# Device names of another system: a store may be copied there.
_PLAIN = re.compile(r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])\Z)[a-z0-9][a-z0-9_-]{0,63}\Z")
_SLUG = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}\Z")
_BLOB = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}\Z")

NO_PROJECT = "_"
"""The folder of sessions that belong to no project."""


def session_stem(session: str) -> str:
    """The session's file name without its ending."""
    return session if _PLAIN.match(session) else _hashed(session.lower(), session)


def project_slug(project: str) -> str:
    """The project path with `-` for `/`. Two paths may share a slug; the log's header tells them apart."""
    if not project:
        return NO_PROJECT
    slug = project.replace("/", "-")
    return slug if _SLUG.match(slug) else _hashed(slug, project)


def blob_name(name: str) -> str:
    """The name, checked."""
    if not _BLOB.match(name):
        raise StoreError(
            f"{name[:80]!r} cannot name a stored result: letters, digits, '.', '_' and '-' only, at most 200"
        )
    return name


def _hashed(readable: str, exact: str) -> str:
    # 40 characters are enough to recognise it, 32 hexadecimal digits to keep it apart.
    start = re.sub(r"[^A-Za-z0-9_-]+", "-", readable)[:40] or "id"
    digest = hashlib.sha256(exact.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{start}~{digest}"
