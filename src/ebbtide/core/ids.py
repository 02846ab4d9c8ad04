"""Names that follow from content: the same in every process and for ever.

Python's `uuid` module asks the platform who it is when imported; a name-based UUID needs none of that.
"""

from __future__ import annotations

from hashlib import sha1


def uuid5(namespace: bytes, told: str) -> str:
    """A name-based UUID, version 5 (RFC 9562), as 32 hexadecimal digits."""
    mark = sha1(namespace + told.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return f"{mark[:12]}5{mark[13:16]}{8 | int(mark[16], 16) & 3:x}{mark[17:32]}"


def format_uuid(name: str) -> str:
    """A UUID's 32 digits as it is usually written."""
    return f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"
