"""Tests two blocks of window attention, the second on a rolled image, in a file of batch 2. The elements of tensors must lie
in the planner's nodes as worked out by hand, and each part of a node's output must follow from the input parts that the
planner says it needs.

The image has 8 x 8 positions of 6 channels, a window has 4 x 4, and there are two heads of 3 channels."""

import os
import random
import sys
import tempfile
import unittest

import numpy

import check
import onnx_nets
from dump import dumps
from net import Net

DUMP = os.environ.get("ORACLE_GRAPH_DUMP", "")

# An axis of a tensor is a list of digits, the outermost first: (letter, size, distance from one element to the next).
N, C, H, W = [("n", "batch", 1)], [("c", 6, 1)], [("h", 8, 1)], [("w", 8, 1)]
ROWS, ROW, COLUMNS, COLUMN = [("h", 2, 4)], [("h", 4, 1)], [("w", 2, 4)], [("w", 4, 1)]
HEAD, OF_HEAD = [("c", 2, 3)], [("c", 3, 1)]
WINDOW, PIXEL = N + ROWS + COLUMNS, ROW + COLUMN
EXPECTED = {
    "image": [N, C, H, W], "last": [N, H, W, C], "flat": [N + H + W + C], "back": [N, H, W, C], "image_out": [N, C, H, W]}
for block in ("first", "second"):
    EXPECTED.update({f"{block}_{name}": axes for name, axes in {
        "apart": [N, ROWS, ROW, COLUMNS, COLUMN, C], "windows": [N, ROWS, COLUMNS, ROW, COLUMN, C],
        "tokens": [WINDOW, PIXEL, C], "qkv": [WINDOW, PIXEL, [("c", 18, 1)]],
        "parts": [WINDOW, PIXEL, [("c", 3, 6)], HEAD, OF_HEAD], "heads": [[("c", 3, 6)], WINDOW, HEAD, PIXEL, OF_HEAD],
        "query": [WINDOW, HEAD, PIXEL, OF_HEAD], "key": [WINDOW, HEAD, PIXEL, OF_HEAD],
        "key_transposed": [WINDOW, HEAD, OF_HEAD, PIXEL], "value": [WINDOW, HEAD, PIXEL, OF_HEAD],
        "mixed": [WINDOW, HEAD, PIXEL, OF_HEAD], "beside": [WINDOW, PIXEL, HEAD, OF_HEAD], "merged": [WINDOW, PIXEL, C],
        "projected": [WINDOW, PIXEL, C], "again": [N, ROWS, COLUMNS, ROW, COLUMN, C],
        "joined": [N, ROWS, ROW, COLUMNS, COLUMN, C], "image": [N, H, W, C], "sum": [N, H, W, C]}.items()})
for axis in ("rows", "columns"):
    EXPECTED.update({f"roll_{axis}": [N, H, W, C], f"unroll_{axis}": [N, H, W, C]})
# Tensors that the planner's dump may lack: the ONNX reader may keep them inside a node, or divide the linear layer
# `qkv` into three. If the dump has such a tensor, its places must be those of EXPECTED.
WITHIN = {f"{block}_{name}" for block in ("first", "second") for name in ("qkv", "parts", "heads", "key_transposed", "beside")}
PARAMETERS = 2 * (6 * 18 + 18 + 6 * 6 + 6)


class Named(Net):
    """A net whose tensors get the names that put() is given."""

    def fresh(self, kind):
        name, self.name = getattr(self, "name", None), None
        return name or super().fresh(kind)

    def put(self, name, op, inputs, **attributes):
        self.name = name
        return self.add(op, inputs, **attributes)


def shape(net, *dims):
    """Returns the constant of a Reshape for a file of batch 2. The first of `dims` is the extent for one image."""
    rows = [numpy.array([dims[0] * batch, *dims[1:]]) for batch in (2, 4, 2)]
    return net.constant(rows[0], at_batches=rows)


def roll(net, x, name, by):
    for axis, label in ((1, "rows"), (2, "columns")):
        ends = net.constant(numpy.array([2**31 - 1]))
        parts = [net.add("Slice", [x, net.integers(by), ends, net.integers(axis)]),
                 net.add("Slice", [x, net.integers(0), net.integers(by), net.integers(axis)])]
        x = net.put(f"{name}_{label}", "Concat", parts, axis=axis)
    return x


def attention(net, x, block):
    put = lambda name, *more, **attributes: net.put(f"{block}_{name}", *more, **attributes)
    x = put("apart", "Reshape", [x, shape(net, 1, 2, 4, 2, 4, 6)])
    x = put("windows", "Transpose", [x], perm=[0, 1, 3, 2, 4, 5])
    x = put("tokens", "Reshape", [x, shape(net, 4, 16, 6)])
    x = put("qkv", "Add", [net.add("MatMul", [x, net.weight(6, 18)]), net.weight(18)])
    x = put("parts", "Reshape", [x, shape(net, 4, 16, 3, 2, 3)])
    x = put("heads", "Transpose", [x], perm=[2, 0, 3, 1, 4])
    query, key, value = (put(name, "Gather", [x, net.constant(numpy.int64(i))], axis=0)
                         for i, name in enumerate(("query", "key", "value")))
    key = put("key_transposed", "Transpose", [key], perm=[0, 1, 3, 2])
    scaled = net.add("Mul", [query, net.constant(numpy.float32(0.577))])
    scores = net.add("Softmax", [net.add("MatMul", [scaled, key])], axis=-1)
    x = put("mixed", "MatMul", [scores, value])
    x = put("beside", "Transpose", [x], perm=[0, 2, 1, 3])
    x = put("merged", "Reshape", [x, shape(net, 4, 16, 6)])
    x = put("projected", "Add", [net.add("MatMul", [x, net.weight(6, 6)]), net.weight(6)])
    x = put("again", "Reshape", [x, shape(net, 1, 2, 2, 4, 4, 6)])
    x = put("joined", "Transpose", [x], perm=[0, 1, 3, 2, 4, 5])
    return put("image", "Reshape", [x, shape(net, 1, 8, 8, 6)])


def network():
    net = Named(17, 2, random.Random(3))
    net.name = "image"
    x = net.data((6, 8, 8))
    x = net.put("last", "Transpose", [x], perm=[0, 2, 3, 1])
    x = net.put("flat", "Reshape", [x, shape(net, 384)])  # written as [768] in the file, whose batch is 2
    x = net.put("back", "Reshape", [x, shape(net, 1, 8, 8, 6)])
    x = net.put("first_sum", "Add", [x, attention(net, x, "first")])
    y = attention(net, roll(net, x, "roll", 2), "second")
    x = net.put("second_sum", "Add", [x, roll(net, y, "unroll", 6)])
    net.put("image_out", "Transpose", [x], perm=[0, 3, 1, 2])
    return net


def joined(factors, batch):
    """Returns factors in the dump's form: neighbours that form one digit are joined, and those of size 1 are left out."""
    found = []
    for letter, size, stride in factors:
        size = batch if size == "batch" else size
        if size == 1:
            continue
        if found and found[-1][0] == letter and found[-1][2] == size * stride:
            found[-1] = [letter, found[-1][1] * size, stride]
        else:
            found.append([letter, size, stride])
    return found


class WindowAttention(unittest.TestCase):
    def setUp(self):
        self.net = network()
        model = self.net.model(["image_out"], True)
        self.case = check.Onnx(onnx_nets.Made(None, self.net, ("image_out",), model, PARAMETERS))

    def test_factors_worked_out_by_hand_are_the_numbers_of_the_reference(self):
        """Tests the expected places: a tensor that only rearranges another has the same numbers at the same places."""
        for name, source in (("flat", "last"), ("back", "image"), ("first_tokens", "image"), ("first_heads", "first_qkv"),
                             ("second_tokens", "roll_columns"), ("first_image", "first_projected"),
                             ("first_merged", "first_mixed"), ("image_out", "second_sum")):
            found, expected = (self.by_place(n) for n in (name, source))
            numpy.testing.assert_array_equal(found, expected, name)

    def by_place(self, name):
        """Returns the numbers of a tensor in the order n, c, h, w, by its expected factors."""
        values = self.net[name].at[0]
        keys = []
        for position, axis in enumerate(EXPECTED[name]):
            index, within = numpy.arange(values.shape[position]), values.shape[position]
            for letter, size, stride in axis:
                size = 2 if size == "batch" else size
                within //= size
                part = index // within % size * stride
                keys.append((letter, part.reshape([-1 if a == position else 1 for a in range(values.ndim)])))
        sums = [sum(part for letter, part in keys if letter == wanted) + numpy.zeros(values.shape, int) for wanted in "nchw"]
        order = numpy.lexsort([s.reshape(-1) for s in reversed(sums)])
        return values.reshape(-1)[order]

    def test_the_reader_places_every_tensor_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "windows.onnx")
            with open(path, "wb") as file:
                file.write(self.case.content)
            for at, batch in enumerate(check.BATCHES):
                (dump,) = dumps(DUMP, batch, [path])
                self.assertNotIn("error", dump)
                for name, axes in EXPECTED.items():
                    if name not in dump["tensors"]:
                        self.assertIn(name, WITHIN)
                        continue
                    self.assertEqual([joined(axis, batch) for axis in dump["tensors"][name]["axes"]],
                                     [joined(axis, batch) for axis in axes], name)
                self.assertIsNone(check.check(self.case, dump, at, (), numpy.random.default_rng(at), 8))


if __name__ == "__main__":
    if not DUMP:
        sys.exit("ORACLE_GRAPH_DUMP names no program")
    unittest.main()
