"""Tests CUDA graphs that are captured in global mode on one thread while another thread measures: no capture breaks. A
plan that ran once outside a capture is captured and replayed, first undivided and then in pieces."""

import tempfile
import unittest

import machine
import stores

PROGRAM = machine.BUILD / "tests/gpu/bin/capture_beside_measuring"
BATCH = "8" if machine.HOST else "128"
LIMIT = "64KiB" if machine.HOST else "2MiB"
TUNE = {} if machine.HOST else {"UCUDNN_TUNE_SECONDS": "0.5:4"}
CAPTURED_FILTERS = 64  # the output channels k of the captured convolution; the measured convolutions have fewer


class Capture(unittest.TestCase):
    @classmethod
    def start(cls, *options, words=()):
        return machine.under_ucudnn([*options], [PROGRAM, BATCH, *words], machine.environment(**TUNE), machine.seconds_left())

    @classmethod
    def references(cls):
        return cls.start("--off")

    def captures(self, run):
        """Returns the number of captures of a run, and its report. The run must have found algorithms, and each replay must be
        right."""
        output, report = run
        captures, found, same = output.strip().split(", ")
        self.assertEqual("equal", same)
        self.assertGreater(int(found.split()[0]), 0)
        return int(captures.split()[0]), report

    def captured_kernels(self, report):
        return [kernel for kernel in report["kernels"] if kernel["problem"]["k"] == CAPTURED_FILTERS]

    def test_captures_beside_measuring_are_unharmed(self):
        options = ["--policy", "powerOfTwo", "--workspace-limit", LIMIT]
        figures = {"real": self.captures(self.references())[0]}
        with tempfile.TemporaryDirectory() as folder:
            first, second = f"{folder}/measured.db", f"{folder}/pieces.db"
            figures["measuring"], report = self.captures(self.start("--db", first, *options, words=["global"]))
            self.assertGreater(report["measured"], 0)
            # In the store `second`, pieces are the fastest for the captured convolution. This store lacks the other
            # convolutions, so they are measured again.
            rows = [row for row in stores.rows_of(first) if row["k"] == str(CAPTURED_FILTERS)]
            self.assertTrue(rows, "the captured convolution was not measured")
            stores.prefer_pieces(rows, second)
            figures["measuring, in pieces"], report = self.captures(self.start("--db", second, *options, words=["global"]))
        self.assertGreater(report["measured"], 0)
        kernels = self.captured_kernels(report)
        figures["pieces"] = [machine.pieces(kernel) for kernel in kernels]
        machine.record("captures beside finding", figures)
        self.assertGreater(max(figures["pieces"], default=0), 1, f"the captured convolution was not divided: {kernels}")
        self.assertEqual([0], [kernel.get("undivided_calls", 0) for kernel in kernels], kernels)


if __name__ == "__main__":
    machine.main()
