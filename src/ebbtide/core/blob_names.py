"""File names for content that is moved out of the conversation. They are built from checked ids only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MEMORY = "memory:"
"""Prefix of the name of a text that is in no file: it lasts as long as the process, and recall can read it."""
_CLEAN = re.compile(r"[A-Za-z0-9_-]{1,80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobNames:
    """Chooses the names of offloaded content. The runtime writes the files."""

    directory: str = ""
    """Where the files will be. Empty if there are none: the texts stay in memory, and only recall can read them."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """Names in use, lower-cased, with the digest of their content."""

    def name(self, call_id: str, text: str, *, suffix: str = ".txt") -> str:
        """Return the call's id if it is a safe, free name; else add a hash. Two contents never share a name."""
        return self.name_for_digest(call_id, digest(text), suffix=suffix)

    def name_for_digest(self, call_id: str, mark: str, *, suffix: str = ".txt") -> str:
        """Return the name for a text with this digest."""
        clean = call_id if _CLEAN.fullmatch(call_id) else ""
        name = f"{clean}{suffix}"
        # File systems may not tell upper from lower case.
        if clean and self.taken.get(name.lower(), mark) == mark:
            return name
        prefix = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)[:40] or "result"
        return f"{prefix}-{mark}{suffix}"

    def path(self, name: str) -> str:
        """Return what a stub shows: the path of the file, or a handle that does not look like one."""
        return f"{self.directory}/{name}" if self.directory else f"{MEMORY}{name}"


def digest(text: str) -> str:
    """Hash a text to twenty hexadecimal digits."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
