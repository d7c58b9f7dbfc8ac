"""Tests the module ucudnn.spatial with CUDA tensors. The module has a route for every backend that torch chooses for a
convolution. A VAE that decodes in stripes, on ranks that share the GPU, gives the same picture as the undivided VAE.
Converted batch norms give the same results as undivided ones. Launches of a captured CUDA graph give the same results as
steps of the undivided model."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import frameworks
import machine

MISSING = frameworks.missing("torch")
PROGRAM = machine.FOLDER / "torch_spatial.py"
WITHOUT_CUDNN = {"CudaDepthwise2d", "CudaDepthwise3d"}  # torch's own kernels compute these on a GPU
EPSILON = 2.0 ** -23
RANKS = (2,) if machine.HOST else (2, 4)


@unittest.skipIf(MISSING, MISSING)
class Backends(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        told, _ = frameworks.start("torch", "torch_spatial.py", ["backends"])
        cls.backends = told["backends"]
        machine.record("backends", told)

    def test_every_backend_is_known(self):
        self.assertGreater(len(self.backends), 10)
        for name, kinds in self.backends.items():
            for kind, (backend, route) in kinds.items():
                with self.subTest(name=name, kind=kind, backend=backend):
                    self.assertIn(route, ("exchange",) if machine.HOST else ("ucudnn", "exchange"))

    def test_what_is_no_depthwise_convolution_reaches_cudnn(self):
        if machine.HOST:
            self.skipTest("a CPU has no cuDNN")
        for name, kinds in self.backends.items():
            for kind, (backend, route) in kinds.items():
                with self.subTest(name=name, kind=kind):
                    if backend in WITHOUT_CUDNN:
                        self.assertIn("depthwise", name)
                        self.assertEqual("exchange", route)
                    elif "depthwise" not in name:
                        self.assertEqual("ucudnn", route, backend)


class OnRanks:
    """Runs PROGRAM in its mode `one`, which saves results in `folder`. Then runs it on several ranks in its mode `each`,
    which compares its results with the saved ones. Without a GPU the test starts the ranks itself instead of by `ucudnn
    run`, since a PyTorch for CPUs has no cuDNN."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.whole, _ = frameworks.start("torch", "torch_spatial.py", [cls.one, str(cls.folder)])
        machine.record(cls.one, cls.whole)

    counts, tune = RANKS, {}
    transport = "loopback"  # the transport of ranks that share the GPU

    def variables(self, grid):
        return frameworks.VARIABLES["torch"] | frameworks.TUNE | self.tune | {
            "UCUDNN_LIBRARY": str(machine.BUILD / "lib/libucudnn.so.1"), "UCUDNN_SPATIAL_TIMEOUT": "120"} | (
            {"UCUDNN_SPATIAL": grid} if machine.HOST else {"UCUDNN_SPATIAL_TRANSPORT": self.transport})

    def ranks(self, count):
        """Returns what each rank printed, in the order of ranks, and the reports of ucudnn."""
        (self.folder / "meeting").unlink(missing_ok=True)  # a run with another number of ranks may have left this file
        told, reports = self.start(count)
        self.assertEqual(set(range(count)), {each["rank"] for each in told})
        return sorted(told, key=lambda each: each["rank"]), reports

    def start(self, count):
        program, grid = [sys.executable, "-B", PROGRAM, self.each, self.folder], f"h{count}"
        if machine.HOST:
            return self.on_the_cpu([*program, "--device", "cpu"], count, grid), []
        with tempfile.TemporaryDirectory() as reports:
            words = [machine.UCUDNN, "run", "--ranks", count, "--spatial", grid, "--db", "none", "--"]
            words += ["env", "LOCAL_RANK=0"] if self.transport == "loopback" else []
            output = machine.run([*words, *program], machine.python_environment(
                **self.variables(grid), UCUDNN_REPORT=f"{reports}/%p.json"), machine.seconds_left())
            told = [json.loads(path.read_text()) for path in pathlib.Path(reports).glob("*.json")]
        return [json.loads(line) for line in output.splitlines() if line.startswith("{")], told

    def assert_near(self, told, what):
        for each in told:
            self.assertLess(each[what]["float64"]["distance"], 1e-7)
            # Twice the distance of the undivided run in fp32 is allowed, since sums in stripes are added in another order.
            allowed = 2 * self.whole[what]["float32"]["distance"] + 16 * EPSILON
            self.assertLess(each[what]["float32"]["distance"], allowed)

    def assert_exchanged(self, reports):
        for report in reports:
            self.assertGreater(report["spatial"]["calls"], 0, "nothing was exchanged under cuDNN's calls")

    def on_the_cpu(self, program, count, grid):
        processes = []
        for rank in range(count):
            environment = machine.python_environment(**self.variables(grid), RANK=str(rank), WORLD_SIZE=str(count))
            processes.append(subprocess.Popen([str(word) for word in program], env=environment, text=True,
                                              stdout=subprocess.PIPE, preexec_fn=machine.die_with_parent))
        outputs = [process.communicate(timeout=machine.seconds_left())[0] for process in processes]
        self.assertEqual([0] * count, [process.returncode for process in processes])
        return [json.loads(output.splitlines()[-1]) for output in outputs]


class Decoding(OnRanks, unittest.TestCase):
    one, each = "whole", "rank"

    @classmethod
    def setUpClass(cls):
        if reason := MISSING or frameworks.missing("diffusers"):
            raise unittest.SkipTest(reason)
        super().setUpClass()

    def test_stripes_give_the_whole_picture(self):
        for count in self.counts:
            with self.subTest(ranks=count):
                told, reports = self.ranks(count)
                machine.record(f"h{count}", {"ranks": told, "exchanged_bytes": [
                    report["spatial"]["exchanged_bytes"] for report in reports]})
                self.assert_near(told, "decoded")
                self.assertEqual(0 if machine.HOST else count, len(reports))
                self.assert_exchanged(reports)

    def test_the_whole_is_a_picture(self):
        self.assertEqual(0, self.whole["decoded"]["float64"]["distance"])
        self.assertLess(0, self.whole["decoded"]["float32"]["distance"])
        self.assertEqual([1, 3], self.whole["shape"][:2])


class BriefDecoding(Decoding):
    """Uses two ranks with tuning off, because a stage that measures may run at the same time."""

    counts, tune = (2,), {"UCUDNN_TUNE": "off"}


@unittest.skipIf(MISSING, MISSING)
class Norms(OnRanks, unittest.TestCase):
    one, each = "step", "striped"

    def test_converted_batch_norms_and_penalties_on_gradients_are_exact_and_no_norm_is_a_call_of_cudnn(self):
        for count in RANKS:
            with self.subTest(ranks=count):
                told, reports = self.ranks(count)
                machine.record(f"norms h{count}", told)
                self.assert_near(told, "stepped")
                self.assert_near(told, "penalised")
                self.assertEqual(0 if machine.HOST else count, len(reports))
                for report in reports:
                    kinds = {kernel["kind"] for track in report["spatial"]["tracks"] for kernel in track["kernels"]}
                    self.assertIn("convolution", kinds)
                    self.assertNotIn("batch normalisation", kinds)


class Replays(OnRanks):
    one = "steps"

    def replays(self, count):
        told, reports = self.ranks(count)
        machine.record(f"{self.each} h{count}", told)
        for each in told:
            self.assertLess(each["distance"], 1e-7)
        self.assert_exchanged(reports)
        return told


@unittest.skipIf(MISSING, MISSING)
class TrainingReplayed(Replays, unittest.TestCase):
    """Captures whole training steps with their exchanges and sums. Each rank has its own GPU, since only exchanges by NCCL
    can be captured."""
    each, transport = "replayed", "nccl"

    def test_launches_of_a_captured_step_are_steps_of_the_whole(self):
        for count in RANKS:
            with self.subTest(ranks=count):
                if not machine.HOST and machine.gpu().count < count:
                    self.skipTest(f"{machine.gpu().count} GPUs for {count} ranks")
                self.replays(count)


@unittest.skipIf(MISSING, MISSING)
class ConvolutionsReplayed(Replays, unittest.TestCase):
    """Captures convolutions on ranks that share the GPU. There the capture of a batch norm is refused, since its sums go through
    the host's memory."""
    each = "shared"

    def test_launches_of_captured_convolutions_are_the_whole_s_and_a_norm_is_refused_by_name(self):
        for count in RANKS:
            with self.subTest(ranks=count):
                for each in self.replays(count):
                    if not machine.HOST:
                        self.assertIn("the capture of a CUDA graph", each["refused"])


if __name__ == "__main__":
    machine.main()
