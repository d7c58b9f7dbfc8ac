"""Tests stripes with unequal numbers of rows on two and four ranks: layers are exact, or refused on every rank."""
import pathlib
import unittest

import gloo

UNEVEN = pathlib.Path(__file__).resolve().parent / "uneven.py"


def setUpModule():
    gloo.need("torch")


class Uneven(gloo.RanksTest):
    script = UNEVEN

    def test_two_and_one_row(self):
        self.on(2, "h2", "3")

    def test_four_and_three_rows(self):
        self.on(2, "h2", "7")

    def test_two_rows_and_three_times_one(self):
        self.on(4, "h4", "5")

    def test_three_times_two_rows_and_one(self):
        self.on(4, "h4", "7")


if __name__ == "__main__":
    unittest.main()
