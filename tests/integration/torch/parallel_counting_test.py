"""Compares what the executor's code moves and keeps in memory with the planner's predictions, at the sizes of published
experiments. The executor runs on meta tensors, one rank after the other. All differences must be 0, for each device and
kind."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

import gloo

gloo.need("torch")
sys.path.insert(0, str(gloo.ROOT / "python"))
import schedules  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from ucudnn import parallel  # noqa: E402
from ucudnn.parallel.schedule import read  # noqa: E402

COMMAND = os.environ.get("UCUDNN_TEST_COMMAND")
NETS = os.environ.get("UCUDNN_TEST_NETS",
                      "alexnet vgg16 resnet18 resnet50 resnet18-v2 densenet121 inception-v3 efficientnet-b0").split()
STRATEGIES = {"image": ["--strategy", "image"], "model": ["--strategy", "model"], "deepa": ["--strategy", "deepa"],
              "owt a": ["--strategy", "owt", "--scheme", "a"], "owt b": ["--strategy", "owt", "--scheme", "b"],
              # On 16 devices, each worker has 8 images, divided into 4 passes.
              "owt c": ["--strategy", "owt", "--scheme", "c", "--passes", "4"]}


class Counting(unittest.TestCase):
    def setUp(self):
        if not COMMAND:
            self.skipTest("UCUDNN_TEST_COMMAND names no command")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_command(self, *arguments):
        return subprocess.run([COMMAND, *arguments], capture_output=True, text=True)

    def counted(self, net, devices, strategy):
        file, plan = f"{self.folder.name}/{net}.json", f"{self.folder.name}/plan.json"
        if not os.path.exists(file):
            self.assertEqual(0, self.run_command("net", net, "-o", file).returncode)
        machine = "p100x4x4"
        if devices == 4:
            machine = f"{self.folder.name}/p100x4.json"
            with open(machine, "w") as output:
                output.write(schedules.machine(4))
        told = self.run_command("plan", file, "--machine", machine, "--batch", "128", "--update", "owner", "--schedule",
                                *STRATEGIES[strategy])
        self.assertEqual(0, told.returncode, f"{net} on {devices}, {strategy}: {told.stderr}")
        with open(plan, "w") as output:
            output.write(told.stdout)
        with torch.device("meta"):
            model = parallel.module(file)
        self.compare(model, plan, f"{net} on {devices}, {strategy}")

    def compare(self, model, plan, what, loss=F.cross_entropy):
        schedule = read(plan)
        devices = schedule.elements["by_device"]
        for one, report in zip(devices, parallel.count(model, schedule, [one["device"] for one in devices], loss)):
            self.assertEqual(0, report.difference(), f"{what}:\n{report}")
            for kind in ("transfer", "update", "statistics"):
                pairs = report.counted.get(kind, {}).values()
                self.assertEqual(one[kind], [sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)],
                                 f"{what}, device {one['device']}: {kind}")
            self.assertTrue(report.planned, what)
            for kind in report.planned:
                self.assertEqual(one["memory"][kind], report.kept.get(kind, [0])[0], f"{what}, device {one['device']}: {kind}")

    def test_NormsAreDividedAlongAllAxes(self):
        gloo.need("torchvision")
        from torch import nn
        from torchvision.models.convnext import LayerNorm2d
        model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.GroupNorm(3, 6), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1),
                              LayerNorm2d(6), nn.LayerNorm([6, 8, 8]), nn.Flatten(), nn.Linear(384, 5))
        file, machine, plan = (f"{self.folder.name}/{name}.json" for name in ("net", "machine", "plan"))
        for name, text in ((file, parallel.describe(model, (3, 8, 8)).text()), (machine, schedules.machine(6))):
            with open(name, "w") as output:
                output.write(text)
        for pins, refused in ((("1=c3", "4=h2"), ""), (("1=n2h3", "4=w2"), ""), (("1=c2w3", "4=c2h3"), ""),
                              (("1=c6", "4=c3w2"), ""), (("1=n3h2w1", "4=n2c3"), ""), (("5=n2",), ""), (("5=h2",), "pin '5'"),
                              (("5=c2",), "pin '5'")):
            told = self.run_command("plan", file, "--machine", machine, "--batch", "8", "--update", "owner", "--schedule",
                                    *(f"--pin={pin}" for pin in pins), "--uneven")
            self.assertIn(refused, told.stderr)
            self.assertEqual(bool(refused), bool(told.returncode), told.stderr)
            if not refused:
                with open(plan, "w") as output:
                    output.write(told.stdout)
                self.compare(model, plan, str(pins))

    def test_LossesAreNodesOfTheNetwork(self):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        file, machine, plan = (f"{self.folder.name}/{name}.json" for name in ("net", "machine", "plan"))
        with open(machine, "w") as output:
            output.write(schedules.machine(6))
        for loss, kinds in (("cross_entropy", ["classifier", "loss"]), ("logistic", ["loss"])):
            with open(file, "w") as output:
                output.write(parallel.describe(model, (3, 8, 8), loss=loss).text())
            told = self.run_command("plan", file, "--machine", machine, "--batch", "8", "--update", "owner", "--schedule",
                                    "--pin=2=n2c3")
            self.assertEqual("", told.stderr)
            with open(plan, "w") as output:
                output.write(told.stdout)
            self.assertEqual([("loss", kind) for kind in kinds],
                             [(one.node, one.kind) for one in read(plan).statistics.values()])
            self.compare(model, plan, loss, loss)
            with torch.device("meta"):
                self.compare(parallel.module(file), plan, loss, loss)

    def test_PlansOfBuiltInNetworks_MapToModels(self):
        """The layers of a built-in network and of torchvision's model have the same order. The model also has an
        average pooling of 1 x 1 windows and a flatten, for which no degrees are pinned."""
        gloo.need("torchvision")
        import torchvision
        own, file, plan = (f"{self.folder.name}/{name}.json" for name in ("own", "net", "plan"))
        for name in ("alexnet", "vgg16"):
            arguments = ("--machine", "p100x4x4", "--batch", "64", "--update", "owner", "--schedule")
            self.assertEqual(0, self.run_command("plan", name, *arguments, "-o", own).returncode)
            with torch.device("meta"):
                model = getattr(torchvision.models, name)(**({} if name == "alexnet" else {"init_weights": False}))
            network = parallel.describe(model, (3, 224, 224))
            with open(file, "w") as output:
                output.write(network.text())
            layers = [node.name for node in read(own).nodes.values() if node.is_layer and node.inputs]
            found = [node.name for node in network.nodes if node.op in ("convolution", "pooling", "fully_connected") and
                     node.name != "avgpool"]
            names = dict(zip(layers, found, strict=True))
            told = self.run_command("plan", file, *arguments, *parallel.pins(own, names), "-o", plan)
            self.assertEqual((0, ""), (told.returncode, told.stderr))
            wanted, nodes = read(own), read(plan).nodes
            self.assertEqual({layer: wanted.nodes[layer].degrees for layer in names},
                             {layer: nodes[node].degrees for layer, node in names.items()})
            self.assertEqual(wanted.elements["update"], read(plan).elements["update"])
            self.compare(model, plan, name)
        for names, words in (({"conv9": "features.0"}, "'conv9' is no layer of vgg16; its layers are conv1_1, "),
                             ({"conv1_1": "features.0", "fc6": "features.0"}, "'conv1_1' and 'fc6' are both 'features.0'")):
            with self.assertRaisesRegex(ValueError, re.escape(words)):
                parallel.pins(own, names)
        passes = ("--machine", "p100x4x4", "--batch", "64", "--strategy", "owt", "--scheme", "b", "--schedule", "-o", own)
        self.assertEqual(0, self.run_command("plan", "alexnet", *passes).returncode)
        with self.assertRaisesRegex(parallel.NotSupported, "ucudnn plan --strategy owt --scheme b makes such a plan of the model itself"):
            parallel.pins(own, {"conv1": "features.0"})

    def test_HierarchicalSums_GoLevelByLevel(self):
        """Four nodes of four devices share 96 x 64 weights. With update "hierarchical", each device sums a quarter of
        the weights inside its node: it exchanges a quarter with each other device of the node on the way to the sums,
        and again on the way back (`near`). Between nodes, the four devices that sum the same quarter exchange quarters
        of it in the same way (`far`). Other pairs exchange nothing. With update "owner", each device sums a sixteenth
        of the weights, and every pair exchanges sixteenths (also `far`)."""
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(96, 64, bias=False))
        file, machine, plan = (f"{self.folder.name}/{name}.json" for name in ("net", "machine", "plan"))
        for name, text in ((file, parallel.describe(model, (6, 4, 4)).text()), (machine, schedules.machine(4, 4))):
            with open(name, "w") as output:
                output.write(text)
        near, far = 2 * 96 * 64 // 4, 2 * 96 * 64 // 16
        for update, pair_of in (("hierarchical", lambda a, b: near if a // 4 == b // 4 else far if a % 4 == b % 4 else None),
                                ("owner", lambda a, b: far)):
            told = self.run_command("plan", file, "--machine", machine, "--batch", "32", "--update", update, "--strategy", "image",
                                    "--schedule", "-o", plan)
            self.assertEqual((0, ""), (told.returncode, told.stderr))
            self.compare(model, plan, update)
            for device, report in enumerate(parallel.count(model, plan, range(16))):
                expected = {peer: [pair_of(device, peer)] * 2 for peer in range(16) if peer != device and pair_of(device, peer)}
                self.assertEqual(expected, report.counted["update"], f"{update}, device {device}")
            next(iter(report.counted["update"].values()))[0] += 3
            self.assertEqual(3, report.difference())

    def test_CountsArePredicted(self):
        for net in NETS:
            for devices in (4, 16):
                for strategy in STRATEGIES:
                    self.counted(net, devices, strategy)


if __name__ == "__main__":
    unittest.main()
