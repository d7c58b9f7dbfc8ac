"""What compares frameworks with and without ucudnn would notice if something were wrong. Needs neither."""

import copy
import unittest

import frameworks
import torch_iterations
import torch_training_test

LIMIT = 1 << 20
KERNEL = {"op": "forward", "problem": {"n": 8}, "api": "graph", "calls": 3, "workspace_bytes": LIMIT // 2,
          "library_bytes": LIMIT // 2, "plan": [{"micro_batch": 3, "count": 2}, {"micro_batch": 2, "count": 1}]}
WHOLE = KERNEL | {"plan": [{"micro_batch": 8, "count": 1}]}
PLAIN = {"output_errors": [1e-6, 2e-6], "gradient_error": 1e-5, "gradient_errors": {"a": 2e-5, "b": 1e-7},
         "losses": [2.0, 1.0]}


def report(*kernels, fallbacks=()):
    return {"measured": 1, "kernels": list(kernels), "fallbacks": [{"kernel": "k", "cause": c, "count": 1} for c in fallbacks]}


class Report(unittest.TestCase):
    def accepted(self, told, api="graph"):
        test = unittest.TestCase()
        try:
            frameworks.assert_divided_within(test, told, LIMIT, api)
        except AssertionError:
            return False
        return True

    def test_a_divided_kernel_within_the_limit_is_accepted(self):
        self.assertTrue(self.accepted(report(KERNEL, WHOLE)))
        self.assertTrue(self.accepted(report(KERNEL, fallbacks=["cannot be brought under the workspace limit"])))

    def test_nothing_divided_is_noticed(self):
        for told in (None, report(), report(WHOLE), report(KERNEL | {"calls": 0}), report(KERNEL | {"api": "legacy"}, WHOLE)):
            self.assertFalse(self.accepted(told), told)

    def test_more_than_the_limit_is_noticed(self):
        larger = {"workspace_bytes": LIMIT // 2 + 1}
        self.assertFalse(self.accepted(report(KERNEL | larger)))
        self.assertFalse(self.accepted(report(KERNEL, WHOLE | larger)))
        told = report(KERNEL, WHOLE | larger, fallbacks=["cannot be brought under the workspace limit"])
        self.assertTrue(self.accepted(told))

    def test_an_image_in_no_piece_is_noticed(self):
        self.assertFalse(self.accepted(report(KERNEL | {"plan": KERNEL["plan"][:1]})))

    def test_an_unexpected_fallback_is_noticed(self):
        for cause in ("a divided plan is wrong and never used", "a piece failed; this kernel runs undivided from now on"):
            self.assertFalse(self.accepted(report(KERNEL, fallbacks=[cause])), cause)


class Training(unittest.TestCase):
    def found(self, **changes):
        return torch_training_test.too_far("fp32 first", PLAIN, copy.deepcopy(PLAIN) | changes)

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
        prepared = {"warm_up_s": 1, "loss": 2, "device_bytes": 3 << 20}
        told = torch_iterations.figures(prepared, [[2, 2, 9], [20, 22, 24]], [[1, 1, 1], [11, 11, 11]])
        self.assertEqual((2, 2.0, [2.0, 2.0], 6), (told["min_ms"], told["ratio"], told["ratios"], told["steps"]))
        self.assertEqual(14.5, told["median_ms"])
        self.assertEqual(3, told["device_mib"])


if __name__ == "__main__":
    unittest.main()
