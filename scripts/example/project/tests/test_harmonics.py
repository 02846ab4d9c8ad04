import unittest

from tidegauge.harmonics import fit
from tidegauge.readings import load


class Harmonics(unittest.TestCase):
    def test_the_lunar_tide_is_the_largest(self):
        found = {one.name: one.amplitude for one in fit(load("data/harbour.csv")).constituents}
        self.assertEqual(max(found, key=found.get), "M2")
        self.assertAlmostEqual(found["M2"], 1.92, places=1)

    def test_few_readings_are_refused(self):
        with self.assertRaisesRegex(ValueError, "too few"):
            fit(load("data/harbour.csv")[:50])
