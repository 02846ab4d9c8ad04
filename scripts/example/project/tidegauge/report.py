"""The week in one page. Heights are above chart datum; the gauge's own zero means nothing to a pilot."""

from __future__ import annotations

from tidegauge.datum import Station
from tidegauge.extremes import Extreme, extremes
from tidegauge.harmonics import fit
from tidegauge.readings import Reading, coverage, gaps

CHART = "chart"


def report(readings: list[Reading], station: Station) -> str:
    if not readings:
        return f"{station.name}: nothing was logged.\n"
    found = extremes(readings)
    highs = [one for one in found if one.kind == "high"]
    lows = [one for one in found if one.kind == "low"]
    lines = [
        f"{station.name} ({station.code})",
        f"{readings[0].time:%d %b %Y} to {readings[-1].time:%d %b %Y}",
        "",
        f"high waters  {len(highs)}",
        f"low waters   {len(lows)}",
        f"coverage     {coverage(readings):.1%}",
        "",
        *_table(found, station),
        "",
        *_gap_lines(readings),
        *_constituents(readings),
    ]
    return "\n".join(lines) + "\n"


def _table(found: list[Extreme], station: Station) -> list[str]:
    lines = []
    for one in found:
        mark = "HW" if one.kind == "high" else "LW"
        lines.append(f"{one.time:%a %d %H:%M}  {mark}  {station.convert(one.height, to=CHART):5.2f} m")
    return lines


def _gap_lines(readings: list[Reading]) -> list[str]:
    return [f"gap of {gap.minutes} min from {gap.start:%a %d %H:%M}" for gap in gaps(readings)]


def _constituents(readings: list[Reading]) -> list[str]:
    if len(readings) < 100:
        return []
    fitted = fit(readings)
    return [f"{one.name}  {one.amplitude:.3f} m  {one.phase:5.1f} deg" for one in fitted.constituents]
