"""PyTorch, unchanged, under ucudnn: convolutions on whole numbers are equal on both of its paths, the graph API and the one
before it (TORCH_CUDNN_V8_API_DISABLED=1), and both are divided; so is what CUDA graphs captured."""

import unittest

import frameworks
import machine

LIMIT = 4 << 20
CAPTURED, CAPTURED_FIRST = 64, 56  # as in torch_steps.py
MISSING = frameworks.missing("torch")


class Path:
    """What holds on either path. Subclasses are the test cases."""

    api, variables = "graph", {}

    @classmethod
    def setUpClass(cls):
        options = ["--workspace-limit", str(LIMIT), "--policy", "powerOfTwo"]
        cls.plain, cls.divided, cls.report = frameworks.both("torch", "torch_steps.py", (), options, **cls.variables)
        machine.record(f"torch {cls.api}", {"torch": cls.plain["torch"], "cudnn": cls.plain["cudnn"],
                                            "report": frameworks.summary(cls.report)})

    def test_convolutions_on_whole_numbers_are_equal(self):
        for mode, plain in self.plain["modes"].items():
            for kind, results in plain.items():
                for name, result in results.items():
                    with self.subTest(mode=mode, kind=kind, name=name):
                        self.assertEqual(result, self.divided["modes"][mode][kind][name])
                        self.assertNotIn("off by", result)

    def test_divided_within_the_limit(self):
        frameworks.assert_divided_within(self, self.report, LIMIT, self.api)

    def test_a_captured_graph_replays_what_ran_before(self):
        self.assertEqual(self.plain["captured"], self.divided["captured"])
        self.assertEqual(self.plain["captured"]["eager"], self.plain["captured"]["replayed"])

        self.assertTrue(self.in_pieces(CAPTURED), "the captured kernels were not divided")

    def test_capture_of_what_never_ran_is_undivided(self):
        self.assertEqual(self.plain["captured first"], self.divided["captured first"])
        self.assertEqual([], self.in_pieces(CAPTURED_FIRST))

    def in_pieces(self, n):
        """The divided kernels of a mini-batch."""
        if machine.HOST:
            self.skipTest("the dry run has no cuDNN")
        return [kernel for kernel in frameworks.divided(self.report) if kernel["problem"]["n"] == n]


@unittest.skipIf(MISSING, MISSING)
class Graph(Path, unittest.TestCase):
    pass


NO_PATHS = MISSING or ("a CPU has one path" if machine.HOST else None)


@unittest.skipIf(NO_PATHS, NO_PATHS)
class Legacy(Path, unittest.TestCase):
    api, variables = "legacy", {"TORCH_CUDNN_V8_API_DISABLED": "1"}


if __name__ == "__main__":
    machine.main()
