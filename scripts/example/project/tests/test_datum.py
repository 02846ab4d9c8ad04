import unittest

from tidegauge.datum import Station, UnknownDatum

HARBOUR = Station("HBR", "Harbour", {"chart": 0.412, "ordnance": 3.061})


class Datum(unittest.TestCase):
    def test_a_datum_above_the_zero_makes_heights_smaller(self):
        self.assertEqual(HARBOUR.convert(5.0, to="chart"), 4.588)

    def test_there_and_back_is_the_same(self):
        there = HARBOUR.convert(5.0, to="ordnance")
        self.assertEqual(HARBOUR.convert(there, to="gauge", start="ordnance"), 5.0)

    def test_an_unknown_datum_is_named(self):
        with self.assertRaisesRegex(UnknownDatum, "lat"):
            HARBOUR.convert(5.0, to="lat")
