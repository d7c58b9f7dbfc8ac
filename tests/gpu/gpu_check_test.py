"""tools/gpu-check itself, on the CPU stand-in: every stage that makes sense there runs, and what it writes is complete."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import machine

NEED_A_GPU = {"test torch", "test jax", "device profile", "trace of PyTorch", "compute-sanitizer"}
RUN_ON_THE_STAND_IN = {"test alexnet", "test differential", "test memory", "test profile", "test trace",
                       "test capture", "network alexnet 1", "cliff",
                       "L2-sized micro-batches", "table alexnet", "export", "benches"}


def gpu_check(*words):
    words = [sys.executable, "-B", machine.ROOT / "tools/gpu-check", "--no-build", "--build", machine.BUILD, *words]
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=190)


class GpuCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.output = pathlib.Path(holder.name)
        cls.result = gpu_check("--host", "--minutes", "3", "--output", cls.output)
        cls.text = (cls.output / "host.json").read_text()
        cls.json = json.loads(cls.text)
        cls.outcomes = {stage["name"]: stage["outcome"] for stage in cls.json["stages"]}

    def test_every_stage_has_an_outcome(self):
        self.assertEqual(("ucudnn-gpu-check", 1, True), (self.json["format"], self.json["version"], self.json["host"]))
        self.assertEqual(NEED_A_GPU | RUN_ON_THE_STAND_IN, set(self.outcomes))
        for stage in self.json["stages"]:
            with self.subTest(stage=stage["name"]):
                self.assertIn("figures" if stage["outcome"] == "passed" else "reason", stage)
                self.assertEqual(stage["name"] in NEED_A_GPU, stage["outcome"] == "skipped")

    def test_stages_pass(self):
        for stage in self.json["stages"]:
            if stage["name"] in RUN_ON_THE_STAND_IN:
                with self.subTest(stage=stage["name"]):
                    self.assertEqual("passed", stage["outcome"], stage.get("reason"))

        self.assertEqual((0, ""), (self.result.returncode, self.result.stderr))

    def test_figures_are_there(self):
        stages = {stage["name"]: stage.get("figures") for stage in self.json["stages"]}
        self.assertEqual(5, stages["network alexnet 1"]["no limit"]["kernels"])
        self.assertGreater(stages["network alexnet 1"]["measured"], 0)
        self.assertEqual({"forward_bench", "planned_bench", "wr_bench"}, set(stages["benches"]))
        self.assertEqual(5, stages["cliff"]["kernels"])
        for policy in ("auto", "all"):
            self.assertGreater(stages["L2-sized micro-batches"][policy]["measured"], 0)
            self.assertEqual(1, len(stages["L2-sized micro-batches"][policy]["layers"]))
        self.assertGreater(stages["table alexnet"]["rows"], 15)
        rows = (self.output / stages["export"]["file"]).read_text().splitlines()
        self.assertEqual(stages["export"]["rows"], len(rows) - 1)
        self.assertGreaterEqual(len(rows), 6)

    def test_results_name_no_place_of_this_machine(self):
        self.assertNotIn(str(machine.ROOT), self.text)

    def test_resumed_run_keeps_what_passed(self):
        again = gpu_check("--host", "--minutes", "0.01", "--resume", "--output", self.output)
        stages = json.loads((self.output / "host.json").read_text())["stages"]
        before = {stage["name"]: stage for stage in self.json["stages"]}
        for stage in stages:
            if before.get(stage["name"], {}).get("outcome") == "passed":
                self.assertEqual(before[stage["name"]], stage)
        self.assertEqual(0, again.returncode, again.stderr)

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
        self.assertEqual(NEED_A_GPU | RUN_ON_THE_STAND_IN, {stage["name"] for stage in stages})
        self.assertIn("failed", [stage["outcome"] for stage in stages])


if __name__ == "__main__":
    os.environ.pop("UCUDNN_GPU_TEST_HOST", None)
    unittest.main()
