"""Steps of random ONNX nets: operators on images and volumes."""

import math

import numpy
from onnx import TensorProto

from constants import axes_of, drawn, pad, sliced
from steps import divisors, image, leads, need, pick, step, volume, written


def _window(net, rng, x, dilations, most=3):
    """Returns (extents, other attributes) of a window that fits x."""
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
        tail = _scaled_extents(net, x, target) if rng.random() < 0.5 else net.integers(*target[2:])
        sizes = net.add("Concat", [head, tail], axis=0)
    return net.add("Resize", [x, roi, scales, sizes], **given)


def _scaled_extents(net, x, target):
    """Computes the extents of an image as a tracer does, in 32-bit floats: they are about the extents of `target`."""
    extents = net[x].extents()
    factors = numpy.array([to / of for to, of in zip(target[2:], extents[2:])], numpy.float32)
    whole = sliced(net, net.add("Shape", [x]), [2], [len(target)], [0])
    scaled = net.add("Mul", [net.add("Cast", [whole], to=TensorProto.FLOAT), net.constant(factors)])
    return net.add("Cast", [net.add("Floor", [scaled])], to=TensorProto.INT64)


@step(2)
def resize_like(net, rng):
    """Resizes to the size of another image, as a decoder's skip connections need."""
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
    """Adds squeeze and excite: channels are multiplied by gates that depend on their means."""
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
