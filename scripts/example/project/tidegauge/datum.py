"""Heights and what they are above. All offsets are from the gauge's zero, so two conversions never add up wrongly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

GAUGE = "gauge"


class UnknownDatum(KeyError):
    """No offset is known for it at this station."""


@dataclass(frozen=True)
class Station:
    code: str
    name: str
    offsets: dict[str, float]
    """Height of each datum above the gauge's zero, metres."""

    def convert(self, height: float, *, to: str, start: str = GAUGE) -> float:
        """A height above `start` as a height above `to`."""
        return round(height + self._offset(start) - self._offset(to), 3)

    def _offset(self, datum: str) -> float:
        if datum == GAUGE:
            return 0.0
        if datum not in self.offsets:
            known = ", ".join(sorted(self.offsets))
            raise UnknownDatum(f"{self.code} has no datum {datum!r}; it has {known}")
        return self.offsets[datum]


def stations(path: str | Path) -> dict[str, Station]:
    """All stations of a file, by code."""
    table = json.loads(Path(path).read_text(encoding="utf-8"))
    return {code: Station(code, row["name"], row["offsets"]) for code, row in table.items()}
