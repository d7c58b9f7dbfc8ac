"""Runs the convolution samples of PyTorch's own tests. Tests that samples which pass without ucudnn also pass under ucudnn
with little or no workspace."""

import unittest

import frameworks
import machine

MISSING = frameworks.missing("torch")


@unittest.skipIf(MISSING, MISSING)
class Samples(unittest.TestCase):
    def test_no_sample_fails_that_passed_without_ucudnn(self):
        plain, _ = frameworks.start("torch", "torch_samples.py")
        passed = [name for name, outcome in plain["samples"].items() if outcome == "ok"]
        machine.record("samples", {"torch": plain["torch"], "samples": len(plain["samples"]), "passed": len(passed)})
        # A few samples of 16-bit types fail by PyTorch's own tolerances, so not all have to pass.
        self.assertGreater(len(passed), max(60, 0.9 * len(plain["samples"])))
        for limit in ("0",) if machine.HOST else ("0", "64KiB"):
            with self.subTest(limit=limit):
                options = ["--workspace-limit", limit, "--db", "none"]
                divided, report = frameworks.start("torch", "torch_samples.py", (), options)
                machine.record(f"limit {limit}", frameworks.summary(report))
                self.assertEqual({}, frameworks.new_failures(plain["samples"], divided["samples"]))


if __name__ == "__main__":
    machine.main()
