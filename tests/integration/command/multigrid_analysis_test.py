"""Tests `ucudnn multigrid --analyse`: what a model predicts for machines."""

import re
import resource
import unittest

from command import COMMAND
from multigrid_command import MultigridTest, chain_arrays, safetensors

SETTING = ("--coarsening", "4", "--levels", "2", "--relaxation", "F", "--coarse", "inject")


class MultigridAnalysis(MultigridTest):
    def analyse(self, *words):
        return self.multigrid(*words, "--analyse")

    def document(self, *words):
        return super().document(*words, "--analyse")

    def machine(self, devices=4, latency_us=0, **device):
        """Writes a machine file and returns its name. Each kernel takes 1 ms, however many run at the same time, a
        message takes `latency_us`, and nothing else takes time."""
        made = {"name": "made", "memory_bytes": 1 << 40, "tflops": 1e5, "memory_gb_per_s": 1e6, "launch_us": 0, "kernel_us": 1000,
                "filling_threads": 1, "concurrent_kernels": 128} | device
        self.write("machine.json", {"format": "ucudnn-machine", "version": 1, "name": "made", "device": made,
                                    "levels": [{"name": "link", "count": devices, "gb_per_s": 1e5, "latency_us": latency_us}]})
        return "machine.json"

    def test_times_are_those_of_the_machine_file(self):
        words = ("kirby-3m", "--layers", "64", "--machine", self.machine(latency_us=2000), *SETTING, "--cycles", "1", "--devices", "1,2")
        document = self.document(*words)
        self.assertEqual(("ucudnn-multigrid-analysis", 1, "kirby-3m", "made", "roofline", 1),
                         tuple(document[key] for key in ("format", "version", "network", "machine", "layer_times", "batch")))
        inference, training = document["workloads"]
        self.assertEqual(("inference", "training"), (inference["workload"], training["workload"]))
        # Kernels of 1 ms: 2 before the 64 steps, 3 for each step, and 2 after the steps.
        self.assertAlmostEqual(2 + 64 * 3 + 2, inference["serial"]["modelled_ms"], delta=0.01)
        # The forward pass takes 196 ms. The backward pass takes 1 ms for the opening (the kernels before the steps),
        # since the image needs no gradient, 64 * 3 for the steps, and 2 for the closing (the kernels after the steps).
        # 66 kernels compute the gradients of the weights: of the opening, of 64 steps and of the last layer. 3 kernels
        # make the updates.
        self.assertAlmostEqual(196 + 1 + 64 * 3 + 2 + 66 + 3, training["serial"]["modelled_ms"], delta=0.01)
        one, two = inference["rows"]
        self.assertAlmostEqual(198, two["partitioned"]["modelled_ms"], delta=0.01)
        # Opening and closing take 2 ms each, and filling the states takes 1. Each step of the cycle takes 3 ms. All 16
        # blocks at the same time make 3 steps at F-points, 1 step to the C-point (Advance) and 1 coarse step. Then come
        # 16 coarse steps in sequence, and 3 more steps at F-points.
        self.assertAlmostEqual(2 + 1 + 3 * (4 + 1 + 16 + 3) + 2, one["multigrid"]["modelled_ms"], delta=0.01)
        # Without relaxation on the way down, the cycle lacks 3 steps at F-points, of 3 ms each.
        skipping = self.document(*words, "--skip-first-down")["workloads"][0]["rows"][0]
        self.assertAlmostEqual(77 - 3 * 3, skipping["multigrid"]["modelled_ms"], delta=0.01)
        # With --storage c-points, no states at F-points are stored. So the cycle ends with the coarse steps.
        sparing = self.document(*words, "--storage", "c-points")["workloads"][0]["rows"][0]
        self.assertAlmostEqual(77 - 3 * 3, sparing["multigrid"]["modelled_ms"], delta=0.01)
        self.assertLess(sparing["multigrid"]["memory_bytes"], one["multigrid"]["memory_bytes"])
        # One message of 2 ms between the devices comes in the middle of the 16 coarse steps. The message with the first
        # state also takes 2 ms, but arrives before these steps begin.
        self.assertAlmostEqual(77 + 2, two["multigrid"]["modelled_ms"], delta=0.01)
        self.assertEqual({"coarsening": [4], "levels": 2, "relaxation": "F", "coarse": "inject"}, two["multigrid"]["setting"])
        self.assertTrue(inference["pays"])
        self.assertEqual((1, 1), (inference["pays_from"], inference["best_devices"]))

    def test_every_time_of_a_solve_is_said_to_be_modelled(self):
        text = self.analyse("kirby-3m", "--layers", "64", "--machine", "h100x8", "--devices", "1,8")
        self.assertRegex(text, r"(?m)^kirby-3m: 67 layers, 73,682 parameters, mini-batch of 1$")
        self.assertRegex(text, r"(?m)^h100x8, 8 x NVIDIA H100 80GB HBM3: modelled by a roofline ")
        self.assertRegex(text, r"(?m)^inference, modelled; serial propagation [\d.]+ ms, captured as a CUDA graph [\d.]+ ms$")
        self.assertRegex(text, r"(?m)^training, modelled; ")
        self.assertRegex(text, r"(?m)^ +8( +[\d.]+){2}( +[\d.]+x){3} +[\d.]+% +[\d.]+ +[\d.]+%  c = \d+, \d levels, F(CF)?, \w+, \d+ cycles?$")
        for verdict in re.findall(r"(?m)^(?:inference|training): .+$", text):
            self.assertIn("(modelled)", verdict)

    def test_a_device_that_one_layer_fills_is_faster_serially(self):
        # Kernels take time only for their arithmetic, and one kernel uses the whole device.
        machine = self.machine(devices=2, kernel_us=0, tflops=1e-3, filling_threads=1)
        text = self.analyse("kirby-3m", "--layers", "64", "--machine", machine)
        for workload in ("inference", "training"):
            self.assertRegex(text, rf"(?m)^{workload}: serial is faster here: [\d.]+ ms; multigrid takes [\d.]+ ms at best, on 2 devices "
                             r"\(modelled\)$")
        document = self.document("kirby-3m", "--layers", "64", "--machine", machine)
        self.assertEqual([(False, None, 2)] * 2, [tuple(workload[key] for key in ("pays", "pays_from", "best_devices"))
                                                  for workload in document["workloads"]])

    def test_what_does_not_fit_is_marked(self):
        # A training step keeps the states, and 12 bytes for each of the 73,682 parameters: more than 1 MiB together.
        text = self.analyse("kirby-3m", "--layers", "64", "--machine", self.machine(memory_bytes=1 << 20), *SETTING, "--devices", "1,4")
        self.assertRegex(text, r"(?m)^training, modelled; serial propagation [\d.]+\* ms")
        self.assertRegex(text, r"(?m)^ +1 +[\d.]+\* ")
        self.assertIn("\n* does not fit the 1 MiB of a device\n", text)

    def test_a_tolerance_takes_as_many_cycles_as_the_rate_says(self):
        words = ("kirby-3m", "--layers", "256", "--machine", self.machine(), *SETTING)
        few, many = (self.document(*words, "--tolerance", tolerance) for tolerance in ("1e-3", "1e-9"))
        tried, = many["tried"]
        first, second = tried["residuals"]
        self.assertAlmostEqual(second / first, tried["rate"], delta=1e-12)
        expected = 2
        while second * tried["rate"] ** (expected - 2) > 1e-9:
            expected += 1
        self.assertEqual(min(expected, 64), tried["cycles"])
        cycles = [document["workloads"][0]["rows"][0]["multigrid"]["cycles"] for document in (few, many)]
        self.assertLess(cycles[0], cycles[1])
        self.assertIsNone(many["reference"])
        solved = super().document("kirby-3m", "--layers", "256", *SETTING, "--tolerance", "1e-9")
        self.assertAlmostEqual(solved["cycles"], cycles[1], delta=2)

    def test_without_a_tolerance_a_solve_is_as_exact_as_the_cycles_asked_for(self):
        document = self.document("kirby-3m", "--layers", "256", "--machine", self.machine(), "--cycles", "2")
        self.assertEqual(({"coarsening": [8], "levels": 3, "relaxation": "FCF", "coarse": "inject"}, 2),
                         ({key: document["reference"][key] for key in ("coarsening", "levels", "relaxation", "coarse")},
                          document["reference"]["cycles"]))
        self.assertEqual(document["reference"]["residuals"][1], document["tolerance"])
        for tried in document["tried"]:
            if tried["cycles"] == 1:
                self.assertLessEqual(tried["residuals"][0], document["tolerance"])
            elif tried["cycles"] == 2 and not tried["direct"]:
                self.assertLessEqual(tried["residuals"][1], document["tolerance"])

    def test_layers_are_measured_on_a_device(self):
        self.command = COMMAND  # COMMAND is installed with the stand-ins
        words = ("kirby-3m", "--layers", "64", "--machine", "h100x8", "--devices", "1,4", *SETTING, "--cycles", "1")
        document = self.document(*words, "--backend", "cudnn", "--host")
        self.assertEqual(("h100x8", "device, measured"), tuple(document[key] for key in ("machine", "layer_times")))
        self.assertRegex(document["notes"], r"\Asingle precision on the CPU stand-in; a state goes from one rank on it to another in [0-9.e+]+ us\Z")
        step, = (kind for kind in document["layer_kinds"] if kind["number"] == 64)
        modelled, = (kind for kind in self.document(*words)["layer_kinds"] if kind["number"] == 64)
        for key in ("forward_ms", "adjoint_ms", "gradient_ms"):
            self.assertTrue(step[key] > 0 and step[key] != modelled[key])
        self.assertIn("\nlayers of stages are measured, alone and several at once: single precision on the CPU stand-in; a state goes",
                      self.analyse(*words, "--backend", "cudnn", "--host"))

    def on_the_stand_in(self, *words):
        """Returns words to analyse a chain of 64 steps, measured on the CPU stand-in. A step has 2 parameters, and a state
        has 6 numbers. A launch takes a second, so all other times are negligible."""
        self.command = COMMAND  # COMMAND is installed with the stand-ins
        safetensors(f"{self.folder}/w.safetensors", chain_arrays(64))
        return ("chain", "--weights", "w.safetensors", "--time", "1", *SETTING, "--cycles", "1", "--devices", "1",
                "--machine", self.machine(launch_us=1e6), "--backend", "cudnn", "--host", *words)

    def test_numbers_take_the_bytes_of_the_precision(self):
        # In training a step keeps a state of 6 numbers and the results of its convolution and its ReLU. The input counts as
        # one more state.
        kept = 64 * (6 + 2 * 6) + 6
        for precision, size, trained in (("fp32", 4, 4 + 4 + 4), ("fp16", 2, 2 + 2 + 4 + 4 + 4), ("bf16", 2, 2 + 2 + 4 + 4 + 4)):
            with self.subTest(precision):
                words = self.on_the_stand_in("--precision", precision)
                inference, training = self.document(*words)["workloads"]
                self.assertEqual(size * (128 + 2 * 6), inference["serial"]["memory_bytes"])
                self.assertEqual(trained * 128 + size * kept, training["serial"]["memory_bytes"])
        text = self.analyse(*words)
        self.assertIn("modelled by a roofline of single precision with numbers of 2 bytes, ", text)
        self.assertIn("\na state of 12 B goes to another device in ", text)

    def test_blocks_run_in_the_way_and_the_streams_of_the_options(self):
        def seconds(*words):
            """Returns the modelled seconds of the chosen way and of blocks in streams. A launch takes one second, so these
            are numbers of launches."""
            row = self.document(*self.on_the_stand_in(*words))["workloads"][0]["rows"][0]
            return [round(row[key]["modelled_ms"] / 1000) for key in ("multigrid", "launched_streams")]

        # The input, the start and the cycle are one graph each. In streams, a step is 3 launches. There are 48 steps at
        # F-points, 16 at C-points, 16 for right sides, 16 coarse ones, and 48 at F-points. The start is one more
        # launch.
        streams = 1 + 3 * (48 + 16 + 16 + 16 + 48)
        self.assertEqual([3, streams], seconds())
        # With grouped blocks, the k-th steps of all blocks are 3 launches together. The first layer's input needs no
        # adjoint, so this layer is of another kind. Its steps at F-points and for right sides are therefore separate
        # calls of 3 launches.
        self.assertEqual([1 + 3 * (4 + 1 + 2 + 16 + 4), streams], seconds("--launch", "each"))
        self.assertEqual([3, streams], seconds("--way", "streams"))
        self.assertEqual([streams, streams], seconds("--way", "streams", "--launch", "each"))
        with self.subTest("each stream has room for the F-points of a block"):
            for words, count in (((), 8), (("--streams", "1"), 1)):
                training = self.document(*self.on_the_stand_in("--storage", "c-points", *words))["workloads"][1]
                # The memory keeps the first state, 16 C-points, the last state, 2 states of each coarse step and, for
                # each of `count` streams, 3 F-points. It keeps as many adjoints. The input is one more state.
                states = 2 * (1 + 16 + 1 + 2 * 16 + 3 * count) + 1
                self.assertEqual(12 * 128 + 4 * (64 * 2 * 6 + 6 * states), training["rows"][0]["multigrid"]["memory_bytes"])

    def test_this_machines_cores_are_measured(self):
        document = self.document("kirby-3m", "--layers", "64", "--devices", "1,3", *SETTING, "--cycles", "1")
        self.assertEqual(("this machine", "cpu, measured"), (document["machine"], document["layer_times"]))
        self.assertTrue(all(kind[key] > 0 for kind in document["layer_kinds"] for key in ("forward_ms", "adjoint_ms", "gradient_ms")))
        # One core runs nothing in parallel, so multigrid only adds work.
        self.assertGreater(document["workloads"][0]["rows"][0]["multigrid"]["modelled_ms"],
                           document["workloads"][0]["serial"]["modelled_ms"])
        text = self.analyse("kirby-3m", "--layers", "64", "--devices", "1", *SETTING)
        self.assertIn("\nthis machine: layers are timed on one core, in double precision (CPU times);\n", text)
        self.assertNotIn("captured", text)

    def test_two_billion_parameters_need_no_memory_for_them(self):
        document = self.document("kirby-2b", "--machine", "v100x2-25g:32", "--devices", "64")
        self.assertEqual((4115, 2_071_328_150), (document["layers"], document["parameters"]))
        self.assertEqual("maps of 4x4, 5 of 20 channels", document["stand_in"])
        self.assertIsNone(document["verified"])
        self.assertEqual([1, 4097, 15, 1], [kind["number"] for kind in document["layer_kinds"]])
        self.assertTrue(all(workload["pays"] for workload in document["workloads"]))
        # RUSAGE_CHILDREN has the largest memory that any command has used so far, in KiB. The weights would take 16 GB in
        # double precision.
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 2 << 20)

    def test_resnets_have_no_layers_to_spare(self):
        document = self.document("resnet152-v2", "--frozen-norms", "--machine", "h100x8")
        self.assertEqual(["inference", "training"], [workload["workload"] for workload in document["workloads"]])
        self.assertFalse(document["workloads"][0]["pays"])
        # The steps of ResNets have no factor h, so cycles converge only if relaxation alone is exact ("direct").
        self.assertTrue(all(tried["cycles"] is None or tried["direct"] for tried in document["tried"]))


if __name__ == "__main__":
    unittest.main()
