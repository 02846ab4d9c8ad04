"""High and low waters on made-up logs, where the right answer is known."""

import math
import unittest
from datetime import datetime, timedelta

from tidegauge.extremes import APART, extremes, highs, lows
from tidegauge.readings import Reading, load

START = datetime(2026, 2, 23)


def log(heights):
    return [Reading(START + timedelta(minutes=6 * n), height, 0.02, 12.5) for n, height in enumerate(heights)]


def tide(hours, *, amplitude=2.0, period=12.42, phase=0.0, digits=2):
    """A plain cosine tide, rounded as a gauge rounds it."""
    return [
        round(3 + amplitude * math.cos(2 * math.pi * (n / 10 - phase) / period), digits) for n in range(int(hours * 10))
    ]


class Plateaus(unittest.TestCase):
    def test_a_flat_top_of_two_readings_is_a_high_water(self):
        flat = [2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.5, 2.4, 2.3, 2.2, 2.1, 2.0]
        self.assertEqual(len(highs(log(flat))), 1)

    def test_a_flat_top_of_many_readings_is_one_high_water(self):
        flat = [2.0, 2.1, 2.2, 2.3, 2.4, *[2.5] * 9, 2.4, 2.3, 2.2, 2.1, 2.0]
        self.assertEqual(len(highs(log(flat))), 1)

    def test_it_is_in_the_middle_of_the_flat_top(self):
        flat = [2.0, 2.1, 2.2, 2.3, 2.4, *[2.5] * 9, 2.4, 2.3, 2.2, 2.1, 2.0]
        self.assertEqual(highs(log(flat))[0].time, START + timedelta(minutes=6 * 9))

    def test_a_flat_bottom_is_a_low_water(self):
        flat = [2.5, 2.4, 2.3, 2.2, 2.1, 2.0, 2.0, 2.0, 2.1, 2.2, 2.3, 2.4, 2.5]
        self.assertEqual(len(lows(log(flat))), 1)

    def test_a_step_on_the_way_up_is_neither(self):
        step = [2.0, 2.1, 2.2, *[2.3] * 9, 2.4, 2.5, 2.6, 2.7]
        self.assertEqual(extremes(log(step)), [])

    def test_still_water_has_no_extremes(self):
        self.assertEqual(extremes(log([2.5] * 200)), [])


class Ends(unittest.TestCase):
    def test_rising_water_at_the_end_of_the_log_is_no_high_water(self):
        self.assertEqual(extremes(log([2.0 + n / 10 for n in range(30)])), [])

    def test_a_flat_beginning_is_not_an_extreme(self):
        self.assertEqual(extremes(log([2.5] * 10 + [2.5 - n / 10 for n in range(10)])), [])

    def test_nothing_comes_of_nothing(self):
        self.assertEqual(extremes([]), [])
        self.assertEqual(extremes(log([2.0])), [])


class Tides(unittest.TestCase):
    def test_a_plain_tide_has_a_high_water_every_twelve_hours_and_twenty_five_minutes(self):
        found = highs(log(tide(7 * 24, phase=3.0)))
        apart = [after.time - before.time for before, after in zip(found, found[1:])]
        self.assertEqual(len(found), 14)
        for one in apart:
            self.assertAlmostEqual(one.total_seconds() / 3600, 12.42, delta=0.3)

    def test_high_and_low_water_take_turns(self):
        kinds = [one.kind for one in extremes(log(tide(7 * 24, phase=3.0)))]
        self.assertTrue(all(before != after for before, after in zip(kinds, kinds[1:])), kinds)

    def test_small_tides_count_too(self):
        self.assertEqual(len(highs(log(tide(7 * 24, amplitude=0.2, phase=3.0)))), 14)

    def test_two_of_a_kind_are_never_close(self):
        found = highs(load("data/harbour.csv"))
        self.assertTrue(all(b.time - a.time >= APART for a, b in zip(found, found[1:])))

    def test_the_recorded_weeks_have_thirteen_or_fourteen(self):
        for name in ("harbour", "quarry"):
            with self.subTest(name):
                self.assertIn(len(highs(load(f"data/{name}.csv"))), (13, 14))
