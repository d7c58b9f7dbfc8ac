"""What tools/gpu-check makes of a stage that ends well, badly, in too much time, or with the sitting. Runs none."""

import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

import figures
import frameworks
import machine

LOADER = importlib.machinery.SourceFileLoader("gpu_check", str(machine.ROOT / "tools/gpu-check"))
gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", LOADER))
LOADER.exec_module(gpu_check)
gpu_check.machine, gpu_check.figures = machine, figures

LIMIT = 100


class Sitting(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.output = pathlib.Path(holder.name)
        silent = open(os.devnull, "w")
        self.addCleanup(silent.close)
        self.addCleanup(setattr, sys, "stdout", sys.stdout)
        sys.stdout = silent

    def check(self, seconds, resume=False):
        return gpu_check.Check(argparse.Namespace(minutes=seconds / 60, only=None, output=self.output, resume=resume), "x")

    def outcome(self, check, name, work, limit=LIMIT):
        """Outcome of the stage in the results, and its reason or figures."""
        check.stage(name, limit, work)
        stage = next(each for each in json.loads((self.output / "x.json").read_text())["stages"] if each["name"] == name)
        self.assertEqual([name], [each for each in check.that(stage["outcome"]) if each == name])
        return stage["outcome"], stage.get("reason", stage.get("figures"))

    def at_the_end(self, check, result):
        """Work during which the sitting's time passes."""
        def work(seconds):
            self.assertLess(seconds, LIMIT)
            check.deadline = time.monotonic()
            if isinstance(result, Exception):
                raise result
            return result

        return work

    @staticmethod
    def slow(seconds):
        raise machine.TimedOut(f"not done after {seconds:.0f} s", {"so far": 1})

    def test_a_stage_that_takes_more_than_its_own_time_is_cut_and_a_test_has_failed(self):
        check = self.check(10 * LIMIT)
        self.assertEqual(("failed", "not done after 100 s"), self.outcome(check, "test a", self.slow))
        self.assertEqual(("cut", "not done after 100 s"), self.outcome(check, "network a", self.slow))
        self.assertEqual({"so far": 1}, check.stages[-1]["figures"])

    def test_a_stage_that_runs_into_the_end_is_not_run(self):
        for name in ("test a", "network a"):
            check = self.check(0.8 * LIMIT)
            work = self.at_the_end(check, machine.TimedOut("not done", {"so far": 1}))
            self.assertEqual(("not run", "no time left after 0 s"), self.outcome(check, name, work))
            self.assertEqual([], check.that("failed") + check.that("cut"))
            self.assertEqual({"so far": 1}, check.stages[-1]["figures"])

    def test_so_is_one_for_a_part_of_which_no_time_was_left(self):
        check = self.check(0.8 * LIMIT)
        self.assertEqual("not run", self.outcome(check, "PyTorch a", self.at_the_end(check, {"not run": ["fp16"]}))[0])
        self.assertEqual("passed", self.outcome(self.check(2 * LIMIT), "PyTorch a", lambda _: {"not run": ["fp16"]})[0])

    def test_what_fails_near_the_end_has_failed(self):
        check = self.check(0.8 * LIMIT)
        self.assertEqual(("failed", "wrong"), self.outcome(check, "test a", self.at_the_end(check, machine.Failed("wrong"))))

    def test_what_is_slow_by_itself_is_not_excused_by_a_short_sitting(self):
        check = self.check(0.8 * LIMIT)  # of which most is left when the work gives up
        self.assertEqual("failed", self.outcome(check, "test a", self.slow)[0])

    def test_a_stage_begins_with_half_of_its_time(self):
        check = self.check(0.45 * LIMIT)
        self.assertEqual(("not run", "no time left"), self.outcome(check, "test a", self.fail))
        self.assertEqual(("passed", {"ran": 1}), self.outcome(check, "test b", lambda _: {"ran": 1}, 0.8 * LIMIT))

    def test_the_next_sitting_runs_what_was_not_run_and_keeps_the_rest(self):
        check = self.check(0.8 * LIMIT)
        self.outcome(check, "test a", lambda _: {"ran": 1})
        self.outcome(check, "test b", self.at_the_end(check, machine.TimedOut("not done")))
        again = self.check(10 * LIMIT, resume=True)
        self.assertEqual(("passed", {"ran": 1}), self.outcome(again, "test a", self.fail))
        self.assertEqual(("passed", {"ran": 2}), self.outcome(again, "test b", lambda _: {"ran": 2}))

    def test_measurements_are_kept_after_the_end(self):
        check = self.check(0.01)
        time.sleep(0.02)
        check.again("export", 60, lambda seconds: {"seconds": seconds})
        self.assertEqual("passed", check.stages[-1]["outcome"])
        self.assertGreaterEqual(check.stages[-1]["figures"]["seconds"], 60)
        self.assertEqual("not run", self.outcome(check, "test a", self.fail)[0])


class Limits(unittest.TestCase):
    def test_a_test_has_time_for_measuring(self):
        measuring = float(frameworks.TUNE["UCUDNN_TUNE_SECONDS"].split(":")[1])
        # How many of its processes measure.
        measuring_runs = {"torch_training": {"Deterministic": 2}, "torch_samples": {None: 2}}
        for name, (file, case, seconds) in gpu_check.TESTS.items():
            if file.startswith("torch") or file == "convolutions":
                runs = measuring_runs.get(file, {}).get(case, 1)
                self.assertGreaterEqual(seconds, 2 * runs * measuring, name)

    def test_a_sitting_of_nine_minutes_has_time_for_each(self):
        self.assertLess(max(seconds for _, _, seconds in gpu_check.TESTS.values()), 9 * 60)


if __name__ == "__main__":
    unittest.main()
