"""Tests that `ucudnn run -- torchrun` divides the convolutions of each part of a plan into micro-batches, on the
stand-in. A part along n has some of the images. A part along c has all images."""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import gloo

gloo.need("torch")
COMMAND = os.environ.get("UCUDNN_TEST_COMMAND")
SCRIPT = pathlib.Path(__file__).with_name("parallel_cudnn.py")
STEPS, PIECE = 3, 2
# (operation, images, filters) of a rank's kernels. The first layer is divided along n, and its images need no gradient.
# The second layer is divided along c.
KERNELS = sorted([("forward", 4, 4), ("backward_filter", 4, 4), ("forward", 8, 3), ("backward_data", 8, 3),
                  ("backward_filter", 8, 3)])


@unittest.skipUnless(COMMAND, "UCUDNN_TEST_COMMAND names no command")
class Cudnn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def torchrun(self, *options, **variables):
        """Runs parallel_cudnn.py on two ranks. Returns their reports."""
        environment = os.environ | {
            "PYTHONPATH": f"{gloo.ROOT / 'python'}:{gloo.ROOT / 'tests/integration/torch'}", "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "passive", "UCUDNN_TUNE_SECONDS": "600:6000"} | variables
        result = subprocess.run(
            [COMMAND, "run", "--host", *options, "--report", self.folder / "%p.json", "--", sys.executable, "-B", "-m",
             "torch.distributed.run", "--standalone", "--nproc-per-node", "2", SCRIPT, self.folder],
            env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual(0, result.returncode, result.stdout + result.stderr)
        reports = [json.loads(path.read_text()) for path in self.folder.glob("[0-9]*.json")]
        for path in self.folder.glob("[0-9]*.json"):
            path.unlink()
        return [report for report in reports if report["kernels"]]  # the report of torchrun's own process has no kernels

    def cache(self, *words):
        subprocess.run([COMMAND, "cache", *words], check=True, stdout=subprocess.DEVNULL)

    def test_EachPartsConvolution_IsMicroBatched(self):
        """The ranks use a store in which micro-batches of PIECE images are by far the fastest."""
        measured, primed = self.folder / "measured.db", self.folder / "primed.db"
        self.torchrun("--policy", "undivided", "--db", measured)
        self.cache("export", self.folder / "measured.csv", "--db", measured)
        with open(self.folder / "measured.csv") as file:
            rows = [row for row in csv.DictReader(file) if row["engine"] == "legacy:0"]
        with open(self.folder / "primed.csv", "w") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            for row in rows:
                writer.writerows(row | {"micro_batch": size, "time_ms": time_ms}
                                 for size, time_ms in ((row["micro_batch"], 100), (PIECE, 0.01)))
        self.cache("import", self.folder / "primed.csv", "--db", primed)
        reports = self.torchrun("--policy", "powerOfTwo", "--workspace-limit", "64KiB", "--db", primed, UCUDNN_TUNE="off")
        self.assertEqual(2, len(reports))
        for report in reports:
            self.assertEqual([], report["fallbacks"])
            self.assertEqual(KERNELS, sorted((one["op"], one["problem"]["n"], one["problem"]["k"]) for one in report["kernels"]))
            for kernel in report["kernels"]:
                self.assertEqual((STEPS, [(PIECE, kernel["problem"]["n"] // PIECE)]), (
                    kernel["calls"], [(part["micro_batch"], part["count"]) for part in kernel["plan"]]), kernel)


if __name__ == "__main__":
    unittest.main()
