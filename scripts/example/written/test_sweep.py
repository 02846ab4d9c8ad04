"""Every amplitude against every phase: one test each, so that a failure names its own."""

import math
import unittest
from datetime import datetime, timedelta

from tidegauge.extremes import highs
from tidegauge.readings import Reading

START = datetime(2026, 2, 23)
HOURS = 25
AMPLITUDES = (0.15, 0.3, 0.6, 1.0, 1.4, 1.9, 2.5, 3.2, 4.0, 5.1)
PHASES = range(24)


def log(amplitude, phase):
    heights = [3 + amplitude * math.cos(2 * math.pi * (n / 10 - phase / 2) / 12.42) for n in range(HOURS * 10)]
    return [Reading(START + timedelta(minutes=6 * n), round(h, 2), 0.02, 12.5) for n, h in enumerate(heights)]


def expected(phase):
    """High waters that are at least half an hour inside the log."""
    times = [phase / 2 + 12.42 * n for n in range(-1, 6)]
    return sum(0.5 < hour < HOURS - 0.5 for hour in times)


class Sweep(unittest.TestCase):
    """Filled below."""


def case(amplitude, phase):
    def test(self):
        found = [one for one in highs(log(amplitude, phase)) if self.inside(one)]
        self.assertEqual(len(found), expected(phase))

    return test


def inside(self, one):
    hours = (one.time - START).total_seconds() / 3600
    return 0.5 < hours < HOURS - 0.5


Sweep.inside = inside
for amplitude in AMPLITUDES:
    for phase in PHASES:
        name = f"test_amplitude_{round(amplitude * 100):03}_cm_phase_{phase * 30:03}_min"
        setattr(Sweep, name, case(amplitude, phase))
