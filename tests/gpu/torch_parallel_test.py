"""Tests the module ucudnn.parallel with CUDA tensors. A network trains by a plan, once on four ranks that share the
GPU over gloo, and once on one rank over NCCL. It has the losses, values and outputs of the plain network."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import frameworks
import machine

MISSING = frameworks.missing("torch")
PROGRAM = machine.FOLDER / "torch_parallel.py"
# The plan of four ranks divides the layers along images, rows and columns, channels, and the input channels of fc2.
PINS = ("--pin=conv1=n4", "--pin=conv2=h2w2", "--pin=pool=c4", "--pin=fc1=c4", "--pin=fc2=r4")


@unittest.skipIf(MISSING, MISSING)
class Trained(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        whole, _ = frameworks.start("torch", PROGRAM.name, ["whole", str(cls.folder)])
        machine.record("whole", whole)

    def plan(self, count, *pins):
        device = {"name": "device", "memory_bytes": 1 << 34, "tflops": 10, "memory_gb_per_s": 1000}
        levels = [{"name": "links", "count": count, "gb_per_s": 10, "latency_us": 10}]
        (self.folder / "machine.json").write_text(json.dumps(
            {"format": "ucudnn-machine", "version": 1, "name": "ranks", "levels": levels, "device": device}))
        words = ["plan", self.folder / "net.json", "--machine", self.folder / "machine.json", "--batch", "8", "--reduction", "--schedule"]
        (self.folder / "plan.json").write_text(machine.run([machine.UCUDNN, *words, *pins], machine.python_environment()))

    def ranks(self, count, backend):
        """Returns what each rank printed, in the order of ranks."""
        (self.folder / "meeting").unlink(missing_ok=True)  # an earlier run may have left this file
        words = [sys.executable, "-B", PROGRAM, "rank", self.folder, backend, *(["--device", "cpu"] if machine.HOST else [])]
        variables = frameworks.VARIABLES["torch"] | {"WORLD_SIZE": str(count)}
        processes = [subprocess.Popen([str(word) for word in words], env=machine.python_environment(**variables, RANK=str(rank)), text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=machine.die_with_parent)
                     for rank in range(count)]
        outputs = [process.communicate(timeout=machine.seconds_left())[0] for process in processes]
        self.assertEqual([0] * count, [process.returncode for process in processes], "\n".join(output[-1000:] for output in outputs))
        return [json.loads(output.splitlines()[-1]) for output in outputs]

    def assert_whole(self, told):
        for each in told:
            self.assertLess(each["distance"], 1e-9, each)
            self.assertEqual(0, each["difference"], each)

    def test_four_ranks_that_share_the_gpu_train_as_one_process(self):
        self.plan(4, *PINS)
        told = self.ranks(4, "gloo")
        machine.record("gloo", told)
        self.assert_whole(told)
        for each in told:
            self.assertGreater(each["sent"], 0)

    def test_one_rank_over_nccl_trains_as_the_plain_module(self):
        self.plan(1)
        told = self.ranks(1, "nccl")
        machine.record("nccl", told)
        self.assert_whole(told)

    def test_two_ranks_that_share_the_gpu_over_nccl_are_refused_by_name(self):
        if machine.HOST:
            self.skipTest("a CPU has no NCCL")
        self.plan(2)
        for each in self.ranks(2, "nccl"):
            self.assertRegex(each.get("refused", "not refused"), "ranks 0 and 1 share cuda:0 of .*: nccl needs a GPU for each rank")


if __name__ == "__main__":
    machine.main()
