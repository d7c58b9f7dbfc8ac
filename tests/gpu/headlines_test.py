"""Tests headlines.py on the CPU stand-in with tiny sizes. Also tests how it handles wrong predictions, workers that die,
and too little time. The times here are times of a CPU and say nothing about GPUs."""

import json
import os
import pathlib
import tempfile
import types
import unittest
import unittest.mock

os.environ["UCUDNN_GPU_TEST_HOST"] = "1"

import headlines
import versions
import workers
from headlines import DIVIDED, PLAIN, UNDIVIDED

SECONDS = 60
# For this layer, pieces of an engine are more than twice as fast as any engine that fits the limit undivided.
LAYER = {"name": "5x5", "n": 8, "c": 16, "h": 27, "w": 27, "k": 32, "r": 5, "s": 5,
         "pad_h": 2, "pad_w": 2, "stride_h": 1, "stride_w": 1}


class OnStandIn(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.sitting = types.SimpleNamespace(output=self.folder, scratch=self.folder, store=self.folder / "m.db", slug="host")

    def compared(self, kernels, store, **variables):
        """Compares the configurations UNDIVIDED and DIVIDED, prepared in this order, both within 256 KiB."""
        options = {name: ["--db", store, *workers.within(0.25, policy)] for name, policy in (
            (UNDIVIDED, "undivided"), (DIVIDED, "auto"))}
        calls = headlines.Calls(options, kernels, SECONDS, variables=variables).run()
        self.assertEqual([], calls.failures)
        return headlines.compared(calls, {"undivided": UNDIVIDED})


class Stages(OnStandIn):
    # The stand-in's clock is processor time, so the load of other programs does not change which plan is faster.
    @unittest.mock.patch.dict(headlines.THREADS, HOSTGPU_CLOCK="processor")
    def test_layers_then_drift(self):
        told = headlines.layers(self.sitting, SECONDS)
        self.assertEqual([], told["not run"])
        case = told["cases"]["alexnet fp32"]
        self.assertEqual((5, 5), (case["kernels_executed"], case["kernels_asked"]))
        self.assertEqual({5}, {len(figure["rounds_ms"]) for figure in case["configurations"].values()})
        self.assertEqual({DIVIDED, UNDIVIDED, headlines.BUDGET, PLAIN}, set(case["configurations"]))
        self.assertGreater(case["configurations"][headlines.BUDGET]["divided"], 0)
        self.assertEqual(0, case["configurations"][UNDIVIDED]["divided"])
        self.assertRegex(told["sentences"][0], r"^AlexNet n = 8, fp32, 256 KiB: divided \d+\.\d\dx as fast as undivided \(")
        document = {"stages": [{"name": "headline layers", "date": "2026-01-01", "figures": json.loads(json.dumps(told))}]}
        drift = headlines.drift_from(document, self.sitting.store, SECONDS)
        self.assertEqual({PLAIN, UNDIVIDED, DIVIDED}, set(drift["new_to_old"]))
        self.assertEqual(3, len(drift["sentences"]))

    def test_drift_without_a_result_is_skipped(self):
        self.sitting.slug = "no-such-gpu"
        with self.assertRaisesRegex(Exception, "no committed result no-such-gpu.json"):
            headlines.drift(self.sitting, SECONDS)

    def test_l2_rows(self):
        told = headlines.l2_rows(self.sitting, SECONDS)
        self.assertEqual({"auto", "powerOfTwo", "undivided", PLAIN}, set(told["cases"]["L2 rows"]["configurations"]))
        self.assertEqual(2, len(told["sentences"]))

    def test_call_cost(self):
        told = headlines.call_cost(self.sitting, SECONDS)
        self.assertEqual({"off", "forwarded", "4 pieces", "16 pieces"}, set(told["us"]))
        self.assertEqual((4, 16), (told["pieces"]["4 pieces, legacy"], told["pieces"]["16 pieces, legacy"]))
        self.assertGreater(told["us_per_piece"], 0)

    def test_an_iteration_of_pytorch(self):
        if versions.missing("torch"):
            self.skipTest(versions.missing("torch"))
        told = headlines.resnet50_iteration(self.sitting, SECONDS)
        self.assertEqual({PLAIN, UNDIVIDED, DIVIDED}, set(told["cases"]["fp32"]))
        self.assertEqual(2, len(told["sentences"]))

    def test_short_time_is_told(self):
        told = headlines.layers(self.sitting, headlines.ENDING_SECONDS)
        self.assertEqual((["alexnet fp32"], {}), (told["not run"], told["cases"]))


class FirstTouch(OnStandIn):
    KERNELS = headlines.kernels_of([LAYER], ("forward",))
    TITLE = "stand-in"

    def test_what_executes_ranks_and_wrong_predictions_are_findings(self):
        for attempt in range(3):  # other programs on this CPU may disturb measuring
            case = self.compared(self.KERNELS, self.folder / f"{attempt}.db", HOSTGPU_FIRST_TOUCH="1:10000")
            if case["configurations"][DIVIDED]["divided"]:
                break
        kernel, total = case["kernels"]["5x5 forward"], case["configurations"][DIVIDED]
        self.assertGreater(kernel[DIVIDED]["pieces"], 1, kernel)
        self.assertIn("graph:1", kernel[DIVIDED]["plan"])
        self.assertLess(kernel[DIVIDED]["predicted_ms"], kernel[UNDIVIDED]["predicted_ms"])
        self.assertGreater(kernel[DIVIDED]["ms"], 10 * kernel[DIVIDED]["pieces"])
        self.assertLess(total["times_as_fast_as_undivided"][0], 1)
        found = headlines.findings(self.TITLE, case, UNDIVIDED, DIVIDED)
        self.assertRegex("\n".join(found), rf"{self.TITLE}, 5x5 forward: {DIVIDED} is 0\.\d\dx as fast as {UNDIVIDED} "
                                           r"in execution, where measuring says [1-9]\d*\.\d\dx")
        self.assertRegex("\n".join(found), f"{self.TITLE}, 5x5 forward, {DIVIDED}: executed .* ms, predicted .* ms")


class Findings(unittest.TestCase):
    def case(self, undivided, divided):
        """Returns a case with one kernel and two configurations, each given as (executed ms, predicted ms)."""
        kernel = {name: {"ms": ms, "predicted_ms": predicted} for name, (ms, predicted) in (
            (UNDIVIDED, undivided), (DIVIDED, divided))}
        totals = {name: {"median_ms": told["ms"], "predicted_ms": told["predicted_ms"]} for name, told in kernel.items()}
        return {"kernels": {"conv1 forward": {"count": 1} | kernel}, "configurations": totals}

    def found(self, *times):
        return headlines.findings("a", self.case(*times), UNDIVIDED, DIVIDED)

    def test_what_is_as_predicted_is_none(self):
        self.assertEqual([], self.found((2, 2.05), (1, 0.97)))

    def test_five_percent_apart_is_one(self):
        self.assertEqual([f"a, conv1 forward, {DIVIDED}: executed 1.060 ms, predicted 1.000 ms (1.06x)"],
                         self.found((2, 2), (1.06, 1)))

    def test_another_ranking_is_one(self):
        found = self.found((2, 2), (2.5, 1))
        self.assertEqual(f"a, all kernels: {DIVIDED} is 0.80x as fast as {UNDIVIDED} in execution, where measuring says 2.00x",
                         found[0])
        self.assertEqual(3, len(found))

    def test_what_was_not_predicted_is_none(self):
        self.assertEqual([], self.found((2, None), (3, 1.5))[1:])

    def test_many_are_told_as_a_number(self):
        case = self.case((2, 1), (2, 1))
        case["kernels"] = {f"conv{index} forward": case["kernels"]["conv1 forward"] for index in range(30)}
        found = headlines.findings("a", case, UNDIVIDED, DIVIDED)
        self.assertEqual("a: 40 more predictions are more than 5 % off", found[-1])
        self.assertEqual(headlines.MOST_FINDINGS + 1, len(found))


class Kernels(unittest.TestCase):
    def test_shapes_of_resnet50_count_as_often_as_it_has_them(self):
        kernels = headlines.kernels_of(headlines.layers_of("resnet50-layers.csv"), headlines.OPERATIONS, "bf16")
        self.assertEqual((68, 53 * 3 - 1), (len(kernels), sum(kernel["count"] for kernel in kernels)))
        self.assertEqual({"bf16"}, {kernel["dtype"] for kernel in kernels})
        self.assertNotIn("conv1 backward_data", [kernel["name"] for kernel in kernels])
        cost = [kernel["count"] * headlines.arithmetic(kernel) for kernel in kernels]
        self.assertEqual(sorted(cost, reverse=True), cost)
        # The published number of products of ResNet-50's convolutions for one image, forward, is 4.089e9.
        forward = sum(kernel["count"] * headlines.arithmetic(kernel) for kernel in kernels if kernel["op"] == "forward")
        self.assertAlmostEqual(4.087e9, forward / 128, delta=5e6)

    def test_l2_rows_are_in_the_file(self):
        names = [row["name"] for row in headlines.layers_of("l2-layers.csv")]
        self.assertEqual(10, len(set(headlines.L2_ROWS) & set(names)))

    def test_policies_do_not_share_what_was_promised(self):
        limits = {workers.within(64, policy)[-1] for policy in workers.POLICIES}
        self.assertEqual(len(workers.POLICIES), len(limits))


class Workers(OnStandIn):
    def failures(self, program, seconds=SECONDS):
        """Returns the failures of a comparison that runs a shell script in place of layer_calls."""
        script = self.folder / "program"
        script.write_text(f"#!/bin/sh\n{program}\n")
        script.chmod(0o755)
        with unittest.mock.patch.object(headlines, "PROGRAM", script):
            return headlines.Calls({PLAIN: None}, headlines.kernels_of([LAYER], ("forward",)), seconds).run().failures

    def test_one_that_dies_is_an_error_by_name(self):
        for program in ("echo no library >&2", "echo '{}'; read line; echo no library >&2"):
            with self.subTest(program=program):
                self.assertRegex("\n".join(self.failures(program)), r"(?s)plain: the worker ended: .*no library")

    def test_one_that_hangs_is_ended(self):
        self.assertEqual(["plain: the worker did not answer in time"], self.failures("echo '{}'; sleep 100", 1))

    def test_two_that_measured_at_once_are_noticed(self):
        report = {"fallbacks": [{"kernel": "k", "cause": "cannot be measured: others measure on the device", "count": 1}]}
        self.assertEqual(1, len(workers.measured_at_once({"64 MiB": report, "plain": None, "one budget": {"fallbacks": []}})))


if __name__ == "__main__":
    unittest.main()
