"""UUIDs that follow from content: the same in every process.

Python's `uuid` module reads the platform when it is imported; a name-based UUID does not need that.
"""

from __future__ import annotations

from hashlib import sha1


def uuid5(namespace: bytes, name: str) -> str:
    """A name-based UUID, version 5 (RFC 9562), as 32 hexadecimal digits."""
    digest = sha1(namespace + name.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return f"{digest[:12]}5{digest[13:16]}{8 | int(digest[16], 16) & 3:x}{digest[17:32]}"


def format_uuid(name: str) -> str:
    """Write the 32 digits of a UUID in the usual form."""
    return f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"
