"""PyTorch, unchanged, under ucudnn: its legacy path (TORCH_CUDNN_V8_API_DISABLED=1) is divided, its default path, the
graph API, is unharmed."""

import json
import subprocess
import sys
import tempfile
import unittest

import machine

LIMIT = 8 << 20
PROGRAM = [sys.executable, "-B", machine.FOLDER / "torch_steps.py"]
PATHS = {"graph": {}, "legacy": {"TORCH_CUDNN_V8_API_DISABLED": "1"}}
PROBE = "import torch, sys; sys.exit(0 if torch.cuda.is_available() and torch.backends.cudnn.is_available() else 1)"


def missing():
    if machine.HOST:
        return "PyTorch has kernels of its own, which the stand-in cannot run"
    probe = subprocess.run([sys.executable, "-c", PROBE], capture_output=True)
    return None if probe.returncode == 0 else "no PyTorch with CUDA and cuDNN"


MISSING = missing() if machine.HOST or machine.gpu() else machine.NO_GPU


@unittest.skipIf(MISSING, MISSING)
class Torch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain, cls.with_ucudnn, cls.reports = {}, {}, {}
        for path, variables in PATHS.items():
            environment = machine.python_environment(CUBLAS_WORKSPACE_CONFIG=":4096:8", **variables)
            cls.plain[path] = json.loads(machine.run(PROGRAM, environment).splitlines()[-1])
            with tempfile.TemporaryDirectory() as folder:
                options = ["--workspace-limit", str(LIMIT), "--db", f"{folder}/measurements.db"]
                output, cls.reports[path] = machine.under_ucudnn(options, PROGRAM, environment)
            cls.with_ucudnn[path] = json.loads(output.splitlines()[-1])
            kernels = cls.reports[path]["kernels"] if cls.reports[path] else []
            machine.record(f"torch {path}", {
                "torch": cls.plain[path]["torch"], "cudnn": cls.plain[path]["cudnn"], "kernels": len(kernels),
                "divided": sum(machine.pieces(kernel) > 1 for kernel in kernels),
                "fallbacks": cls.reports[path]["fallbacks"] if cls.reports[path] else [],
                "step_ms": {mode: [runs[path]["modes"][mode]["step_ms"] for runs in (cls.plain, cls.with_ucudnn)]
                            for mode in cls.plain[path]["modes"]}})

    def each(self):
        """Path, mode, and what that gave without ucudnn and with it."""
        return [(path, mode, plain, self.with_ucudnn[path]["modes"][mode])
                for path in PATHS for mode, plain in self.plain[path]["modes"].items()]

    def test_convolutions_on_whole_numbers_are_equal(self):
        for path, mode, plain, divided in self.each():
            with self.subTest(path=path, mode=mode):
                self.assertEqual(plain["convolutions"], divided["convolutions"])
                self.assertNotIn("off by", str(plain["convolutions"]))

    def test_training_goes_the_same_way(self):
        for path, mode, plain, divided in self.each():
            with self.subTest(path=path, mode=mode):
                if (path, mode) == ("graph", "deterministic"):
                    self.assertEqual(plain["losses"], divided["losses"])
                for expected, got in zip(plain["losses"], divided["losses"], strict=True):
                    self.assertAlmostEqual(expected, got, delta=2e-3 * abs(expected))

    def test_capture_of_a_cuda_graph_is_unharmed(self):
        for path in PATHS:
            with self.subTest(path=path):
                self.assertEqual(self.plain[path]["captured"], self.with_ucudnn[path]["captured"])
                self.assertEqual(self.plain[path]["captured"]["eager"], self.plain[path]["captured"]["replayed"])

    def test_legacy_path_is_divided_within_the_limit(self):
        kernels = self.reports["legacy"]["kernels"]
        self.assertGreater(sum(machine.pieces(kernel) > 1 for kernel in kernels), 0)
        for kernel in kernels:
            if machine.pieces(kernel) > 1:
                self.assertLessEqual(kernel["workspace_bytes"], LIMIT)

    def test_graph_path_is_left_alone_by_the_legacy_engine(self):
        report = self.reports["graph"]
        self.assertEqual([], [k["problem"] for k in report["kernels"] if k["api"] == "legacy"] if report else [])


if __name__ == "__main__":
    machine.main()
