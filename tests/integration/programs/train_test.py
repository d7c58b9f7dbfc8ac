"""Tests a training program under `ucudnn run`. Divided kernels and small workspaces change the order of additions, so
losses differ by rounding errors. Where sums are exact, losses do not differ."""

import os
import tempfile
import unittest

import program

TRAIN_CNN = os.environ["UCUDNN_TEST_TRAIN_CNN"]
BATCH, STEPS, WORKSPACE_KIB = 24, 12, 4096
KERNELS = 8  # 3 operations of each of 3 convolutions, without backward_data of the first


def train(words, *options, steps=STEPS, **variables):
    """Returns the loss of every step, as the program prints it."""
    lines = program.printed([TRAIN_CNN, *words, BATCH, steps, WORKSPACE_KIB], options, **variables)
    losses = [line.split()[3] for line in lines]
    assert len(losses) == steps, lines
    return losses


class Train(unittest.TestCase):
    def primed(self, folder, words, sizes):
        """Makes a store in which micro-batches of `sizes` are by far the fastest for every kernel. All values except the times
        come from a run that measures the undivided kernels."""
        train(words, "--policy", "undivided", "--db", f"{folder}/measured.db", steps=1)
        rows = [row for row in program.rows_of(f"{folder}/measured.db") if row["engine"] == "legacy:0"]
        self.assertEqual(KERNELS, len(rows))
        # The 1 in (1 + size) is a cost that each piece has, so that few large pieces are faster than many small ones.
        time_ms = {size: 0.01 * (1 + size) for size in sizes} | {BATCH: BATCH}
        return program.add_rows(f"{folder}/primed.db", [row | {"micro_batch": size, "time_ms": time}
                                                        for row in rows for size, time in time_ms.items()])

    def divided(self, words, policy, sizes, expected):
        """Trains with every kernel divided into pieces of `expected` images."""
        with tempfile.TemporaryDirectory() as folder:
            store = self.primed(folder, words, sizes)
            losses = train(words, "--policy", policy, "--workspace-limit", "64KiB", "--db", store, "--report",
                           f"{folder}/report.json", UCUDNN_TUNE="off")
            report = program.read(f"{folder}/report.json")
        self.assertEqual([], report["fallbacks"])
        self.assertEqual(KERNELS, len(report["kernels"]))
        for kernel in report["kernels"]:
            self.assertEqual(expected, sorted(program.sizes(kernel), reverse=True), kernel)
            self.assertEqual(STEPS, kernel["calls"], kernel)
            self.assertLessEqual(kernel["workspace_bytes"] + kernel["owned_workspace_bytes"], 64 << 10, kernel)
        return losses

    POLICIES = (("all", (7, 3), [7, 7, 7, 3]), ("powerOfTwo", (16, 8), [16, 8]))

    def test_divided_kernels_learn_the_same(self):
        for layout in ("nchw", "nhwc"):
            words = ["fp64", layout, "norm"]
            undivided = [float(loss) for loss in train(words, "--off")]
            self.assertLess(undivided[-1], undivided[0] / 2, "the program does not learn")
            for policy, sizes, expected in self.POLICIES:
                with self.subTest(layout=layout, policy=policy):
                    losses = self.divided(words, policy, sizes, expected)
                    for step, (before, now) in enumerate(zip(undivided, losses), 1):
                        self.assertAlmostEqual(before, float(now), delta=1e-9, msg=f"step {step}")

    def test_exact_sums_are_equal_to_the_bit(self):
        for layout in ("nchw", "nhwc"):
            words = ["fp64", layout, "plain"]
            undivided = train(words, "--off")
            for policy, sizes, expected in self.POLICIES:
                with self.subTest(layout=layout, policy=policy):
                    losses = self.divided(words, policy, sizes, expected)
                    self.assertEqual(undivided[0], losses[0])
                    for step, (before, now) in enumerate(zip(undivided, losses), 1):
                        self.assertAlmostEqual(float(before), float(now), delta=1e-9, msg=f"step {step}")

    def test_measured_plans_keep_a_small_limit_and_learn_the_same(self):
        words = ["fp32", "nchw", "norm"]
        undivided = [float(loss) for loss in train(words, "--off")]
        with tempfile.TemporaryDirectory() as folder:
            losses = train(words, "--policy", "powerOfTwo", "--workspace-limit", "96KiB", "--db",
                           f"{folder}/measurements.db", "--report", f"{folder}/report.json")
            report = program.read(f"{folder}/report.json")
        self.assertGreater(report["measured"], 0)
        self.assertEqual([], report["fallbacks"])
        self.assertEqual(KERNELS, len(report["kernels"]))
        for kernel in report["kernels"]:
            self.assertLessEqual(kernel["workspace_bytes"] + kernel["owned_workspace_bytes"], 96 << 10, kernel)
            self.assertEqual(BATCH, sum(program.sizes(kernel)), kernel)
        # A sum of fp32 numbers has up to 384 terms (24 channels of 4x4 in the last convolution), each rounded to 2^-24. In each
        # of 12 steps, 6 convolutions follow each other (3 forward and 3 backward), and their errors add up.
        tolerance = 12 * 6 * 384 * 2.0 ** -24
        for step, (before, now) in enumerate(zip(undivided, losses), 1):
            self.assertAlmostEqual(before, float(now), delta=tolerance, msg=f"step {step}")


if __name__ == "__main__":
    unittest.main()
