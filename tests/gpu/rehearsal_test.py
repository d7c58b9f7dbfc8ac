"""Rehearses sittings on the CPU stand-in with tiny sizes: from a pack in another folder, with an empty environment, without a
compiler, and with another home. UCUDNN_TORCH_PYTHON names a Python with torch and diffusers."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

os.environ["UCUDNN_GPU_TEST_HOST"] = "1"
import machine
import pack
import stages

PYTHON = os.environ.get("UCUDNN_TORCH_PYTHON", str(machine.ROOT / "build/torch/bin/python"))
# The stages of each sitting that may be skipped, with the reasons. Any other skip fails the rehearsal.
SKIPS = {"A": {"test torch legacy briefly": "a CPU has one path"}, "B": {}}
COMMANDS = ("bash", "sh", "env", "true", "cat", "ls", "df", "free", "nproc", "uname", "ldd", "sleep", "kill", "ldconfig", "awk",
            "mktemp", "rm", "dirname")
SECONDS = 2400
# This program runs tools/gpu-check of the pack with stages that hang and crash, and then with a stage that passes.
FAULTY = """
import importlib.machinery, importlib.util, os, sys
os.environ["UCUDNN_GPU_TEST_HOST"] = "1"
loader = importlib.machinery.SourceFileLoader("gpu_check", sys.argv[1])
command = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
loader.exec_module(command)
sys.path.insert(0, os.path.join(os.path.dirname(sys.argv[1]), "../tests/gpu"))
import stages
stages.SITTINGS["A"] = stages.Plan(150, (*stages.BEGIN, stages.Stage("hangs", stages.FREE, 1, 0.4, "a fault", ("faulty.hangs",)),
    stages.Stage("crashes", stages.FREE, 1, 9, "a fault", ("faulty.crashes",)), stages.EVERY["test nccl"]))
sys.argv[1:] = ["--sitting", "A", "--host", "--output", sys.argv[2]]
sys.exit(command.main())
"""
FAULTS = """
import os, signal, time

def hangs(sitting, seconds):
    time.sleep(600)

def crashes(sitting, seconds):
    os.kill(os.getpid(), signal.SIGSEGV)
"""


class Rehearsal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        packed = cls.folder / "packed"
        if pack.pack(packed, host=True) != 0:
            raise AssertionError("the pack cannot be made")
        cls.moved = packed.rename(cls.folder / "elsewhere")
        programs = cls.folder / "programs"
        programs.mkdir()
        for name in COMMANDS:
            if found := shutil.which(name):
                (programs / name).symlink_to(found)
        (cls.folder / "home").mkdir()
        cls.output = cls.folder / "output"
        cls.environment = {"PATH": str(programs), "HOME": str(cls.folder / "home"), "OMP_WAIT_POLICY": "passive"}

    def sit(self, name, *words):
        """Runs the sitting `name`. Returns its exit code, and its stages by name."""
        words = [PYTHON, "-B", self.moved / "tools/gpu-check", "--sitting", name, "--host", "--output", self.output, *words]
        result = subprocess.run([str(word) for word in words], env=self.environment, cwd=self.folder, capture_output=True, text=True,
                                timeout=SECONDS)
        document = json.loads((self.output / "host.json").read_text())
        print(result.stdout[-6000:], result.stderr[-2000:], file=sys.stderr)
        return result, document

    def assert_green(self, name, result, document):
        found = {stage["name"]: stage for stage in document["stages"]}
        skipped = {stage["name"]: stage["reason"] for stage in found.values() if stage["outcome"] == "skipped"}
        self.assertEqual(SKIPS[name], {stage: reason for stage, reason in skipped.items() if stage in self.names(name)})
        for stage in self.names(name) - set(SKIPS[name]):
            with self.subTest(stage=stage):
                self.assertEqual("passed", found[stage]["outcome"], found[stage].get("reason"))
        self.assertLessEqual(len(list(self.output.iterdir())), 7)
        self.assertEqual((self.moved / "commit").read_text().strip(), document["environment"]["commit"])
        self.assertLessEqual(result.stdout.count("\n"), 60 + len(found))
        self.assertNotIn(str(self.folder), (self.output / "host.json").read_text())

    def test_a_stage_that_hangs_and_one_that_crashes_cost_the_others_nothing(self):
        (self.folder / "faulty.py").write_text(FAULTS)
        words = [PYTHON, "-B", "-c", FAULTY, str(self.moved / "tools/gpu-check"), str(self.folder / "faults")]
        result = subprocess.run(words, env=self.environment | {"PYTHONPATH": str(self.folder)}, cwd=self.folder, capture_output=True,
                                text=True, timeout=SECONDS)
        found = {stage["name"]: stage for stage in json.loads((self.folder / "faults/host.json").read_text())["stages"]}
        self.assertEqual((1, "cut", "failed", "passed"), (result.returncode, *(
            found[name]["outcome"] for name in ("hangs", "crashes", "test nccl"))), result.stderr)
        self.assertIn("was ended by signal 11", found["crashes"]["reason"])
        self.assertIn("FAILED crashes: the stage's process was ended by signal 11", result.stdout)

    @staticmethod
    def names(name):
        plan = stages.SITTINGS[name]
        return {stage.name for stage in (*plan.stages, *plan.last)}

    def test_both_calls(self):
        """Runs sitting A, and then sitting B, which continues from the result file of A."""
        self.assert_green("A", *self.sit("A"))
        self.assert_green("B", *self.sit("B", "--resume"))


if __name__ == "__main__":
    unittest.main()
