"""`ucudnn bench` on the CPU stand-in: what it measures, stores and refuses."""

import json
import os
import unittest

import command
from command import CommandTest

LAYERS = """name,n,c,h,w,k,r,s,pad_h,pad_w
small,5,4,9,9,8,3,3,1,1
strided,4,3,15,15,8,5,5,2,2
"""


class Bench(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bare_command, cls.command = cls.command, command.COMMAND

    def setUp(self):
        self.layers = self.write("layers.csv", LAYERS)
        self.store = f"{self.folder}/{self.id()}.db"

    def write(self, name, text):
        path = f"{self.folder}/{name}"
        with open(path, "w") as file:
            file.write(text)
        return path

    def bench(self, *words):
        result = self.run_command("bench", "--layers", self.layers, "--host", "--json", "--db", self.store, *words)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        return json.loads(result.stdout)

    def test_cold_measures_and_warm_measures_nothing(self):
        cold = self.bench()
        self.assertGreater(cold["measured"], 0)
        warm = self.bench()
        self.assertEqual(0, warm["measured"])
        self.assertEqual(cold["kernels"], warm["kernels"])
        # Another limit is another choice from the same measurements.
        self.assertEqual(0, self.bench("--workspace-limit", "0")["measured"])

    def test_every_layer_appears_once_per_operation(self):
        kernels = self.bench("--ops", "backward_filter,forward")["kernels"]
        self.assertEqual([(layer, op) for layer in ("small", "strided") for op in ("backward_filter", "forward")],
                         [(kernel["name"], kernel["op"]) for kernel in kernels])

    def test_divisions_cover_the_mini_batch_within_the_limit(self):
        limit = 32 << 10
        for kernel in self.bench("--policy", "all", "--workspace-limit", "32KiB")["kernels"]:
            plan = kernel["divided"]["plan"]
            self.assertEqual(kernel["problem"]["n"], sum(piece["micro_batch"] * piece["count"] for piece in plan))
            self.assertLessEqual(max(piece["workspace_bytes"] for piece in plan), limit)
            self.assertLessEqual(kernel["divided"]["time_ms"], kernel["undivided"]["time_ms"] * (1 + 1e-9))

    def test_network_gives_its_layers(self):
        result = self.run_command("bench", "--net", "alexnet", "--batch", "1", "--ops", "forward", "--policy", "undivided",
                                  "--host", "--json", "--db", self.store)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        kernels = json.loads(result.stdout)["kernels"]
        self.assertEqual(["conv1", "conv2", "conv3", "conv4", "conv5"], [kernel["name"] for kernel in kernels])
        self.assertEqual([64, 192, 384, 256, 256], [kernel["problem"]["k"] for kernel in kernels])

    def test_batch_takes_the_place_of_the_files(self):
        self.assertEqual({7}, {kernel["problem"]["n"] for kernel in self.bench("--batch", "7", "--ops", "forward")["kernels"]})

    def test_undivided_policy_measures_the_whole_batch_only(self):
        for kernel in self.bench("--policy", "undivided")["kernels"]:
            self.assertEqual(1, len(kernel["divided"]["plan"]))

    def test_table_names_what_was_measured(self):
        result = self.run_command("bench", "--layers", self.layers, "--host", "--db", "none", "--ops", "forward")
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        self.assertIn("stand-in", result.stdout.splitlines()[0])
        self.assertEqual(["small", "strided"], [line.split()[0] for line in result.stdout.splitlines()[2:]])
        self.assertNotIn("\r", result.stderr)

    def test_bad_layer_file_is_named_with_line_and_column(self):
        bad = self.write("bad.csv", LAYERS + "worse,8,4,9,9,8,three,3,1,1\n")
        self.assert_refused(["bench", "--layers", bad, "--host"], "bad.csv:4", "'r'", "three")
        self.assert_refused(["bench", "--layers", f"{self.folder}/none.csv"], "none.csv")

    def test_bad_usage_is_refused(self):
        self.assert_refused(["bench"], "exactly one of --layers FILE.csv and --net NAME")
        self.assert_refused(["bench", "--layers", self.layers, "--net", "alexnet"], "exactly one of --layers FILE.csv and --net NAME")
        self.assert_refused(["bench", "--layers", self.layers, "--batch", "0"], "--batch '0'")
        self.assert_refused(["bench", "--layers", self.layers, "--batch", "99999999999"], "--batch '99999999999'")
        self.assert_refused(["bench", "--layers", self.layers, "--ops", "forward,sideways"], "--ops 'forward,sideways'")
        self.assert_refused(["bench", "--layers", self.layers, "--policy", "some"], "--policy 'some'")
        self.assert_refused(["bench", "--net", "alexnot", "--batch", "1"], "--net 'alexnot'", "alexnet", "resnet18")
        self.assert_refused(["bench", "--net", "alexnet"], "--batch N")
        self.assert_refused(["bench", "--trace", "a.json"], "--trace: not available in this version")
        self.assert_refused(["bench", "--layers", self.layers, "--report", "r.json"], "--report")

    def test_installation_without_the_stand_ins(self):
        os.remove(f"{self.host}/libcudnn.so.9")
        self.command, real = self.bare_command, self.command
        try:
            self.assert_refused(["bench", "--layers", self.layers, "--host"], "libcudnn.so.9' is missing")
        finally:
            self.command = real


if __name__ == "__main__":
    unittest.main()
