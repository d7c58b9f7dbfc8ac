"""JAX, TensorFlow and ONNX Runtime, unchanged, under ucudnn: convolutions and their gradients on whole numbers are equal,
and divided within a small limit where the framework took cuDNN for any."""

import unittest

import frameworks
import machine

LIMIT = 4 << 20


class Convolutions:
    """What holds for each framework. Subclasses are the test cases."""

    framework = None

    @classmethod
    def setUpClass(cls):
        reason = frameworks.missing(cls.framework)
        if reason:
            raise unittest.SkipTest(reason)
        options = ["--workspace-limit", str(LIMIT), "--policy", "powerOfTwo"]
        cls.plain, cls.divided, cls.report = frameworks.both(cls.framework, f"{cls.framework}_steps.py", (), options, 280)
        machine.record(cls.framework, {key: cls.plain[key] for key in ("version", "device")} | {
            "convolutions": len(cls.plain["convolutions"]), "report": frameworks.summary(cls.report)})

    def test_convolutions_on_whole_numbers_are_equal(self):
        self.assertEqual(self.plain.keys(), self.divided.keys())
        for name, result in self.plain["convolutions"].items():
            with self.subTest(name=name):
                self.assertEqual(result, self.divided["convolutions"][name])
                self.assertRegex(result, "^[0-9a-f]{16}$")

    def test_divided_within_the_limit(self):
        if not machine.HOST and self.report is None:
            self.skipTest(f"this {self.framework} took cuDNN for no convolution")
        frameworks.assert_divided_within(self, self.report, LIMIT, "graph")


class Jax(Convolutions, unittest.TestCase):
    framework = "jax"


class TensorFlow(Convolutions, unittest.TestCase):
    framework = "tensorflow"


class OnnxRuntime(Convolutions, unittest.TestCase):
    framework = "onnxruntime"

    def test_no_sample_of_onnx_fails_that_passed_without_ucudnn(self):
        self.assertIn("ok", self.plain["samples"].values())
        self.assertEqual({}, frameworks.new_failures(self.plain["samples"], self.divided["samples"]))


if __name__ == "__main__":
    machine.main()
