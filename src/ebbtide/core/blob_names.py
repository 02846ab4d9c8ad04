"""Names for content that leaves. A name is made here, from a checked id; no path is ever made from an unchecked one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MEMORY = "memory:"
"""Before the name of a text that is in no file: it lasts as long as the process, and recall opens it."""
_CLEAN = re.compile(r"[A-Za-z0-9_-]{1,80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobNames:
    """Where offloaded content will stand. Decides names; the edge writes the files."""

    directory: str = ""
    """Where the files will be. Empty where there are none: the texts stay in memory, and only recall opens them."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """Names in use, lower-cased, with the digest of what stands there."""

    def name(self, call_id: str, text: str, *, suffix: str = ".txt") -> str:
        """The call's id where it is clean and free, else with a hash: two contents never share a name."""
        return self.name_for_digest(call_id, digest(text), suffix=suffix)

    def name_for_digest(self, call_id: str, mark: str, *, suffix: str = ".txt") -> str:
        """The same for the text that has this digest."""
        clean = call_id if _CLEAN.fullmatch(call_id) else ""
        name = f"{clean}{suffix}"
        # File systems may not tell upper from lower case.
        if clean and self.taken.get(name.lower(), mark) == mark:
            return name
        prefix = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)[:40] or "result"
        return f"{prefix}-{mark}{suffix}"

    def path(self, name: str) -> str:
        """What a stub says of where the text is: a file that will exist, or a handle that is plainly none."""
        return f"{self.directory}/{name}" if self.directory else f"{MEMORY}{name}"


def digest(text: str) -> str:
    """Twenty hexadecimal digits that tell contents apart."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
