"""The steps of which random ONNX nets are made. A step takes a net.Net and a random.Random, appends nodes that read what is
there, and raises Unfit where it cannot."""

import math

import numpy
from onnx import TensorProto, helper

import reference
from constants import axes_of, drawn, pad, sliced, split
from net import Batch, Tensor, Unfit

STEPS = []  # (how often, function)


def step(weight):
    def register(function):
        STEPS.append((weight, function))
        return function
    return register


def need(condition):
    if not condition:
        raise Unfit


def pick(net, rng, test=lambda t: True):
    """A computed float tensor, mostly one of the last."""
    names = [n for n in net.order if net[n].is_float and net[n].batch and test(net[n])]
    need(names)
    return names[-1] if rng.random() < 0.75 else rng.choice(names[-6:])


def leads(tensor):
    """Whether the first axis is the batch and nothing else."""
    return tensor.batch[:3] == (0, 1, 1)


def image(tensor):
    return leads(tensor) and tensor.rank == 4


def volume(tensor):
    return leads(tensor) and tensor.rank in (4, 5)


def tokens(tensor):
    return tensor.rank == 3 and tensor.batch.axis == 0


def pick_axis(net, rng, x, test=lambda extent: True):
    """An axis that is not the batch's."""
    tensor = net[x]
    axes = [a for a in range(tensor.rank) if a != tensor.batch.axis and test(tensor.extent(a))]
    need(axes)
    return rng.choice(axes)


def written(net, rng, axis, rank):
    """An axis as a file may write it: negative ones are allowed from opset 11 on."""
    return axis - rank if net.opset >= 11 and rng.random() < 0.35 else axis


def divisors(number):
    return [d for d in range(1, number + 1) if number % d == 0]


# ---- Images.

def _window(net, rng, x, dilations, most=3):
    """Attributes of a window over x that fits, with its extents."""
    extents = net[x].extents()[2:]
    rank = len(extents)
    window = [rng.choice([1, 2, 3, 3][:most + 1]) for _ in extents] if rng.random() < 0.5 else [rng.choice([1, 2, 3])] * rank
    given = {}
    stride = rng.choice([1, 1, 2, 3])
    if stride > 1 or rng.random() < 0.5:
        given["strides"] = [stride] * rank if rng.random() < 0.8 else [rng.choice([1, 2]) for _ in extents]
    if dilations and rng.random() < 0.25:
        given["dilations"] = [rng.choice([1, 2])] * rank
    draw = rng.random()
    if draw < 0.2:
        given["auto_pad"] = rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif draw < 0.7:
        pads = [rng.randrange(w) for w in window]
        given["pads"] = pads + (pads if rng.random() < 0.6 else [rng.randrange(w) for w in window])
    span = [given.get("dilations", [1] * rank)[i] * (w - 1) + 1 for i, w in enumerate(window)]
    pads = given.get("pads", [0] * 2 * rank)
    need(all(e + pads[i] + pads[rank + i] >= s for i, (e, s) in enumerate(zip(extents, span))))
    return window, given


@step(12)
def convolution(net, rng):
    x = pick(net, rng, volume)
    channels = net[x].extent(1)
    window, given = _window(net, rng, x, True)
    group = rng.choice(divisors(channels)) if rng.random() < 0.35 else 1
    filters = group * rng.choice([f for f in (1, 2, 3, 4, 6) if group * f >= 2 and group * f <= max(8, group)])
    if group > 1 or rng.random() < 0.3:
        given["group"] = group
    if rng.random() < 0.6:
        given["kernel_shape"] = window
    inputs = [x, drawn(net, rng, (filters, channels // group, *window))]
    if rng.random() < 0.5:
        inputs.append(drawn(net, rng, (filters,)))
    return net.add("Conv", inputs, **given)


@step(3)
def transposed_convolution(net, rng):
    x = pick(net, rng, lambda t: volume(t) and max(t.extents()[2:]) <= 8)
    extents = net[x].extents()[2:]
    rank, channels = len(extents), net[x].extent(1)
    window = [rng.choice([1, 2, 3, 4])] * rank
    stride = [rng.choice([1, 2, 2])] * rank
    given = {"strides": stride}
    if rng.random() < 0.2:
        given["dilations"] = [2] * rank
    span = [given.get("dilations", [1])[0] * (w - 1) + 1 for w in window]
    draw = rng.random()
    if draw < 0.15:
        given["auto_pad"] = rng.choice(["SAME_UPPER", "SAME_LOWER"])
        need(all(s >= step for s, step in zip(span, stride)))
    elif draw < 0.3:
        given["output_shape"] = [(e - 1) * s + k - rng.randrange(min(2, k)) for e, s, k in zip(extents, stride, span)]
    elif draw < 0.7:
        pads = [rng.randrange(min(2, k)) for k in span]
        given["pads"] = pads + (pads if rng.random() < 0.6 else [rng.randrange(min(2, k)) for k in span])
    if "output_shape" not in given and "auto_pad" not in given and rng.random() < 0.4:
        given["output_padding"] = [rng.randrange(s) for s in stride]
    group = rng.choice(divisors(channels)) if rng.random() < 0.25 else 1
    filters = rng.choice([1, 2, 3]) if group > 1 else rng.choice([2, 3, 4])
    if group > 1:
        given["group"] = group
    if rng.random() < 0.6:
        given["kernel_shape"] = window
    inputs = [x, drawn(net, rng, (channels, filters, *window))]
    if rng.random() < 0.5:
        inputs.append(drawn(net, rng, (filters * group,)))
    return net.add("ConvTranspose", inputs, **given)


@step(6)
def pooling(net, rng):
    x = pick(net, rng, volume)
    op = rng.choice(["MaxPool", "AveragePool"])
    window, given = _window(net, rng, x, net.opset >= (10 if op == "MaxPool" else 19))
    if net.opset >= 10 and "auto_pad" not in given and rng.random() < 0.5:
        given["ceil_mode"] = rng.choice([0, 1, 1])
    if op == "AveragePool" and rng.random() < 0.4:
        given["count_include_pad"] = rng.choice([0, 1])
    return net.add(op, [x], kernel_shape=window, **given)


@step(2)
def global_pooling(net, rng):
    return net.add(rng.choice(["GlobalAveragePool", "GlobalMaxPool"]), [pick(net, rng, volume)])


@step(5)
def normalisation(net, rng):
    x = pick(net, rng, lambda t: leads(t) and t.rank >= 2)
    rank, channels = net[x].rank, net[x].extent(1)
    need(channels >= 2)
    ops = ["BatchNormalization"] * 3
    ops += ["InstanceNormalization", "LRN"] * (rank == 4)
    ops += ["GroupNormalization"] * 2 * (rank >= 3 and net.opset >= 21)  # onnx.checker refuses that of opset 18
    op = rng.choice(ops)
    weights = lambda: drawn(net, rng, (channels,))
    if op == "BatchNormalization":
        statistics = [net.constant(numpy.abs(net._numbers((channels,))) + numpy.float32(0.5)) for _ in range(2)]
        return net.add(op, [x, weights(), weights(), *statistics], epsilon=rng.choice([None, 1e-3]))
    if op == "InstanceNormalization":
        need(math.prod(net[x].extents()[2:]) > 1)
        if rng.random() < 0.4:
            return net.add(op, [x, net.constant(numpy.ones(channels, numpy.float32)),
                                net.constant(numpy.zeros(channels, numpy.float32))],
                           feature="InstanceNormalization.of_one_and_zero")
        return net.add(op, [x, weights(), weights()])
    if op == "LRN":
        return net.add(op, [x], size=rng.choice([3, 5, 2]), alpha=0.1)
    groups = rng.choice(divisors(channels)[1:])
    return net.add(op, [x, weights(), weights()], num_groups=groups)


@step(3)
def resize(net, rng):
    x = pick(net, rng, lambda t: volume(t) and max(t.extents()[2:]) <= 8)
    extents = net[x].extents()
    rank = len(extents)
    mode = rng.choice(["nearest", "nearest", "linear"])
    factors = [rng.choice([1, 2, 2, 3, 1.5, 0.5]) for _ in extents[2:]]
    if rng.random() < 0.7:
        factors = [rng.choice([2.0, 2.0, 3.0])] * (rank - 2)
    factors = [1.0, 1.0, *map(float, factors)]
    need(all(int(e * f) >= 1 for e, f in zip(extents, factors)))
    scales = numpy.array(factors, numpy.float32)
    if net.opset < 9:
        return net.add("Upsample", [x], scales=factors, mode=mode)
    if net.opset < 10:
        return net.add("Upsample", [x, net.constant(scales)], mode=mode)
    if net.opset < 11:
        return net.add("Resize", [x, net.constant(scales)], mode=mode)
    given = {"mode": mode}
    modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    if rng.random() < 0.6:
        given["coordinate_transformation_mode"] = rng.choice(modes + ["half_pixel_symmetric"] * (net.opset >= 19))
    if mode == "nearest" and rng.random() < 0.5:
        given["nearest_mode"] = rng.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    roi = "" if net.opset >= 13 else net.constant(numpy.zeros(0, numpy.float32))
    if rng.random() < 0.5:
        axes = _resize_axes(net, rng, given, rank)
        return net.add("Resize", [x, roi, net.constant(scales[axes] if axes else scales)], **given)
    return _resize_to(net, rng, x, roi, [int(e * f) for e, f in zip(extents, factors)], given)


def _resize_axes(net, rng, given, rank):
    if net.opset < 18 or rng.random() < 0.5:
        return None
    axes = list(range(2, rank))
    rng.shuffle(axes)
    given["axes"] = [written(net, rng, a, rank) if rng.random() < 0.2 else a for a in axes]
    return axes


def _resize_to(net, rng, x, roi, target, given):
    rank = len(target)
    scales = "" if net.opset >= 13 else net.constant(numpy.zeros(0, numpy.float32))
    axes = _resize_axes(net, rng, given, rank)
    if axes:
        if rng.random() < 0.5:
            given["keep_aspect_ratio_policy"] = rng.choice(["stretch", "not_larger", "not_smaller"])
        sizes = net.integers(*(target[a] for a in axes))
    elif net.batch and rng.random() < 0.4:
        sizes = net.sizes([(x, 0), *target[1:]])
    else:
        head = sliced(net, net.add("Shape", [x]), [0], [2], [0])
        sizes = net.add("Concat", [head, net.integers(*target[2:])], axis=0)
    return net.add("Resize", [x, roi, scales, sizes], **given)


@step(2)
def resize_like(net, rng):
    """To the size of another image, as a decoder's skip connections want it."""
    need(net.opset >= 13)
    x = pick(net, rng, image)
    other = pick(net, rng, image)
    sizes = sliced(net, net.add("Shape", [other]), [2], [4], [0])
    head = sliced(net, net.add("Shape", [x]), [0], [2], [0])
    sizes = net.add("Concat", [head, sizes], axis=0)
    y = net.add("Resize", [x, "", "", sizes], mode="nearest", coordinate_transformation_mode="asymmetric",
                nearest_mode="floor")
    return net.add("Concat", [y, other], axis=1)


@step(4)
def padding(net, rng):
    x = pick(net, rng, lambda t: t.rank >= 3)
    tensor = net[x]
    rank = tensor.rank
    mode = rng.choice(["constant"] * 4 + ["reflect", "edge"] + ["wrap"] * (net.opset >= 19))
    axes = [a for a in range(rank) if a != tensor.batch.axis and tensor.extent(a) > 2 and rng.random() < 0.6]
    need(axes)
    pads = {a: (rng.choice([0, 1, 2]), rng.choice([0, 1, 2])) for a in axes}
    if mode == "constant" and rng.random() < 0.2:
        pads = {a: (rng.choice([-1, 1, 0]), rng.choice([-1, 2])) for a in axes}
    value = rng.choice([None, None, 0.0, 1.5]) if mode == "constant" else None
    feature = f"Pad.mode={mode}" if mode != "constant" else "Pad.value" if value else None
    if net.opset >= 18 and rng.random() < 0.4:
        rng.shuffle(axes)
        flat = [pads[a][end] for end in (0, 1) for a in axes]
        return pad(net, x, flat, mode, value, [written(net, rng, a, rank) for a in axes], feature=feature)
    flat = [pads.get(a, (0, 0))[end] for end in (0, 1) for a in range(rank)]
    return pad(net, x, flat, mode, value, feature=feature)


@step(2)
def blocks(net, rng):
    x = pick(net, rng, image)
    _, c, h, w = net[x].extents()
    if c % 4 == 0 and rng.random() < 0.5:
        mode = {"mode": rng.choice(["DCR", "CRD"])} if net.opset >= 11 and rng.random() < 0.6 else {}
        return net.add("DepthToSpace", [x], blocksize=2, **mode)
    need(h % 2 == 0 and w % 2 == 0 and c <= 4)
    return net.add("SpaceToDepth", [x], blocksize=2)


@step(3)
def gate(net, rng):
    """Squeeze and excite: channels are multiplied by what their means say."""
    x = pick(net, rng, image)
    c = net[x].extent(1)
    need(c >= 2)
    if rng.random() < 0.5:
        mean = net.add("GlobalAveragePool", [x])
    else:
        mean = axes_of(net, rng, "ReduceMean", [x], [2, 3], 18, keepdims=1)
    small = net.add("Relu", [net.add("Conv", [mean, drawn(net, rng, (2, c, 1, 1)), drawn(net, rng, (2,))])])
    wide = net.add("Conv", [small, drawn(net, rng, (c, 2, 1, 1))])
    wide = net.add(rng.choice(["Sigmoid", "HardSigmoid"]), [wide])
    return net.add("Mul", [x, wide] if rng.random() < 0.5 else [wide, x])


# ---- Activations and element-wise operators.

@step(8)
def activation(net, rng):
    x = pick(net, rng)
    ops = ["Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSigmoid", "Neg", "Abs", "Softplus", "Exp"]
    ops += ["Erf"] * (net.opset >= 9) + ["HardSwish"] * (net.opset >= 14) + ["Gelu"] * 2 * (net.opset >= 20)
    op = rng.choice(ops)
    given = {}
    if op in ("LeakyRelu", "Elu") and rng.random() < 0.5:
        given["alpha"] = 0.25
    if op == "Gelu" and rng.random() < 0.5:
        given["approximate"] = "tanh"
    return net.add(op, [x], **given)


@step(2)
def swish(net, rng):
    x = pick(net, rng)
    y = net.add("Sigmoid", [x])
    return net.add("Mul", [x, y] if rng.random() < 0.5 else [y, x])


@step(1)
def gelu_of_parts(net, rng):
    need(net.opset >= 9)
    x = pick(net, rng)
    one = lambda value: net.constant(numpy.float32(value))
    y = net.add("Erf", [net.add("Div", [x, one(1.414)])])
    return net.add("Mul", [net.add("Mul", [x, net.add("Add", [y, one(1.0)])]), one(0.5)])


@step(2)
def clip(net, rng):
    x = pick(net, rng)
    least, most = rng.choice([(0.0, 6.0), (None, 0.75), (-0.5, None), (-1.0, 1.0)])
    if net.opset < 11:
        return net.add("Clip", [x], min=least, max=most)
    inputs = [x] + ["" if v is None else net.constant(numpy.float32(v)) for v in (least, most)]
    return net.add("Clip", inputs[:2] if inputs[2] == "" else inputs)


@step(1)
def root(net, rng):
    x = net.add("Abs", [pick(net, rng)])
    return net.add("Sqrt", [x])


@step(2)
def slope(net, rng):
    x = pick(net, rng, lambda t: leads(t) and t.rank >= 2)
    c = net[x].extent(1)
    need(c >= 2)
    shapes = [(c, *[1] * (net[x].rank - 2)), tuple(net[x].extents()[1:]), (1, c, *[1] * (net[x].rank - 2))]
    return net.add("PRelu", [x, drawn(net, rng, rng.choice(shapes))])


def _broadcast_shape(net, rng, x):
    """The shape of a constant that is broadcast to x: 1 along its batch."""
    tensor = net[x]
    shape = [1 if a == tensor.batch.axis or rng.random() < 0.4 else e for a, e in enumerate(tensor.extents())]
    if rng.random() < 0.4:
        keep = [a for a in range(1, tensor.rank) if a != tensor.batch.axis]
        shape = [1] * tensor.rank
        if keep:
            kept = rng.choice(keep)
            shape[kept] = tensor.extent(kept)
    while shape and shape[0] == 1 and rng.random() < 0.6:
        shape = shape[1:]
    return shape


@step(8)
def with_constant(net, rng):
    x = pick(net, rng)
    op = rng.choice(["Add", "Add", "Mul", "Mul", "Sub", "Div", "Min", "Max", "Sum"])
    need(net.opset >= 8 or op not in ("Min", "Max", "Sum"))
    shape = _broadcast_shape(net, rng, x)
    if rng.random() < 0.2:
        shape = []
    c = drawn(net, rng, shape, positive=op == "Div")
    return net.add(op, [c, x] if op != "Div" and rng.random() < 0.4 else [x, c])


@step(1)
def division_of_constant(net, rng):
    x = pick(net, rng)
    below = net.add("Exp", [x])
    return net.add("Div", [drawn(net, rng, _broadcast_shape(net, rng, x)), below])


@step(1)
def larger_than_computed(net, rng):
    """A constant with more axes, or larger ones, than the computed tensor beside it."""
    x = pick(net, rng, lambda t: t.batch.axis == 0 and t.rank in (2, 3, 4) and 1 in t.extents()[1:])
    shape = [1] + [e if e > 1 else rng.choice([2, 3]) for e in net[x].extents()[1:]]
    return net.add(rng.choice(["Add", "Mul"]), [x, drawn(net, rng, shape)])


@step(6)
def of_two(net, rng):
    """Computed tensors of one shape, or of shapes that are broadcast to each other."""
    x = pick(net, rng)
    shape = net[x].at[0].shape

    def fits(t):
        other = t.at[0].shape
        if len(other) > len(shape) or t.batch is None:
            return False
        same_batch = t.batch.axis - t.rank == net[x].batch.axis - net[x].rank and t.batch[1:] == net[x].batch[1:]
        return same_batch and all(e in (1, s) for e, s in zip(other[::-1], shape[::-1]))

    others = [n for n in net.order if n != x and net[n].is_float and fits(net[n])]
    need(others)
    op = rng.choice(["Add", "Add", "Add", "Mul", "Mul", "Sub", "Max", "Min", "Sum"])
    need(net.opset >= 8 or op not in ("Min", "Max", "Sum"))
    given = [x, rng.choice(others)]
    if op in ("Max", "Min", "Sum") and rng.random() < 0.4:
        given.append(rng.choice(others))
    rng.shuffle(given)
    return net.add(op, given)


@step(5)
def residual(net, rng):
    """A branch of the same shape, added to its input."""
    x = pick(net, rng, volume)
    c = net[x].extent(1)
    rank = net[x].rank - 2
    y = net.add("Conv", [x, drawn(net, rng, (c, c, *[3] * rank))], pads=[1] * 2 * rank)
    y = net.add("Relu", [y]) if rng.random() < 0.5 else y
    return net.add("Add", [y, x] if rng.random() < 0.5 else [x, y])


@step(1)
def power(net, rng):
    x = net.add("Abs", [pick(net, rng)])
    shape = rng.choice([[], [], _broadcast_shape(net, rng, x)])
    exponent = net.constant(numpy.float32(2.0)) if not shape else drawn(net, rng, shape)
    return net.add("Pow", [x, exponent])


@step(1)
def where(net, rng):
    need(net.opset >= 9)
    x = pick(net, rng)
    if rng.random() < 0.4:
        condition = net.add("Cast", [net.add("Relu", [pick(net, rng, lambda t: t.at[0].shape == net[x].at[0].shape)])],
                            to=TensorProto.BOOL)
        feature = "Where.computed_condition"
    else:
        shape = [1 if a == net[x].batch.axis else e for a, e in enumerate(net[x].extents())]
        condition = net.constant(numpy.array(net._numbers(shape) > 0))
        feature = "Where.constant_condition"
    c = drawn(net, rng, _broadcast_shape(net, rng, x))
    return net.add("Where", [condition, x, c] if rng.random() < 0.5 else [condition, c, x], feature=feature)


@step(3)
def softmax(net, rng):
    x = pick(net, rng)
    rank = net[x].rank
    given = {"axis": written(net, rng, pick_axis(net, rng, x), rank)} if rng.random() < 0.7 else {}
    axis = given.get("axis", -1 if net.opset >= 13 else 1) % rank
    need(net[x].batch.axis < axis if net.opset < 13 else net[x].batch.axis != axis)
    return net.add(rng.choice(["Softmax", "Softmax", "LogSoftmax"]), [x], **given)


@step(3)
def same(net, rng):
    x = pick(net, rng)
    op = rng.choice(["Identity", "Dropout", "Cast"])
    if op == "Cast":
        if rng.random() < 0.5:
            x = net.add("Cast", [x], to=TensorProto.DOUBLE)
        return net.add("Cast", [x], to=TensorProto.FLOAT)
    if op == "Dropout" and net.opset >= 12 and rng.random() < 0.6:
        return net.add(op, [x, net.constant(numpy.float32(0.25))])
    return net.add(op, [x], **({"ratio": 0.25} if op == "Dropout" and net.opset < 12 else {}))


@step(1)
def unfamiliar(net, rng):
    """What few readers follow: a reader may refuse it by name."""
    x = pick(net, rng)
    kind = rng.choice(["If", "If", "Loop", "RandomNormalLike", "RandomNormal", "Einsum", "Einsum", "ArgMax"])
    return {"If": _if, "Loop": _loop, "RandomNormalLike": _random_like, "RandomNormal": _random,
            "Einsum": _einsum, "ArgMax": _arg_max}[kind](net, rng, x)


def _graph(name, inputs, nodes, outputs):
    info = lambda n: helper.make_tensor_value_info(n[0], n[1], n[2])
    return helper.make_graph(nodes, name, [info(i) for i in inputs], [info(o) for o in outputs])


def _inner(net, kind):
    return net.fresh("inner_" + kind)


def _if(net, rng, x):
    need(net.opset >= 11)
    shape = [f"axis_{i}" for i in range(net[x].rank)]
    branches = {}
    for branch in ("then_branch", "else_branch"):
        name = _inner(net, branch)
        branches[branch] = _graph(branch, [], [helper.make_node(rng.choice(["Relu", "Neg", "Tanh"]), [x], [name])],
                                  [(name, TensorProto.FLOAT, shape)])
    return net.add("If", [net.constant(numpy.array(rng.random() < 0.5))], **branches)


def _loop(net, rng, x):
    need(net.opset >= 13)
    shape = [f"axis_{i}" for i in range(net[x].rank)]
    before, condition, step_number, after, goes_on = (_inner(net, k) for k in ("before", "condition", "step", "after", "on"))
    other = rng.choice([n for n in net.order if net[n].is_float and net[n].at[0].shape == net[x].at[0].shape])
    body = _graph("body", [(step_number, TensorProto.INT64, []), (condition, TensorProto.BOOL, []),
                           (before, TensorProto.FLOAT, shape)],
                  [helper.make_node("Identity", [condition], [goes_on]),
                   helper.make_node("Add", [before, other], [after])],
                  [(goes_on, TensorProto.BOOL, []), (after, TensorProto.FLOAT, shape)])
    return net.add("Loop", [net.constant(numpy.int64(2)), net.constant(numpy.array(True)), x], body=body)


def _random_like(net, rng, x):
    return net.add("Add", [x, net.add("RandomNormalLike", [x], seed=3.0)])


def _random(net, rng, x):
    shape = [1 if a == net[x].batch.axis else e for a, e in enumerate(net[x].extents())]
    noise = net.fresh("RandomNormal")
    node = helper.make_node("RandomNormal", [], [noise], shape=shape, seed=3.0)
    values = reference.evaluator(node, net.opset)()[0].astype(numpy.float32)
    net.nodes.append(node)
    net.features.add("RandomNormal")
    net.tensors[noise] = Tensor(noise, [values, values], root=noise)
    return net.add("Add", [x, noise])


def _einsum(net, rng, x):
    need(net.opset >= 12)
    tensor = net[x]
    letters = "abcdef"[:tensor.rank]
    axis = pick_axis(net, rng, x)
    w = drawn(net, rng, (tensor.extent(axis), 3))
    return net.add("Einsum", [x, w], equation=f"{letters},{letters[axis]}k->{letters.replace(letters[axis], 'k')}")


def _arg_max(net, rng, x):
    rank = net[x].rank
    axis = pick_axis(net, rng, x)
    given = {"axis": written(net, rng, axis, rank)} if axis or rng.random() < 0.5 else {}
    found = net.add("ArgMax", [x], keepdims=rng.choice([0, 1, None]), **given)
    if rng.random() < 0.4:
        return net.add("Gather", [drawn(net, rng, (net[x].extent(axis), 3)), found], feature="Gather.computed_indices")
    return net.add("Cast", [found], to=TensorProto.FLOAT) if rng.random() < 0.6 else found


# ---- Axes.

@step(5)
def concatenation(net, rng):
    x = pick(net, rng)
    tensor = net[x]
    axis = pick_axis(net, rng, x)

    def fits(t):
        return (t.rank == tensor.rank and t.batch and t.batch[:3] == tensor.batch[:3]
                and all(a == axis or e == tensor.extent(a) for a, e in enumerate(t.extents())))

    others = [n for n in net.order if net[n].is_float and fits(net[n])]
    parts = [x, rng.choice(others)]
    if rng.random() < 0.2:
        parts.append(rng.choice(others))
    rng.shuffle(parts)
    return net.add("Concat", parts, axis=written(net, rng, axis, tensor.rank))


@step(4)
def splitting(net, rng):
    x = pick(net, rng)
    axis = pick_axis(net, rng, x, lambda extent: extent >= 2)
    extent = net[x].extent(axis)
    parts = [d for d in divisors(extent) if d > 1 and d <= 4]
    if parts and rng.random() < 0.6:
        number = rng.choice(parts)
        sizes = [extent // number] * number
    else:
        first = rng.randrange(1, extent)
        sizes = [first, extent - first]
    made = split(net, rng, x, written(net, rng, axis, net[x].rank), sizes)
    if rng.random() < 0.5:
        rng.shuffle(made)
        for name in made:  # the last one is what the next step takes most often
            net.order.remove(name)
            net.order.append(name)
    if len(set(sizes)) == 1 and rng.random() < 0.5:
        return net.add(rng.choice(["Add", "Mul"]), made[:2])
    return None


@step(4)
def slicing(net, rng):
    x = pick(net, rng)
    rank = net[x].rank
    axes = sorted({pick_axis(net, rng, x, lambda extent: extent > 1) for _ in range(rng.choice([1, 1, 2]))})
    starts, ends, steps = [], [], []
    for axis in axes:
        extent = net[x].extent(axis)
        forward = rng.random() < 0.85 or net.opset < 10
        pace = rng.choice([1, 1, 2, 3]) if net.opset >= 10 else 1
        begin = rng.randrange(extent - 1) if forward else rng.randrange(1, extent)
        end = rng.randrange(begin + 1, extent + 1) if forward else rng.randrange(-1, begin)
        if forward:
            starts.append(begin - extent if rng.random() < 0.3 else begin)
            ends.append(rng.choice([2**31 - 1, 2**63 - 1]) if end == extent and rng.random() < 0.5
                        else end - extent if end < extent and rng.random() < 0.4 else end)
        else:
            starts.append(begin if rng.random() < 0.5 else begin - extent)
            ends.append(-2**31 if end < 0 else end)
        steps.append(pace if forward else -pace)
    named = [written(net, rng, a, rank) for a in axes] if net.opset >= 10 else axes
    leave = axes == list(range(len(axes))) and rng.random() < 0.5
    return sliced(net, x, starts, ends, None if leave and not any(s != 1 for s in steps) else named,
                  steps if any(s != 1 for s in steps) or rng.random() < 0.3 and not leave else None)


@step(1)
def slice_by_shape(net, rng):
    """The first half of an axis, with an end that Shape's output says."""
    need(net.opset >= 10)
    x = pick(net, rng)
    axis = pick_axis(net, rng, x, lambda extent: extent >= 2)
    extent = net.add("Gather", [net.add("Shape", [x]), net.integers(axis)], axis=0)
    end = net.add(rng.choice(["Div", "Sub"]), [extent, net.integers(2 if net[x].extent(axis) > 2 else 1)])
    return net.add("Slice", [x, net.integers(0), end, net.integers(axis)])


@step(3)
def gathering(net, rng):
    x = pick(net, rng, lambda t: t.rank >= 2)
    axis = pick_axis(net, rng, x)
    extent = net[x].extent(axis)
    low = -extent if net.opset >= 11 else 0
    shape = rng.choice([(), (2,), (3,), (1,), (2, 2)])
    indices = net.constant(numpy.array([rng.randrange(low, extent) for _ in range(math.prod(shape))],
                                       numpy.int64).reshape(shape))
    return net.add("Gather", [x, indices], axis=written(net, rng, axis, net[x].rank))


@step(4)
def transposition(net, rng):
    x = pick(net, rng, lambda t: t.rank >= 2)
    order = list(range(net[x].rank))
    draw = rng.random()
    if draw < 0.25:
        return net.add("Transpose", [x])
    if draw < 0.75:
        rest = [a for a in order if a != net[x].batch.axis]
        rng.shuffle(rest)
        rest.insert(net[x].batch.axis, net[x].batch.axis)
        order = rest
    else:
        rng.shuffle(order)
    return net.add("Transpose", [x], perm=order)


def reshaped(net, rng, x, dims, batch):
    """x in the extents `dims`, of which that of axis batch.axis is without the batch itself."""
    tensor = net[x]
    target = list(dims)
    ways = ["minus", "minus"] + ["number"] * 2 * bool(net.batch) + ["arithmetic"]
    way = rng.choice(ways)
    same = {a for a in range(min(len(dims), tensor.rank)) if tensor.extent(a) == dims[a]
            and (a == batch.axis) == (a == tensor.batch.axis)}
    attributes = {"allowzero": 1} if net.opset >= 14 and rng.random() < 0.2 else {}
    if way == "minus":
        target[batch.axis] = -1
        if not attributes:
            if batch.axis in same and rng.random() < 0.5:
                target[batch.axis] = 0
                if rng.random() < 0.6:
                    target[rng.randrange(len(dims))] = -1
                    if target[batch.axis] == -1:
                        target[batch.axis] = -1
            target = [0 if a in same and t != -1 and a != batch.axis and rng.random() < 0.3 else t
                      for a, t in enumerate(target)]
        shape = net.integers(*target)
    elif way == "number":
        rows = []
        hole = rng.choice([None] + [a for a in range(len(dims)) if a != batch.axis])
        for size in (2, 4, net.batch):
            rows.append([-1 if a == hole else d * size if a == batch.axis else d for a, d in enumerate(dims)])
        rows = [numpy.array(row, numpy.int64) for row in rows]
        shape = net.constant(rows[0], at_batches=rows)
    else:
        shape = _shape_of(net, rng, x, dims, batch, same)
    y = net.add("Reshape", [x, shape], **attributes)
    need(net[y].at[0].shape == tuple(d * 2 if a == batch.axis else d for a, d in enumerate(dims)))
    net[y].batch = batch
    return y


def _shape_of(net, rng, x, dims, batch, same):
    """The shape as tracing leaves it: numbers of Shape's output beside constants."""
    need(batch.axis in same or tensor_part(net, x) == dims[batch.axis] or dims[batch.axis] % tensor_part(net, x) == 0)
    factor = dims[batch.axis] // tensor_part(net, x)
    whole = net.add("Shape", [x])
    size = net.add("Gather", [whole, net.constant(numpy.int64(net[x].batch.axis))], axis=0)
    if factor > 1:
        size = net.add("Mul", [size, net.constant(numpy.int64(factor))])
    size = axes_of(net, rng, "Unsqueeze", [size], [0])
    hole = rng.choice([None] + [a for a in range(len(dims)) if a != batch.axis])
    parts = [size if a == batch.axis else net.integers(-1 if a == hole else d) for a, d in enumerate(dims)]
    return net.add("Concat", parts, axis=0) if len(parts) > 1 else size


def tensor_part(net, x):
    return net[x].extent(net[x].batch.axis)


@step(6)
def reshaping(net, rng):
    x = pick(net, rng, lambda t: t.batch.splits)
    tensor = net[x]
    digits = []  # (extent, is batch) row-major, and where axes end
    for axis, extent in enumerate(tensor.extents()):
        if axis == tensor.batch.axis:
            parts = [(tensor.batch.outer, False)] * (tensor.batch.outer > 1) + [(1, True)]
            parts += [(tensor.batch.inner, False)] * (tensor.batch.inner > 1)
        else:
            first = rng.choice(divisors(extent))
            is_whole = rng.random() < 0.5 or first in (1, extent)
            parts = [(extent, False)] if is_whole else [(first, False), (extent // first, False)]
        digits += parts
    dims, batch = [], None
    joins = rng.choice([0.1, 0.3, 0.5])
    for extent, is_batch in digits:
        touches = is_batch or (batch and batch.axis == len(dims) - 1)
        if dims and rng.random() < (joins / 2 if touches else joins):
            if is_batch:
                batch = Batch(len(dims) - 1, dims[-1], 1, True)
            elif batch and batch.axis == len(dims) - 1:
                batch = Batch(batch.axis, batch.outer, batch.inner * extent, True)
            dims[-1] *= extent
        else:
            dims.append(extent)
            if is_batch:
                batch = Batch(len(dims) - 1, 1, 1, True)
    if rng.random() < 0.15:
        dims.append(1)
    need(len(dims) <= 6 and (dims != tensor.extents() or rng.random() < 0.2))
    return reshaped(net, rng, x, dims, batch)


@step(1)
def rearranged(net, rng):
    """Other extents that are no products of the axes' parts: [6, 4] as [4, 6]."""
    x = pick(net, rng, lambda t: leads(t) and t.rank == 3)
    _, a, b = net[x].extents()
    need(a != b)
    return reshaped(net, rng, x, [1, b, a], Batch(0, 1, 1, True))


@step(3)
def flattening(net, rng):
    x = pick(net, rng, lambda t: t.rank >= 2 and t.batch.axis == 0 and t.batch.splits)
    tensor = net[x]
    axis = rng.choice([None, 1, 1, rng.randrange(tensor.rank + 1)])
    given = {} if axis is None else {"axis": written(net, rng, axis, tensor.rank) if axis < tensor.rank else axis}
    y = net.add("Flatten", [x], **given)
    inner = math.prod(tensor.extents()[1:tensor.rank if axis == 0 else axis or 1])
    net[y].batch = Batch(1 if axis == 0 else 0, tensor.batch.outer, tensor.batch.inner * inner, True)
    return y


@step(2)
def squeezing(net, rng):
    x = pick(net, rng)
    tensor = net[x]
    ones = [a for a, e in enumerate(tensor.extents()) if e == 1 and a != tensor.batch.axis]
    if ones and rng.random() < 0.6:
        if net.batch != 1 and len(ones) == sum(e == 1 for e in tensor.at[0].shape) and rng.random() < 0.3:
            return net.add("Squeeze", [x])
        axes = ones if rng.random() < 0.5 else [rng.choice(ones)]
        return axes_of(net, rng, "Squeeze", [x], [written(net, rng, a, tensor.rank) for a in axes])
    need(tensor.rank <= 4)
    axis = rng.randrange(tensor.rank + 1)
    return axes_of(net, rng, "Unsqueeze", [x], [written(net, rng, axis, tensor.rank + 1)])


@step(1)
def expansion(net, rng):
    need(net.opset >= 8)
    x = pick(net, rng, lambda t: 1 in [e for a, e in enumerate(t.extents()) if a != t.batch.axis])
    tensor = net[x]
    if rng.random() < 0.4:
        like = [n for n in net.order if net[n].rank == tensor.rank and net[n].batch and n != x
                and net[n].batch[:3] == tensor.batch[:3]
                and all(e in (1, f) for e, f in zip(tensor.extents(), net[n].extents()))]
        need(like)
        return net.add("Expand", [x, net.add("Shape", [rng.choice(like)])])
    target = [e if e > 1 or a == tensor.batch.axis else rng.choice([1, 2, 3]) for a, e in enumerate(tensor.extents())]
    target[tensor.batch.axis] = 1
    if tensor_part(net, x) > 1:
        raise Unfit
    if rng.random() < 0.4 and tensor.batch.axis == 0:
        target = target[1:]
    return net.add("Expand", [x, net.integers(*target)])


@step(1)
def tiling(net, rng):
    x = pick(net, rng, lambda t: t.at[0].size <= 400)
    axis = pick_axis(net, rng, x)
    return net.add("Tile", [x, net.integers(*(2 if a == axis else 1 for a in range(net[x].rank)))])


@step(4)
def reduction(net, rng):
    x = pick(net, rng, lambda t: t.rank >= 2)
    tensor = net[x]
    op = rng.choice(["ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
    since = 13 if op == "ReduceSum" else 18
    given = {"keepdims": rng.choice([0, 1])} if rng.random() < 0.8 else {}
    if net.opset >= since and rng.random() < 0.1:
        return net.add(op, [x], noop_with_empty_axes=1, **given)
    free = [a for a in range(tensor.rank) if a != tensor.batch.axis]
    axes = free if rng.random() < 0.3 else [rng.choice(free)]
    if rng.random() < 0.4 and tensor.rank == 4 and leads(tensor):
        axes = [2, 3]
    if given.get("keepdims", 1) == 0:
        need(len(axes) < tensor.rank - 1 or rng.random() < 0.2)
    return axes_of(net, rng, op, [x], [written(net, rng, a, tensor.rank) for a in axes], since, **given)


# ---- Features and tokens.

@step(5)
def head(net, rng):
    """A fully connected layer on features."""
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
        there = [n for n in net.order if net[n].is_float and net[n].batch and net[n].rank == 2 and net[n].batch.axis == 0
                 and net[n].extents() in ([tensor_part(net, inputs[0]), outputs], [1, outputs])
                 and not given.get("transA")]
        need(there)
        return net.add("Gemm", [*inputs, rng.choice(there)], feature="Gemm.computed_C", **given)
    if draw < 0.85 or net.opset < 11:
        inputs.append(drawn(net, rng, rng.choice([(outputs,), (outputs,), (1, outputs), (), (1,), (1, 1)])))
    return net.add("Gemm", inputs, **given)


@step(4)
def matrix(net, rng):
    """MatMul with a constant on either side, position by position or batched."""
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
    """Over the last axis: as one operator or of the primitive ones."""
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
    """Patches of an image, or its pixels, as tokens."""
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
        net[spread].root = token  # of one image, it is what it was
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
    """The feed-forward part of a transformer's block."""
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
    """[n, t, heads * d] as [n, heads, t, d]."""
    t, width = net[y].extents()[1:]
    batch = net[y].batch
    y = reshaped(net, rng, y, [tensor_part(net, y), t, heads, width // heads], batch)
    return net.add("Transpose", [y], perm=[0, 2, 1, 3])


def _fused(net, rng, x, heads):
    """Queries, keys and values of one matrix, [n, heads, t, d] each."""
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
    """Multi-head attention of tokens to each other."""
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
    """numpy.roll by -by: two slices and a concatenation."""
    extent = net[x].extent(axis)
    parts = [sliced(net, x, [by], [extent], [axis]), sliced(net, x, [0], [by], [axis])]
    return net.add("Concat", parts, axis=axis)


@step(2)
def window_attention(net, rng):
    """Swin's: attention within windows of an image, which may be rolled before."""
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


@step(1)
def filled_by_shape(net, rng):
    """Zeros or ones of a shape that Shape says, added."""
    need(net.opset >= 9)
    x = pick(net, rng)
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [1.0])
    shape = net.add("Shape", [x])
    if rng.random() < 0.3:
        count = net.add("Size", [x])
        net.features.add("Size")
        del count
    return net.add("Add", [x, net.add("ConstantOfShape", [shape], value=value)])

