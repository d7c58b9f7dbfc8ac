"""Capture of CUDA graphs in global mode on one thread, while another measures: no capture breaks, and a plan that ran once
outside is captured and replayed."""

import tempfile
import unittest

import machine

PROGRAM = machine.BUILD / "tests/gpu/bin/capture_beside_measuring"
BATCH = "8" if machine.HOST else "128"
LIMIT = "64KiB" if machine.HOST else "2MiB"


class Capture(unittest.TestCase):
    def start(self, *options, words=()):
        output, report = machine.under_ucudnn([*options], [PROGRAM, BATCH, *words], machine.environment())
        captures, found, same = output.strip().split(", ")
        self.assertEqual("equal", same)
        self.assertGreater(int(found.split()[0]), 0)
        return int(captures.split()[0]), report

    def test_captures_beside_measuring_are_unharmed(self):
        real, _ = self.start("--off")
        with tempfile.TemporaryDirectory() as folder:
            captures, report = self.start("--db", f"{folder}/m.db", "--policy", "powerOfTwo", "--workspace-limit", LIMIT,
                                          words=["global"])
        self.assertGreater(report["measured"], 0)
        machine.record("captures beside finding", {
            "real": real, "measuring": captures,
            "divided": sum(machine.pieces(kernel) > 1 for kernel in report["kernels"])})


if __name__ == "__main__":
    machine.main()
