"""Compares training steps of unchanged PyTorch under ucudnn, within a small workspace limit, with the steps without ucudnn.

Both runs are compared with float64. The distance of the run without ucudnn shows what rounding does to this network in this
type. Micro-batches round as often as the undivided kernel, and partial filter gradients add one rounding in fp32 for each
piece. So over all gradients, the run under ucudnn may be twice as far from float64. In a single gradient it may be FACTOR
times as far, since chance matters more for few elements. In benchmark mode all bounds are FACTOR times as large: PyTorch takes
the engine that it finds fastest, which differs between runs and may be one of Winograd. The bound for the outputs grows by
FACTOR in each step, since later steps start from weights that differ. A test shows that a missing image exceeds these bounds.
Policy undivided without a limit changes no bit of what PyTorch computes deterministically. Two divided runs with one store are
equal bit by bit, too."""

import math
import os
import pathlib
import tempfile
import unittest

import frameworks
import machine

LIMIT = 8 << 20
OPTIONS = ["--workspace-limit", str(LIMIT), "--policy", "powerOfTwo"]
FACTOR = 4
UNIT_ROUNDOFF = {"fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}
MISSING = frameworks.missing("torch")
PROGRAM = "torch_training.py"
# The CPU stand-in runs only these cases, whose results are deterministic on a CPU.
FEW = ("fp32 first", "fp32 first deterministic", "fp32 first captured") if machine.HOST else ()
COMPILED = {"resnet50": "bf16 last compiled", "unet3d": "fp32 first compiled"}


def too_far(name, plain, divided):
    """Returns texts that say where `divided` is farther from float64 than rounding explains."""
    floor = 16 * UNIT_ROUNDOFF[name.split()[0]]
    choice = FACTOR if name.endswith("benchmark") else 1
    found = []

    def compare(what, bound, error):
        if not (math.isfinite(bound) and error <= bound):
            found.append(f"{name}: {what} is {error:.2e} off, {bound:.2e} allowed")

    for step, (expected, error) in enumerate(zip(plain["output_errors"], divided["output_errors"], strict=True)):
        compare(f"output of step {step}", choice * FACTOR ** (step + 1) * expected + floor, error)
    compare("all gradients", choice * 2 * plain["gradient_error"] + floor, divided["gradient_error"])
    for parameter, error in divided["gradient_errors"].items():
        usual = max(plain["gradient_errors"][parameter], plain["gradient_error"])
        compare(f"gradient of {parameter}", choice * FACTOR * usual + floor, error)
    for loss, expected in zip(divided["losses"], plain["losses"], strict=True):
        if not math.isfinite(loss):
            found.append(f"{name}: loss {loss}, {expected} without ucudnn")
    return found


def results(test, name, **runs):
    """Returns the results of the case `name` in the order of `runs`. Fails if the case failed in a run. Skips the test if
    every run reports something that this machine lacks."""
    found = [run[name] for run in runs.values()]
    lacking = {told.get("lacks") for told in found}
    if None not in lacking:
        test.skipTest(f"no {' and '.join(lacking)}: {found[0]['error']}")
    for run, told in zip(runs, found):
        test.assertNotIn("error", told, f"{name}, {run}")
    return found


class Training:
    """Holds the tests of a network on one of PyTorch's paths. Subclasses are the test cases."""

    network, path, api = None, {}, "graph"
    cases = FEW  # the cases that run; if it is empty, all but the compiled ones

    @classmethod
    def words(cls):
        return [cls.network, *(["--only", ",".join(cls.cases)] if cls.cases else ["--without", "compiled"])]

    @classmethod
    def references(cls):
        frameworks.start("torch", PROGRAM, cls.words(), **cls.path)

    @classmethod
    def setUpClass(cls):
        cls.plain, cls.divided, cls.report = frameworks.both("torch", PROGRAM, cls.words(), OPTIONS, **cls.path)
        machine.record(f"{cls.__name__}", {
            "torch": cls.plain["torch"], "cudnn": cls.plain["cudnn"], "report": frameworks.summary(cls.report),
            "cases": {name: {"mini_batch": plain.get("mini_batch"), **{
                key: [plain.get(key), cls.divided["cases"][name].get(key)]
                for key in ("losses", "gradient_error", "seconds", "error")}}
                for name, plain in cls.plain["cases"].items()}})

    def test_losses_and_gradients_are_as_near_to_float64(self):
        self.assertEqual(self.plain["cases"].keys(), self.divided["cases"].keys())
        self.assertGreater(len(self.plain["cases"]), 0)
        for name in self.plain["cases"]:
            with self.subTest(case=name):
                self.assertEqual([], too_far(name, *self.both(name)))

    def both(self, name):
        return results(self, name, plain=self.plain["cases"], divided=self.divided["cases"])

    def test_divided_within_the_limit(self):
        frameworks.assert_divided_within(self, self.report, LIMIT, self.api)

    def test_what_repeats_without_ucudnn_repeats_with_it(self):
        repeating = [name for name, plain in self.plain["cases"].items() if plain.get("repeats")]
        if not repeating:
            self.skipTest("no case of these repeats")
        for name in repeating:
            with self.subTest(case=name):
                self.assertTrue(self.both(name)[1]["repeats"])


@unittest.skipIf(MISSING, MISSING)
class ResNet50(Training, unittest.TestCase):
    network = "resnet50"


@unittest.skipIf(MISSING, MISSING)
class BriefResNet50(Training, unittest.TestCase):
    """Runs two cases, for which a few seconds of measuring are enough to divide some kernels. TF32 comes first, because
    cuDNN needs a workspace for it: it rearranges NCHW images to NHWC for the tensor cores. In a sitting, the run
    without ucudnn saves its float64 results for the run under ucudnn."""

    network, cases = "resnet50", FEW[:1] or ("tf32 first", "fp32 first")
    path = {"UCUDNN_TUNE_SECONDS": "0.3:6"}

    @classmethod
    def words(cls):
        folder = os.environ.get("UCUDNN_TEST_REFERENCES")
        return [*super().words(), *(["--float64", f"{folder}/float64"] if folder else [])]


@unittest.skipIf(MISSING, MISSING)
class UNet3d(Training, unittest.TestCase):
    network = "unet3d"

    def test_an_image_left_out_is_noticed(self):
        case = FEW[0] if FEW else "fp32 first"
        spoilt, _ = frameworks.start("torch", PROGRAM, [self.network, "--only", case, "--leave-out"])
        found = too_far(case, *results(self, case, plain=self.plain["cases"], spoilt=spoilt["cases"]))
        for what in ("all gradients", "gradient of top.0.weight"):
            self.assertTrue([told for told in found if f": {what} is" in told], found)


class Compiled(Training):
    """Holds the tests of a compiled network. They are separate because compiling takes longer than all other tests."""

    @classmethod
    def words(cls):
        return [cls.network, "--only", COMPILED[cls.network]]

    def test_divided_within_the_limit(self):
        self.both(COMPILED[self.network])  # fails or skips if the case did not run
        super().test_divided_within_the_limit()


@unittest.skipIf(MISSING, MISSING)
class ResNet50Compiled(Compiled, unittest.TestCase):
    network = "resnet50"


@unittest.skipIf(MISSING, MISSING)
class UNet3dCompiled(Compiled, unittest.TestCase):
    network = "unet3d"


class Legacy:
    """Makes PyTorch use the legacy API, which TORCH_CUDNN_V8_API_DISABLED=1 selects. Only some cases run, since the others
    would call no further parts of that API."""

    path, api = {"TORCH_CUDNN_V8_API_DISABLED": "1"}, "legacy"
    cases = FEW or ("fp32 first", "tf32 last", "fp16 first", "bf16 first", "bf16 last", "fp32 first benchmark",
                    "fp32 first captured")


NO_PATHS = MISSING or ("a CPU has one path" if machine.HOST else None)


@unittest.skipIf(NO_PATHS, NO_PATHS)
class ResNet50Legacy(Legacy, Training, unittest.TestCase):
    network = "resnet50"


@unittest.skipIf(NO_PATHS, NO_PATHS)
class UNet3dLegacy(Legacy, Training, unittest.TestCase):
    network = "unet3d"


@unittest.skipIf(MISSING, MISSING)
class Deterministic(unittest.TestCase):
    """Tests cases which PyTorch computes deterministically. Their results are equal bit by bit."""

    CASES = FEW[1:2] or ("fp32 first deterministic", "bf16 last deterministic")

    @classmethod
    def references(cls):
        cls.start(None)

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.store = pathlib.Path(holder.name, "measurements.db")
        cls.plain, _ = cls.start(None)
        cls.repeating = [name for name, case in cls.plain.items() if case.get("repeats")]

    @classmethod
    def start(cls, options, **variables):
        """Returns the cases' results and ucudnn's report. No float64 results are computed, since digests are compared."""
        if options is not None:
            options = [*options, "--db", cls.store]
        words = ["unet3d", "--digests", "--only", ",".join(cls.CASES)]
        told, report = frameworks.start("torch", PROGRAM, words, options, **variables)
        return told["cases"], report

    def assert_equal_bits(self, **runs):
        self.assertGreater(len(self.repeating), 0, self.plain)
        for name in self.repeating:
            with self.subTest(case=name):
                self.assertEqual(1, len({case["digest"] for case in results(self, name, **runs)}))

    def test_undivided_without_a_limit_is_equal_bit_by_bit(self):
        self.assert_equal_bits(plain=self.plain, undivided=self.start(["--policy", "undivided"])[0])

    def test_divided_runs_of_one_store_are_equal_bit_by_bit(self):
        self.start(OPTIONS)  # fills the store; this run may begin undivided
        (first, report), (second, _) = (self.start(OPTIONS, UCUDNN_TUNE="off") for _ in range(2))
        self.assert_equal_bits(first=first, second=second)
        if not machine.HOST:
            frameworks.assert_divided_within(self, report, LIMIT, "graph")


if __name__ == "__main__":
    machine.main()
