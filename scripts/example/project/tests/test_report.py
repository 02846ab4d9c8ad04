import unittest

from tidegauge.datum import stations
from tidegauge.readings import load
from tidegauge.report import report

STATIONS = stations("data/stations.json")


class Report(unittest.TestCase):
    def test_nothing_logged_is_said_so(self):
        self.assertEqual(report([], STATIONS["HBR"]), "Harbour: nothing was logged.\n")

    def test_a_week_has_13_or_14_high_waters(self):
        for code, name in (("HBR", "harbour"), ("QRY", "quarry")):
            with self.subTest(station=code):
                told = report(load(f"data/{name}.csv"), STATIONS[code])
                highs = int(told.split("high waters")[1].split()[0])
                self.assertIn(highs, (13, 14), f"\n{told}")

    def test_a_whole_week_is_covered(self):
        self.assertIn("coverage     100.0%", report(load("data/harbour.csv"), STATIONS["HBR"]))
