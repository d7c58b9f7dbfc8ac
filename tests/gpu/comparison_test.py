"""Tests that the comparisons of frameworks with and without ucudnn notice faults. Needs neither a framework nor a GPU."""

import copy
import mmap
import tempfile
import unittest

import convolutions_test
import frameworks
import program
import torch_iterations
import torch_training_test

LIMIT = 1 << 20
KERNEL = {"op": "forward", "problem": {"n": 8}, "api": "graph", "calls": 3, "workspace_bytes": LIMIT // 2,
          "owned_workspace_bytes": LIMIT // 2, "plan": [{"micro_batch": 3, "count": 2}, {"micro_batch": 2, "count": 1}]}
WHOLE = KERNEL | {"plan": [{"micro_batch": 8, "count": 1}]}
PLAIN = {"output_errors": [1e-6, 2e-6], "gradient_error": 1e-5, "gradient_errors": {"a": 2e-5, "b": 1e-7},
         "losses": [2.0, 1.0]}


def outcome(work, *arguments):
    """Returns how a test that calls work(*arguments) ends: "passed", "failed" or "skipped: …"."""
    try:
        work(*arguments)
    except unittest.SkipTest as reason:
        return f"skipped: {reason}"
    except AssertionError:
        return "failed"
    return "passed"


def report(*kernels, fallbacks=()):
    return {"measured": 1, "kernels": list(kernels), "fallbacks": [{"kernel": "k", "cause": c, "count": 1} for c in fallbacks]}


class Report(unittest.TestCase):
    def outcome(self, told):
        return outcome(frameworks.assert_divided_within, unittest.TestCase(), told, LIMIT, "graph")

    def test_a_divided_kernel_within_the_limit_is_accepted(self):
        self.assertEqual("passed", self.outcome(report(KERNEL, WHOLE)))
        self.assertEqual("passed", self.outcome(report(KERNEL, fallbacks=["cannot be brought under the workspace limit"])))

    def test_nothing_divided_is_noticed(self):
        for told in (None, report(), report(WHOLE), report(KERNEL | {"calls": 0}), report(KERNEL | {"undivided_calls": 3}),
                     report(KERNEL | {"api": "legacy"}, WHOLE)):
            self.assertEqual("failed", self.outcome(told), told)

    def test_more_than_the_limit_is_noticed(self):
        larger = {"workspace_bytes": LIMIT // 2 + 1}
        self.assertEqual("failed", self.outcome(report(KERNEL | larger)))
        self.assertEqual("failed", self.outcome(report(KERNEL, WHOLE | larger)))
        told = report(KERNEL, WHOLE | larger, fallbacks=["cannot be brought under the workspace limit"])
        self.assertEqual("passed", self.outcome(told))

    def test_an_image_in_no_piece_is_noticed(self):
        self.assertEqual("failed", self.outcome(report(KERNEL | {"plan": KERNEL["plan"][:1]})))

    def test_an_unexpected_fallback_is_noticed(self):
        for cause in ("a divided plan is wrong and never used", "a piece failed; this kernel runs undivided from now on"):
            self.assertEqual("failed", self.outcome(report(KERNEL, fallbacks=[cause])), cause)


class Cases(unittest.TestCase):
    GOOD, OTHER = "0123456789abcdef", "fedcba9876543210"

    def outcome(self, plain, divided):
        return outcome(frameworks.assert_equal_case, unittest.TestCase(), plain, divided)

    def test_other_values_are_noticed(self):
        self.assertEqual("passed", self.outcome(self.GOOD, self.GOOD))
        self.assertEqual("failed", self.outcome(self.GOOD, self.OTHER))
        self.assertEqual("failed", self.outcome("off by 0.5", "off by 0.5"))

    def test_what_fails_without_ucudnn_too_is_skipped(self):
        self.assertEqual("skipped: without ucudnn, too: failed: Error: no kernel at 0x7f01",
                         self.outcome("failed: Error: no kernel at 0x7f01", "failed: Error: no kernel at 0x9a"))
        self.assertTrue(self.outcome("failed: Error: out of memory", self.GOOD).startswith("skipped: without ucudnn: "))

    def test_what_fails_under_ucudnn_alone_is_noticed(self):
        self.assertEqual("failed", self.outcome(self.GOOD, "failed: Error: no kernel"))
        self.assertEqual("failed", self.outcome("failed: Error: no kernel", "failed: Error: bad parameter"))

    def test_a_program_in_which_most_fails_is_noticed(self):
        plain = {"a": self.GOOD, "b": "failed: Error", "c": "failed: Error"}
        with self.assertRaises(AssertionError):
            frameworks.assert_equal_cases(unittest.TestCase(), plain, plain)
        with self.assertRaises(AssertionError):
            frameworks.assert_equal_cases(unittest.TestCase(), {"a": self.GOOD}, {})


class Programs(unittest.TestCase):
    def test_a_case_that_fails_does_not_lose_the_others(self):
        def work(value):
            if value:
                raise RuntimeError("\nno kernel\nfor this device")
            return "ok"

        self.assertEqual(["ok", "failed: RuntimeError: no kernel"], [program.outcome(work, value) for value in (0, 1)])
        self.assertEqual("MemoryError: ", program.told(MemoryError()))
        self.assertEqual("ValueError: a compiler says: no", program.told(ValueError("a compiler says:\nno\nand more")))

    def test_libraries_of_this_process_are_named(self):
        self.assertEqual([], program.cudnn_files())
        with tempfile.NamedTemporaryFile(prefix="libcudnn_", suffix=".so.9") as file:
            file.write(b"x")
            file.flush()
            with mmap.mmap(file.fileno(), 1):
                self.assertEqual([file.name.rsplit("/", 1)[1]], program.cudnn_files())


class Frameworks(unittest.TestCase):
    def outcome_without_a_report(self, framework, **plain):
        case = type("Case", (framework,), {"plain": plain, "report": None})("test_divided_within_the_limit")
        return outcome(case.test_divided_within_the_limit).split(":")[0]

    def test_a_cudnn_that_was_called_past_ucudnn_is_noticed(self):
        for framework in (convolutions_test.TensorFlow, convolutions_test.OnnxRuntime):
            self.assertEqual("failed", self.outcome_without_a_report(framework))
        # JAX may use its own kernels in place of cuDNN. The compiled program and the libraries loaded in the process show
        # whether it did.
        for calls, files, expected in ((0, [], "skipped"), (0, ["libcudnn.so.9", "libcudnn_graph.so.9"], "skipped"),
                                       (3, [], "failed"), (0, ["libcudnn_engines_precompiled.so.9"], "failed")):
            got = self.outcome_without_a_report(convolutions_test.Jax, cudnn_calls=calls, cudnn_files=files)
            self.assertEqual(expected, got, (calls, files))

    def test_a_device_that_is_no_gpu_is_noticed(self):
        for case, good, bad in ((convolutions_test.Jax, ["gpu"], ["cpu", ""]),
                                (convolutions_test.TensorFlow, ["GPU", "CPU GPU"], ["CPU", ""]),
                                (convolutions_test.OnnxRuntime, ["CUDAExecutionProvider"],
                                 ["CPUExecutionProvider", "CPUExecutionProvider CUDAExecutionProvider"])):
            for told in good:
                self.assertEqual(case.device, case.device_of(told))
            for told in bad:
                self.assertNotEqual(case.device, case.device_of(told))


class Training(unittest.TestCase):
    def found(self, **changes):
        return torch_training_test.too_far("fp32 first", PLAIN, copy.deepcopy(PLAIN) | changes)

    def outcome(self, plain, divided):
        return outcome(lambda: torch_training_test.results(
            self, "fp32 first", plain={"fp32 first": plain}, divided={"fp32 first": divided}))

    def test_a_case_that_failed_is_noticed(self):
        failed, lacking = {"error": "Error: bad"}, {"error": "Error: cannot compile", "lacks": "C compiler"}
        self.assertEqual("passed", self.outcome(PLAIN, PLAIN))
        for pair in ((PLAIN, failed), (failed, PLAIN), (failed, failed), (PLAIN, lacking), (lacking, failed)):
            self.assertEqual("failed", self.outcome(*pair), pair)
        self.assertEqual("skipped: no C compiler: Error: cannot compile", self.outcome(lacking, lacking))

    def test_as_near_is_accepted(self):
        self.assertEqual([], self.found())
        self.assertEqual([], self.found(gradient_error=1.9e-5, gradient_errors={"a": 7e-5, "b": 3e-5}))

    def test_engines_chosen_by_time_may_round_otherwise(self):
        farther = copy.deepcopy(PLAIN) | {"gradient_error": 7e-5}
        self.assertEqual([], torch_training_test.too_far("fp32 first benchmark", PLAIN, farther))
        self.assertNotEqual([], torch_training_test.too_far("fp32 first", PLAIN, farther))

    def test_farther_is_noticed(self):
        for changes, what in (({"gradient_error": 3e-5}, "all gradients"), ({"gradient_errors": {"a": 9e-5, "b": 0}}, "of a"),
                              ({"gradient_errors": {"a": 0, "b": 5e-5}}, "of b"), ({"output_errors": [1e-5, 0]}, "of step 0"),
                              ({"output_errors": [0, 1e-4]}, "of step 1"), ({"losses": [2.0, float("nan")]}, "loss nan"),
                              ({"gradient_error": float("nan")}, "all gradients")):
            with self.subTest(what=what):
                self.assertEqual(1, len(self.found(**changes)))
                self.assertIn(what, self.found(**changes)[0])


class Samples(unittest.TestCase):
    def test_a_new_failure_is_noticed(self):
        plain = {"a": "ok", "b": "result 1 is off", "c": "ok"}
        self.assertEqual({}, frameworks.new_failures(plain, plain))
        divided = {"a": "RuntimeError", "b": "ok"}
        self.assertEqual({"a": "RuntimeError", "c": "did not run"}, frameworks.new_failures(plain, divided))


class Iterations(unittest.TestCase):
    def test_ratios_are_of_equal_rounds(self):
        prepared = {"warm_up_s": 1, "loss": 2, "device_bytes": 3 << 20, "steps_ms": [3000, 90, 15]}
        told = torch_iterations.figures(prepared, [[2, 2, 9], [20, 22, 24]], [[1, 1, 1], [11, 11, 11]])
        self.assertEqual((2, 2.0, [2.0, 2.0], 6), (told["min_ms"], told["ratio"], told["ratios"], told["steps"]))
        self.assertEqual(14.5, told["median_ms"])
        self.assertEqual(3, told["device_mib"])
        self.assertEqual(3.09, told["planned_after_s"])

    def test_a_step_that_waits_may_be_slower_than_later_ones(self):
        self.assertEqual(1, torch_iterations.planned_after_s([1000, 20, 21], 10))


if __name__ == "__main__":
    unittest.main()
