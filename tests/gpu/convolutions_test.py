"""Tests JAX, TensorFlow and ONNX Runtime, unchanged, under ucudnn: convolutions and their gradients on whole numbers give equal
results, and are divided within a small limit. The frameworks must have used the GPU, and ucudnn must have seen their cuDNN
calls."""

import unittest

import frameworks
import machine

LIMIT = 4 << 20


class Convolutions:
    """Has the tests of all frameworks. Each subclass runs them for one framework."""

    framework = None
    device = None  # the device that the program must print

    @classmethod
    def need(cls):
        if reason := frameworks.missing(cls.framework):
            raise unittest.SkipTest(reason)

    @classmethod
    def references(cls):
        cls.need()
        frameworks.start(cls.framework, f"{cls.framework}_steps.py")

    @classmethod
    def setUpClass(cls):
        cls.need()
        options = ["--workspace-limit", str(LIMIT), "--policy", "powerOfTwo"]
        cls.plain, cls.divided, cls.report = frameworks.both(cls.framework, f"{cls.framework}_steps.py", (), options)
        machine.record(cls.framework, {key: cls.plain[key] for key in ("version", "device", "cudnn_files")} | {
            "convolutions": len(cls.plain["convolutions"]), "report": frameworks.summary(cls.report)})

    def test_convolutions_on_whole_numbers_are_equal(self):
        frameworks.assert_equal_cases(self, self.plain["convolutions"], self.divided["convolutions"])

    def test_it_ran_on_the_gpu(self):
        for run, told in (("plain", self.plain), ("under ucudnn", self.divided)):
            with self.subTest(run=run):
                self.assertEqual("cpu" if machine.HOST else self.device, self.device_of(told["device"]))

    @staticmethod
    def device_of(told):
        return told.lower()

    def took_cudnn(self):
        """Returns whether the framework must have called cuDNN. TensorFlow and ONNX Runtime have no other convolutions for
        GPUs."""
        return True

    def test_divided_within_the_limit(self):
        if not machine.HOST and self.report is None and not self.took_cudnn():
            self.skipTest(f"this {self.framework} took cuDNN for no convolution")
        frameworks.assert_divided_within(self, self.report, LIMIT, "graph")


class Jax(Convolutions, unittest.TestCase):
    framework, device = "jax", "gpu"

    def took_cudnn(self):
        """Returns whether JAX used cuDNN: XLA's compiled program is known to call cuDNN, or cuDNN's engine libraries
        were loaded."""
        engines = [name for name in self.plain["cudnn_files"] if name.startswith("libcudnn_engines")]
        return self.plain["cudnn_calls"] > 0 or len(engines) > 0


class TensorFlow(Convolutions, unittest.TestCase):
    framework, device = "tensorflow", "gpu"

    @staticmethod
    def device_of(told):
        """Returns "gpu" if any operation ran on a GPU, since TensorFlow places operations without a GPU kernel on the CPU."""
        return "gpu" if "GPU" in told.split() else told.lower()


class OnnxRuntime(Convolutions, unittest.TestCase):
    framework, device = "onnxruntime", "cuda"

    @staticmethod
    def device_of(told):
        """Returns "cuda" for "CUDAExecutionProvider"; the program prints the first provider of every session."""
        return told.replace("ExecutionProvider", "").lower()

    def test_no_sample_of_onnx_fails_that_passed_without_ucudnn(self):
        self.assertIn("ok", self.plain["samples"].values())
        self.assertEqual({}, frameworks.new_failures(self.plain["samples"], self.divided["samples"]))


if __name__ == "__main__":
    machine.main()
