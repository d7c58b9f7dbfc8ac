"""Tests parallel.describe: every operator of a model becomes a node with the right shape, named after its module, and
the planner can read the network. An operator without a rule is refused with an error that names it."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import gloo

gloo.need("torch")
sys.path.insert(0, str(gloo.ROOT / "python"))
import schedules  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from ucudnn import parallel  # noqa: E402
from ucudnn.parallel import boxes as b  # noqa: E402
from ucudnn.parallel import comparing  # noqa: E402
from ucudnn.parallel.operators import Call, compute  # noqa: E402
from ucudnn.parallel.reading import network_in  # noqa: E402

COMMAND = os.environ.get("UCUDNN_TEST_COMMAND")
TORCHVISION = {"alexnet": (23, 61100840), "vgg11": (31, 132863336), "resnet18": (70, 11689512), "densenet121": (432, 7978856),
               "mobilenet_v3_small": (None, 2542856), "efficientnet_b0": (None, 5288548), "convnext_tiny": (None, 28589128)}


class Branches(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.conv, self.relu = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(inplace=True)
        self.run = forward

    def forward(self, x):
        return self.run(self, x)


def network(forward, shape=(3, 8, 8), **arguments):
    return parallel.describe(Branches(forward), shape, **arguments)


class Describe(unittest.TestCase):
    def test_TorchvisionNets_HaveAllParameters(self):
        gloo.need("torchvision")
        import torchvision
        for name, (count, parameters) in TORCHVISION.items():
            with torch.device("meta"):
                model = getattr(torchvision.models, name)()
            found = parallel.describe(model, (3, 224, 224))
            self.assertEqual(parameters, sum(parameter.elements for parameter in found.parameters.values()), name)
            self.assertEqual(set(dict(model.named_parameters())), set(found.parameters), name)
            self.assertEqual(count or len(found.nodes), len(found.nodes), name)
            self.assertEqual((1000, 1, 1), found.by_name[found.outputs[0].node].shape, name)

    def test_Inception_HasItsAuxiliaryHeadOnRequest(self):
        gloo.need("torchvision")
        import torchvision
        for with_head, parameters in ((True, 27161264), (False, 23834568)):
            with torch.device("meta"):
                model = torchvision.models.inception_v3(aux_logits=with_head, init_weights=False)
            found = parallel.describe(model, (3, 299, 299))
            self.assertEqual(parameters, sum(parameter.elements for parameter in found.parameters.values()))
            self.assertEqual(["fc", "AuxLogits.fc"][:1 + with_head], [output.node for output in found.outputs])

    def test_ASecondUse_IsANodeOfItsOwn(self):
        found = network(lambda m, x: m.relu(m.conv(x) + m.relu(m.conv(x) * 2)))
        self.assertEqual(["x", "conv", "conv@1", "mul", "relu", "add", "relu@1"], [node.name for node in found.nodes])
        text = json.loads(found.text())["nodes"]
        self.assertEqual([[0, 1], [0, 1]],
                         [[p["tensor"] for p in node["parameters"]] for node in text if "conv" in node["name"]])

    def test_AWriteInPlace_IsReadByWhoeverReadsTheTensorLater(self):
        def forward(m, x):
            y = m.conv(x)
            z = m.relu(y)  # writes into y
            return y + z
        found = network(forward)
        self.assertEqual(("relu", "relu"), found.by_name["add"].inputs)

    def test_AWriteThroughAView_IsRefused(self):
        def forward(m, x):
            y = m.conv(x)
            torch.relu_(y.flatten(1))
            return y
        with self.assertRaisesRegex(parallel.NotSupported, "writes into a view of conv, which is read again"):
            network(forward)

    def test_AViewThatNamesTheBatch_IsFlatten(self):
        found = network(lambda m, x: m.conv(x).view(x.size(0), -1))
        self.assertEqual(["x", "conv", "flatten"], [node.name for node in found.nodes])
        with self.assertRaisesRegex(parallel.NotSupported, "mixes images"):
            network(lambda m, x: m.conv(x).view(-1, 4 * 8))

    def test_FeaturesOfVolumes_AreThoseOfImages(self):
        found = parallel.describe(nn.Sequential(nn.Conv3d(2, 3, 1), nn.Flatten(), nn.Linear(24, 5)), (2, 2, 2, 2))
        self.assertEqual([(2, 2, 2, 2), (3, 2, 2, 2), (24, 1, 1), (5, 1, 1)], [node.shape for node in found.nodes])

    def test_Normalizations_AreOneOperator(self):
        model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4), nn.LayerNorm([4, 8, 8], elementwise_affine=False), nn.Flatten(),
                              nn.Linear(256, 6), nn.LayerNorm(6, bias=False), nn.GroupNorm(3, 6))
        found = parallel.describe(model, (3, 8, 8))
        norms = [(node.name, node.members) for node in found.nodes if node.op == "group_normalization"]
        self.assertEqual([("1", {"groups": 2, "scale_and_shift": True}), ("2", {"scale_and_shift": False}),
                          ("5", {"by_position": True, "scale_and_shift": False}), ("6", {"groups": 3, "scale_and_shift": True})],
                         norms)
        scale = found.by_name["5@1"]
        self.assertEqual(("scale", ("5",), {"scale": True, "shift": False}, ("5.weight",)),
                         (scale.op, scale.inputs, scale.members, scale.parameters))

    def test_DropoutOfChannelsAndImages_ComesBackFromTheFile(self):
        class Dropping(Branches):
            def __init__(self):
                super().__init__(None)
                self.element, self.channel = nn.Dropout(0.5), nn.Dropout2d(0.5)

            def forward(self, x):
                y = self.channel(self.element(self.conv(x)))
                return y * y.new_empty(y.shape[0], 1, 1, 1).bernoulli_(0.5).div_(0.5)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "net.json")
            found = parallel.describe(Dropping(), (3, 8, 8))
            file.write_text(found.text())
            built = parallel.module(file)
        self.assertEqual([{"rate": 0.5}, {"rate": 0.5, "per": "channel"}, {"rate": 0.5, "per": "image"}],
                         [node.members for node in found.nodes if node.op == "dropout"])
        self.assertEqual(found.hash(), built.network.hash())
        box = b.whole((4, 8, 8), 16)

        def dropped(network, place):
            node = network.nodes[place]
            return compute(Call(node, box, [torch.ones(16, 4, 8, 8)], [box], [node.shape], [], 16, True, seed=7, step=3,
                                place=place))
        for place, node in enumerate(found.nodes):
            if node.op == "dropout":
                self.assertTrue(torch.equal(dropped(found, place), dropped(built.network, place)), node.name)
        values = built(torch.rand(16, 3, 8, 8))
        self.assertTrue(any(0 < image.count_nonzero() for image in values) and
                        any(image.count_nonzero() == 0 for image in values))
        with self.assertRaisesRegex(parallel.NotSupported, "'per': 'batch'; expected one of element, channel, image"):
            network_in(found.text().replace('"image"', '"batch"'))

    def test_FrozenLayers_ArePredictedByThePlanAndByTheExecutorAlike(self):
        if not COMMAND:
            self.skipTest("UCUDNN_TEST_COMMAND names no command")
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1),
                              nn.BatchNorm2d(8), nn.Conv2d(8, 4, 1), nn.Flatten(), nn.Linear(256, 5))
        counted = []
        with tempfile.TemporaryDirectory() as folder:
            machine, file, plan = (pathlib.Path(folder, name) for name in ("machine.json", "net.json", "plan.json"))
            machine.write_text(schedules.machine(2))
            for frozen in (0, 1, 2, 4, 5):
                for module in model[:frozen]:
                    module.requires_grad_(False)
                file.write_text(parallel.describe(model, (3, 8, 8)).text())
                pins = [word for layer in ("0=n2", "3=h2", "5=c2", "7=n2") for word in ("--pin", layer)]
                told = subprocess.run([COMMAND, "plan", file, "--machine", machine, "--batch", "4", "--schedule", *pins],
                                      capture_output=True, text=True)
                self.assertEqual("", told.stderr)
                plan.write_text(told.stdout)
                devices = json.loads(told.stdout)["elements"]["by_device"]
                for report, one in zip(parallel.count(model, str(plan), range(2)), devices):
                    self.assertEqual(0, report.difference(), str(report))
                    for kind in ("transfer", "update", "statistics"):
                        pairs = report.predicted.get(kind, {}).values()
                        self.assertEqual(one[kind], [sum(pair[place] for pair in pairs) for place in (0, 1)], (frozen, kind))
                counted.append(sum(one["transfer"][0] + one["statistics"][0] for one in devices))
        # Freezing only a convolution changes no count, because the trained normalization after it still needs a
        # gradient.
        all_trained, first, second = sorted(set(counted), reverse=True)
        self.assertEqual([all_trained, all_trained, first, first, second], counted)

    def test_NamedLosses_AreNodes(self):
        found = parallel.describe(nn.Sequential(nn.Flatten(), nn.Linear(192, 4)), (3, 8, 8), loss=nn.BCEWithLogitsLoss())
        self.assertEqual(("loss", "logistic_loss", ("1",), 2),
                         (*[(node.name, node.op, node.inputs) for node in found.nodes][-1], found.outputs[0].dims))
        self.assertEqual("loss", found.outputs[0].node)
        plain = parallel.describe(nn.Sequential(nn.Flatten(), nn.Linear(192, 4)), (3, 8, 8), loss=lambda y, t: y.mean())
        self.assertEqual("1", plain.outputs[0].node)
        with self.assertRaisesRegex(parallel.NotSupported, "2 losses of a model with 1 outputs"):
            network(lambda m, x: m.conv(x).flatten(1), loss=["cross_entropy", "logistic"])

    def test_WhatHasNoRule_IsNamed(self):
        with self.assertRaisesRegex(parallel.NotSupported, "Branches: torch.ops.aten.fft_fft2 has no rule"):
            network(lambda m, x: torch.fft.fft2(m.conv(x)).real)
        with self.assertRaisesRegex(parallel.NotSupported, "cannot be exported"):
            network(lambda m, x: m.conv(x) if x.sum() > 0 else x)
        with self.assertRaisesRegex(parallel.NotSupported, r"^1: BatchNorm2d\(momentum=None\), .*; a number is expected"):
            parallel.describe(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, momentum=None)), (3, 4, 4))

    def test_AnArgumentWithoutARule_IsNamedWithItsValue(self):
        buffers, f = {}, nn.functional
        for forward, message in (
                (lambda m, x: f.pad(m.conv(x), (1, 1, 1, 1), mode="reflect"), "aten.pad: mode='reflect' has no rule; 'constant' is"),
                (lambda m, x: m.conv(x).softmax(1, dtype=torch.float64), "aten.softmax: dtype=torch.float64 has no rule; None is"),
                (lambda m, x: f.dropout(m.conv(x), 0.5), "aten.dropout: training=True in a module whose `training` is False"),
                (lambda m, x: f.batch_norm(m.conv(x), buffers["mean"], buffers["variance"]), "aten.batch_norm: training=False in a"),
                (lambda m, x: f.interpolate(m.conv(x), scale_factor=2.1, recompute_scale_factor=False), r"by the factors \[2.1, 2.1\]"),
                (lambda m, x: f.adaptive_max_pool2d(m.conv(x), 1, return_indices=True), "result 1 of aten.adaptive_max_pool2d"),
                (lambda m, x: m.conv(x) + m.conv(x).mean((2, 3), True), r"a sum of shapes \(4, 4, 4\) and \(4, 1, 1\) .*are expected"),
                (lambda m, x: m.conv(x).mean(1), "a mean over dimensions .1. of nchw: over all positions, which are .2, 3., is"),
                (lambda m, x: f.max_pool2d(m.conv(x), 2, 1, 0, 2), "pooling with dilation=.2, 2.: 1 is expected"),
                (lambda m, x: f.rrelu(m.conv(x)), "aten.rrelu has no rule"),
                (lambda m, x: m.conv(x).double(), "a conversion of torch.float32 to torch.float64"),
                (lambda m, x: m.conv(x) / (buffers["variance"].view(4, 1, 1) + 1), "its input is the buffer 'variance', which no"),
                (lambda m, x: f.batch_norm(m.conv(x), buffers["mean"], buffers["variance"], training=m.training) -
                 buffers["mean"].view(4, 1, 1), "batch_normalization: its statistics mean scale or shift another layer, too"),
                (lambda m, x: m.conv(x) * buffers["count"].add_(1), "aten.add_ writes into the buffer 'count'")):
            model = Branches(forward)
            buffers |= {"mean": torch.zeros(4), "variance": torch.ones(4), "count": torch.zeros(())}
            for name, value in buffers.items():
                model.register_buffer(name, value)
            model.run = lambda m, x: (buffers.update(m.named_buffers()), forward(m, x))[1]
            with self.assertRaisesRegex(parallel.NotSupported, message):
                parallel.describe(model, (3, 4, 4))

    def test_FunctionsOfOneNumber_AreActivations(self):
        f = nn.functional
        for forward in (lambda x: x.clip(-1, 1), torch.erf, lambda x: f.threshold(x, 0.1, 2.0), lambda x: f.threshold_(x, 0.1, 2.0),
                        lambda x: 2**x, lambda x: torch.nan_to_num(x, 0.0), torch.atan, lambda x: x.fmod(0.3), torch.floor):
            found = network(lambda m, x: forward(m.conv(x))).nodes[2:]
            self.assertEqual([("activation", "other")], [(node.op, node.members["kind"]) for node in found])
        for forward in (lambda x: x.swapaxes(1, 3).movedim((1, 3), (3, 1)), lambda x: x.swapdims(-1, 1).moveaxis(3, 1).swapdims(2, 3)):
            self.assertEqual(["x", "conv"], [node.name for node in network(lambda m, x: forward(m.conv(x))).nodes])

    def test_AParameterThatAllChannelsShare_IsWholeInEveryPart(self):
        with self.assertRaisesRegex(parallel.NotSupported, r"the parameter 'gate' without dimensions: one of shape \(1,\) is expected"):
            model = Branches(lambda m, x: m.conv(x) * m.gate)
            model.gate = nn.Parameter(torch.tensor(1.0))
            parallel.describe(model, (3, 4, 4))
        for layer in (nn.PReLU(), nn.PReLU(4)):
            node = parallel.describe(nn.Sequential(nn.Conv2d(3, 4, 1), layer), (3, 4, 4)).nodes[-1]
            self.assertEqual(("opaque", ("1.weight",), {"kind": "prelu", "channels": 4, "extents": [4, 4], "rows": True, "columns": True}),
                             (node.op, node.parameters, node.members))

    def test_AnIdentityOfTheForwardPassThatChangesGradients_IsRefused(self):
        def without_gradients(m, x):
            with torch.no_grad():
                return m.conv(x)
        with self.assertRaisesRegex(parallel.NotSupported, "aten.detach of conv, where gradients end; requires_grad_"):
            network(lambda m, x: m.conv(x).detach().relu())
        with self.assertRaisesRegex(parallel.NotSupported, "Branches: torch.no_grad, where gradients end: requires_grad_"):
            network(without_gradients)

    def test_ABackwardPassThatTheExportDoesNotShow_IsCompared(self):
        class Clamp(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, is_straight):
                ctx.save_for_backward(x)
                ctx.is_straight = is_straight
                return x.clamp(-0.5, 0.5)

            @staticmethod
            def backward(ctx, gradient):
                return gradient * (1 if ctx.is_straight else ctx.saved_tensors[0].abs() <= 0.5), None

        def hooked(m, x):
            y = nn.functional.dropout(m.conv(x), 0.5, m.training)
            if y.requires_grad:
                y.register_hook(lambda gradient: gradient / 10)
            return y

        class Scaled(nn.Module):
            def forward(self, x):
                return x * (2.0 if torch.compiler.is_compiling() else 3.0)
        for least in (comparing.LARGE, 1):
            with mock.patch.object(comparing, "LARGE", least):
                network(lambda m, x: Clamp.apply(m.conv(x), False))
                for wrong in (lambda m, x: Clamp.apply(m.conv(x), True), hooked):
                    with self.assertRaisesRegex(parallel.NotSupported, "the gradient of conv.weight has the norm"):
                        network(wrong)
        with self.assertRaisesRegex(parallel.NotSupported, "output 0 in training has the norm"):
            parallel.describe(nn.Sequential(nn.Conv2d(3, 4, 1), Scaled()), (3, 4, 4))

    def test_AViewOfAVector_ScalesChannels(self):
        found = network(lambda m, x: m.conv(x) * m.conv.bias.reshape(1, -1, 1, 1) + m.conv.bias.unsqueeze(-1).unsqueeze(-1))
        scales = [node for node in found.nodes if node.op == "scale"]
        self.assertEqual([(["conv.bias"], True), (["conv.bias"], False)],
                         [(list(node.parameters), node.members["scale"]) for node in scales])
        for wrong, message in ((lambda m, x: x * m.conv.bias[:3].reshape(1, 3, 1, 1), "aten.slice"),
                               (lambda m, x: nn.functional.avg_pool2d(m.conv(x), 2) * m.conv.bias.reshape(4, 1), "one number a channel is expected"),
                               (lambda m, x: x * m.conv.bias.reshape(2, 2)[0, 0], "conv.bias, which is no vector"),
                               (lambda m, x: x * m.conv.weight.reshape(-1)[0], "conv.weight, which is no vector"),
                               (lambda m, x: nn.functional.conv2d(x, m.conv.weight, m.conv.bias.reshape(4)) * m.conv.bias.reshape(4, 1, 1),
                                "a view of a parameter")):
            with self.assertRaisesRegex(parallel.NotSupported, message):
                network(wrong)

    def test_UnusedParameters_AreNamed(self):
        with self.assertRaisesRegex(parallel.NotSupported, "parameters that no layer reads: conv.weight, conv.bias"):
            network(lambda m, x: m.relu(x))

    def test_TrainingModes_AreLeftAsTheyAre(self):
        model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU())
        model[1].eval()
        parallel.describe(model, (3, 4, 4))
        self.assertEqual([True, True, False, True], [module.training for module in model.modules()])

    def test_TheCommand_WritesAFileThatThePlannerReads(self):
        if not COMMAND:
            self.skipTest("UCUDNN_TEST_COMMAND names no command")
        gloo.need("torchvision")
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/net.json"
            subprocess.run([
                sys.executable, "-m", "ucudnn.parallel", "describe", "torchvision.models:alexnet", "--input", "3x224x224", "--loss",
                "cross_entropy", "-o", file
            ],
                           check=True,
                           env=os.environ | {"PYTHONPATH": str(gloo.ROOT / "python")})
            told = subprocess.run([COMMAND, "plan", file, "--machine", "k80x16", "--batch", "128"],
                                  capture_output=True,
                                  text=True,
                                  check=True).stdout
            self.assertIn("classifier.6", told)
            self.assertEqual({"name": "loss", "op": "cross_entropy", "inputs": ["classifier.6"]},
                             json.loads(pathlib.Path(file).read_text())["nodes"][-1])

    def test_TheCommand_BuildsWhatReadsItsWeights_AndRefusesInOneLine(self):
        program = """
import torch
def reading():
    return torch.nn.Conv2d(3, int(torch.ones(4).sum().item()), 1)
def failing():
    return torch.nn.Linear(1 // 0, 1)
"""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "program.py").write_text(program)
            told = [subprocess.run([sys.executable, "-m", "ucudnn.parallel", "describe", f"program:{name}", "--input", "3x4x4"],
                                   cwd=folder, capture_output=True, text=True,
                                   env=os.environ | {"PYTHONPATH": f"{gloo.ROOT / 'python'}:{folder}", "PYTHONDONTWRITEBYTECODE": "1"})
                    for name in ("reading", "failing")]
        self.assertEqual(4, json.loads(told[0].stdout)["nodes"][-1]["filters"], told[0].stderr)
        self.assertEqual((1, "ucudnn.parallel: program:failing: integer division or modulo by zero\n"),
                         (told[1].returncode, told[1].stderr))


if __name__ == "__main__":
    unittest.main()
