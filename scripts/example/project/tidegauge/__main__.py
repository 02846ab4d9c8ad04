"""`python -m tidegauge LOG --station CODE`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tidegauge.datum import stations
from tidegauge.readings import BadRow, load
from tidegauge.report import report


def main() -> int:
    parser = argparse.ArgumentParser(prog="tidegauge", description="Writes the weekly report of a tide gauge.")
    parser.add_argument("log", type=Path)
    parser.add_argument("--station", required=True)
    parser.add_argument("--stations", type=Path, default=Path("data/stations.json"))
    asked = parser.parse_args()
    known = stations(asked.stations)
    if asked.station not in known:
        print(f"no station {asked.station!r}; there are {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    try:
        print(report(load(asked.log), known[asked.station]), end="")
    except BadRow as bad:
        print(f"{asked.log}: {bad}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
