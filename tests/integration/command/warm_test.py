"""What `ucudnn bench` measured offline, an ordinary cuDNN program finds: its run measures nothing."""

import json
import os
import subprocess
import tempfile
import unittest

COMMAND = os.environ["UCUDNN_TEST_COMMAND"]
ALEXNET_STEP = os.environ["UCUDNN_TEST_ALEXNET_STEP"]


class Warm(unittest.TestCase):
    def test_run_after_bench_measures_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            options = ["--host", "--policy", "undivided", "--db", f"{folder}/measurements.db"]
            subprocess.run([COMMAND, "bench", "--net", "alexnet", "--batch", "1", *options], check=True,
                           stdout=subprocess.DEVNULL)
            subprocess.run([COMMAND, "run", *options, "--report", f"{folder}/report.json", "--", ALEXNET_STEP, "1", "1"],
                           check=True, stdout=subprocess.DEVNULL)
            with open(f"{folder}/report.json") as file:
                report = json.load(file)
        self.assertEqual(0, report["measured"])
        self.assertEqual(15, len(report["kernels"]))


if __name__ == "__main__":
    unittest.main()
