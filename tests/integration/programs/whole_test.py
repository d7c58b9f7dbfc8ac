"""Tests graphs that ucudnn does not divide. For any limit, they give the same results as without ucudnn, and the
report says why they are not divided."""

import os
import tempfile
import unittest

import program

FRONTEND_WHOLE = os.environ["UCUDNN_TEST_FRONTEND_WHOLE"]


def run(*options):
    """Returns the printed lines. The program fails unless every result equals the plain loops' result."""
    return program.printed([FRONTEND_WHOLE, "4"], options)


class Whole(unittest.TestCase):
    def test_results_are_the_same_and_the_report_says_why(self):
        alone = run("--off")
        self.assertEqual(5, len(alone))
        for limit in ((), ("--workspace-limit", "1MiB"), ("--workspace-limit", "0")):
            with self.subTest(limit=limit), tempfile.TemporaryDirectory() as folder:
                self.assertEqual(alone, run(*limit, "--db", "none", "--report", f"{folder}/report.json"))
                report = program.read(f"{folder}/report.json")
                self.assertEqual([], [kernel for kernel in report["kernels"] if len(kernel["plan"]) > 1])
                causes = " ".join(fallback["cause"] for fallback in report["fallbacks"])
                for why in ("operations before the convolution", "CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR",
                            "CUDNN_DATA_INT8"):
                    self.assertIn(why, causes)


if __name__ == "__main__":
    unittest.main()
