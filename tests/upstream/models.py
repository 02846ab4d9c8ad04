"""What a Claude model's name implies. Only the families and versions the list of rules names; the rest gets no rule."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Both orders exist: claude-3-5-haiku-20241022 and claude-opus-4-8. A date is never a version: versions have two digits.
NAME = re.compile(
    r"claude-(?:(\d)(?:[-.](\d))?-)?(opus|sonnet|haiku|fable|mythos)(?:-(\d{1,2})(?!\d))?(?:[-.](\d{1,2})(?!\d))?"
)
NO_PREFILL = {("fable", 5, 0), ("opus", 4, 6), ("opus", 4, 7), ("opus", 4, 8), ("sonnet", 4, 6), ("sonnet", 5, 0)}
NO_MANUAL_THINKING = {("fable", 5, 0), ("sonnet", 5, 0), ("opus", 4, 7), ("opus", 4, 8)}
ALWAYS_THINKING = {("fable", 5, 0)}
SYSTEM_MESSAGES = {("opus", 4, 8)}
PRESERVED_THINKING = {
    *((family, 5, minor) for family in ("fable", "mythos") for minor in (1, 2)),
    *((family, 5, 5) for family in ("opus", "sonnet", "haiku")),
}
MINIMUM_PREFIX = {
    **{("opus", 4, minor): 4096 for minor in (5, 6, 7, 8)},
    ("haiku", 4, 5): 4096,
    **dict.fromkeys([("fable", 5, 0), ("sonnet", 4, 6), ("haiku", 3, 0), ("haiku", 3, 5)], 2048),
}
# A model nobody documented gets the largest known minimum, so that the simulated cache never flatters us.
UNDOCUMENTED_MINIMUM = 4096
# "Sonnet 4.5 and older".
OLD_MINIMUM, OLD = 1024, (4, 5)


@dataclass(frozen=True, slots=True)
class Model:
    family: str
    major: int
    minor: int

    @property
    def key(self) -> tuple[str, int, int]:
        return (self.family, self.major, self.minor)

    @property
    def prefill(self) -> bool:
        """Whether the request may end with an assistant message (A6)."""
        return self.key not in NO_PREFILL

    @property
    def manual_thinking(self) -> bool:
        return self.key not in NO_MANUAL_THINKING

    @property
    def always_thinking(self) -> bool:
        return self.key in ALWAYS_THINKING

    @property
    def system_messages(self) -> bool:
        return self.key in SYSTEM_MESSAGES

    @property
    def preserved_thinking(self) -> bool:
        """Signed thinking is bound to everything before it (A63)."""
        return self.key in PRESERVED_THINKING

    @property
    def minimum_prefix(self) -> int:
        """Tokens below which a cache mark is silently ignored (A50)."""
        if self.key in MINIMUM_PREFIX:
            return MINIMUM_PREFIX[self.key]
        old = self.family in ("opus", "sonnet") and self.major > 0 and (self.major, self.minor) <= OLD
        return OLD_MINIMUM if old else UNDOCUMENTED_MINIMUM


def model(name: object) -> Model:
    found = NAME.search(name) if isinstance(name, str) else None
    if found is None:
        return Model("", 0, 0)
    before, before_minor, family, after, after_minor = found.groups()
    return Model(family, int(after or before or 0), int(after_minor or before_minor or 0))
