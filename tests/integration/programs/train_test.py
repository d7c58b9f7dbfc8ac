"""Tests a training program under `ucudnn run`: divided kernels and small workspaces change a network's training by no more than
the order of its sums does, and do not change it where sums are exact."""

import csv
import json
import os
import subprocess
import tempfile
import unittest

COMMAND = os.environ["UCUDNN_TEST_COMMAND"]
TRAIN_CNN = os.environ["UCUDNN_TEST_TRAIN_CNN"]
BATCH, STEPS, WORKSPACE_KIB = 24, 12, 4096
KERNELS = 8  # three convolutions; the first needs no gradient of the images
# Everything is measured, however slow the machine is.
ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "passive", "UCUDNN_TUNE_SECONDS": "600:6000"}


def train(words, *options, steps=STEPS, **variables):
    """Returns every step's loss as the program printed it."""
    result = subprocess.run(
        [COMMAND, "run", "--host", *options, "--", TRAIN_CNN, *words, str(BATCH), str(steps), str(WORKSPACE_KIB)],
        check=True, capture_output=True, text=True, env=ENVIRONMENT | variables)
    losses = [line.split()[3] for line in result.stdout.splitlines()]
    assert len(losses) == steps, result.stdout
    return losses


def pieces(kernel):
    return [part["micro_batch"] for part in kernel["plan"] for _ in range(part["count"])]


class Train(unittest.TestCase):
    def primed(self, folder, words, sizes):
        """Makes a store in which the micro-batches `sizes` of every kernel are by far the fastest. The other values of a
        measurement come from a run that measured the undivided kernels."""
        train(words, "--policy", "undivided", "--db", f"{folder}/measured.db", steps=1)
        subprocess.run([COMMAND, "cache", "export", f"{folder}/measured.csv", "--db", f"{folder}/measured.db"], check=True,
                       stdout=subprocess.DEVNULL)
        with open(f"{folder}/measured.csv") as file:
            rows = [row for row in csv.DictReader(file) if row["engine"] == "legacy:0"]
        self.assertEqual(KERNELS, len(rows))
        with open(f"{folder}/primed.csv", "w") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            for row in rows:
                for size in (BATCH, *sizes):
                    time_ms = size if size == BATCH else 0.01 * (1 + size)  # a piece costs something by itself
                    writer.writerow(row | {"micro_batch": size, "time_ms": time_ms})
        subprocess.run([COMMAND, "cache", "import", f"{folder}/primed.csv", "--db", f"{folder}/primed.db"], check=True,
                       stdout=subprocess.DEVNULL)
        return f"{folder}/primed.db"

    def divided(self, words, policy, sizes, expected):
        """Trains with every kernel divided into pieces of `expected` images."""
        with tempfile.TemporaryDirectory() as folder:
            store = self.primed(folder, words, sizes)
            losses = train(words, "--policy", policy, "--workspace-limit", "64KiB", "--db", store, "--report",
                           f"{folder}/report.json", UCUDNN_TUNE="off")
            with open(f"{folder}/report.json") as file:
                report = json.load(file)
        self.assertEqual([], report["fallbacks"])
        self.assertEqual(KERNELS, len(report["kernels"]))
        for kernel in report["kernels"]:
            self.assertEqual(expected, sorted(pieces(kernel), reverse=True), kernel)
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
            with open(f"{folder}/report.json") as file:
                report = json.load(file)
        self.assertGreater(report["measured"], 0)
        self.assertEqual([], report["fallbacks"])
        self.assertEqual(KERNELS, len(report["kernels"]))
        for kernel in report["kernels"]:
            self.assertLessEqual(kernel["workspace_bytes"] + kernel["owned_workspace_bytes"], 96 << 10, kernel)
            self.assertEqual(BATCH, sum(pieces(kernel)), kernel)
        # Sums have up to 384 terms (in the last convolution), each with an error of 384 units in the last place; six such sums
        # follow each other in a step, and there are twelve steps.
        tolerance = 12 * 6 * 384 * 2.0 ** -24
        for step, (before, now) in enumerate(zip(undivided, losses), 1):
            self.assertAlmostEqual(before, float(now), delta=tolerance, msg=f"step {step}")


if __name__ == "__main__":
    unittest.main()
