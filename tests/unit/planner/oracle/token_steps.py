"""Steps of random ONNX nets: fully connected layers, and the operations of transformers on tokens."""

import math

import numpy

from constants import axes_of, drawn, sliced, split
from net import Batch
from reshaping import reshaped, tensor_part
from steps import divisors, image, leads, need, pick, step, tokens, written


@step(5)
def head(net, rng):
    """Adds a fully connected layer on features."""
    x = pick(net, rng, lambda t: t.rank == 2 and t.batch.axis == 0 or leads(t) and math.prod(t.extents()) <= 160)
    if net[x].rank != 2:
        size = math.prod(net[x].extents()[1:])
        flat = rng.random() < 0.5
        x = net.add("Flatten", [x]) if flat else reshaped(net, rng, x, [1, size], Batch(0, 1, 1, True))
        if flat:
            net[x].batch = Batch(0, 1, 1, True)
    inner, outputs = net[x].extent(1), rng.choice([2, 3, 5, 8])
    if rng.random() < 0.3:
        return net.add("MatMul", [x, drawn(net, rng, (inner, outputs))])
    given = {}
    transposed = rng.random() < 0.6
    if transposed:
        given["transB"] = 1
    if rng.random() < 0.15:
        x = net.add("Transpose", [x], perm=[1, 0])
        given["transA"] = 1
    if rng.random() < 0.2:
        given["alpha"] = 0.5
    if rng.random() < 0.2:
        given["beta"] = 2.0
    inputs = [x, drawn(net, rng, (outputs, inner) if transposed else (inner, outputs))]
    draw = rng.random()
    if draw < 0.1:
        need("transA" not in given)
        computed = net.add("MatMul", [x, drawn(net, rng, (inner, rng.choice([1, outputs])))])
        return net.add("Gemm", [*inputs, computed], feature="Gemm.computed_C", **given)
    if draw < 0.85 or net.opset < 11:
        inputs.append(drawn(net, rng, rng.choice([(outputs,), (outputs,), (1, outputs), (), (1,), (1, 1)])))
    return net.add("Gemm", inputs, **given)


@step(4)
def matrix(net, rng):
    """Adds a MatMul with a constant on either side, position by position or batched."""
    x = pick(net, rng, lambda t: t.rank >= 2)
    tensor = net[x]
    if rng.random() < 0.7:
        need(tensor.batch.axis != tensor.rank - 1)
        shape = [tensor.extent(-1), rng.choice([2, 3, 4, 6])]
        if tensor.rank >= 3 and rng.random() < 0.2:
            lead = [1 if a == tensor.batch.axis else tensor.extent(a) for a in range(tensor.rank - 2)]
            need(tensor.batch.axis != tensor.rank - 2 or not lead)
            shape = lead[rng.randrange(len(lead)):] + shape
        return net.add("MatMul", [x, drawn(net, rng, shape)])
    need(tensor.rank >= 3 and tensor.batch.axis < tensor.rank - 2)
    return net.add("MatMul", [drawn(net, rng, (rng.choice([2, 3, 4]), tensor.extent(-2))), x])


@step(1)
def product_of_computed(net, rng):
    x = pick(net, rng, lambda t: t.rank in (3, 4) and t.batch.axis == 0)
    order = [*range(net[x].rank - 2), net[x].rank - 1, net[x].rank - 2]
    y = net.add("Transpose", [x], perm=order)
    return net.add("MatMul", [x, y] if rng.random() < 0.5 else [y, x])


@step(4)
def layer_normalisation(net, rng):
    x = pick(net, rng, lambda t: t.rank >= 2 and t.batch.axis != t.rank - 1)
    return normalised(net, rng, x)


def normalised(net, rng, x):
    """Normalises over the last axis, as one operator or with primitive ones."""
    width = net[x].extent(-1)
    need(width >= 2)
    rank = net[x].rank
    if net.opset >= 17 and rng.random() < 0.5:
        axis = rng.choice([-1, rank - 1, None])
        shape = (width,)
        if rank >= 3 and net[x].batch.axis < rank - 2 and rng.random() < 0.15:
            axis, shape = rank - 2, (net[x].extent(-2), width)
        bias = [drawn(net, rng, shape)] * (rng.random() < 0.8)
        return net.add("LayerNormalization", [x, drawn(net, rng, shape), *bias], axis=axis)
    mean = axes_of(net, rng, "ReduceMean", [x], [written(net, rng, rank - 1, rank)], 18)
    deviation = net.add("Sub", [x, mean])
    square = net.add("Mul", [deviation, deviation]) if rng.random() < 0.4 else \
        net.add("Pow", [deviation, net.constant(numpy.float32(2.0))])
    variance = axes_of(net, rng, "ReduceMean", [square], [written(net, rng, rank - 1, rank)], 18)
    deep = net.add("Sqrt", [net.add("Add", [variance, net.constant(numpy.float32(1e-5))])])
    y = net.add("Mul", [net.add("Div", [deviation, deep]), drawn(net, rng, (width,))])
    return net.add("Add", [y, drawn(net, rng, (width,))])


@step(3)
def to_tokens(net, rng):
    """Makes tokens of the patches or the pixels of an image."""
    x = pick(net, rng, image)
    c, h, w = net[x].extents()[1:]
    if rng.random() < 0.6:
        patch = rng.choice([2, 3])
        need(h >= patch and w >= patch)
        c = 4
        x = net.add("Conv", [x, drawn(net, rng, (c, net[x].extent(1), patch, patch)), drawn(net, rng, (c,))],
                    strides=[patch, patch])
        h, w = net[x].extents()[2:]
    if rng.random() < 0.8:
        return net.add("Transpose", [reshaped(net, rng, x, [1, c, h * w], Batch(0, 1, 1, True))], perm=[0, 2, 1])
    return reshaped(net, rng, net.add("Transpose", [x], perm=[0, 2, 3, 1]), [1, h * w, c], Batch(0, 1, 1, True))


@step(1)
def to_image(net, rng):
    x = pick(net, rng, lambda t: tokens(t) and leads(t))
    _, t, c = net[x].extents()
    h = rng.choice(divisors(t))
    if rng.random() < 0.5:
        return reshaped(net, rng, net.add("Transpose", [x], perm=[0, 2, 1]), [1, c, h, t // h], Batch(0, 1, 1, True))
    return net.add("Transpose", [reshaped(net, rng, x, [1, h, t // h, c], Batch(0, 1, 1, True))], perm=[0, 3, 1, 2])


@step(1)
def class_token(net, rng):
    x = pick(net, rng, lambda t: tokens(t) and leads(t))
    c = net[x].extent(2)
    need(net.opset >= 8 and c >= 2)
    token = net.weight(1, 1, c)
    if net.batch == 1 and rng.random() < 0.5:
        spread = net.add("Expand", [token, net.sizes([(x, 0), 1, c])])
        net[spread].root = token  # with one image, Expand changes nothing
    else:
        size = sliced(net, net.add("Shape", [x]), [0], [1], [0])
        spread = net.add("Expand", [token, net.add("Concat", [size, net.integers(1, c)], axis=0)])
    return net.add("Concat", [spread, x], axis=1)


@step(1)
def positions(net, rng):
    x = pick(net, rng, tokens)
    t, c = net[x].extents()[1:]
    return net.add("Add", [x, drawn(net, rng, rng.choice([(1, t, c), (t, c)]))])


@step(1)
def one_token(net, rng):
    x = pick(net, rng, tokens)
    if rng.random() < 0.5:
        return net.add("Gather", [x, net.constant(numpy.int64(0))], axis=1)
    return axes_of(net, rng, "Squeeze", [sliced(net, x, [0], [1], [1])], [1])


@step(2)
def two_layers(net, rng):
    """Adds the feed-forward part of a transformer's block."""
    x = pick(net, rng, tokens)
    c = net[x].extent(2)
    need(c >= 2)
    y = net.add("MatMul", [normalised(net, rng, x), drawn(net, rng, (c, 2 * c))])
    y = net.add("Add", [drawn(net, rng, (2 * c,)), y])
    y = net.add("Gelu" if net.opset >= 20 else "Relu", [y])
    y = net.add("Add", [net.add("MatMul", [y, drawn(net, rng, (2 * c, c))]), drawn(net, rng, (c,))])
    return net.add("Add", [x, y])


@step(4)
def attention(net, rng):
    x = pick(net, rng, tokens)
    need(net[x].extent(1) <= 20 and net[x].extent(2) <= 16)
    y = attended(net, rng, normalised(net, rng, x) if rng.random() < 0.5 else x)
    return net.add("Add", [x, y])


def _projected(net, rng, x, width):
    y = net.add("MatMul", [x, drawn(net, rng, (net[x].extent(2), width))])
    return net.add("Add", [y, drawn(net, rng, (width,))]) if rng.random() < 0.6 else y


def _heads_apart(net, rng, y, heads):
    """Returns [n, t, heads * d] as [n, heads, t, d]."""
    t, width = net[y].extents()[1:]
    batch = net[y].batch
    y = reshaped(net, rng, y, [tensor_part(net, y), t, heads, width // heads], batch)
    return net.add("Transpose", [y], perm=[0, 2, 1, 3])


def _fused(net, rng, x, heads):
    """Returns queries, keys and values from one matrix, [n, heads, t, d] each."""
    t, c = net[x].extents()[1:]
    y = _projected(net, rng, x, 3 * c)
    if rng.random() < 0.3:
        return [_heads_apart(net, rng, part, heads) for part in split(net, rng, y, 2, [c] * 3)]
    y = reshaped(net, rng, y, [tensor_part(net, y), t, 3, heads, c // heads], net[y].batch)
    y = net.add("Transpose", [y], perm=[2, 0, 3, 1, 4])
    way = rng.choice(["Split", "Gather", "Slice"])
    if way == "Gather":
        return [net.add("Gather", [y, net.constant(numpy.int64(i))], axis=0) for i in range(3)]
    if way == "Split":
        parts = split(net, rng, y, 0, [1, 1, 1])
    else:
        parts = [sliced(net, y, [i], [i + 1], [0]) for i in range(3)]
    return [axes_of(net, rng, "Squeeze", [part], [0]) for part in parts]


def attended(net, rng, x):
    """Returns multi-head attention of the tokens of x to each other."""
    t, c = net[x].extents()[1:]
    need(net[x].batch.splits and c >= 2)
    heads = rng.choice([d for d in divisors(c) if d <= 4])
    if rng.random() < 0.6:
        q, k, v = _fused(net, rng, x, heads)
    else:
        q, k, v = (_heads_apart(net, rng, _projected(net, rng, x, c), heads) for _ in range(3))
    factor = net.constant(numpy.float32(0.5))
    place = rng.choice(["query", "scores", "both"])
    if place != "scores":
        q = net.add("Mul", [q, factor])
    k = net.add("Transpose", [k], perm=[0, 1, 3, 2])
    if place == "both":
        k = net.add("Mul", [k, factor])
    scores = net.add("MatMul", [q, k])
    if place == "scores":
        scores = net.add("Div", [scores, net.constant(numpy.float32(2.0))])
    if rng.random() < 0.3:
        scores = net.add("Add", [scores, _relative_bias(net, rng, heads, t)])
    scores = net.add("Softmax", [scores], axis=-1 if net.opset >= 13 else 3)
    y = net.add("Transpose", [net.add("MatMul", [scores, v])], perm=[0, 2, 1, 3])
    return _projected(net, rng, reshaped(net, rng, y, [tensor_part(net, y), t, c], net[x].batch), c)


def _relative_bias(net, rng, heads, t):
    rows = 2 * t - 1
    table = net.weight(rows, heads)
    places = net.integers(*(i - j + t - 1 for i in range(t) for j in range(t)))
    bias = net.add("Reshape", [net.add("Gather", [table, places], axis=0), net.integers(t, t, heads)])
    return axes_of(net, rng, "Unsqueeze", [net.add("Transpose", [bias], perm=[2, 0, 1])], [0])


def rolled(net, x, axis, by):
    """Applies numpy.roll by -by: two slices and a concatenation."""
    extent = net[x].extent(axis)
    parts = [sliced(net, x, [by], [extent], [axis]), sliced(net, x, [0], [by], [axis])]
    return net.add("Concat", parts, axis=axis)


@step(2)
def window_attention(net, rng):
    """Adds Swin's attention within windows of an image. The image may be rolled first."""
    x = pick(net, rng, image)
    c, h, w = net[x].extents()[1:]
    side = rng.choice([2, 3, 4])
    need(h % side == 0 and w % side == 0 and c <= 8)
    shortcut = y = net.add("Transpose", [x], perm=[0, 2, 3, 1])
    shift = rng.choice([0, 1])
    if rng.random() < 0.5:
        y = normalised(net, rng, y)
    for axis in (1, 2) * bool(shift):
        y = rolled(net, y, axis, shift)
    rows, columns = h // side, w // side
    y = reshaped(net, rng, y, [1, rows, side, columns, side, c], Batch(0, 1, 1, True))
    y = net.add("Transpose", [y], perm=[0, 1, 3, 2, 4, 5])
    y = reshaped(net, rng, y, [rows * columns, side * side, c], Batch(0, 1, rows * columns, True))
    y = attended(net, rng, y)
    y = reshaped(net, rng, y, [1, rows, columns, side, side, c], Batch(0, 1, 1, True))
    y = net.add("Transpose", [y], perm=[0, 1, 3, 2, 4, 5])
    y = reshaped(net, rng, y, [1, h, w, c], Batch(0, 1, 1, True))
    for axis, extent in ((1, h), (2, w)) * bool(shift):
        y = rolled(net, y, axis, extent - shift)
    y = net.add("Add", [shortcut, y])
    return net.add("Transpose", [y], perm=[0, 3, 1, 2])
