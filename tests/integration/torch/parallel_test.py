"""Tests random networks by random plans on 1 to 5 ranks, with random delays of messages. Some ranks may have no
part. On integers, results equal one device's to the bit. On other numbers, results differ only by rounding after
three steps. Every moved element must have been predicted."""
import os
import pathlib
import re
import unittest

import gloo

gloo.need("torch")


class Parallel(unittest.TestCase):
    script = str(pathlib.Path(__file__).with_name("parallel_ranks.py"))

    def compare(self, kind, *rows):
        """Runs the script for each of `rows`: (ranks, first seed, number of networks). Runs only a quarter of the
        networks unless UCUDNN_TEST_CASES=all. Expects that enough messages were delayed."""
        is_all, delays = os.environ.get("UCUDNN_TEST_CASES") == "all", 0
        self.assertEqual(300, sum(networks for _, _, networks in rows))
        for count, first, networks in rows:
            networks = networks if is_all else networks // 4
            told = gloo.start(self.script, count, "", kind, str(first), str(first + networks))
            gloo.expect_ended(told, f"{kind} {first}")
            delays += sum(int(re.search(r"(\d+) delays", output)[1]) for _, output in told)
        self.assertGreater(delays, 1000 if is_all else 250)

    def test_WholeNumbers_AreEqual(self):
        self.compare("whole_numbers", (3, 0, 80), (5, 0, 60), (1, 100, 20), (2, 200, 60), (4, 400, 80))

    def test_ThreeSteps_AreWithinRounding(self):
        self.compare("real_numbers", (1, 100, 20), (2, 200, 60), (3, 300, 80), (4, 400, 80), (5, 500, 60))


if __name__ == "__main__":
    unittest.main()
