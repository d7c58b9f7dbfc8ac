"""tools/gpu-check itself, on the CPU stand-in: every stage that makes sense there runs, and what it writes is complete."""

import gzip
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import machine

NEED_A_GPU = {"device profile", "trace of PyTorch", "compute-sanitizer", "test torch legacy",
              "test torch training UNet3dLegacy", "test torch training ResNet50Legacy"}
RUN_ON_THE_STAND_IN = {"test alexnet", "test differential", "test memory", "test profile", "test trace",
                       "test capture", "test spatial programs", "test spatial grids", "test spatial faults", "test nccl", "test multigrid",
                       "network alexnet 1", "cliff",
                       "L2-sized micro-batches", "table alexnet", "export", "benches"}
# On the CPU, where the framework is there.
RUN_WITH = {
    "torch": {"test torch graph", "test torch training UNet3d", "test torch training ResNet50",
              "test torch training Deterministic", "test torch training UNet3dCompiled",
              "test torch training ResNet50Compiled", "test torch samples", "test torch spatial", "PyTorch unet NCHW",
              "PyTorch unet channels_last", "iterations resnet50 2 64 MiB"},
    "jax": {"test jax"}, "tensorflow": {"test tensorflow"}, "onnxruntime": {"test onnxruntime"}}
HERE = {framework for framework in RUN_WITH if importlib.util.find_spec(framework)}
RUN = RUN_ON_THE_STAND_IN.union(*(RUN_WITH[framework] for framework in HERE))
SKIPPED = NEED_A_GPU.union(*RUN_WITH.values()) - RUN
MINUTES = 13 if HERE else 9


def gpu_check(*words):
    words = [sys.executable, "-B", machine.ROOT / "tools/gpu-check", "--no-build", "--build", machine.BUILD, *words]
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60 * MINUTES + 10)


class GpuCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.output = pathlib.Path(holder.name)
        cls.result = gpu_check("--host", "--minutes", str(MINUTES), "--output", cls.output)
        cls.text = (cls.output / "host.json").read_text()
        cls.json = json.loads(cls.text)
        cls.outcomes = {stage["name"]: stage["outcome"] for stage in cls.json["stages"]}

    def test_every_stage_has_an_outcome(self):
        self.assertEqual(("ucudnn-gpu-check", 1, True), (self.json["format"], self.json["version"], self.json["host"]))
        self.assertEqual(SKIPPED | RUN, set(self.outcomes))
        for stage in self.json["stages"]:
            with self.subTest(stage=stage["name"]):
                self.assertIn("figures" if stage["outcome"] == "passed" else "reason", stage)
                self.assertEqual(stage["name"] in SKIPPED, stage["outcome"] == "skipped", stage.get("reason"))

    def test_stages_pass(self):
        for stage in self.json["stages"]:
            if stage["name"] in RUN:
                with self.subTest(stage=stage["name"]):
                    self.assertEqual("passed", stage["outcome"], stage.get("reason"))

        self.assertEqual((0, ""), (self.result.returncode, self.result.stderr))

    def test_figures_are_there(self):
        stages = {stage["name"]: stage.get("figures") for stage in self.json["stages"]}
        self.assertEqual(5, stages["network alexnet 1"]["no limit"]["kernels"])
        self.assertGreater(stages["network alexnet 1"]["measured"], 0)
        for mib in (8, 64, 512):
            within = stages["network alexnet 1"][f"{mib} MiB"]
            self.assertEqual({"powerOfTwo", "auto", "WD"}, set(within))
            for division, planned in within["WD"].items():
                self.assertGreater(planned["total_ms"], 0, division)
                self.assertLessEqual(planned["total_workspace_bytes"], 5 * mib << 20)
            self.assertLessEqual(stages["table alexnet"][f"{mib} MiB"]["all"]["total_ms"],
                                 stages["table alexnet"][f"{mib} MiB"]["undivided"]["total_ms"])
        self.assertEqual({"forward_bench", "planned_bench", "graph_bench", "wr_bench"}, set(stages["benches"]))
        self.assertEqual(5, stages["cliff"]["kernels"])
        for policy in ("auto", "all"):
            self.assertGreater(stages["L2-sized micro-batches"][policy]["measured"], 0)
            self.assertEqual(1, len(stages["L2-sized micro-batches"][policy]["layers"]))
        self.assertGreater(stages["table alexnet"]["rows"], 15)
        rows = gzip.decompress((self.output / stages["export"]["file"]).read_bytes()).splitlines()
        self.assertEqual(stages["export"]["rows"], len(rows) - 1)
        self.assertGreaterEqual(len(rows), 6)

    def test_a_program_that_may_return_few_files_returns_all(self):
        self.assertLessEqual(len(list(self.output.iterdir())), 8)

    @unittest.skipUnless("torch" in HERE, "no PyTorch")
    def test_figures_of_pytorch_are_there(self):
        stages = {stage["name"]: stage.get("figures") for stage in self.json["stages"]}
        for stage, configurations in {"PyTorch unet NCHW": {"plain", "no limit"},
                                      "iterations resnet50 2 64 MiB": {"plain", "auto", "WD"}}.items():
            case = stages[stage]["cases"]["fp32"]
            self.assertEqual(configurations, set(case))
            for told in case.values():
                self.assertGreater(told["min_ms"], 0)
                self.assertLessEqual(told["min_ms"], told["median_ms"])
                self.assertGreater(told["ratio"], 0)
            self.assertEqual(1, case["plain"]["ratio"])

    def test_results_name_no_place_of_this_machine(self):
        self.assertNotIn(str(machine.ROOT), self.text)

    def test_resumed_run_keeps_what_passed(self):
        again = gpu_check("--host", "--minutes", "0.01", "--resume", "--output", self.output)
        stages = json.loads((self.output / "host.json").read_text())["stages"]
        before = {stage["name"]: stage for stage in self.json["stages"]}
        for stage in stages:
            if before.get(stage["name"], {}).get("outcome") == "passed":
                if stage["name"] == "export":  # once more, of what is there by then
                    stage |= {"seconds": before["export"]["seconds"]}
                self.assertEqual(before[stage["name"]], stage)
        self.assertEqual(0, again.returncode, again.stderr)

    def test_stages_that_are_not_asked_for_are_left(self):
        with tempfile.TemporaryDirectory() as empty:
            result = gpu_check("--host", "--minutes", "1", "--only", "test trace,profile", "--output", empty)
            stages = json.loads(pathlib.Path(empty, "host.json").read_text())["stages"]
        self.assertEqual(0, result.returncode, result.stderr)
        run = {stage["name"] for stage in stages if stage["outcome"] != "not run"}
        self.assertEqual({"test trace", "test profile", "device profile", "export"}, run)

    def test_a_stage_that_the_end_of_the_sitting_cuts_off_has_not_failed(self):
        with tempfile.TemporaryDirectory() as empty:
            result = gpu_check("--host", "--minutes", "0.1", "--only", "test alexnet", "--output", empty)
            stages = json.loads(pathlib.Path(empty, "host.json").read_text())["stages"]
        self.assertEqual(0, result.returncode, result.stderr)
        outcome = next(stage["outcome"] for stage in stages if stage["name"] == "test alexnet")
        self.assertIn(outcome, ("not run", "passed"))  # by the machine's speed

    def test_bad_usage_is_one_line(self):
        for words in (["--minutes", "0"], ["--host"], ["--frobnicate"]):
            result = gpu_check(*words)
            self.assertEqual((2, 1), (result.returncode, result.stderr.count("\n")), result.stderr)

    @unittest.skipIf(machine.gpu(), "there is a GPU")
    def test_without_a_gpu_it_says_so(self):
        result = gpu_check("--output", self.output)
        self.assertEqual((3, "", "tools/gpu-check: no NVIDIA GPU\n"), (result.returncode, result.stdout, result.stderr))

    def test_a_stage_that_fails_does_not_stop_the_others(self):
        # A build without the programs: every test fails, and each says so.
        with tempfile.TemporaryDirectory() as empty:
            result = gpu_check("--build", empty, "--host", "--minutes", "1", "--output", empty)
            stages = json.loads(pathlib.Path(empty, "host.json").read_text())["stages"]
        self.assertEqual(1, result.returncode)
        self.assertEqual(SKIPPED | RUN, {stage["name"] for stage in stages})
        self.assertIn("failed", [stage["outcome"] for stage in stages])


if __name__ == "__main__":
    os.environ.pop("UCUDNN_GPU_TEST_HOST", None)
    unittest.main()
