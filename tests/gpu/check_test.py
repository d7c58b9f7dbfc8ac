"""Tests tools/gpu-check on the CPU stand-in: every stage that can run there runs, and the output is complete."""

import gzip
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

os.environ["UCUDNN_GPU_TEST_HOST"] = "1"  # makes stages use the stand-in and its small sizes
import machine
import stages

NEED_A_GPU = {"trace of PyTorch", "compute-sanitizer", "test torch legacy", "test torch training UNet3dLegacy",
              "test torch training ResNet50Legacy"}
# For each framework, the stages that are skipped on the CPU stand-in if the framework is not installed.
NEED = {"torch": {stage.name for stage in stages.ALL if "torch" in stage.name.split() or stage.name.startswith(("PyTorch", "iterations"))
                  or stage.name == "headline ResNet-50 iteration"},
        "jax": {"test jax"}, "tensorflow": {"test tensorflow"}, "onnxruntime": {"test onnxruntime"}}
HERE = {framework for framework in NEED if importlib.util.find_spec(framework)}
SKIPPED = NEED_A_GPU.union(*(names for framework, names in NEED.items() if framework not in HERE))
RUN = {stage.name for stage in (*stages.ALL, stages.EXPORT)} - SKIPPED
MINUTES = 20 if HERE else 12


def gpu_check(*words):
    words = [sys.executable, "-B", machine.ROOT / "tools/gpu-check", "--no-build", "--build", machine.BUILD, *words]
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60 * MINUTES + 60)


class GpuCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.output = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.result = gpu_check("--host", "--minutes", str(MINUTES), "--output", cls.output)
        cls.text = (cls.output / "host.json").read_text()
        cls.json = json.loads(cls.text)
        cls.outcomes = {stage["name"]: stage["outcome"] for stage in cls.json["stages"]}

    def test_every_stage_has_an_outcome(self):
        self.assertEqual(("ucudnn-gpu-check", 2, True), (self.json["format"], self.json["version"], self.json["host"]))
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
        self.assertEqual(0, self.result.returncode, self.result.stderr)

    def test_figures_are_there(self):
        found = {stage["name"]: stage.get("figures") for stage in self.json["stages"]}
        self.assertEqual(5, found["network alexnet 1"]["no limit"]["kernels"])
        self.assertGreater(found["network alexnet 1"]["measured"], 0)
        for mib in (8, 64, 512):
            within = found["network alexnet 1"][f"{mib} MiB"]
            self.assertEqual({"powerOfTwo", "auto", "WD"}, set(within))
            for division, planned in within["WD"].items():
                self.assertGreater(planned["total_ms"], 0, division)
                self.assertLessEqual(planned["total_workspace_bytes"], 5 * mib << 20)
            self.assertLessEqual(found["table alexnet"][f"{mib} MiB"]["all"]["total_ms"],
                                 found["table alexnet"][f"{mib} MiB"]["undivided"]["total_ms"])
        self.assertEqual({"forward_bench", "planned_bench", "graph_bench", "wr_bench"}, set(found["benches"]))
        self.assertEqual(5, found["cliff"]["kernels"])
        for policy in ("auto", "all"):
            self.assertGreater(found["L2-sized micro-batches"][policy]["measured"], 0)
            self.assertEqual(1, len(found["L2-sized micro-batches"][policy]["layers"]))
        self.assertGreater(found["table alexnet"]["rows"], 15)
        rows = gzip.decompress((self.output / found["export"]["file"]).read_bytes()).splitlines()
        self.assertEqual(found["export"]["rows"], len(rows) - 1)
        self.assertGreaterEqual(len(rows), 6)

    def test_a_program_that_may_return_few_files_returns_all(self):
        self.assertLessEqual(len(list(self.output.iterdir())), 7)

    @unittest.skipUnless("torch" in HERE, "no PyTorch")
    def test_figures_of_pytorch_are_there(self):
        found = {stage["name"]: stage.get("figures") for stage in self.json["stages"]}
        for stage, configurations in {"PyTorch unet NCHW": {"plain", "no limit"}, "PyTorch vae NCHW": {"plain", "no limit"},
                                      "iterations resnet50 2 64 MiB": {"plain", "auto", "WD"}}.items():
            case = found[stage]["cases"]["fp32"]
            self.assertEqual(configurations, set(case))
            for told in case.values():
                self.assertGreater(told["min_ms"], 0)
                self.assertLessEqual(told["min_ms"], told["median_ms"])
                self.assertGreater(told["ratio"], 0)
            self.assertEqual(1, case["plain"]["ratio"])

    def test_results_name_no_place_of_this_machine(self):
        self.assertNotIn(str(machine.ROOT), self.text)

    def test_the_summary_says_that_it_is_a_rehearsal(self):
        told = gpu_check("--summary", self.output / "host.json")
        self.assertEqual((0, ""), (told.returncode, told.stderr))
        self.assertLessEqual(told.stdout.count("\n"), 60)
        self.assertIn("CPU times", told.stdout.splitlines()[0])

    def test_resumed_run_keeps_what_passed(self):
        again = gpu_check("--host", "--minutes", "0.01", "--resume", "--output", self.output)
        now = {stage["name"]: stage for stage in json.loads((self.output / "host.json").read_text())["stages"]}
        for stage in self.json["stages"]:
            if stage["outcome"] == "passed" and not stages.EVERY[stage["name"]].every_time:
                self.assertEqual(stage, now[stage["name"]])
        self.assertNotIn("failed", again.stderr)


class Usage(unittest.TestCase):
    def test_stages_that_are_not_asked_for_are_left(self):
        with tempfile.TemporaryDirectory() as empty:
            result = gpu_check("--host", "--minutes", "1", "--only", "test trace,profile", "--output", empty)
            found = json.loads(pathlib.Path(empty, "host.json").read_text())["stages"]
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual({"page cache", "versions", "gate", "test trace", "test profile", "export"}, {stage["name"] for stage in found})

    def test_bad_usage_is_one_line(self):
        for words in (["--minutes", "0"], ["--host"], ["--frobnicate"], ["--sitting", "Z"], ["--summary", "nowhere.json"],
                      ["--summary", str(machine.FOLDER / "README.md")]):
            with self.subTest(words=words):
                result = gpu_check(*words)
                self.assertEqual((2, 1), (result.returncode, result.stderr.count("\n")), result.stderr)

    @unittest.skipIf(machine.gpu(), "there is a GPU")
    def test_without_a_gpu_it_says_so(self):
        for words in ([], ["--sitting", "A"]):
            with tempfile.TemporaryDirectory() as empty:
                result = gpu_check(*words, "--output", empty)
                self.assertEqual((3, "", "tools/gpu-check: no NVIDIA GPU\n"), (result.returncode, result.stdout, result.stderr))

    def test_where_the_gate_fails_it_says_why_and_ends(self):
        with tempfile.TemporaryDirectory() as empty:
            result = gpu_check("--build", empty, "--host", "--sitting", "A", "--output", empty)
            found = {stage["name"]: stage for stage in json.loads(pathlib.Path(empty, "host.json").read_text())["stages"]}
        self.assertEqual(1, result.returncode)
        self.assertEqual("failed", found["gate"]["outcome"])
        self.assertIn("diagnostics", found["gate"]["figures"])
        self.assertEqual({"not run"}, {stage["outcome"] for name, stage in found.items() if stage["lane"] != "beside" and name != "gate"})


if __name__ == "__main__":
    unittest.main()
