"""Stripes of unequal rows on two and four ranks: exact, or refused on every rank."""
import pathlib
import unittest

import gloo

UNEVEN = pathlib.Path(__file__).resolve().parent / "uneven.py"


def setUpModule():
    gloo.need("torch")


class Uneven(unittest.TestCase):
    def on(self, count, rows):
        for rank, (code, output) in enumerate(gloo.start(UNEVEN, count, f"h{count}", str(rows))):
            self.assertEqual(0, code, f"rank {rank} of {count}, {rows} rows:\n{output}")

    def test_two_and_one_row(self):
        self.on(2, 3)

    def test_four_and_three_rows(self):
        self.on(2, 7)

    def test_two_rows_and_three_times_one(self):
        self.on(4, 5)

    def test_three_times_two_rows_and_one(self):
        self.on(4, 7)


if __name__ == "__main__":
    unittest.main()
