"""A program written with cudnn-frontend under `ucudnn run`: forward, backward_data and backward_filter, fused and not,
run in pieces and give the results of the undivided run. Which micro-batches are fastest is said by a store, not
measured."""

import csv
import json
import os
import re
import subprocess
import tempfile
import unittest

COMMAND = os.environ["UCUDNN_TEST_COMMAND"]
FRONTEND_STEP = os.environ["UCUDNN_TEST_FRONTEND_STEP"]
BATCH, SIZES = 8, (5, 3)
# However slow the machine is, all is measured.
ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "passive", "UCUDNN_TUNE_SECONDS": "600:6000"}
RESULTS = 7  # the first fused plan runs once more from its serialized form


def step(kind, axes, *options, **variables):
    """Every result's name and checksum. The program fails where one is not what plain loops compute."""
    result = subprocess.run(
        [COMMAND, "run", "--host", *options, "--", FRONTEND_STEP, kind, axes, str(BATCH)], capture_output=True, text=True,
        env=ENVIRONMENT | variables)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert len(lines) == RESULTS, result.stdout
    return {line[0]: line[2] for line in lines}


def fused(engine):
    """What is fused after the convolution: "graph:1[k25=0]+bias+relu[...]" to "bias+relu"."""
    return "+".join(re.sub(r"\[.*?\]", "", engine).split("+")[1:])


class Frontend(unittest.TestCase):
    def primed(self, folder, kind, axes):
        """A store in which the micro-batches SIZES are by far the fastest, of every kernel and with its own engine."""
        step(kind, axes, "--policy", "undivided", "--db", f"{folder}/measured.db")
        subprocess.run([COMMAND, "cache", "export", f"{folder}/measured.csv", "--db", f"{folder}/measured.db"], check=True,
                       stdout=subprocess.DEVNULL)
        with open(f"{folder}/measured.csv") as file:
            rows = list(csv.DictReader(file))
        with open(f"{folder}/primed.csv", "w") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            for row in rows:
                for size in (BATCH, *SIZES):
                    time_ms = size if size == BATCH else 0.01 * (1 + size)
                    writer.writerow(row | {"micro_batch": size, "time_ms": time_ms})
        subprocess.run([COMMAND, "cache", "import", f"{folder}/primed.csv", "--db", f"{folder}/primed.db"], check=True,
                       stdout=subprocess.DEVNULL)
        return f"{folder}/primed.db"

    def test_divided_graphs_compute_the_same(self):
        for kind in ("fp32", "fp16", "bf16"):
            kernels = {("forward", ""), ("forward", "bias+relu"), ("forward", "residual+bias+relu"), ("backward_data", "")}
            if kind == "fp32":  # those of 16-bit types may stay whole
                kernels.add(("backward_filter", ""))
            for axes in ("2", "3"):
                with self.subTest(kind=kind, axes=axes), tempfile.TemporaryDirectory() as folder:
                    undivided = step(kind, axes, "--off")
                    divided = step(kind, axes, "--policy", "all", "--db", self.primed(folder, kind, axes), "--report",
                                   f"{folder}/report.json", UCUDNN_TUNE="off")
                    self.assertEqual(undivided, divided)
                    with open(f"{folder}/report.json") as file:
                        report = json.load(file)
                    self.assertEqual([], report["fallbacks"])
                    self.assertEqual(0, report["measured"])
                    in_pieces = set()
                    for kernel in report["kernels"]:
                        self.assertEqual("graph", kernel["api"])
                        sizes = [part["micro_batch"] for part in kernel["plan"] for _ in range(part["count"])]
                        if len(sizes) > 1:
                            self.assertEqual(sorted(SIZES), sorted(sizes), kernel)
                            in_pieces.add((kernel["op"], fused(kernel["plan"][0]["engine"])))
                    self.assertLessEqual(kernels, in_pieces)


if __name__ == "__main__":
    unittest.main()
