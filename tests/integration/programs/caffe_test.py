"""Tests layers written like Caffe's (caffe_net), once with ucudnn's handle, and once with cuDNN's handle under the
preloaded drop-in. Every kernel runs in micro-batches within the program's limit. Its results equal the results of
plain loops and of the undivided library. Times come from a store that the test makes, so nothing is measured."""

import collections
import os
import subprocess
import tempfile
import unittest

import program

OWN, CUDNN = os.environ["UCUDNN_TEST_CAFFE_UCUDNN"], os.environ["UCUDNN_TEST_CAFFE_CUDNN"]
STAND_INS = os.environ["UCUDNN_TEST_HOST"]
# False in sanitizer builds, where the sanitizer's run-time must be loaded before all other libraries.
MAY_PRELOAD = os.environ["UCUDNN_TEST_PRELOAD"] == "1"
BATCH, INPUTS, STEPS = 16, 2, 3
GROUPS = {"conv1": 1, "conv2": 2}
OPERATIONS = ("forward", "backward_data", "backward_filter")
LIMIT = 96 << 10


def direct(layers, bytes_, what="limit", steps=STEPS, **variables):
    """Runs the program on the stand-ins without preloading the drop-in. Returns the printed lines."""
    environment = os.environ | program.PATIENT | {"LD_LIBRARY_PATH": STAND_INS, "UCUDNN_DATABASE": "none"} | variables
    result = subprocess.run([layers, what, str(bytes_), str(steps)], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


def preloaded(layers, limit, **variables):
    return program.printed([layers, "limit", limit, STEPS], **variables)


def checksums(lines):
    return [line for line in lines if line.startswith("conv")]


def pieces(kernel):
    return len(program.sizes(kernel))


class Caffe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.store = cls.primed()
        cls.expected = checksums(direct(CUDNN, LIMIT))
        cls.variables = {"UCUDNN_DATABASE": cls.store, "UCUDNN_TUNE": "off"}

    @classmethod
    def primed(cls):
        """Makes a store in which divided kernels are by far the fastest, especially with engines that need
        workspace."""
        direct(OWN, LIMIT, UCUDNN_DATABASE=f"{cls.folder}/measured.db", UCUDNN_BATCH_SIZE_POLICY="powerOfTwo",
               UCUDNN_ENGINES="legacy")
        rows = program.rows_of(f"{cls.folder}/measured.db")
        for row in rows:
            size = int(row["micro_batch"])
            time_ms = (0.01 if int(row["workspace_bytes"]) > 0 else 0.1) * (1 + size)
            row["time_ms"] = time_ms if size < BATCH else size
        return program.add_rows(f"{cls.folder}/primed.db", rows)

    def test_an_engine_that_serves_pieces_alone_is_not_told(self):
        """The program asks for the workspace of the reported algorithm for the whole mini-batch. So ucudnn must not
        report an engine that supports only small micro-batches, however fast it is."""
        rows = program.rows_of(f"{self.folder}/measured.db")
        whole = {(row["op"], row["c"], row["engine"]) for row in rows if int(row["micro_batch"]) == BATCH}
        alone = [row for row in rows if (row["op"], row["c"], row["engine"]) not in whole]
        self.assertGreater(len(alone), 0)
        store = program.add_rows(f"{self.folder}/alone.db", [row | {"time_ms": 0.0001 if row in alone else 5} for row in rows])
        lines = direct(OWN, LIMIT, UCUDNN_DATABASE=store, UCUDNN_TUNE="off", UCUDNN_BATCH_SIZE_POLICY="powerOfTwo",
                       UCUDNN_ENGINES="legacy")
        self.assertEqual(self.expected, checksums(lines))

    def report(self, name):
        return program.read(f"{self.folder}/{name}.json")

    def check_divided(self, report, named):
        """Expects that the report has every kernel once, divided and within the limit, with all of its calls."""
        self.assertEqual([], report["fallbacks"])
        self.assertEqual(len(GROUPS) * len(OPERATIONS), len(report["kernels"]), report)
        calls = collections.Counter()
        for kernel in report["kernels"]:
            layer = "conv1" if kernel["problem"]["c"] == 4 else "conv2"
            calls[layer, kernel["op"]] += kernel["calls"]
            self.assertGreater(pieces(kernel), 1, kernel)
            self.assertLessEqual(kernel["workspace_bytes"] + kernel["owned_workspace_bytes"], LIMIT, kernel)
            self.assertEqual([layer] if named else None, kernel.get("layers"))
        self.assertTrue(any(kernel["workspace_bytes"] > 0 for kernel in report["kernels"]))
        self.assertEqual({(layer, operation): groups * INPUTS * STEPS for layer, groups in GROUPS.items()
                          for operation in OPERATIONS}, dict(calls))

    def test_wrapped_handles_divide_without_a_preload(self):
        lines = direct(OWN, LIMIT, UCUDNN_REPORT=f"{self.folder}/own.json", **self.variables)
        self.assertEqual(self.expected, checksums(lines))
        report = self.report("own")
        self.check_divided(report, named=True)
        # The program prints the plans that ucudnn returned; the report must have the same plans.
        told = {tuple(line.split()[1:3]): line.split(maxsplit=3)[3] for line in lines if line.startswith("plan")}
        for kernel in report["kernels"]:
            plan = " + ".join(f"{part['micro_batch']}x{part['count']} {part['engine']}" for part in kernel["plan"])
            self.assertEqual(plan, told[kernel["layers"][0], kernel["op"]])

    def test_other_limits_change_no_result(self):
        for limit in (0, 1, 4096):
            with self.subTest(limit=limit):
                self.assertEqual(self.expected, checksums(direct(OWN, limit, **self.variables)))

    def test_wrapper_that_is_off_is_the_real_library(self):
        report = f"{self.folder}/off.json"
        lines = direct(OWN, 0, UCUDNN_MODE="observe", UCUDNN_REPORT=report, **self.variables)
        self.assertEqual(self.expected, checksums(lines))
        self.assertEqual({1}, {pieces(kernel) for kernel in self.report("off")["kernels"]})

    def check_budget(self, report, lines, expected, budget):
        """Expects that all workspace is ucudnn's and within the budget, and that some kernels are divided."""
        self.assertEqual(expected, checksums(lines))
        self.assertIn("workspace conv1 0 conv2 0", lines)
        self.assertEqual([], report["fallbacks"])
        total = report["total_workspace"]
        self.assertEqual((budget, True), (total["total_bytes"], total["divided"]))
        self.assertTrue(0 < total["total_workspace_bytes"] <= budget, total)
        brought = [kernel for kernel in report["kernels"] if kernel["owned_workspace_bytes"] > 0]
        self.assertTrue(any(pieces(kernel) > 1 for kernel in brought))
        self.assertEqual({0}, {kernel["workspace_bytes"] for kernel in report["kernels"]})

    BUDGET = 9 * LIMIT

    def check_divisions(self, steps, check):
        """Runs the program with each value of UCUDNN_DIVISION. Expects right results within the budget, and calls
        check(division, report)."""
        expected = checksums(direct(CUDNN, 0, steps=steps))
        for division in ("disjoint", "shared", "concurrent"):
            with self.subTest(division=division):
                lines = direct(OWN, self.BUDGET, "total", steps, UCUDNN_DIVISION=division,
                               UCUDNN_REPORT=f"{self.folder}/total.json", **self.variables)
                report = self.report("total")
                self.check_budget(report, lines, expected, self.BUDGET)
                check(division, report)

    def test_one_budget_is_divided_in_every_way(self):
        self.check_divisions(2 * STEPS, lambda division, report: self.assertEqual(
            division, report["total_workspace"]["division"]))

    def test_one_budget_is_divided_at_the_first_convolution_among_what_was_asked_about(self):
        """The program makes a single step, so the kernels cannot be learnt from repeated calls."""
        def check(_, report):
            self.assertEqual(len(GROUPS) * len(OPERATIONS), report["total_workspace"]["kernels"])
            called = [kernel for kernel in report["kernels"] if kernel["calls"] > 0]
            self.assertLessEqual(sum(kernel["limit_bytes"] for kernel in called), self.BUDGET, "a share for each")

        self.check_divisions(1, check)

    def test_one_budget_is_divided_as_a_plan_file_says(self):
        direct(OWN, LIMIT, UCUDNN_REPORT=f"{self.folder}/trace.json", **self.variables)
        budget = 9 * LIMIT
        for division in ("disjoint", "shared"):
            with self.subTest(division=division):
                plan = f"{self.folder}/plan.json"
                program.command("workspace", "--trace", f"{self.folder}/trace.json", "--db", self.store, "--total-workspace",
                                budget, "--division", division, "-o", plan)
                lines = direct(OWN, budget, "total", UCUDNN_WORKSPACE_PLAN=plan, UCUDNN_DATABASE="none",
                               UCUDNN_REPORT=f"{self.folder}/pinned.json")
                report = self.report("pinned")
                self.check_budget(report, lines, self.expected, budget)
                self.assertEqual(0, report["measured"])
                self.assertEqual(division, report["total_workspace"]["division"])

    @unittest.skipUnless(MAY_PRELOAD, "sanitized")
    def test_preload_and_wrapper_divide_once(self):
        lines = preloaded(OWN, LIMIT, UCUDNN_REPORT=f"{self.folder}/both.json", **self.variables)
        self.assertEqual(self.expected, checksums(lines))
        self.check_divided(self.report("both"), named=True)

    @unittest.skipUnless(MAY_PRELOAD, "sanitized")
    def test_cudnns_own_handles_divide_under_the_drop_in(self):
        lines = preloaded(CUDNN, LIMIT, UCUDNN_REPORT=f"{self.folder}/cudnn.json", UCUDNN_WORKSPACE_LIMIT=str(LIMIT),
                          **self.variables)
        self.assertEqual(self.expected, checksums(lines))
        self.check_divided(self.report("cudnn"), named=False)


if __name__ == "__main__":
    unittest.main()
