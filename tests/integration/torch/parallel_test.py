"""Random networks by random plans on 1 to 5 ranks, some of which hold nothing, are one device's: every bit on whole numbers,
and within rounding after three steps; and every element that moves was predicted."""
import pathlib
import unittest

import gloo

gloo.need("torch")


class Parallel(gloo.RanksTest):
    script = str(pathlib.Path(__file__).with_name("parallel_ranks.py"))

    def test_TwoReaders_OnThreeAndFiveRanks(self):
        for count in (3, 5):
            self.on(count, "", "whole_numbers", "0", "40")

    def test_WholeNumbers_AreEqual(self):
        for count, first in ((1, 100), (2, 200), (4, 400)):
            self.on(count, "", "whole_numbers", str(first), str(first + 40))

    def test_ThreeSteps_AreWithinRounding(self):
        for count, first in ((1, 100), (2, 200), (3, 300), (4, 400), (5, 500)):
            self.on(count, "", "real_numbers", str(first), str(first + 30))


if __name__ == "__main__":
    unittest.main()
