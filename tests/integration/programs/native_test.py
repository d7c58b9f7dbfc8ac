"""Tests convolutions that become CUDA graphs under `ucudnn run`: within a limit they are graphs of several pieces, launched and
updated with the results of the undivided run."""

import csv
import json
import os
import subprocess
import tempfile
import unittest

COMMAND = os.environ["UCUDNN_TEST_COMMAND"]
NATIVE_STEP = os.environ["UCUDNN_TEST_NATIVE_STEP"]
BATCH = 8
ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "passive", "UCUDNN_TUNE_SECONDS": "600:6000"}
CONVOLUTIONS = ("forward", "fused", "backward_data", "backward_filter")


def step(kind, *options, **variables):
    """Returns the checksums, the workspace and the kernels of each convolution by name. The program fails where a result is not
    what plain loops compute."""
    result = subprocess.run([COMMAND, "run", "--host", *options, "--", NATIVE_STEP, kind, str(BATCH)], capture_output=True,
                            text=True, env=ENVIRONMENT | variables)
    assert result.returncode == 0, result.stdout + result.stderr
    checksums, workspaces, kernels = {}, {}, {}
    for line in result.stdout.splitlines():
        words = line.split()
        if words[1] == "kernels":
            kernels[words[0]] = int(words[2])
        else:
            assert words[1] == "checksum", line
            checksums[words[0]], workspaces[words[0]] = words[2], int(words[4])
    assert tuple(kernels) == CONVOLUTIONS, result.stdout
    return checksums, workspaces, kernels


def cache(*arguments):
    subprocess.run([COMMAND, "cache", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Native(unittest.TestCase):
    def divided(self, folder, kind, limit):
        """Returns what the program prints, and the report, where pieces are by far the fastest."""
        options = ("--policy", "powerOfTwo", "--workspace-limit", str(limit))
        step(kind, *options, "--db", f"{folder}/measured.db")
        cache("export", f"{folder}/measured.csv", "--db", f"{folder}/measured.db")
        with open(f"{folder}/measured.csv") as file:
            rows = [row for row in csv.DictReader(file) if row["micro_batch"]]
        with open(f"{folder}/faster.csv", "w") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            for row in rows:
                size = int(row["micro_batch"])
                # The store files the sum of 16-bit partials under the size of a partial.
                time_ms = 0 if row["engine"] == "sum" else 100 if size == BATCH else 0.001 * (1 + size)
                writer.writerow(row | {"time_ms": time_ms})
        cache("import", f"{folder}/faster.csv", "--db", f"{folder}/faster.db")
        printed = step(kind, *options, "--db", f"{folder}/faster.db", "--report", f"{folder}/report.json", UCUDNN_TUNE="off")
        with open(f"{folder}/report.json") as file:
            return printed, json.load(file)

    def test_graphs_of_pieces_compute_the_same(self):
        for kind in ("fp32", "fp16"):
            with self.subTest(kind=kind), tempfile.TemporaryDirectory() as folder:
                checksums, needs, kernels = step(kind, "--off")
                self.assertEqual(dict.fromkeys(CONVOLUTIONS, 1), kernels)
                limit = min(need for need in needs.values() if need > 0) // 2
                (same, workspaces, pieces), report = self.divided(folder, kind, limit)
                self.assertEqual(checksums, same)
                self.assertLessEqual(max(workspaces.values()), limit)
                self.assertEqual([], report["fallbacks"])
                plans = {(kernel["op"], "+" in kernel["plan"][0]["engine"]): sum(part["count"] for part in kernel["plan"])
                         for kernel in report["kernels"]}
                for name in CONVOLUTIONS:
                    with self.subTest(name=name):
                        planned = plans["forward" if name == "fused" else name, name == "fused"]
                        if kind == "fp16" and name == "backward_filter":
                            # Partials of 16 bits need sums, and no plan is a sum, so the whole runs, within its promise.
                            self.assertEqual(1, pieces[name])
                        else:
                            self.assertGreater(planned, 1)
                            self.assertEqual(planned, pieces[name])


if __name__ == "__main__":
    unittest.main()
