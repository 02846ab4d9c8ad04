import unittest
from datetime import datetime

from tidegauge.readings import BadRow, coverage, gaps, parse, smoothed

HEAD = "time,height,sigma,battery"


def log(*rows):
    return parse([HEAD, *rows])


class Reading(unittest.TestCase):
    def test_a_row_becomes_a_reading(self):
        one = log("2026-02-23T00:00,2.31,0.020,12.60")[0]
        self.assertEqual(one.time, datetime(2026, 2, 23))
        self.assertEqual(one.height, 2.31)

    def test_rows_come_out_in_order(self):
        found = log("2026-02-23T00:06,2.0,0.02,12.6", "2026-02-23T00:00,2.1,0.02,12.6")
        self.assertEqual([one.height for one in found], [2.1, 2.0])

    def test_a_bad_row_is_named(self):
        with self.assertRaisesRegex(BadRow, "line 3"):
            log("2026-02-23T00:00,2.31,0.020,12.60", "2026-02-23T00:06,wet,0.020,12.60")

    def test_other_columns_are_refused(self):
        with self.assertRaisesRegex(BadRow, "line 1"):
            parse(["when,height", "2026-02-23T00:00,2.3"])


class Gaps(unittest.TestCase):
    def test_a_pause_of_an_hour_is_a_gap(self):
        found = gaps(log("2026-02-23T00:00,2.3,0.02,12.6", "2026-02-23T01:00,2.4,0.02,12.6"))
        self.assertEqual([gap.minutes for gap in found], [60])

    def test_one_missing_reading_is_none(self):
        self.assertEqual(gaps(log("2026-02-23T00:00,2.3,0.02,12.6", "2026-02-23T00:12,2.4,0.02,12.6")), [])

    def test_half_of_the_readings_is_half_of_the_coverage(self):
        rows = [f"2026-02-23T00:{minute:02},2.3,0.02,12.6" for minute in range(0, 60, 12)]
        self.assertAlmostEqual(coverage(log(*rows)), 5 / 9)


class Smoothing(unittest.TestCase):
    def test_a_constant_stays(self):
        rows = [f"2026-02-23T00:{minute:02},2.3,0.02,12.6" for minute in range(0, 60, 6)]
        self.assertEqual(set(smoothed(log(*rows))), {2.3})
