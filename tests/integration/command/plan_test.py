"""Tests what `ucudnn plan` prints, as a table and as JSON."""

import json
import math
import re
import unittest

from command import TRAINING_NET, UNHEARD_NET, CommandTest, measurements
from schedule_reader import Counted

ALEXNET = ["plan", "alexnet", "--machine", "k80x16", "--batch", "512"]
OWT = [*ALEXNET, "--strategy", "owt", "--schedule"]


class Plan(CommandTest):
    plan, planned = CommandTest.output, CommandTest.printed_json

    def machine(self, name, devices):
        self.write(f"{name}.json", {
            "format": "ucudnn-machine", "version": 1, "name": name,
            "device": {"name": "d", "memory_bytes": 1 << 33, "tflops": 10, "memory_gb_per_s": 500},
            "levels": [{"name": "link", "count": devices, "gb_per_s": 10, "latency_us": 5}]})
        return f"{name}.json"

    def test_strategies_and_layers_are_printed(self):
        text = self.plan(*ALEXNET)
        lines = text.splitlines()
        self.assertEqual("alexnet, batch 512, on k80x16 (16 devices); costs: roofline, update: parameter-server", lines[0])
        self.assertEqual(["strategy", "image", "model", "owt", "deepa"], [line.split()[0] for line in lines[1:6]])
        self.assertIn("deepa is optimal", text)
        for layer in ("conv1", "pool5", "fc6", "fc8"):
            self.assertRegex(text, rf"(?m)^{layer} +{{n=\d+, c=\d+, h=\d+, w=\d+}} ")

    def test_the_papers_costs_make_its_table_2(self):
        text = self.plan(*ALEXNET, "--cost", "deepa-paper", "--what-if", "fc6")
        self.assertRegex(text, r"(?m)^ +{n=1, c=16, h=1, w=1} +16 +134\.4 +1\.275 +0 +135\.7 ")
        self.assertRegex(text, r"(?m)^ +{n=16, c=1, h=1, w=1} +16 +0 +1\.275 +1075 +1076 ")

    def test_json_holds_what_the_format_says(self):
        document = self.planned(*ALEXNET, "--json")
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

    def test_best_plans_of_one_layer_are_those_of_the_json(self):
        document = self.planned(*ALEXNET, "--json")
        rows = next(layer["what_if"] for layer in document["layers"] if layer["name"] == "fc6")
        lines = [line for line in self.plan(*ALEXNET, "--what-if", "fc6").splitlines() if "{n=" in line]
        self.assertEqual(len(rows), len(lines))
        for row, line in zip(rows, lines):
            self.assertAlmostEqual(row["best_total_ms"], float(line.split()[-1]), delta=1e-4 * row["best_total_ms"])
        image = self.plan(*ALEXNET, "--strategy", "image")
        fc6 = next(line for line in image.splitlines() if line.startswith("fc6 "))
        best = next(row["best_total_ms"] for row in rows if row["n"] == 16)
        self.assertAlmostEqual(best, float(fc6.split()[-1]), delta=1e-4 * best)

    def test_a_dense_block_is_proved_and_its_other_best_plans_are_not_known(self):
        words = ["plan", "densenet40-nary", "--machine", "k20x8", "--batch", "64"]
        document = self.planned(*words, "--json")
        self.assertEqual((True, 0), (document["optimal"], document["gap"]))
        for layer in document["layers"]:
            for row in layer["what_if"]:
                chosen = all(row[axis] == layer["config"][axis] for axis in "nchw")
                if chosen:
                    self.assertAlmostEqual(document["total_ms"], row["best_total_ms"], delta=1e-9 * document["total_ms"])
                else:
                    self.assertIsNone(row["best_total_ms"])
        text = self.plan(*words, "--best", "3")
        self.assertIn("deepa is optimal", text)
        self.assertRegex(text, r"(?m)^3 +[0-9.]+ ")

    def test_another_strategy_states_its_gap(self):
        document = self.planned(*ALEXNET, "--strategy", "image", "--json")
        deepa = next(s["total_ms"] for s in document["strategies"] if s["name"] == "deepa")
        self.assertFalse(document["optimal"])
        self.assertAlmostEqual(document["gap"], 1 - deepa / document["total_ms"], places=9)
        self.assertEqual({"n": 16, "c": 1, "h": 1, "w": 1}, document["layers"][0]["config"])

    def test_pins_are_obeyed(self):
        document = self.planned(*ALEXNET, "--pin", "fc6=c4", "--pin", "conv1=n8", "--json")
        configurations = {layer["name"]: layer["config"] for layer in document["layers"]}
        self.assertEqual({"n": 1, "c": 4, "h": 1, "w": 1}, configurations["fc6"])
        self.assertEqual({"n": 8, "c": 1, "h": 1, "w": 1}, configurations["conv1"])

    def test_a_machine_and_times_from_files(self):
        self.write("times.csv", "layer,c,time_ms\nfc6,2,1.5\n")
        document = self.planned("plan", "alexnet", "--machine", self.machine("pair", 2), "--batch", "64", "--cost", "times.csv",
                                "--update", "ring", "--json")
        self.assertEqual(("pair", 2, "times.csv", "ring"),
                         tuple(document[key] for key in ("machine", "devices", "cost", "update")))
        fc6 = next(layer for layer in document["layers"] if layer["name"] == "fc6")
        measured = [row["compute_ms"] for row in fc6["what_if"] if row["measured"]]
        self.assertEqual([1.5], measured)

    def test_a_batch_that_devices_do_not_divide_leaves_strategies_out(self):
        words = ["plan", "alexnet", "--machine", "k80x16", "--batch", "24"]
        self.assertNotIn("\nimage ", self.plan(*words))

    def test_boxes_cover_every_output_and_transfers_add_up(self):
        for network, words in (("alexnet", ()), ("resnet18", ("--placements", "--uneven"))):
            document = self.planned("plan", network, "--machine", "k20x8", "--batch", "64", "--json", "--boxes", *words)
            moved = 0
            for layer in document["layers"]:
                shape = [int(extent) for extent in layer["output"].split("x")]
                shape += [1] * (4 - len(shape))  # outputs of fully connected layers have no rows and columns
                sizes = [[box[axis][1] - box[axis][0] for axis in "nchw"] for box in layer["boxes"]]
                self.assertEqual(math.prod(shape), sum(map(math.prod, sizes)), layer["name"])
                first = layer["config"].get("first_device", 0)
                workers = math.prod(layer["config"][axis] for axis in "nchw")
                self.assertEqual(list(range(first, first + workers)), [box["device"] for box in layer["boxes"]])
                for source in layer["inputs"]:
                    for transfer in source["transfers"]:
                        self.assertNotEqual(transfer["from"], transfer["to"])
                        self.assertEqual(4 * math.prod(transfer[axis][1] - transfer[axis][0] for axis in "nchw"), transfer["bytes"])
                        moved += 2 * transfer["bytes"]
                for group in layer["all_reduce"]:
                    self.assertGreater(len(group["devices"]), 1)
            deepa = document["strategies"][-1]
            self.assertEqual(("deepa", deepa["transfer_bytes"]), (deepa["name"], moved))
        document = self.planned(*ALEXNET, "--json")
        self.assertEqual({"name", "output", "config", "followers", "what_if"}, set(document["layers"][0]))

    def test_reductions_are_spelled_out(self):
        plain = self.planned(*ALEXNET, "--json")
        self.assertNotIn('"r"', json.dumps(plain))
        free = self.planned(*ALEXNET, "--json", "--reduction")
        self.assertLess(free["total_ms"], plain["total_ms"])
        self.assertIn(4, [row.get("r", 1) for layer in free["layers"] for row in layer["what_if"]])
        words = [*ALEXNET, "--pin", "fc6=c16", "--pin", "fc7=r16"]
        document = self.planned(*words, "--json", "--boxes")
        moved = 0
        for layer in document["layers"]:
            self.assertEqual(layer["name"] == "fc7", "partial" in layer)
            transfers = layer.get("reduction", []) + [t for source in layer["inputs"] for t in source["transfers"]]
            moved += 2 * sum(transfer["bytes"] for transfer in transfers)
        self.assertEqual(document["strategies"][-1]["transfer_bytes"], moved)
        fc7 = next(layer for layer in document["layers"] if layer["name"] == "fc7")
        self.assertEqual({"n": 1, "c": 1, "h": 1, "w": 1, "r": 16}, fc7["config"])
        self.assertEqual([], fc7["inputs"][0]["transfers"])  # each device already has the outputs of fc6 that it reads
        self.assertEqual([], fc7["all_reduce"])
        self.assertEqual([([0, 4096], [256 * i, 256 * (i + 1)]) for i in range(16)],
                         [(box["c"], box["input_channels"]) for box in fc7["partial"]])
        self.assertEqual([[256 * i, 256 * (i + 1)] for i in range(16)], [box["c"] for box in fc7["boxes"]])
        self.assertEqual(16 * 15, len(fc7["reduction"]))
        self.assertEqual({512 * 256 * 4}, {transfer["bytes"] for transfer in fc7["reduction"]})
        self.assertRegex(self.plan(*words), r"(?m)^fc7 +{n=1, c=1, h=1, w=1, r=16} +16 ")
        self.assertIn("partial sums", self.plan(*words, "--html"))
        self.assertNotIn("partial sums", self.plan(*ALEXNET, "--html"))

    def test_halos_of_divided_images(self):
        document = self.planned("plan", "vgg16", "--machine", "k20x8", "--batch", "8", "--json", "--boxes",
                                        "--pin", "conv1_1=h2w2", "--pin", "conv1_2=h2w2")
        needs = document["layers"][1]["inputs"][0]["needs"]
        self.assertEqual([([0, 1], [0, 1]), ([0, 1], [1, 0]), ([1, 0], [0, 1]), ([1, 0], [1, 0])],
                         [(need["halo_h"], need["halo_w"]) for need in needs])
        self.assertEqual([0, 113], needs[0]["h"])

    def test_a_graph_for_graphviz(self):
        text = self.plan(*ALEXNET, "--dot")
        self.assertTrue(text.startswith('digraph "alexnet" {\n') and text.endswith("}\n"))
        self.assertEqual((11, 10), (text.count("fillcolor="), text.count(" -> ")))
        self.assertIn('l0 [label="conv1\\n512x64x55x55\\nn8c2", fillcolor="#', text)

    def test_the_next_best_layouts_and_those_of_less_memory(self):
        text = self.plan(*ALEXNET, "--best", "5", "--frontier", "4")
        best, frontier = text.split("\n\n")[-2:]
        rows = [line.split(None, 2) for line in best.splitlines()[1:]]
        self.assertEqual(["1", "2", "3", "4", "5"], [row[0] for row in rows])
        totals = [float(row[1]) for row in rows]
        self.assertEqual(sorted(totals), totals)
        self.assertEqual(5, len({row[2] for row in rows}))
        self.assertEqual("-", rows[0][2])
        deepa = next(line.split() for line in text.splitlines() if line.startswith("deepa "))
        self.assertAlmostEqual(float(deepa[1]), totals[0], delta=totals[0] * 1e-3)
        points = [line.split(None, 3) for line in frontier.splitlines()[1:]]
        units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
        memory = [float(point[0]) * units[point[1]] for point in points]
        self.assertEqual(sorted(memory, reverse=True), memory)
        self.assertEqual(sorted(float(point[2]) for point in points), [float(point[2]) for point in points])
        self.assertAlmostEqual(totals[0], float(points[0][2]), delta=totals[0] * 1e-5)

    def test_unknown_operators_pass_by_request(self):
        self.write("net.prototxt", UNHEARD_NET)
        self.assertIn("\nconv ", self.plan("plan", "net.prototxt", "--machine", "k80x16", "--batch", "16", "--pass-through"))

    def test_images_of_a_training_file_can_be_given(self):
        self.write("train_val.prototxt", TRAINING_NET)
        plan = ["plan", "train_val.prototxt", "--machine", "k80x16", "--batch", "64"]
        self.assertIn("\nconv ", self.plan(*plan, "--input", "1x28x28"))
        result = self.run_command("spatial", "h2", "--net", "train_val.prototxt", "--batch", "64", "--input", "1x28x28")
        self.assertRegex(result.stdout, r"(?m)^data +input +64x1x28x28 ")

    def test_memory_can_be_limited(self):
        free = self.planned(*ALEXNET, "--json")["strategies"][-1]
        limit = free["memory_bytes"] - 1
        document = self.planned(*ALEXNET, "--json", "--memory-limit", str(limit))
        limited = document["strategies"][-1]
        self.assertEqual(limit, document["memory_limit_bytes"])
        self.assertLessEqual(limited["memory_bytes"], limit)
        self.assertGreater(limited["total_ms"], free["total_ms"])
        self.assertEqual({None}, {row["best_total_ms"] for layer in document["layers"] for row in layer["what_if"]})
        self.assertEqual(free, self.planned(*ALEXNET, "--json", "--memory-limit", "device")["strategies"][-1])
        self.assertIn("deepa is optimal: no layout within the memory limit", self.plan(*ALEXNET, "--memory-limit", "8GiB"))
        big = self.plan("plan", "vgg16", "--machine", "k80x16", "--batch", "8192")
        self.assertRegex(big, r"(?m)^deepa needs [0-9.]+ GiB on a device, which has 12 GiB: --memory-limit device")

    def test_documents_go_to_files(self):
        for kind, start in (("--json", "{"), ("--dot", "digraph"), ("--html", "<!DOCTYPE html>")):
            self.assertEqual("", self.plan(*ALEXNET, kind, "-o", "out"))
            self.assertTrue(self.read("out").startswith(start), kind)

    def test_costs_that_were_measured(self):
        # Measurements of AlexNet's conv2. With 192 filters, 16 images take 7 ms in 8 MiB, and 8 images 5 ms in 4 MiB.
        # With 96 filters, which is half of conv2's output channels, 16 images take 4 ms.
        for n, k, *measured in ((16, 192, 7, 8 << 20), (8, 192, 5, 4 << 20), (16, 96, 4, 1 << 20)):
            for op in ("forward", "backward_data", "backward_filter"):
                self.import_rows(measurements(f"64,27,27,{k},5,5,2,2", [("legacy:1", n, *measured)], op, "91900,13000,Toy"))
        words = ["plan", "alexnet", "--machine", "k20x8", "--batch", "128", "--db", self.store]

        def conv2(*more):
            document = self.planned(*words, "--json", *more)
            rows = document["layers"][2]["what_if"]
            self.assertEqual(("conv2", "measured"), (document["layers"][2]["name"], document["cost"]))
            self.assertIn("on Toy, ", document["measured"])
            return {tuple(row[axis] for axis in "nchw"): row["compute_ms"] for row in rows if row["measured"]}

        # If the images are divided into n parts, a device has 128 / n images, which are 8 / n batches of 16. Each of 3
        # operations takes 7 ms for a batch, or 4 ms with half of the channels.
        whole = {(n, 1, 1, 1): 8 // n * 21 for n in (8, 4, 2, 1)}
        halves = {(n, 2, 1, 1): 8 // n * 12 for n in (4, 2, 1)}
        self.assertEqual(whole | halves, conv2("--device", "Toy"))
        self.assertEqual(whole | halves, conv2("--cost", "measured"))
        slower = {(n, 1, 1, 1): 8 // n * 30 for n in (8, 4, 2, 1)}
        self.assertEqual(slower | halves, conv2("--cost", "measured", "--workspace-limit", "4MiB"))
        text = self.plan(*words, "--cost", "measured")
        self.assertRegex(text, r"costs: measured, .*\nmeasured on Toy, 7 of \d+ configurations of convolutions; others: roofline\n")

    def test_a_network_is_written_as_a_file_that_is_planned_alike(self):
        self.plan("net", "resnet18-v2", "-o", "net.json")
        net = self.load("net.json")
        self.assertEqual(("ucudnn-net", 1, "resnet18-v2"), tuple(net[k] for k in ("format", "version", "name")))
        words = ["--machine", "k20x8", "--batch", "32", "--schedule"]
        self.assertEqual(self.plan("plan", "resnet18-v2", *words), self.plan("plan", "net.json", *words))
        self.assertEqual(self.plan("net", "net.json"), self.plan("net", "resnet18-v2"))

    def test_a_schedule_is_what_its_format_says(self):
        words = ["plan", "resnet18-v2", "--machine", "k20x8", "--batch", "32", "--update", "owner"]
        schedule = self.planned(*words, "--schedule")
        self.assertEqual(("ucudnn-schedule", 1, "resnet18-v2", 32, 8, "owner", [4, 2]),
                         tuple(schedule[k] for k in ("format", "version", "name", "batch", "devices", "update", "levels")))
        nodes = {node["name"]: node for node in schedule["nodes"]}
        text = ""
        for node in schedule["nodes"]:
            self.assertTrue(all(name in nodes for name in node["inputs"]), node["name"])
            trained = sum(math.prod(parameter["shape"]) for parameter in node.get("parameters", []))
            image = "x".join(map(str, node["shape"][1:]))
            text += "\t".join((node["name"], node["op"], ",".join(node["inputs"]), image, str(trained))) + "\n"
            if "config" in node:
                covered = sum(math.prod(box[axis][1] - box[axis][0] for axis in "nchw") for box in node["boxes"])
                self.assertEqual(math.prod(node["shape"]), covered, node["name"])
        digest = 0xcbf29ce484222325
        for byte in text.encode():
            digest = (digest ^ byte) * 0x100000001b3 % 2 ** 64
        self.assertEqual(f"{digest:016x}", schedule["network"])

        elements = schedule["elements"]
        self.assertEqual(elements["transfer"], 2 * sum(exchange["elements"] for exchange in schedule["exchanges"]))
        self.assertEqual(elements["update"], sum(2 * (len(one["devices"]) - 1) * one["elements"] for one in schedule["sums"]))
        layout = self.planned(*words, "--json")
        deepa = next(strategy for strategy in layout["strategies"] if strategy["name"] == "deepa")
        self.assertEqual((deepa["transfer_bytes"], deepa["update_bytes"]), (4 * elements["transfer"], 4 * elements["update"]))
        self.assertEqual([["forward", nodes[name]["name"]] for name in nodes if nodes[name]["inputs"]],
                         [step for step in schedule["order"] if step[0] == "forward"])

    def test_devices_move_and_keep_what_the_format_lets_them(self):
        pins = ("--pin", "layer1.0.conv1=n2r4", "--pin", "layer2.0.conv1=c2h2r2", "--uneven", "--placements")
        alexnet = ("alexnet", "--machine", "k20x8", "--batch", "64", "--strategy", "owt")
        for words in (("resnet18", "--machine", "k20x8", "--batch", "18", *pins),
                      ("resnet18", "--machine", "k20x8", "--batch", "18", *pins, "--update", "hierarchical"),
                      ("vgg16", "--machine", "p100x4x4", "--batch", "64", "--update", "hierarchical"),
                      alexnet, (*alexnet, "--scheme", "b"), (*alexnet, "--scheme", "c", "--passes", "3")):
            schedule = self.planned("plan", *words, "--schedule")
            counted = Counted(schedule).devices
            self.assertEqual(schedule["elements"]["by_device"], counted, words)
            for kind in ("transfer", "update", "statistics", "labels"):
                self.assertEqual(schedule["elements"][kind], sum(device[kind][0] for device in counted), (words, kind))

    def test_the_largest_schedule_of_the_paper_is_small(self):
        text = self.plan("plan", "inception-v3", "--machine", "k80x16", "--batch", "512", "--schedule")
        self.assertLess(len(text), 1 << 20)

    def test_owts_passes_are_scheduled(self):
        once = self.planned(*OWT)
        self.assertNotIn("passes", once)
        for scheme, first in (("b", [[0, 32]]), ("c", [[32 * worker, 32 * worker + 2] for worker in range(16)])):
            schedule = self.planned(*OWT, "--scheme", scheme, "--update-every", "pass")
            passes = schedule["passes"]
            self.assertEqual((scheme, "pass", 16, first),
                             (passes["scheme"], passes["update_every"], len(passes["images"]), passes["images"][0]))
            self.assertEqual("fc6", passes["nodes"][0])
            backward = [step for step in schedule["order"] if step[0] == "backward"]
            self.assertEqual([["backward", number] for number in range(16)], backward)
            self.assertEqual(once["elements"]["transfer"], schedule["elements"]["transfer"])

    def test_one_device_has_the_whole(self):
        words = ["plan", "alexnet", "--machine", self.machine("one", 1), "--batch", "6"]
        self.assertIn("alexnet, batch 6, on one (1 device); costs: roofline", self.plan(*words))
        self.assertIn("one, 1 device<", self.plan(*words, "--html"))
        self.assertRegex(self.plan(*words, "--simulate"), r"a step of deepa, modelled: ([\d.]+ ms) with overlap, \1 without")
        for strategy in (["deepa"], ["owt", "--scheme", "c"]):
            schedule = self.planned(*words, "--strategy", *strategy, "--schedule")
            self.assertEqual(([], [], 0), (schedule["exchanges"], schedule["sums"], schedule["elements"]["transfer"]))
            for node in schedule["nodes"]:
                self.assertEqual([{"device": 0} | {axis: [0, extent] for axis, extent in zip("nchw", node["shape"])}],
                                 [{key: box[key] for key in ("device", *"nchw"[:len(node["shape"])])} for box in node["boxes"]])

    def test_a_step_is_simulated(self):
        text = self.plan(*ALEXNET, "--simulate")
        self.assertIn("update: owner", text)
        found = re.search(r"a step of deepa, modelled: ([\d.]+) ms with overlap, ([\d.]+) ms without, "
                          r"([\d.]+) ms as equation 1", text)
        overlapped, alone, added = (float(number) for number in found.groups())
        self.assertLess(overlapped, alone)
        self.assertLess(overlapped, added)
        row = next(line for line in text.splitlines() if line.startswith("deepa "))
        self.assertAlmostEqual(float(row.split()[1]), added, delta=0.005)
        text = self.plan(*ALEXNET, "--simulate", "--cost", "deepa-paper")
        self.assertIn("costs: deepa-paper, update: parameter-server, executed as owner", text)


if __name__ == "__main__":
    unittest.main()
