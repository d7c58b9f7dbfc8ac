"""Tests `ucudnn multigrid` under `ucudnn run`, which divides the convolutions of its stages."""

import json
import unittest

from command import COMMAND, FolderTest


class MultigridRun(FolderTest):
    def test_convolutions_are_divided_within_the_limit(self):
        net = ("multigrid", "kirby-3m", "--layers", "16", "--coarsening", "4", "--host", "--way", "streams", "--launch", "each", "--batch", "16",
               "--json")
        alone = self.printed_json(*net)
        run = json.loads(self.ended(0, "run", "--workspace-limit", "256KiB", "--report", "report.json", "--", COMMAND,
                                    *net).stdout)
        self.assertNotIn("through ucudnn", alone["machine"])
        self.assertIn("single precision on the CPU stand-in through ucudnn, blocks run: streams", run["machine"])
        for expected, residual in zip(alone["residuals"], run["residuals"], strict=True):
            self.assertAlmostEqual(expected, residual, delta=1e-4 * alone["residuals"][0])
        kernels = self.load("report.json")["kernels"]
        self.assertTrue(any("micro-batches" in kernel["reason"] for kernel in kernels), kernels)


if __name__ == "__main__":
    unittest.main()
