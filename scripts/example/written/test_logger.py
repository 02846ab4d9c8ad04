import unittest
from datetime import datetime

from tidegauge.logger import checksum, read

GOOD = "TG,0412,2026-02-23T00:06:00Z,2384,0021,1259"


def line(body):
    return f"${body}*{checksum(body):02X}\n"


class Logger(unittest.TestCase):
    def test_a_line_becomes_a_reading(self):
        (one,) = read([line(GOOD)], "0412").readings
        self.assertEqual((one.time, one.height), (datetime(2026, 2, 23, 0, 6), 2.384))
        self.assertEqual((one.sigma, one.battery), (0.021, 12.59))

    def test_what_the_logger_says_about_itself_is_no_data(self):
        found = read(["# boot 3, firmware 2.11\n", "link up\n", line(GOOD)], "0412")
        self.assertEqual((len(found.readings), sum(found.left_out.values())), (1, 0))

    def test_a_flipped_digit_is_noticed(self):
        found = read([line(GOOD).replace("2384", "2394")], "0412")
        self.assertEqual(dict(found.left_out), {"wrong checksum": 1})

    def test_a_line_cut_short_is_counted(self):
        self.assertEqual(dict(read([line(GOOD)[:20]], "0412").left_out), {"cut short": 1})

    def test_a_stuck_float_is_no_height(self):
        stuck = GOOD.replace("2384", "-9999")
        self.assertEqual(dict(read([line(stuck)], "0412").left_out), {"float stuck": 1})

    def test_a_repeated_line_counts_once(self):
        found = read([line(GOOD), line(GOOD)], "0412")
        self.assertEqual((len(found.readings), dict(found.left_out)), (1, {"repeated": 1}))

    def test_another_station_on_the_same_line_is_left_out(self):
        self.assertEqual(dict(read([line(GOOD)], "0500").left_out), {"another station": 1})

    def test_readings_come_out_in_order(self):
        later = GOOD.replace("00:06", "00:12")
        found = read([line(later), line(GOOD)], "0412").readings
        self.assertLess(found[0].time, found[1].time)

    def test_a_time_that_is_none_is_counted(self):
        wrong = GOOD.replace("2026-02-23", "2026-02-31")
        self.assertEqual(dict(read([line(wrong)], "0412").left_out), {"wrong time": 1})
