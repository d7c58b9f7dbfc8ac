"""Tests what `ucudnn multigrid` prints about solves and training, on the host and on the stand-in, and which weights it
refuses."""

import json
import math
import pathlib
import random
import re
import struct
import subprocess
import types
import unittest

from command import COMMAND, ROOT
from digits_net import digits_net
from multigrid_command import MultigridTest, chain_arrays, few_digits, safetensors


def array(shape, values):
    """Returns an object with the attributes of NumPy arrays that save() in docs/multigrid.md uses."""
    single = types.SimpleNamespace(tobytes=lambda: struct.pack(f"<{len(values)}f", *values))
    return types.SimpleNamespace(shape=shape, astype={"<f4": single}.__getitem__)


def norm(numbers):
    return math.sqrt(sum(number * number for number in numbers))


class PixelChain:
    """A chain of steps u + h max(k u + b, 0) with one channel and 1x1 kernels, so pixels are independent."""

    def __init__(self, steps, seed=0):
        rng = random.Random(seed)
        self.k = [rng.uniform(-1, 1) for _ in range(steps)]
        self.b = [rng.uniform(0.1, 1) for _ in range(steps)]
        self.u0 = [rng.uniform(0.5, 2) for _ in range(6)]

    def arrays(self):
        steps = len(self.k)
        return {"K": ((steps, 1, 1, 1, 1), self.k), "b": ((steps, 1), self.b), "u0": ((1, 2, 3), self.u0)}

    def states(self, h):
        states = [self.u0]
        for k, b in zip(self.k, self.b):
            states.append([u + h * max(k * u + b, 0) for u in states[-1]])
        return states

    def first_residual(self, h):
        """Returns the residual of the first guess, in which every state is u0."""
        return norm([h * max(k * u + b, 0) for k, b in zip(self.k, self.b) for u in self.u0])


class Multigrid(MultigridTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        few_digits(f"{cls.folder}/few", 32, 16)

    def weights(self, arrays):
        safetensors(f"{self.folder}/w.safetensors", arrays)

    def chain(self, steps):
        """Writes the weights of a PixelChain to w.safetensors. Returns the chain."""
        made = PixelChain(steps)
        self.weights(made.arrays())
        return made

    SMALL = ("kirby-3m", "--layers", "16", "--coarsening", "4")

    # ---- Output of a solve.

    def test_json_holds_what_the_format_says(self):
        document = self.document("kirby-3m", "--layers", "64", "--check", "once", "--threads", "1")
        self.assertEqual(("ucudnn-multigrid", 1, "kirby-3m", 67, 7 * 7 * 4 + 4 + 64 * (7 * 7 * 16 + 4) + 2304 * 10 + 10),
                         tuple(document[key] for key in ("format", "version", "network", "layers", "parameters")))
        self.assertEqual(("drawn", "cpu64", "fp64", 1, 1, "L2, absolute", None, 2, "inject", "FCF", "broadcast", "all"),
                         tuple(document[key] for key in (
                             "weights", "backend", "precision", "threads", "batch", "norm", "tolerance", "most_cycles", "coarse",
                             "relaxation", "start", "storage")))
        self.assertEqual((3, 2, "early"), (len(document["residuals"]), document["cycles"], document["status"]))
        self.assertLess(document["residuals"][2], document["residuals"][0])
        self.assertTrue(0 < document["output_error"] < 0.1, document["output_error"])
        self.assertTrue(document["seconds"] > 0 and document["serial_seconds"] > 0)
        stage, = document["stages"]
        self.assertEqual((64, [4, 24, 24], 1 / 64, [64, 8]), tuple(stage[key] for key in ("steps", "shape", "step", "levels")))
        for key in ("residuals", "cycles", "status"):
            self.assertEqual(document[key], stage[key])
        self.assertEqual("", stage["fallback"])
        self.assertGreater(stage["largest_state"], 0)
        unchecked = self.document(*self.SMALL)
        self.assertIsNone(unchecked["output_error"])
        self.assertIsNone(unchecked["serial_seconds"])

    def test_table_says_norm_precision_cycles_and_that_it_stopped_early(self):
        text = self.multigrid("kirby-3m", "--layers", "64", "--check", "once", "--threads", "1")
        for line in (r"kirby-3m: 67 layers, 73,682 parameters, drawn \(seed 0\)",
                     r"stage of 64 residual steps, states of 4x24x24, h = 0\.01562", r"double precision on the host, 1 thread",
                     r"V-cycle, relaxation FCF, coarse operator inject, start broadcast",
                     r"2 levels of 64 and 8 layers; residuals in L2, absolute", r"cycle +residual +factor", r" +2 +\d\.\d{3}e-01 +0\.\d+",
                     r"stopped early, after the 2 cycles asked for", r"the residual is 0\.\d+ of the largest state \(\d+(\.\d+)? in L2\)",
                     r"[\d.e-]+ s; serial propagation [\d.e-]+ s: \w+( \w+)? is [\d.e+]+ times as fast here \(CPU times\)",
                     r"the output differs from that of serial propagation by \d\.\d\de-\d\d, relative, in L2"):
            self.assertRegex(text, f"(?m)^{line}$")

    def test_a_residual_of_0_has_no_factor_after_it(self):
        self.weights({"K": ((16, 1, 1, 1, 1), [0] * 16), "b": ((16, 1), [0] * 16), "u0": ((1, 1, 1), [1])})
        text = self.multigrid("chain", "--weights", "w.safetensors")
        self.assertRegex(text, r"(?m)^    0 +0\.000e\+00\n    1 +0\.000e\+00\n    2 +0\.000e\+00$")

    def test_each_way_to_end_has_its_status(self):
        self.chain(64)
        solve = ("chain", "--weights", "w.safetensors", "--time", "1")
        # The message names the smallest tolerance that can be reached; `reachable` is 1.2 times as large.
        refused = self.run_command("multigrid", *solve, "--coarsening", "2", "--levels", "2", "--tolerance", "1e-99").stderr
        reachable = str(1.2 * float(re.search(r"about ([\d.e-]+):", refused)[1]))
        for status, words, line in (
                ("early", ("--coarsening", "4"), "stopped early, after the 2 cycles asked for"),
                ("converged", ("--coarsening", "4", "--tolerance", "1e-9"), "converged in "),
                ("rounding", ("--coarsening", "2", "--levels", "2", "--tolerance", reachable), "converged to rounding in "),
                ("direct", ("--coarsening", "32", "--tolerance", "1e-9"), "direct: relaxation alone is exact after 1 cycle\n"),
                ("serial", ("--levels", "1"), "1 level of 64 layers: serial propagation\n"),
                ("serial", ("--coarsening", "4", "--tolerance", "1e-9", "--cycles", "1"),
                 "fell back to serial propagation in cycle 1 of at most 1, since the cycles allowed did not reach the tolerance\n")):
            with self.subTest(status, words=words):
                document = self.document(*solve, *words, "--check", "once")
                self.assertEqual(status, document["status"])
                self.assertIn(line, self.multigrid(*solve, *words))
                self.assertLess(document["output_error"], 1e-2 if status == "early" else 1e-8)
                if status == "serial":
                    self.assertEqual(0, document["output_error"])
                if "--tolerance" in words and status in ("converged", "direct"):
                    self.assertLessEqual(document["residuals"][-1], 1e-9)

    def test_states_far_from_serial_propagation_are_warned_of(self):
        document, said = self.told("kirby-3m", "--layers", "300", "--step", "1", "--check", "once")
        self.assertEqual("early", document["status"])
        self.assertGreater(document["output_error"], 0.5)
        self.assertEqual("ucudnn multigrid: 'kirby-3m', 300 steps: the states are far from those of serial propagation; more --cycles, "
                         "a --tolerance or a smaller h may help (--time, --step)\n", said)
        with self.subTest("a tolerance makes it right"):
            document = self.document("kirby-3m", "--layers", "300", "--step", "1", "--check", "once", "--tolerance", "1e-3")
            self.assertEqual(("serial", 0), (document["status"], document["output_error"]))
            self.assertIn("the residual ", document["stages"][0]["fallback"])
        with self.subTest("no number is left"):
            self.weights({"K": ((64, 1, 1, 1, 1), [1e9] * 64), "b": ((64, 1), [1] * 64), "u0": ((1, 1, 1), [1])})
            document, said = self.told("chain", "--weights", "w.safetensors", "--check", "once")
            self.assertEqual("ucudnn multigrid: 'chain', 64 steps: the states of serial propagation are not finite; a smaller h may "
                             "help (--time, --step)\n", said)
            self.assertIsNone(document["output_error"])

    def test_options_reach_the_solver(self):
        residuals = {}
        for words in ((), ("--coarse", "sum"), ("--relaxation", "F"),
                      ("--relaxation", "FCFCF,F"), ("--start", "nested"), ("--skip-first-down",),
                      ("--levels", "2"), ("--coarsening", "4,2"), ("--time", "3"), ("--step", "0.02"), ("--seed", "7"), ("--batch", "3"),
                      ("--norm", "relative")):
            coarsening = () if "--coarsening" in words else ("--coarsening", "4")
            document = self.document("kirby-3m", "--layers", "64", *coarsening, *words)
            self.assertEqual(3, len(document["residuals"]))
            residuals[" ".join(words)] = document["residuals"][-1]
        self.assertEqual(len(residuals), len(set(residuals.values())), residuals)
        self.assertLess(residuals["--coarse sum"], residuals[""])
        document = self.document(*self.SMALL, "--norm", "relative", "--coarse", "sum", "--relaxation", "FCFCF,F", "--start", "nested",
                                 "--cycles", "3")
        self.assertEqual(("L2, relative to the largest state", "sum", "FCFCF,F", "nested", 3),
                         tuple(document[key] for key in ("norm", "coarse", "relaxation", "start", "cycles")))

    def test_several_depths_stand_side_by_side(self):
        words = ("kirby-3m", "--depths", "64,16,32", "--coarsening", "4", "--check", "once")
        document = self.document(*words)
        self.assertEqual([67, 19, 35], [depth["layers"] for depth in document["depths"]])
        self.assertEqual(67, document["layers"])
        for depth, layers in zip(document["depths"], (64, 16, 32)):
            alone = self.document("kirby-3m", "--layers", str(layers), "--coarsening", "4", "--check", "once")
            for key in ("parameters", "residuals", "cycles", "status", "output_error", "stages"):
                self.assertEqual(alone[key], depth[key], key)
        text = self.multigrid(*words)
        for line in (r"kirby-3m at 3 depths, weights drawn \(seed 0\), states of 4x24x24", r"steps +64 +16 +32", r"levels +3 +2 +3",
                     r"cycle 2( +\d\.\d\de[-+]\d\d){3}", r"cycles +2 +2 +2", r"status +early +direct +early",
                     r"serial CPU s( +[\d.e-]+){3}", r"output error( +\d\.\d\de-\d\d){3}"):
            self.assertRegex(text, f"(?m)^{line} *$")

    def test_stages_are_solved_one_by_one(self):
        net = self.net(4, 6)
        document = self.document(net, "--coarsening", "2", "--check", "once")
        self.assertEqual([(4, [2, 4, 4], [4, 2]), (6, [3, 4, 4], [6, 3])],
                         [(stage["steps"], stage["shape"], stage["levels"]) for stage in document["stages"]])
        self.assertEqual(document["stages"][1]["residuals"], document["residuals"])
        self.assertRegex(self.multigrid(net, "--coarsening", "2"), r"(?s)\nstage 1: 2 levels of 4 and 2 layers; .+\nstage 2: 2 levels of 6 and 3 ")
        text = self.multigrid(net, "--coarsening", "3")
        self.assertIn("\nstage 1: 1 level of 4 layers: serial propagation\n", text)

    # ---- Weights from a file.

    def test_a_chain_from_anywhere_is_solved(self):
        made = self.chain(32)
        h = 0.05
        document = self.document("chain", "--weights", "w.safetensors", "--step", str(h), "--coarsening", "4", "--tolerance", "1e-12",
                                 "--check", "once")
        self.assertEqual(("chain", "w.safetensors", 32, 64), tuple(document[key] for key in ("network", "weights", "layers", "parameters")))
        self.assertLess(document["output_error"], 1e-11)
        self.assertAlmostEqual(1, document["residuals"][0] / made.first_residual(h), delta=1e-12)
        states = [norm(state) for state in made.states(h)]
        self.assertEqual(max(states), states[-1])
        self.assertAlmostEqual(1, document["stages"][0]["largest_state"] / states[-1], delta=1e-9)
        tanh = self.document("chain", "--weights", "w.safetensors", "--step", str(h), "--coarsening", "4", "--activation", "tanh")
        expected = norm([h * math.tanh(k * u + b) for k, b in zip(made.k, made.b) for u in made.u0])
        self.assertAlmostEqual(1, tanh["residuals"][0] / expected, delta=1e-12)

    def test_weights_named_like_the_layers_are_taken(self):
        rng = random.Random(3)
        arrays = {"opening.weight": ((4, 1, 7, 7), [rng.uniform(-1, 1) for _ in range(196)]), "opening.bias": ((4,), [0] * 4),
                  "fc.weight": ((10, 2304), [0.5] * 23040), "fc.bias": ((10,), [0] * 10)}
        for step in range(1, 9):
            arrays[f"step{step}.conv.weight"] = ((4, 4, 7, 7), [0] * 784)
            arrays[f"step{step}.conv.bias"] = ((4,), [-1 if step < 8 else 2] * 4)
        self.weights(arrays)
        document = self.document("kirby-3m", "--layers", "8", "--coarsening", "2", "--weights", "w.safetensors")
        # Only step 3 changes its state, by h * 2 with h = 1/8, at each of 4 * 24 * 24 = 2304 = 48^2 elements.
        self.assertAlmostEqual(2 / 8 * 48, document["residuals"][0], delta=1e-12)
        self.assertEqual("w.safetensors", document["weights"])
        del arrays["step3.conv.bias"]
        for bias, line in (({}, "there is no array 'step3.conv.bias', of 4 values"),
                           ({"step3.conv.bias": ((3,), [0] * 3)}, "'step3.conv.bias' has 3 values; 4 are expected"),
                           ({"step3.conv.bias": ((4,), [0, 0, math.nan, 0])}, "'step3.conv.bias' is not finite at value 2")):
            self.weights(arrays | bias)
            self.refused(("kirby-3m", "--layers", "8", "--weights", "w.safetensors"), f"w.safetensors: {line}")

    def test_a_file_that_the_pages_program_writes_is_read(self):
        program, = re.findall(r"```python\n(def save.*?)```", self.read(f"{ROOT}/docs/multigrid.md"), re.DOTALL)
        names = {"json": json, "pathlib": pathlib, "struct": struct}
        exec(program, names)  # defines save(), with the code in docs/multigrid.md
        arrays = chain_arrays(16)
        names["save"]({name: array(*of) for name, of in arrays.items()}, f"{self.folder}/page.safetensors")
        safetensors(f"{self.folder}/doubles.safetensors", arrays)
        page, doubles = (self.document("chain", "--weights", f"{name}.safetensors", "--time", "1") for name in ("page", "doubles"))
        self.assertEqual(doubles["residuals"], page["residuals"])

    def test_frozen_norms_are_folded_into_the_steps(self):
        net = self.net(8, norms=True)
        self.refused((net, "--coarsening", "2"), "net: node 'a1.norm': batch_normalization in the residual step 'a1.add', whose "
                     "statistics couple the images of a mini-batch, and so the solves of the layers; expected none, or a frozen one: "
                     "--frozen-norms")
        document = self.document(net, "--coarsening", "2", "--frozen-norms", "--tolerance", "1e-10", "--check", "once")
        self.assertLess(document["output_error"], 1e-9)
        arrays = {"fc.weight": ((2, 32), [1] * 64), "fc.bias": ((2,), [0] * 2)}
        for step in range(1, 9):
            arrays |= {f"a{step}.norm.weight": ((2,), [1] * 2), f"a{step}.norm.bias": ((2,), [0] * 2),
                       f"a{step}.norm.running_mean": ((2,), [1e9] * 2), f"a{step}.norm.running_var": ((2,), [1] * 2),
                       f"a{step}.conv.weight": ((2, 2, 1, 1), [0] * 4), f"a{step}.conv.bias": ((2,), [2] * 2)}
        self.weights(arrays)
        # The convolutions give 2, and the norms subtract 1e9. relu(2 - 1e9) is 0, so no step changes its state.
        document = self.document(net, "--coarsening", "2", "--frozen-norms", "--weights", "w.safetensors")
        self.assertEqual(0, document["residuals"][0])

    def test_frozen_norms_without_scale_and_shift_have_their_statistics(self):
        arrays = {"fc.weight": ((2, 32), [1] * 64), "fc.bias": ((2,), [0] * 2)}
        for step in range(1, 9):
            # The epsilon is 1e-5, so each step adds (2 - -1) / sqrt(9) = 1 to each of 2 * 4 * 4 elements.
            arrays |= {f"a{step}.norm.running_mean": ((2,), [-1] * 2), f"a{step}.norm.running_var": ((2,), [9 - 1e-5] * 2),
                       f"a{step}.conv.weight": ((2, 2, 1, 1), [0] * 4), f"a{step}.conv.bias": ((2,), [2] * 2)}
        own = {f"a{step}.norm.{name}": ((2,), [value] * 2) for step in range(1, 9) for name, value in (("weight", 1), ("bias", 0))}
        words = ("--coarsening", "2", "--frozen-norms", "--weights", "w.safetensors")
        parameters = []
        for affine, of_norms in ((True, own), (False, {})):
            net = self.net(8, norms=True, affine=affine)
            self.weights(arrays | of_norms)
            document = self.document(net, *words)
            self.assertAlmostEqual(math.sqrt(8 * 32), document["residuals"][0], delta=1e-10)
            parameters.append(document["parameters"])
        self.assertEqual(8 * (2 + 2), parameters[0] - parameters[1])
        self.weights(arrays | {"a3.norm.running_var": ((2,), [1, -1])})
        self.refused((net, *words), "w.safetensors: 'a3.norm.running_var' is negative at value 1")

    def test_few_layers_are_coarsened_by_half_of_them(self):
        for layers, coarsening in ((4, 2), (7, 3), (8, 4), (15, 7), (16, 8), (40, 8)):
            with self.subTest(layers=layers):
                stage = self.document("kirby-3m", "--layers", str(layers))["stages"][0]
                self.assertEqual(([layers, layers // coarsening], [coarsening]), (stage["levels"], stage["coarsening"]))

    def test_a_timeline_has_every_layer_of_a_cycle(self):
        words = ("kirby-3m", "--layers", "16", "--coarsening", "4", "--threads", "2", "--timeline")
        stage, = self.document(*words)["stages"]
        timeline = stage["timeline"]
        self.assertEqual((2, 2), (timeline["cycle"], timeline["lanes"]))
        steps = [sum(span["steps"] for span in timeline["spans"] if span["level"] == level) for level in (0, 1)]
        # Level 0: each of 4 blocks steps twice to its 3 F-points, and twice to its C-point. Level 1: 4 steps compute
        # the right-hand sides, and 4 steps solve.
        self.assertEqual([2 * 4 * 3 + 2 * 4, 4 + 4], steps)
        self.assertEqual(timeline["ms"], max(span["end_ms"] for span in timeline["spans"]))
        self.assertTrue(0 < timeline["concurrency"] <= 2)
        self.assertNotIn("timeline", self.document(*self.SMALL)["stages"][0])
        self.assertRegex(self.multigrid(*words), r"(?m)^in cycle 2, of [\d.]+ ms, [01]\.\d\d of 2 threads run a layer on average$")
        self.assertEqual(1, self.document(*words, "--cycles", "1")["stages"][0]["timeline"]["cycle"])

    def test_the_json_says_what_states_take(self):
        # The expected numbers are counts of states, for 16 steps in blocks of 4. The finest level keeps all 17 states, or with
        # c-points only 6 (u0, 4 C-points and the last state). Each of the 4 coarse steps keeps 2, each of 2 threads keeps 3,
        # and there is 1 copy of the first state. Training keeps twice as many. With c-points, each thread also keeps the 3
        # F-points of a block in training, forward and backward.
        for storage, forward, both in (("all", 17 + 8 + 6 + 1, 64), ("c-points", 6 + 8 + 6 + 1, 2 * (21 + 6))):
            words = ("--threads", "2", "--storage", storage, "--batch", "6")
            self.assertEqual(forward * 6 * 2304 * 8, self.document(*self.SMALL, *words)["state_bytes"])
            trained = self.document(*self.SMALL, *words, "--train", "few", "--examples", "6", "--epochs", "1")
            self.assertEqual(both * 6 * 2304 * 8, trained["state_bytes"])

    # ---- Training.

    TRAIN = ("kirby-3m", "--layers", "8", "--coarsening", "4", "--train", "few", "--examples", "24", "--batch", "6")

    def test_training_says_loss_and_top_1_of_each_epoch(self):
        words = (*self.TRAIN, "--epochs", "2", "--check", "every:3", "--rate", "0.004", "--momentum", "0", "--seed", "5")
        document = self.document(*words)
        self.assertEqual(("kirby-3m", 11, 6, 2, 2), tuple(document[key] for key in (
            "network", "layers", "batch", "most_cycles", "most_backward_cycles")))
        self.assertEqual([(8, [4, 24, 24], [8, 2])], [(s["steps"], s["shape"], s["levels"]) for s in document["stages"]])
        training = document["training"]
        self.assertEqual(("few", 24, 16, 0.004, 0, 5), tuple(training[key] for key in (
            "data", "examples", "test_examples", "rate", "momentum", "seed")))
        first, second = training["epochs"]
        self.assertEqual([(0, 3), (6,)], [tuple(check["step"] for check in epoch["checks"]) for epoch in (first, second)])
        for epoch in (first, second):
            self.assertEqual((8, 16, 0, ""), tuple(epoch[key] for key in ("solves", "cycles", "serial_solves", "fallback")))
            self.assertIn(16 * epoch["top1"], range(17))
            self.assertGreater(epoch["seconds"], 0)
            for check in epoch["checks"]:
                # With 8 layers in 2 blocks of 4, two cycles of FCF are exact.
                self.assertLess(max(check["output_error"], check["gradient_error"]), 1e-10)
        self.assertLess(second["loss"], first["loss"])
        text = self.multigrid(*words)
        for line in (r"2 levels of 8 and 2 layers; solves end after 2 cycles forward and 2 backward",
                     r"24 images of few, 16 to test; mini-batches of 6, learning rate 0\.004, momentum 0",
                     r"epoch +loss +top-1 +cycles +fell back +CPU s", rf" +2 +{second['loss']:.5f} +{100 * second['top1']:.2f}% +16 +0 +[\d.e-]+",
                     r" +step 6 against serial propagation: output \d\.\de-\d\d, gradient \d\.\de-\d\d"):
            self.assertRegex(text, f"(?m)^{line}$")

    def losses(self, *words):
        return [epoch["loss"] for epoch in self.document(*self.TRAIN, "--epochs", "2", *words)["training"]["epochs"]]

    def assert_losses(self, expected, losses, delta):
        for one, loss in zip(expected, losses, strict=True):
            self.assertAlmostEqual(1, loss / one, delta=delta)

    def test_exact_solves_train_like_serial_propagation(self):
        serial = self.losses("--levels", "1")
        for words in ((), ("--tolerance", "1e-11"), ("--storage", "c-points", "--threads", "1")):
            self.assert_losses(serial, self.losses(*words), 1e-8)
        self.assertNotEqual(serial, self.losses("--cycles", "1", "--relaxation", "F"))
        self.assertIn("\n1 level of 8 layers; serial propagation\n", self.multigrid(*self.TRAIN, "--levels", "1", "--epochs", "1"))

    def test_a_device_trains_like_the_host(self):
        self.command = COMMAND  # COMMAND is installed with the stand-ins
        host = self.losses()
        for way, launch in (("grouped", "each"), ("streams", "graph")):
            device = self.losses("--backend", "cudnn", "--host", "--way", way, "--launch", launch)
            self.assert_losses(host, device, 1e-5)  # the device computes in single precision
        text = self.multigrid(*self.TRAIN, "--epochs", "1", "--backend", "cudnn", "--host", "--way", "grouped", "--precision", "tf32")
        self.assertIn("\nsingle precision (convolutions in TF32) on the CPU stand-in, blocks run: grouped, cycles as graphs, "
                      "mini-batch of 6\n", text)
        document = self.document("kirby-3m", "--layers", "16", "--coarsening", "4", "--backend", "cudnn", "--host", "--precision", "bf16")
        self.assertEqual("bf16", document["precision"])
        self.assertEqual(({"streams", "grouped"}, "graph"), (set(document["ways"]), document["launch"]))
        self.assertEqual(min(document["ways"], key=document["ways"].get), document["way"])

    def test_a_device_with_too_little_memory_is_told_of(self):
        self.command = COMMAND
        result = self.run_command("multigrid", "kirby-3m", "--layers", "64", "--host", "--way", "streams", "--streams", "1", "--batch", "16",
                                  HOSTGPU_MEMORY="1MiB")
        self.assertRegex(result.stderr, r"\Aucudnn multigrid: no device memory for \d+ bytes more: a smaller mini-batch, C-points alone or more "
                                        r"devices are expected \(.*\)\n\Z")
        self.assertEqual((2, ""), (result.returncode, result.stdout))

    def test_a_device_has_a_timeline_of_its_streams(self):
        self.command = COMMAND
        words = ("kirby-3m", "--layers", "32", "--coarsening", "4", "--backend", "cudnn", "--host", "--timeline")
        stage = self.document(*words, "--way", "streams", "--streams", "3")["stages"][0]
        timeline = stage["timeline"]
        self.assertEqual((2, 3), (timeline["cycle"], timeline["lanes"]))
        self.assertTrue(0 < timeline["concurrency"] <= 3)
        self.assertEqual({0, 1, 2}, {span["lane"] for span in timeline["spans"]})
        self.assertEqual(set(range(len(stage["levels"]))), {span["level"] for span in timeline["spans"]})
        for span in timeline["spans"]:
            self.assertTrue(0 <= span["begin_ms"] <= span["end_ms"] <= timeline["ms"])
        # With --timeline, the defaults are streams and separate launches: other ways of running have no time for each
        # span.
        document = self.document(*words)
        self.assertEqual(({"streams"}, "each"), (set(document["ways"]), document["launch"]))
        self.assertRegex(self.multigrid(*words, "--way", "streams"), r"\nin cycle 2, of \S+ ms, \d\.\d\d of 8 streams run a layer on average\n")

    def test_a_fallback_in_training_is_told_once(self):
        document, said = self.told(*self.TRAIN, "--epochs", "2", "--tolerance", "1e-11", "--cycles", "1", "--relaxation", "F")
        self.assertEqual("ucudnn multigrid: epoch 1: 8 of 8 solves fell back to serial propagation, the first since the cycles allowed "
                         "did not reach the tolerance\n", said)
        self.assertEqual([(8, None)] * 2, [(epoch["serial_solves"], epoch["residual"])
                                           for epoch in document["training"]["epochs"]])

    def test_solves_that_end_far_from_serial_propagation_are_told_once(self):
        """Tests the message; multigrid_training_test tests the results."""
        # With h = 1, states grow to 1e20.
        document, said = self.told(self.write("digits.json", digits_net(96)), "--step", "1", "--coarsening", "4", "--train",
                                   "few", "--batch", "16", "--epochs", "2", "--rate", "1e-26", "--cycles", "2")
        self.assertEqual("ucudnn multigrid: epoch 1: 4 of 4 solves ended far from serial propagation; more --cycles, a "
                         "--tolerance or a smaller h may help (--time, --step)\n", said)
        self.assertEqual([4, 4], [epoch["far_solves"] for epoch in document["training"]["epochs"]])

    def test_a_repeated_mini_batch_starts_from_its_last_states(self):
        words = (self.write("digits.json", digits_net(32)), "--time", "1", "--coarsening", "4", "--train", "few",
                 "--batch", "16", "--epochs", "1", "--rate", "0.01", "--cycles", "1", "--repeat", "3")
        previous, broadcast = self.document(*words), self.document(*words, "--start", "broadcast")
        self.assertEqual(("previous", "broadcast", 3), (previous["start"], broadcast["start"], previous["training"]["repeats"]))
        (previous,), (broadcast,) = previous["training"]["epochs"], broadcast["training"]["epochs"]
        self.assertEqual((12, 12), (previous["solves"], broadcast["solves"]))
        # By default, solves start from the states of the previous solve, so 2 of the 3 solves of a mini-batch start
        # almost at the solution.
        for key in ("residual", "backward_residual"):
            self.assertLess(previous[key], 0.5 * broadcast[key])
        self.assertRegex(self.multigrid(*words), r"mini-batches of 16, 3 steps each, learning rate 0\.01, momentum 0\.9\n")

    def test_a_loss_that_is_not_finite_is_told_once(self):
        result = self.ended(0, "multigrid", *self.TRAIN, "--epochs", "3", "--rate", "1e300")
        self.assertRegex(result.stderr, r"(?m)^ucudnn multigrid: epoch \d: the loss is not finite; a smaller --rate may help$")
        self.assertEqual(1, result.stderr.count("not finite; a smaller"))

    # ---- Files, and a terminal.

    def test_report_is_the_json(self):
        def without_times(document):
            return {key: value for key, value in document.items() if not key.endswith("seconds")}
        text = self.multigrid(*self.SMALL, "--report", "new/folder/solve.json")
        self.assertIn("direct: ", text)
        self.assertEqual(without_times(self.document(*self.SMALL)), without_times(self.load("new/folder/solve.json")))
        self.multigrid(*self.TRAIN, "--epochs", "2", "--report", "train.json")
        self.assertEqual(2, len(self.load("train.json")["training"]["epochs"]))
        # "few" is a folder, so the report cannot be written; the command notices this before the first epoch.
        self.assertNotIn("\n    1 ", self.ended(1, "multigrid", *self.TRAIN, "--report", "few").stdout)

    def test_a_terminal_sees_how_far_it_is_and_nothing_stays(self):
        def seen(*words):
            return self.on_terminal("multigrid", *words, stdout=subprocess.DEVNULL)
        written = seen(*self.SMALL, "--check", "once")
        for shown in (r"solving, \d+\.\d s", r"cycle 1 of 2: residual \d\.\d\de[-+]\d\d, \d+\.\d s", r"cycle 2 of 2: ",
                      r"serial propagation, to compare with, \d+\.\d s"):
            self.assertRegex(written, rf"\r\x1b\[K{shown}")
        self.assertTrue(written.endswith("\r\x1b[K"), written)
        self.assertNotIn("\n", written)
        self.assertIn("cycle 1 of at most 100: ", seen(*self.SMALL, "--tolerance", "1e-9"))
        written = seen(*self.TRAIN, "--epochs", "2")
        for shown in (r"epoch 1 of 2: step 1/4\r", r"epoch 1 of 2: step 4/4, about \d+ s left", r"epoch 2 of 2: testing, about \d+ s left"):
            self.assertRegex(written, rf"\r\x1b\[K{shown}")
        self.assertTrue(written.endswith("\r\x1b[K"), written)

    # ---- Networks of the test's own.

    def net(self, *stages, norms=False, affine=True):
        """Writes a network file and returns its path. Stage i has stages[i] residual steps with 1x1 kernels and 2 + i
        channels. With `norms`, each step also has a batch normalisation, with scale and shift if `affine`."""
        nodes = [{"name": "data", "op": "input", "channels": 2, "extents": [4, 4]}]

        def add(name, op, inputs, **members):
            nodes.append({"name": name, "op": op, "inputs": inputs} | members)
            return name
        last = "data"
        for number, steps in enumerate(stages):
            letter = "abc"[number]
            channels = 2 + number
            if number > 0:
                last = add(f"{letter}.in", "convolution", [last], filters=channels, window=[1, 1])
            for step in range(1, steps + 1):
                name = f"{letter}{step}"
                inner = add(f"{name}.conv", "convolution", [last], filters=channels, window=[1, 1])
                if norms:
                    inner = add(f"{name}.norm", "batch_normalization", [inner], scale_and_shift=affine)
                inner = add(f"{name}.relu", "activation", [inner], kind="relu")
                last = add(f"{name}.add", "add", [inner, last])
        add("fc", "fully_connected", [last], outputs=2)
        return self.write_net(nodes)


if __name__ == "__main__":
    unittest.main()
