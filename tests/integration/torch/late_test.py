"""Tests a rank that sleeps. If it sleeps longer than UCUDNN_SPATIAL_TIMEOUT, all ranks end with an error that names
the rank. Otherwise the other ranks wait for it."""
import os
import pathlib
import re
import unittest
from unittest import mock

import gloo

LATE = pathlib.Path(__file__).resolve().parent / "late.py"


def setUpModule():
    gloo.need("torch")


class Late(unittest.TestCase):
    def sleeping(self, place, seconds, *kind, ranks=2):
        with mock.patch.dict(os.environ, UCUDNN_SPATIAL_TIMEOUT="2"):
            return gloo.start(LATE, ranks, f"h{ranks}", place, str(seconds), *kind, patience=30)

    def is_an_error(self, place, what, *kind, ranks=2):
        found = self.sleeping(place, 6, *kind, ranks=ranks)
        for rank, (code, output) in enumerate(found):
            self.assertEqual(3, code, f"rank {rank}:\n{output}")
            self.assertNotIn("a result", output)
            if rank != 1:
                self.assertRegex(output, f"rank {rank} waited [0-9.]+ s for {what} of shape .* with .*: rank 1 did not come ")
                self.assertLess(float(re.search("after ([0-9.]+) s", output)[1]), 5, output)
        self.assertRegex(found[1][1], "rank 1 came too late, ranks? .*had waited for it")
        self.assertRegex(found[0][1], f"ucudnn.spatial: rank 0 has waited 1.* s for {what} of shape .* with .*: rank 1 did not "
                                      "come yet")

    def test_forward(self):
        self.is_an_error("forward", "rows")

    def test_backward(self):
        self.is_an_error("backward", "(rows|a sum)")

    def test_statistics(self):
        self.is_an_error("forward", "(values|a sum)", "sum")

    def test_a_rank_behind_another_one_is_named(self):
        # Rank 3 exchanges no rows with rank 1. Rank 3 waits for rank 1 only when all ranks compare the random draws of
        # the pass.
        self.is_an_error("forward", "(rows|values)", ranks=4)

    def test_ranks_in_different_calls_are_told_of_both(self):
        for rank, (code, output) in enumerate(self.sleeping("apart", 0)):
            self.assertEqual(3, code, f"rank {rank}:\n{output}")
            self.assertRegex(output, "rank 0 for rows .* in max_pool2d; rank 1 for a sum .* in sum\\)")

    def test_late_within_the_time_goes_on(self):
        for place in ("forward", "backward"):
            results = set()
            for rank, (code, output) in enumerate(self.sleeping(place, 1)):
                self.assertEqual(0, code, f"rank {rank}:\n{output}")
                results.add(re.search("a result: .*", output)[0])
            self.assertEqual(1, len(results), results)


if __name__ == "__main__":
    unittest.main()
