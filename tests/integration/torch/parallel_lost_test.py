"""Tests a rank that ends or sleeps: all other ranks end with an error that names this rank, within the
time-out."""
import pathlib
import re
import unittest

import gloo

gloo.need("torch")
SCRIPT = str(pathlib.Path(__file__).with_name("parallel_lost.py"))


class Lost(unittest.TestCase):
    def expect_lost(self, how, where, said):
        for rank, (code, output) in enumerate(gloo.start(SCRIPT, 3, "", how, where, patience=60)):
            if rank != 1 or how == "late":
                self.assertEqual(3, code, f"rank {rank}: {output}")
            if rank != 1:
                self.assertRegex(output, said)
                self.assertLess(float(re.search(r"after ([0-9.]+) s", output)[1]), 30, output)

    def test_AKilledRank_IsNamed(self):
        for where in ("weights", "step"):
            with self.subTest(where=where):
                self.expect_lost("killed", where, r"rank [02] waited .* for .* with rank.*: rank(s \[.*)? ?1.* ended \(the time-out")

    def test_ARankKilledBeforeApply_IsNamed(self):
        self.expect_lost("killed", "apply", r"rank [02] waited .* for a call of parallel.apply with rank.*: rank 1 did not come")

    def test_ALateRank_IsNamed(self):
        for where in ("apply", "step"):
            with self.subTest(where=where):
                self.expect_lost("late", where, r"rank [02] waited .* for .* with rank.*1.*: rank 1 did not come")


if __name__ == "__main__":
    unittest.main()
