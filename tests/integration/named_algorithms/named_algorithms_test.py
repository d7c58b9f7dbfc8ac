"""Tests `ucudnn run` with a program that names every algorithm with every math type, and asks only for the algorithm's
workspace. The reported workspace is at most the limit if pieces of the algorithm fit the limit, and 0 under one budget
for all kernels. Calls in this workspace give the right result and access no byte beyond it."""

import json
import os
import subprocess
import tempfile
import unittest

COMMAND = os.environ["UCUDNN_TEST_COMMAND"]
PROGRAM = os.environ["UCUDNN_TEST_NAMED_ALGORITHMS"]
BATCH = 16
MATH_TYPES = range(4)
# Enough time to measure everything, even on slow machines.
ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "passive", "UCUDNN_TUNE_SECONDS": "600:6000"}


def run(*options, batch=BATCH, **variables):
    """Returns what the program prints: {(operation, algorithm, math type): (reported bytes, checksum)}."""
    result = subprocess.run([COMMAND, "run", "--host", "--db", "none", *options, "--", PROGRAM, str(batch)], check=True,
                            capture_output=True, text=True, env=ENVIRONMENT | variables)
    lines = {}
    for line in result.stdout.splitlines():
        operation, algorithm, math, _, told, _, checksum, *wrong = line.split()
        assert not wrong, line
        lines[operation, int(algorithm), int(math)] = int(told), checksum
    return lines


class NamedAlgorithms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.real = run("--off")
        # The workspace of each call for one image, the smallest possible piece.
        cls.least = {call: told for call, (told, _) in run("--off", batch=1).items()}
        assert cls.real.keys() == cls.least.keys()

    @classmethod
    def has_winograd(cls):
        """Returns whether the library has Winograd on this processor: oneDNN needs AVX-512 for it."""
        return ("backward_data", 4, 0) in cls.real

    @classmethod
    def served(cls, algorithms):
        """Returns the algorithms that this processor supports, by operation. `algorithms` has the candidates in the
        same form."""
        return {operation: [one for one in numbers if (operation, one, 0) in cls.real]
                for operation, numbers in algorithms.items()}

    def expect_right(self, lines):
        self.assertEqual({call: checksum for call, (_, checksum) in self.real.items()},
                         {call: checksum for call, (_, checksum) in lines.items()})

    def expect_kept(self, lines, limit, calls):
        """Expects that the workspace reported for each of `calls` is at most `limit`."""
        for call in calls:
            with self.subTest(call=call, limit=limit):
                self.assertLessEqual(lines[call][0], limit)

    def test_every_math_type_is_served(self):
        for operation in ("forward", "backward_data", "backward_filter"):
            served = [{algorithm for name, algorithm, math in self.real if (name, math) == (operation, one)}
                      for one in MATH_TYPES]
            self.assertGreaterEqual(len(served[0]), 2)
            self.assertEqual(served, [served[0]] * len(MATH_TYPES))

    def test_a_limit_that_pieces_fit_is_kept(self):
        limits = set()
        for (operation, algorithm, math), least in self.least.items():
            need = self.real[operation, algorithm, math][0]
            if least < need:
                limits.add(least + (need - least) // 4)
        self.assertGreaterEqual(len(limits), 6 if self.has_winograd() else 4)
        for limit in sorted(limits):
            lines = run("--workspace-limit", str(limit))
            self.expect_right(lines)
            self.expect_kept(lines, limit, [call for call, least in self.least.items() if least <= limit])
            for call, (told, _) in lines.items():
                self.assertLessEqual(told, self.real[call][0])

    def test_deterministic_algorithms_keep_a_limit_that_their_pieces_fit(self):
        limit = 30000
        # Undivided, these algorithms exceed the limit, and no equally exact and deterministic engine fits the limit.
        # Single images fit with algorithm 1. Whether they fit with Winograd (4, 5) depends on the processor.
        needy = {operation: [one for one in algorithms if self.least[operation, one, 0] <= limit] for operation, algorithms
                 in self.served({"backward_data": [1, 4], "backward_filter": [1, 5]}).items()}
        with tempfile.TemporaryDirectory() as folder:
            lines = run("--deterministic", "--workspace-limit", str(limit), "--report", f"{folder}/report.json")
            with open(f"{folder}/report.json") as file:
                report = json.load(file)
        self.expect_right(lines)
        calls = [(operation, algorithm, math) for operation, algorithms in needy.items() for algorithm in algorithms
                 for math in MATH_TYPES]
        for call in calls:
            self.assertGreater(self.real[call][0], limit, call)
        for algorithms in needy.values():
            self.assertIn(1, algorithms)
        self.expect_kept(lines, limit, calls)
        kernels = [kernel for kernel in report["kernels"] if kernel["op"] in needy and
                   kernel["asked"] in [f"legacy:{algorithm}" for algorithm in needy[kernel["op"]]]]
        self.assertEqual(len(calls), len(kernels))
        for kernel in kernels:
            self.assertIn("divided into", kernel["reason"])
            self.assertLessEqual(kernel["workspace_bytes"], limit)

    def test_pieces_of_another_algorithm_serve_where_none_of_its_own_fit(self):
        limit = 30000  # less than algorithm 1 needs undivided
        # The algorithms of `calls` exceed the limit even for one image. Algorithm 0 needs no workspace, but may not
        # replace them, because it is not deterministic. For one image, algorithm 1 is within the limit.
        calls = [call for call, least in self.least.items()
                 if call[0] != "forward" and least > limit and self.least[call[0], 1, call[2]] <= limit]
        if not calls:
            self.skipTest("every algorithm of this processor fits in single images")
        with tempfile.TemporaryDirectory() as folder:
            lines = run("--workspace-limit", str(limit), "--report", f"{folder}/report.json")
            with open(f"{folder}/report.json") as file:
                report = json.load(file)
        self.expect_right(lines)
        self.expect_kept(lines, limit, calls)
        reasons = {kernel["reason"] for kernel in report["kernels"]
                   if (kernel["op"], kernel["asked"]) in {(op, f"legacy:{algorithm}") for op, algorithm, _ in calls}}
        self.assertTrue(reasons)
        for reason in reasons:
            self.assertIn("of an engine in place of", reason)
            self.assertIn("aligned to less than 16 bytes it may refuse", reason)

    def test_under_one_budget_nothing_is_asked_of_the_program(self):
        lines = run("--total-workspace", "16MiB")
        self.expect_right(lines)
        self.expect_kept(lines, 0, lines)

    def test_with_every_math_type_kernels_are_measured_and_divided(self):
        with tempfile.TemporaryDirectory() as folder:
            run("--workspace-limit", "30000", "--report", f"{folder}/report.json")
            with open(f"{folder}/report.json") as file:
                report = json.load(file)
        divided = {(kernel["op"], kernel["problem"].get("math", "default")) for kernel in report["kernels"]
                   if sum(part["count"] for part in kernel["plan"]) > 1}
        # No engine as deterministic as these gradients' algorithms fits the limit undivided, so these kernels are
        # divided.
        for operation in ("backward_data", "backward_filter"):
            for math in ("default", "tensor_op", "tensor_op_allow_conversion", "fma"):
                self.assertIn((operation, math), divided)
        self.assertEqual([], [kernel for kernel in report["kernels"] if "not measured" in kernel["reason"]])

    def test_without_time_to_measure_that_is_said(self):
        limit = 30000
        with tempfile.TemporaryDirectory() as folder:
            lines = run("--workspace-limit", str(limit), "--report", f"{folder}/report.json",
                        UCUDNN_TUNE_SECONDS="0.000001:0.000001")
            with open(f"{folder}/report.json") as file:
                report = json.load(file)
        self.expect_right(lines)
        self.assertEqual(0, report["measured"])
        # Without measurements, an algorithm that exceeds the limit is replaced only if the library's heuristics return
        # an engine that fits undivided. Algorithm 1 of forward is not replaced, because
        # cudnnConvolutionBiasActivationForward accepts only this algorithm with an identity activation. Algorithms of
        # gradients are not replaced, because no engine that fits is as deterministic.
        over = {call for call, (told, _) in lines.items() if told > limit}
        needy = self.served({"forward": [1], "backward_data": [1, 4], "backward_filter": [1, 5]})
        self.assertEqual({(operation, algorithm, math) for operation, algorithms in needy.items()
                          for algorithm in algorithms for math in MATH_TYPES}, over)
        causes = {operation: {entry["cause"] for entry in report["fallbacks"] if entry["kernel"].startswith(operation)}
                  for operation in ("forward", "backward_data", "backward_filter")}
        unmeasured = "not measured, so it cannot be brought under the workspace limit"
        # The last cause occurs if another test measures on the same device.
        why = {f"cannot be measured: {said}" for said in (
            "the time for measuring is used up", "the time of this call is used up, a later one goes on",
            "others measure on the device")}
        for operation, told in causes.items():
            self.assertIn(unmeasured, told, operation)
            self.assertTrue(told & why and told <= why | {unmeasured}, told)
        for kernel in report["kernels"]:
            as_asked = "measuring found no time for it: runs as the caller asked"
            told = "undivided, as ucudnn answered when it was asked"
            self.assertIn(kernel["reason"], (as_asked, told))
            if kernel["workspace_bytes"] > limit:
                self.assertEqual(as_asked, kernel["reason"])


if __name__ == "__main__":
    unittest.main()
