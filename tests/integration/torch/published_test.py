"""Tests a sample of each published list on four and on eight ranks: each case is exact or refused, as published.py
decides."""
import pathlib
import unittest

import gloo

RANKS = pathlib.Path(__file__).resolve().parent / "published_ranks.py"


def setUpModule():
    gloo.need("torch")


class Published(unittest.TestCase):
    def test_a_sample_is_exact_or_refused_as_the_geometry_says(self):
        for count, cases in ((4, r"\d\d\d"), (8, r"[1-9]\d")):
            for rank, (code, output) in enumerate(gloo.start(RANKS, count, f"h{count}")):
                with self.subTest(ranks=count):
                    self.assertEqual(0, code, f"rank {rank}:\n{output}")
                    self.assertRegex(output, rf"\b{cases} cases, 0 failed")


if __name__ == "__main__":
    unittest.main()
