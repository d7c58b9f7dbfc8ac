"""Tests plans that become CUDA graphs under `ucudnn run`. Within a limit, the graphs consist of several pieces. When
they are launched, and when they are launched after an update, they give the results of the undivided run."""

import os
import tempfile
import unittest

import program

NATIVE_STEP = os.environ["UCUDNN_TEST_NATIVE_STEP"]
BATCH = 8
CONVOLUTIONS = ("forward", "fused", "backward_data", "backward_filter")


def step(kind, *options, **variables):
    """Returns (checksums by result, workspaces by result, numbers of kernels by convolution). The program fails unless
    every result equals the plain loops' result."""
    lines = program.printed([NATIVE_STEP, kind, BATCH], options, **variables)
    checksums, workspaces, kernels = {}, {}, {}
    for line in lines:
        words = line.split()
        if words[1] == "kernels":
            kernels[words[0]] = int(words[2])
        else:
            assert words[1] == "checksum", line
            checksums[words[0]], workspaces[words[0]] = words[2], int(words[4])
    assert tuple(kernels) == CONVOLUTIONS, lines
    return checksums, workspaces, kernels


class Native(unittest.TestCase):
    def divided(self, folder, kind, limit):
        """Runs the program with a store in which pieces are by far the fastest. Returns (the result of step(), the
        report)."""
        options = ("--policy", "powerOfTwo", "--workspace-limit", str(limit))
        step(kind, *options, "--db", f"{folder}/measured.db")
        rows = program.rows_of(f"{folder}/measured.db")
        for row in rows:
            size = int(row["micro_batch"])
            # A row with engine "sum" has the partials' micro-batch. Sums take no time here, whatever that micro-batch
            # is.
            row["time_ms"] = 0 if row["engine"] == "sum" else 100 if size == BATCH else 0.001 * (1 + size)
        store = program.add_rows(f"{folder}/faster.db", rows)
        printed = step(kind, *options, "--db", store, "--report", f"{folder}/report.json", UCUDNN_TUNE="off")
        return printed, program.read(f"{folder}/report.json")

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
                plans = {(kernel["op"], "+" in kernel["plan"][0]["engine"]): len(program.sizes(kernel))
                         for kernel in report["kernels"]}
                for name in CONVOLUTIONS:
                    with self.subTest(name=name):
                        planned = plans["forward" if name == "fused" else name, name == "fused"]
                        if kind == "fp16" and name == "backward_filter":
                            # Partial 16-bit gradients need a sum, which cannot be part of a CUDA graph. So the
                            # undivided plan runs.
                            self.assertEqual(1, pieces[name])
                        else:
                            self.assertGreater(planned, 1)
                            self.assertEqual(planned, pieces[name])


if __name__ == "__main__":
    unittest.main()
