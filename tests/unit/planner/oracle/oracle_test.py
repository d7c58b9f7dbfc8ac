"""Tests the oracle itself: its ONNX nets are valid, their numbers equal those of onnx.reference where onnx.reference is
right, and the oracle finds a reader's faults."""

import copy
import random
import unittest
import warnings

import numpy
import onnx
from onnx.reference import ReferenceEvaluator

import caffe_nets
import check
import onnx_nets
from dump import Wrong
from net import Net
from steps import recipe_of

# Features with which onnx.reference 1.23 refuses nets or computes them wrongly (reference.py says why).
OTHERWISE = {"BatchNormalization", "LRN", "ConvTranspose", "Upsample", "Resize", "Pad", "MaxPool", "AveragePool",
             "Constant.sparse_value"}


class Nets(unittest.TestCase):
    def test_onnx_accepts_every_net(self):
        for seed in range(300):
            onnx.checker.check_model(onnx_nets.make(recipe_of(seed)).model)

    def test_a_net_follows_from_its_recipe(self):
        for make in (onnx_nets.make, caffe_nets.make):
            one, other = make(recipe_of(7)), make(recipe_of(7))
            self.assertEqual(one.parameters, other.parameters)
            self.assertEqual(str(getattr(one, "model", None) or one.text), str(getattr(other, "model", None) or other.text))

    def test_numbers_are_those_of_onnx_reference(self):
        compared = 0
        for seed in range(250):
            made = onnx_nets.make(recipe_of(seed))
            net = made.net
            softmax = net.features & {"Softmax", "LogSoftmax"} and net.opset < 13
            function = net.opset < 12 and any(n.op_type == "Constant" for n in net.nodes)
            if net.features & OTHERWISE or softmax or function or net.batch == 1:
                continue
            model = copy.deepcopy(made.model)
            names = [n for n in net.order if n not in net.inputs]
            del model.graph.output[:]
            model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
            for name, values in zip(names, ReferenceEvaluator(model).run(names, {n: net[n].at[0] for n in net.inputs})):
                self.assertEqual(values.shape, net[name].at[0].shape, (seed, name))
                numpy.testing.assert_allclose(values, net[name].at[0], rtol=1e-4, atol=1e-4, err_msg=f"{seed} {name}")
            compared += 1
        self.assertGreater(compared, 50)


def convolution():
    """Returns (net, dump) of a padded convolution of [2, 2, 4, 4] with a bias. Each half of y's rows needs its own rows of x
    and one row of the other half."""
    net = Net(17, None, random.Random(1))
    x = net.data((2, 4, 4))
    y = net.add("Conv", [x, net.weight(3, 2, 3, 3), net.weight(3)], pads=[1, 1, 1, 1])
    upper, lower = [[0, 2], [0, 2], [0, 1], [0, 3], [0, 4]], [[0, 2], [0, 2], [0, 1], [1, 4], [0, 4]]
    parts = [[[0, 2], [0, 3], [0, 1], rows, [0, 4]] for rows in ([0, 2], [2, 4])]
    axes = lambda c: [[["n", 2, 1]], [["c", c, 1]], [["h", 4, 1]], [["w", 4, 1]]]
    return net, y, {
        "parameters": 57,
        "nodes": [{"name": "x", "op": "input", "inputs": [], "shape": [2, 2, 1, 4, 4], "parameters": 0, "parts": {}},
                  {"name": "y", "op": "convolution", "inputs": [0], "shape": [2, 3, 1, 4, 4], "parameters": 57,
                   "parts": {"h": 2}, "needed": {"h": {"parts": 2, "output": parts, "inputs": [[upper, lower]]}}}],
        "tensors": {x: {"node": 0, "axes": axes(2)}, y: {"node": 1, "axes": axes(3)}}}


class Faults(unittest.TestCase):
    """Tests that a correct dump passes, and that each fault in a dump is reported by its kind."""

    def kind(self, change):
        net, y, dump = convolution()
        change(dump, y)
        case = check.Onnx(onnx_nets.Made(None, net, (y,), net.model([y], True), 57))
        try:
            check.check(case, dump, 0, (), numpy.random.default_rng(1), 9)
        except Wrong as wrong:
            return wrong.kind
        return None

    def test_a_right_dump_passes(self):
        self.assertIsNone(self.kind(lambda dump, y: None))

    def test_a_row_too_few(self):
        def change(dump, y):
            dump["nodes"][1]["needed"]["h"]["inputs"][0][1][3] = [2, 4]
        self.assertEqual(self.kind(change), "slice h of convolution")

    def test_boxes_that_leave_a_row_out(self):
        def change(dump, y):
            dump["nodes"][1]["needed"]["h"]["output"][1][3] = [3, 4]
        self.assertEqual(self.kind(change), "boxes of convolution")

    def test_an_extent(self):
        def change(dump, y):
            dump["tensors"][y]["axes"][2] = [["h", 3, 1]]
        self.assertEqual(self.kind(change), "shape of convolution")

    def test_axes_that_are_swapped(self):
        def change(dump, y):
            dump["tensors"][y]["axes"][2:] = [[["w", 4, 1]], [["h", 4, 1]]]
        self.assertEqual(self.kind(change), "slice h of convolution")

    def test_two_elements_in_one_place(self):
        def change(dump, y):
            dump["tensors"][y]["axes"][2] = [["w", 4, 1]]
        self.assertEqual(self.kind(change), "factors of convolution")

    def test_parameters(self):
        def change(dump, y):
            dump["parameters"] = dump["nodes"][1]["parameters"] = 54
        self.assertEqual(self.kind(change), "parameters")

    def test_an_input_that_is_left_out(self):
        def change(dump, y):
            dump["nodes"][1]["inputs"] = []
        self.assertEqual(self.kind(change), "inputs of convolution")

    def test_an_output_that_is_not_listed(self):
        self.assertEqual(self.kind(lambda dump, y: dump["tensors"].pop(y)), "a tensor that is not listed")

    def test_a_refusal_of_what_is_to_be_read(self):
        self.assertRegex(self.kind(lambda dump, y: dump.update(error="node y: operator Conv is not known")), "^refused Conv")

    def test_a_refusal_by_name(self):
        self.assertEqual(check.refusal("operator Loop is not read", {"Loop", "Conv"}, ("Loop",)), "Loop")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
