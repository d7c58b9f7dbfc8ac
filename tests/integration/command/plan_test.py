"""`ucudnn plan`: what it prints, as a table and as JSON, and what it refuses."""

import json
import unittest

from command import CommandTest

ALEXNET = ["plan", "alexnet", "--machine", "k80x16", "--batch", "512"]


class Plan(CommandTest):
    def plan(self, *words):
        result = self.run_command(*words)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        return result.stdout

    def test_strategies_and_layers_are_printed(self):
        text = self.plan(*ALEXNET)
        lines = text.splitlines()
        self.assertEqual("alexnet, batch 512, on k80x16 (16 devices); costs: roofline, update: parameter-server", lines[0])
        self.assertEqual(["strategy", "image", "model", "owt", "deepa"], [line.split()[0] for line in lines[1:6]])
        self.assertIn("deepa is optimal", text)
        for layer in ("conv1", "pool5", "fc6", "fc8"):
            self.assertRegex(text, rf"(?m)^{layer} +{{n=\d+, c=\d+, h=\d+, w=\d+}} ")

    def test_the_papers_table_2(self):
        text = self.plan(*ALEXNET, "--cost", "deepa-paper", "--what-if", "fc6")
        rows = {}
        for line in text.splitlines():
            if "{n=" in line:
                configuration, numbers = line[line.index("{"):].split("}")
                rows[configuration + "}"] = [float(number) for number in numbers.split()]
        for configuration, printed in {"{n=16, c=1, h=1, w=1}": (16, 0, 1.28, 1075, 1076),
                                       "{n=1, c=16, h=1, w=1}": (16, 134.4, 1.28, 0, 135.7),
                                       "{n=1, c=4, h=1, w=1}": (4, 33.6, 5.1, 0, 38.7),
                                       "{n=1, c=2, h=1, w=1}": (2, 16.8, 10.2, 0, 27.0),
                                       "{n=1, c=1, h=1, w=1}": (1, 8.4, 20.4, 0, 28.8)}.items():
            for found, expected in zip(rows[configuration], printed):
                self.assertLessEqual(abs(found - expected), 0.51 if expected > 1000 else 0.051, configuration)

    def test_json_holds_what_the_format_says(self):
        document = json.loads(self.plan(*ALEXNET, "--json"))
        self.assertEqual(("ucudnn-layout", 1, True, 0), tuple(document[k] for k in ("format", "version", "optimal", "gap")))
        totals = {strategy["name"]: strategy["total_ms"] for strategy in document["strategies"]}
        self.assertEqual({"image", "model", "owt", "deepa"}, set(totals))
        self.assertEqual(document["total_ms"], totals["deepa"])
        self.assertEqual(min(totals.values()), totals["deepa"])
        self.assertEqual(11, len(document["layers"]))
        step = 0
        for layer in document["layers"]:
            row = next(row for row in layer["what_if"] if all(row[axis] == layer["config"][axis] for axis in "nchw"))
            step += row["total_ms"]
            self.assertAlmostEqual(row["best_total_ms"], document["total_ms"], delta=1e-6 * document["total_ms"])
            for other in layer["what_if"]:
                self.assertGreaterEqual(other["best_total_ms"], document["total_ms"] * (1 - 1e-9))
                terms = other["transfer_ms"] + other["compute_ms"] + other["update_ms"]
                self.assertAlmostEqual(terms, other["total_ms"], delta=1e-9 * max(1, terms))
        self.assertAlmostEqual(step, document["total_ms"], delta=1e-6 * step)

    def test_another_strategy_states_its_gap(self):
        document = json.loads(self.plan(*ALEXNET, "--strategy", "image", "--json"))
        deepa = next(s["total_ms"] for s in document["strategies"] if s["name"] == "deepa")
        self.assertFalse(document["optimal"])
        self.assertAlmostEqual(document["gap"], 1 - deepa / document["total_ms"], places=9)
        self.assertEqual({"n": 16, "c": 1, "h": 1, "w": 1}, document["layers"][0]["config"])

    def test_pins_are_obeyed(self):
        document = json.loads(self.plan(*ALEXNET, "--pin", "fc6=c4", "--pin", "conv1=n8", "--json"))
        configurations = {layer["name"]: layer["config"] for layer in document["layers"]}
        self.assertEqual({"n": 1, "c": 4, "h": 1, "w": 1}, configurations["fc6"])
        self.assertEqual({"n": 8, "c": 1, "h": 1, "w": 1}, configurations["conv1"])

    def test_a_machine_and_times_from_files(self):
        machine = {"format": "ucudnn-machine", "version": 1, "name": "pair",
                   "device": {"name": "d", "memory_bytes": 1 << 33, "tflops": 10, "memory_gb_per_s": 500},
                   "levels": [{"name": "link", "count": 2, "gb_per_s": 10, "latency_us": 5}]}
        with open(f"{self.folder}/pair.json", "w", encoding="utf-8") as file:
            json.dump(machine, file)
        with open(f"{self.folder}/times.csv", "w", encoding="utf-8") as file:
            file.write("layer,c,time_ms\nfc6,2,1.5\n")
        text = self.plan("plan", "alexnet", "--machine", "pair.json", "--batch", "64", "--cost", "times.csv",
                         "--update", "ring", "--json")
        document = json.loads(text)
        self.assertEqual(("pair", 2, "times.csv", "ring"),
                         tuple(document[key] for key in ("machine", "devices", "cost", "update")))
        fc6 = next(layer for layer in document["layers"] if layer["name"] == "fc6")
        measured = [row["compute_ms"] for row in fc6["what_if"] if row["measured"]]
        self.assertEqual([1.5], measured)

    def test_a_batch_that_devices_do_not_divide_leaves_strategies_out(self):
        words = ["plan", "alexnet", "--machine", "k80x16", "--batch", "24"]
        self.assertNotIn("\nimage ", self.plan(*words))
        self.assert_refused([*words, "--strategy", "image"], "strategy image: layer 'conv1'", "images by 16")

    def test_what_is_wrong_is_named(self):
        for words, expected in (
                (["plan"], "NET"),
                (["plan", "alexnet", "--batch", "8"], "--machine"),
                (["plan", "lenet", "--machine", "k80x16", "--batch", "8"], "'lenet'"),
                (["plan", "alexnet", "--machine", "dgx", "--batch", "8"], "k80x16, p100x4x4"),
                (["plan", "alexnet", "--machine", "k80x16:2", "--batch", "8"], "no network between nodes"),
                (["plan", "alexnet", "--machine", "k80x16", "--batch", "0"], "--batch '0'"),
                ([*ALEXNET, "--strategy", "data"], "'data' is no strategy"),
                ([*ALEXNET, "--cost", "measured"], "--cost measured: not available in this version"),
                ([*ALEXNET, "--cost", "none.csv"], "none.csv"),
                ([*ALEXNET, "--update", "gossip"], "--update 'gossip'"),
                ([*ALEXNET, "--pin", "fc6=x2"], "--pin 'fc6=x2'"),
                ([*ALEXNET, "--pin", "fc9=c2"], "'fc9'"),
                ([*ALEXNET, "--what-if", "fc9"], "--what-if 'fc9'"),
                ([*ALEXNET, "--", "true"], "takes no program")):
            self.assert_refused(words, "ucudnn plan", expected)


if __name__ == "__main__":
    unittest.main()
