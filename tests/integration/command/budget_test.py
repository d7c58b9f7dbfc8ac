"""Tests `ucudnn run --total-workspace`: the convolutions of an ordinary cuDNN program share one workspace budget. The
program is told that no convolution needs workspace, and its results are the same as without ucudnn. Reserved memory
stays within the budget."""

import os
import unittest

from alexnet_step import AlexnetTest
from command import MIB


class Budget(AlexnetTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plain, _ = cls().step("4", "3", "64", "find", options=["--off"])

    def run_within(self, budget, division, asking, *options, steps="3"):
        lines, errors = self.step("4", steps, "0", asking, options=[
            "--total-workspace", budget, "--division", division, "--policy", "powerOfTwo", "--db", "measurements.db",
            "--report", "report.json", *options])
        self.assertEqual(self.plain[:5], lines[:5])
        self.assertIn("workspace 0.0 MiB", lines[5])
        return self.load("report.json"), errors

    def test_outputs_are_the_same_and_the_budget_is_kept(self):
        self.assertEqual(5, sum(line.startswith("conv") for line in self.plain))
        for division in ("disjoint", "shared", "concurrent"):
            for asking in ("find", "lazy"):
                with self.subTest(division=division, asking=asking):
                    report, errors = self.run_within("8MiB", division, asking)
                    self.assertEqual("", errors)
                    total = report["total_workspace"]
                    self.assertEqual((8 * MIB, 8 * MIB, division, True, 15),
                                     tuple(total[k] for k in ("total_bytes", "planned_bytes", "division", "divided",
                                                              "kernels")))
                    self.assertTrue(0 < total["total_workspace_bytes"] <= 8 * MIB, total)
                    kernels = [k for k in report["kernels"] if k["calls"] > 0]
                    self.assertEqual(15, len(kernels))
                    self.assertEqual({0}, {k["workspace_bytes"] for k in kernels})
                    own = [k["owned_workspace_bytes"] for k in kernels]
                    self.assertGreater(max(own), 0)
                    self.assertLessEqual(sum(own) if division == "disjoint" else max(own),
                                         total["total_workspace_bytes"])
                    self.assertEqual([], report["fallbacks"])

    def test_what_was_asked_about_is_divided_at_the_first_convolution(self):
        report, errors = self.run_within("8MiB", "concurrent", "find", steps="1")
        self.assertEqual("", errors)
        total = report["total_workspace"]
        self.assertEqual((True, 15), (total["divided"], total["kernels"]))
        self.assertTrue(0 < total["total_workspace_bytes"] <= 8 * MIB, total)

    @unittest.skipUnless(os.environ.get("UCUDNN_TEST_GLPK"), "built without GLPK")
    def test_glpk_divides_as_well(self):
        report, errors = self.run_within("8MiB", "disjoint", "find", "--solver", "glpk")
        self.assertEqual("", errors)
        exact, _ = self.run_within("8MiB", "disjoint", "find")
        self.assertEqual(("glpk", "exact"), (report["total_workspace"]["solver"], exact["total_workspace"]["solver"]))
        for total in (report["total_workspace"], exact["total_workspace"]):
            self.assertTrue(total["divided"] and total["total_workspace_bytes"] > 0, total)

    def test_a_budget_too_small_for_anything_is_said_once(self):
        report, errors = self.run_within("1", "disjoint", "find")
        self.assertEqual(1, len(errors.splitlines()), errors)
        self.assertIn("makes no kernel faster", errors)
        self.assertEqual(0, report["total_workspace"]["total_workspace_bytes"])

    def test_a_budget_beyond_the_device_is_said_once(self):
        report, errors = self.run_within("64GiB", "shared", "find", "--device-memory", "1GiB")
        self.assertEqual(1, len(errors.splitlines()), errors)
        self.assertIn("more than the device has", errors)
        self.assertLessEqual(report["total_workspace"]["planned_bytes"], 1 << 30)


if __name__ == "__main__":
    unittest.main()
