"""Tests that PyTorch runs unchanged under ucudnn. Convolutions on whole numbers have equal results with and without ucudnn, and
are divided. Both of PyTorch's paths are tested: the graph API, and the legacy API (TORCH_CUDNN_V8_API_DISABLED=1). Convolutions
that CUDA graphs captured are divided, too."""

import unittest

import frameworks
import machine

LIMIT = 4 << 20
CAPTURED, CAPTURED_FIRST = 64, 56  # the values in torch_steps.py
LEGACY = {"TORCH_CUDNN_V8_API_DISABLED": "1"}
MISSING = frameworks.missing("torch")


class Convolutions:
    """Holds the tests that apply to both paths. Subclasses are the test cases."""

    api, words, variables = "graph", (), {}

    @classmethod
    def references(cls):
        frameworks.start("torch", "torch_steps.py", cls.words, **cls.variables)

    @classmethod
    def setUpClass(cls):
        options = ["--workspace-limit", str(LIMIT), "--policy", "powerOfTwo"]
        cls.plain, cls.divided, cls.report = frameworks.both("torch", "torch_steps.py", cls.words, options, **cls.variables)
        machine.record(f"torch {cls.api}", {"torch": cls.plain["torch"], "cudnn": cls.plain["cudnn"],
                                            "report": frameworks.summary(cls.report)})

    def test_convolutions_on_whole_numbers_are_equal(self):
        for mode, plain in self.plain["modes"].items():
            for kind, results in plain.items():
                # Fused convolutions may all fail, because the legacy path refuses them. Of every other kind of convolutions,
                # most must run.
                ran = [result for result in results.values() if not result.startswith(frameworks.FAILED)]
                self.assertTrue(kind == "fused" or 2 * len(ran) > len(results), results)
                for name, result in results.items():
                    with self.subTest(mode=mode, kind=kind, name=name):
                        frameworks.assert_equal_case(self, result, self.divided["modes"][mode][kind][name])

    def test_divided_within_the_limit(self):
        frameworks.assert_divided_within(self, self.report, LIMIT, self.api)


class Path(Convolutions):
    """Adds tests of captured graphs, which the brief forms leave out."""

    def test_a_captured_graph_replays_what_ran_before(self):
        plain, divided = self.graphs("captured")
        self.assertEqual(plain["eager"], plain["replayed"])
        self.assertEqual(plain["replayed"], divided["replayed"])
        self.assertEqual(plain["eager"], divided["eager"])

    def test_a_captured_graph_holds_the_pieces(self):
        kernels = self.in_pieces(CAPTURED)
        self.assertTrue(kernels, "the captured kernels were not divided")
        # The plan says "divided" even if only calls before the capture ran in pieces, so the test looks for undivided calls.
        self.assertEqual([], [kernel for kernel in kernels if kernel.get("undivided_calls", 0) > 0])
        plain, divided = (graph["kernels"] for graph in self.graphs("captured"))
        if plain is None:
            self.skipTest("this PyTorch does not show its graphs")
        # Each piece launches at least one kernel. The pieces' kernels or their grids differ from the undivided call's.
        self.assertGreaterEqual(len(divided), sum(machine.pieces(kernel) for kernel in kernels))
        self.assertNotEqual(plain, divided)

    def test_capture_of_what_never_ran_is_undivided(self):
        # The kernels are not compared, because ucudnn may replace the engine by an engine that needs less workspace.
        plain, divided = ({key: value for key, value in graph.items() if key != "kernels"}
                          for graph in self.graphs("captured first"))
        self.assertEqual(plain, divided)
        self.assertEqual([], self.in_pieces(CAPTURED_FIRST))

    def graphs(self, name):
        """Returns the results of the capture `name` without ucudnn and with it."""
        for run in (self.plain, self.divided):
            self.assertIsInstance(run[name], dict, run[name])
        return self.plain[name], self.divided[name]

    def in_pieces(self, n):
        """Returns the divided kernels that have the mini-batch `n`."""
        if machine.HOST:
            self.skipTest("the dry run has no cuDNN")
        return [kernel for kernel in frameworks.divided(self.report) if kernel["problem"]["n"] == n]


class Brief:
    """Runs one convolution, for which a few seconds of measuring are enough."""

    words, variables = ("--brief",), {"UCUDNN_TUNE_SECONDS": "0.5:6"}


@unittest.skipIf(MISSING, MISSING)
class Graph(Path, unittest.TestCase):
    pass


@unittest.skipIf(MISSING, MISSING)
class BriefGraph(Brief, Convolutions, unittest.TestCase):
    pass


NO_PATHS = MISSING or ("a CPU has one path" if machine.HOST else None)


@unittest.skipIf(NO_PATHS, NO_PATHS)
class Legacy(Path, unittest.TestCase):
    api, variables = "legacy", LEGACY


@unittest.skipIf(NO_PATHS, NO_PATHS)
class BriefLegacy(Brief, Convolutions, unittest.TestCase):
    api, variables = "legacy", LEGACY | Brief.variables


if __name__ == "__main__":
    machine.main()
