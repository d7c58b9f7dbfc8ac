"""Tests an ordinary cuDNN program, which runs AlexNet's convolutions forward and backward, within workspace limits: its outputs
do not change, and the report says what was divided."""

import tempfile
import unittest

import machine

PROGRAM = machine.BUILD / "tests/alexnet_step"
BATCH, STEPS = ("4", "1") if machine.HOST else ("256", "5")
LIMITS = {"512KiB": 512 << 10} if machine.HOST else {"8MiB": 8 << 20, "64MiB": 64 << 20}
TIGHTEST = next(iter(LIMITS))


class AlexNet(unittest.TestCase):
    runs = {}

    @classmethod
    def references(cls):
        cls.start("off", ["--off"])

    @classmethod
    def setUpClass(cls):
        cls.references()
        with tempfile.TemporaryDirectory() as folder:
            store = ["--db", f"{folder}/measurements.db"]
            for limit in [*LIMITS] if machine.HOST else [*LIMITS, "caller"]:
                cls.start(limit, ["--workspace-limit", limit, "--policy", "powerOfTwo", *store])
            if not machine.HOST:
                cls.start("undivided", ["--workspace-limit", TIGHTEST, "--policy", "undivided", *store])
            cls.start("warm", ["--workspace-limit", TIGHTEST, "--policy", "powerOfTwo", *store])

    @classmethod
    def start(cls, name, options):
        output, report = machine.under_ucudnn(options, [PROGRAM, BATCH, STEPS], machine.environment(), machine.seconds_left())
        *checksums, summary = output.strip().splitlines()
        cls.runs[name] = checksums, report
        kernels = report["kernels"] if report else []
        machine.record(f"alexnet {name}", {
            "batch": int(BATCH), "step_ms": float(summary.split("step ")[1].split()[0]),
            "workspace_mib": float(summary.split("workspace ")[1].split()[0]), "kernels": len(kernels),
            "divided": sum(machine.pieces(kernel) > 1 for kernel in kernels)})

    def test_outputs_are_those_without_ucudnn(self):
        expected = self.runs["off"][0]
        self.assertEqual(5, len(expected))
        for name, (checksums, _) in self.runs.items():
            with self.subTest(limit=name):
                self.assertEqual(expected, checksums)

    def test_no_kernel_exceeds_its_limit(self):
        for name, limit in LIMITS.items():
            for kernel in self.runs[name][1]["kernels"]:
                with self.subTest(limit=name, op=kernel["op"], c=kernel["problem"]["c"]):
                    self.assertLessEqual(kernel["workspace_bytes"], limit)
                    self.assertLessEqual(max(run["workspace_bytes"] for run in kernel["plan"]), limit)

    def test_report_says_what_was_divided(self):
        for name in (TIGHTEST, "warm"):
            with self.subTest(run=name):
                kernels = self.runs[name][1]["kernels"]
                self.assertEqual(15, len({(kernel["op"], kernel["problem"]["c"]) for kernel in kernels}))
                self.assertGreater(sum(machine.pieces(kernel) > 1 for kernel in kernels), 0)
                for kernel in kernels:
                    self.assertEqual(int(BATCH), sum(run["micro_batch"] * run["count"] for run in kernel["plan"]))

    def test_nothing_fails_inside(self):
        for name, (_, report) in self.runs.items():
            with self.subTest(limit=name):
                self.assertEqual([], report["fallbacks"] if report else [])

    def test_warm_run_measures_nothing(self):
        self.assertGreater(self.runs[TIGHTEST][1]["measured"], 0)
        self.assertEqual(0, self.runs["warm"][1]["measured"])


if __name__ == "__main__":
    machine.main()
