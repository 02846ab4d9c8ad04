"""Errors, split by whose fault it is.

EbbtideError
├── BadRequest     theirs: the body is not what it claims to be; `path` says where
├── BadConfig      theirs: a setting that does not exist, or a value it cannot take
├── WontFit        no one's: valid, and still too large; says what the tokens are made of
│   ├── Blocked    no one's: over the blocking level; compact or start a new session
│   └── Busy       another process's: it holds the session's log; try again
├── StoreError     the disk's
└── BadEdit        ours: a pass proposed what the pairing rule forbids
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
"""As in `typing`, which takes longer to load than `ebb --version` runs."""
if TYPE_CHECKING:
    from ebbtide.core.types import Composition


class EbbtideError(Exception):
    """The root of all that Ebbtide raises."""


class BadRequest(EbbtideError):
    """The input is not a request we can read."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        """Where in the document, as in `messages.3.content.0`."""


class BadConfig(EbbtideError):
    """A setting is unknown or has a value it cannot take."""


class WontFit(EbbtideError):
    """Nothing more may be taken out, and it is still too large."""

    def __init__(self, message: str, *, tokens: int = 0, limit: int = 0, made_of: Composition | None = None) -> None:
        super().__init__(message)
        # Loaded here, because every command needs the errors, and few need the types of the engine.
        self.tokens, self.limit = tokens, limit
        self.made_of: Composition = made_of or import_module("ebbtide.core.types").Composition()


class Blocked(WontFit):
    """Over the blocking level, where the policy refuses rather than sends."""


class Busy(WontFit):
    """Too large as it stands, and nothing could be taken out: the session's log could not be locked. Try again."""


class StoreError(EbbtideError):
    """The disk, the lock or the file system said no. The session stays usable."""


class BadEdit(EbbtideError):
    """A pass proposed an edit that would part a call from its result, or touch what is locked. A bug of ours."""
