"""File names for sessions and projects. No id becomes a path unchecked.

An id that is short, lower case and plain is its own file name. Any other becomes a readable beginning, a tilde, which
no plain id contains, and a hash. So two ids never share a file, even if the file system ignores case. The id itself is
in the file's header.
"""

from __future__ import annotations

import hashlib
import re

INDEX_NAME = "index.sqlite"
"""The search index, at the root of a store. It is derived, and may be deleted at any time."""
NO_PROJECT = "_"
"""The folder of sessions without a project."""

# Not the device names of Windows: a store may be copied there.
_PLAIN = re.compile(r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])\Z)[a-z0-9][a-z0-9_-]{0,63}\Z")
_SLUG = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}\Z")


def session_stem(session: str) -> str:
    """Return the session's file name without its ending."""
    return session if _PLAIN.match(session) else _hashed_name(session.lower(), session)


def project_slug(project: str) -> str:
    """Return the project's path with `-` for `/`. Two paths may share a slug; the log's header tells them apart."""
    if not project:
        return NO_PROJECT
    slug = project.replace("/", "-")
    return slug if _SLUG.match(slug) else _hashed_name(slug, project)


def _hashed_name(readable: str, exact: str) -> str:
    # 40 characters are enough to recognise the id, 32 hexadecimal digits to keep it unique.
    start = re.sub(r"[^A-Za-z0-9_-]+", "-", readable)[:40] or "id"
    digest = hashlib.sha256(exact.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{start}~{digest}"
