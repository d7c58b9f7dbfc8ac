"""Random networks by random plans on 1 to 5 ranks, some of which hold nothing and all of which are late at random, equal one
device: to the bit on whole numbers, and within rounding after three steps. Every element that moves was predicted."""
import pathlib
import re
import unittest

import gloo

gloo.need("torch")


class Parallel(unittest.TestCase):
    script = str(pathlib.Path(__file__).with_name("parallel_ranks.py"))

    def compare(self, kind, *rows):
        """`rows` has (ranks, the first seed, networks). More than 1,000 delays must not make a rank wait for ever."""
        delays = 0
        for count, first, networks in rows:
            told = gloo.start(self.script, count, "", kind, str(first), str(first + networks))
            gloo.expect_ended(told, f"{kind} {first}")
            delays += sum(int(re.search(r"(\d+) delays", output)[1]) for _, output in told)
        self.assertGreater(delays, 1000)

    def test_WholeNumbers_AreEqual(self):
        self.compare("whole_numbers", (3, 0, 40), (5, 0, 40), (1, 100, 20), (2, 200, 40), (4, 400, 40))

    def test_ThreeSteps_AreWithinRounding(self):
        self.compare("real_numbers", (1, 100, 20), (2, 200, 30), (3, 300, 30), (4, 400, 30), (5, 500, 30))


if __name__ == "__main__":
    unittest.main()
