"""Steps of random Caffe nets: layers, with the rules of Caffe's LayerSetUp and Reshape (BVLC/caffe, src/caffe/layers)."""

import math

from caffe_net import Layer, Word, dims
from steps import need, step


def is_image(extents):
    return len(extents) == 4


def _axis(rng, axis, rank, default):
    """Returns the field "axis", in some cases as a negative number. May return no field if the axis is the default."""
    if axis == default and rng.random() < 0.5:
        return []
    return [("axis", axis - rank if rng.random() < 0.3 else axis)]


def _window(rng, extents):
    """Returns (fields, window, stride, pad, dilation) of a convolution along these extents."""
    rank = len(extents)
    fields, values = [], []
    for name, short, choices, default in (("kernel_size", "kernel", [1, 2, 3, 3], None), ("stride", "stride", [1, 1, 2], 1),
                                          ("pad", "pad", [0, 0, 1, 2], 0), ("dilation", None, [1, 1, 2], 1)):
        draw = rng.random()
        if default is not None and draw < 0.4:
            values.append([default] * rank)
        elif draw < 0.75:
            value = rng.choice(choices)
            fields.append((name, value))
            values.append([value] * rank)
        elif short and rank == 2 and draw < 0.9:
            both = [rng.choice(choices) for _ in extents]
            fields += [(short + "_h", both[0]), (short + "_w", both[1])]
            values.append(both)
        else:
            values.append([rng.choice(choices) for _ in extents])
            fields += [(name, value) for value in values[-1]]
    return (fields, *values)


@step(14)
def convolution(net, rng):
    x = net.pick(lambda e: len(e) in (4, 5))
    extents = net.blobs[x]
    rank = len(extents)
    channel = 2 if rank == 5 and rng.random() < 0.3 else 1
    kind = rng.choice(["Convolution"] * 4 + ["Deconvolution"])
    fields, window, stride, pad, dilation = _window(rng, extents[channel + 1:])
    span = [d * (w - 1) + 1 for d, w in zip(dilation, window)]
    if kind == "Convolution":
        out = [(e + 2 * p - s) // t + 1 for e, p, s, t in zip(extents[channel + 1:], pad, span, stride)]
        need(all(e + 2 * p >= s for e, p, s in zip(extents[channel + 1:], pad, span)))
    else:
        out = [t * (e - 1) + s - 2 * p for e, p, s, t in zip(extents[channel + 1:], pad, span, stride)]
        need(max(out) <= 24)
    channels = extents[channel]
    group = rng.choice([g for g in range(1, channels + 1) if channels % g == 0]) if rng.random() < 0.3 else 1
    outputs = group * rng.choice([1, 2, 3])
    fields += [("num_output", outputs)] + ([("group", group)] if group > 1 or rng.random() < 0.1 else [])
    bias = rng.random() < 0.7
    if not bias or rng.random() < 0.2:
        fields.append(("bias_term", bias))
    fields += _axis(rng, channel, rank, 1)
    if rng.random() < 0.2:
        fields += [("weight_filler", [("type", "xavier")]), ("engine", Word("CAFFE"))]
    filters = [channels, outputs // group] if kind == "Deconvolution" else [outputs, channels // group]
    numbers = [[*filters, *window]] + [[outputs]] * bias
    net.layer(kind, [x], [[*extents[:channel], outputs, *out]], [("convolution_param", fields)], numbers)


@step(8)
def pooling(net, rng):
    x = net.pick(is_image)
    n, c, h, w = net.blobs[x]
    kind = rng.choice(["MAX", "AVE", None])
    fields = [("pool", Word(kind))] if kind else []
    if rng.random() < 0.15:
        net.layer("Pooling", [x], [[n, c, 1, 1]], [("pooling_param", fields + [("global_pooling", True)])])
        return
    window, stride, pad = [rng.choice([1, 2, 3])] * 2, [rng.choice([1, 2, 2, 3])] * 2, [0, 0]
    if rng.random() < 0.3:
        window = [rng.choice([1, 2, 3]) for _ in window]
        fields += [("kernel_h", window[0]), ("kernel_w", window[1])]
    else:
        fields.append(("kernel_size", window[0]))
    if rng.random() < 0.3:
        stride = [rng.choice([1, 2, 3]) for _ in stride]
        fields += [("stride_h", stride[0]), ("stride_w", stride[1])]
    elif stride[0] > 1 or rng.random() < 0.3:
        fields.append(("stride", stride[0]))
    draw = rng.random()
    if draw < 0.3:
        pad = [rng.randrange(min(window))] * 2
        fields.append(("pad", pad[0]))
    elif draw < 0.45:
        pad = [rng.randrange(k) for k in window]
        fields += [("pad_h", pad[0]), ("pad_w", pad[1])]
    down = rng.random() < 0.15
    if down or rng.random() < 0.1:
        fields.append(("round_mode", Word("FLOOR" if down else "CEIL")))
    out = []
    for extent, k, s, p in zip((h, w), window, stride, pad):
        room = extent + 2 * p - k
        need(room >= 0)
        out.append((room // s if down else -(-room // s)) + 1)
    if any(pad):  # with a pad, Caffe drops a window that starts after the image and its leading pad
        out = [o - ((o - 1) * s >= e + p) for o, s, e, p in zip(out, stride, (h, w), pad)]
    rng.shuffle(fields)
    shapes = [[n, c, *out]]
    if kind != "AVE" and rng.random() < 0.06:
        shapes *= 2
        net.features.add("Pooling.mask")
    tops = net.layer("Pooling", [x], shapes, [("pooling_param", fields)])
    if len(tops) == 2:
        net.order.remove(tops[1])
        net.unlisted.add(tops[1])


@step(8)
def inner_product(net, rng):
    x = net.pick(lambda e: len(e) >= 2)
    extents = net.blobs[x]
    axis = 1 if rng.random() < 0.7 else rng.randrange(1, len(extents))
    inner, outputs = math.prod(extents[axis:]), rng.choice([1, 2, 5, 10])
    need(inner <= 2000)
    fields = [("num_output", outputs)] + _axis(rng, axis, len(extents), 1)
    transpose, bias = rng.random() < 0.2, rng.random() < 0.75
    fields += [("transpose", True)] * transpose
    if not bias or rng.random() < 0.2:
        fields.append(("bias_term", bias))
    numbers = [[inner, outputs] if transpose else [outputs, inner]] + [[outputs]] * bias
    net.layer("InnerProduct", [x], [[*extents[:axis], outputs]], [("inner_product_param", fields)], numbers)


@step(4)
def same_shape(net, rng):
    """Adds a layer without trained numbers whose top has the shape of its bottom."""
    kind, fields, test = rng.choice([
        ("LRN", [("lrn_param", [("local_size", rng.choice([3, 5]))])], is_image),
        ("LRN", [("lrn_param", [("local_size", 3), ("norm_region", Word("WITHIN_CHANNEL"))])], is_image),
        ("LRN", [], is_image),
        ("MVN", [("mvn_param", [("across_channels", rng.random() < 0.5)])] * (rng.random() < 0.6), is_image),
        ("Softmax", [], lambda e: len(e) >= 2)])
    x = net.pick(test)
    extents = net.blobs[x]
    if kind == "Softmax":
        axis = rng.randrange(1, len(extents)) if rng.random() < 0.5 else 1
        chosen = _axis(rng, axis, len(extents), 1)
        fields = [("softmax_param", chosen)] if chosen else []
    net.layer(kind, [x], [extents], fields)


@step(10)
def activation(net, rng):
    x = net.pick()
    kind, fields = rng.choice([
        ("ReLU", []), ("ReLU", []), ("ReLU", [("relu_param", [("negative_slope", 0.1)])]), ("Sigmoid", []), ("TanH", []),
        ("ELU", []), ("ELU", [("elu_param", [("alpha", 0.5)])]), ("AbsVal", []), ("BNLL", []),
        ("Exp", [("exp_param", [("base", 2), ("scale", 0.5)])]), ("Log", [("log_param", [("shift", 3)])]),
        ("Power", [("power_param", [("power", 2), ("scale", 0.5), ("shift", 1)])]), ("Power", []),
        ("Threshold", [("threshold_param", [("threshold", 0.5)])]), ("Swish", []),
        ("Clip", [("clip_param", [("min", 0), ("max", 6)])]), ("Dropout", []),
        ("Dropout", [("dropout_param", [("dropout_ratio", 0.2)])])])
    net.layer(kind, [x], [net.blobs[x]], fields, in_place=rng.random() < 0.6 and _is_made(net, x))


def _is_made(net, blob):
    """Returns whether a layer with bottoms makes the blob, so that another layer may work on it in place."""
    return any(blob in layer.tops and layer.bottoms for layer in net.layers)


@step(2)
def slope(net, rng):
    x = net.pick(lambda e: len(e) >= 2)
    shared = rng.random() < 0.3
    fields = [("prelu_param", [("channel_shared", True)])] if shared else []
    net.layer("PReLU", [x], [net.blobs[x]], fields, [[] if shared else [net.blobs[x][1]]],
              in_place=rng.random() < 0.5 and _is_made(net, x))


@step(4)
def flatten(net, rng):
    x = net.pick(lambda e: len(e) >= 2)
    extents = net.blobs[x]
    rank = len(extents)
    first = rng.choice([1, 1, rng.randrange(1, rank)])
    last = rng.choice([rank - 1, rng.randrange(first, rank)])
    fields = _axis(rng, first, rank, 1)
    if last != rank - 1 or rng.random() < 0.2:
        fields.append(("end_axis", last - rank if rng.random() < 0.3 else last))
    net.layer("Flatten", [x], [[*extents[:first], math.prod(extents[first:last + 1]), *extents[last + 1:]]],
              [("flatten_param", fields)] if fields else [])


@step(4)
def reshape(net, rng):
    x = net.pick(lambda e: len(e) >= 2)
    extents = net.blobs[x]
    rank = len(extents)
    first = rng.choice([0, 0, 1, rng.randrange(1, rank)])
    last = rng.choice([rank, rng.randrange(max(first, 1), rank + 1)])
    inside = extents[first:last]
    target = list(inside)
    # The batch's axis is neither split nor joined with others. It is written as 0 or -1.
    begin = 1 if first == 0 else 0
    need(begin < len(target))
    at = rng.randrange(begin, len(target))
    splits = [d for d in range(1, target[at] + 1) if target[at] % d == 0]
    if rng.random() < 0.5 or at + 1 == len(target):
        part = rng.choice(splits)
        target[at:at + 1] = [part, target[at] // part]
    else:
        target[at:at + 2] = [target[at] * target[at + 1]]
    written = list(target)
    free = list(range(begin, len(written)))
    if first == 0:
        written[0] = rng.choice([0, 0, -1])
    if -1 not in written and rng.random() < 0.5:
        written[rng.choice(free)] = -1
    for a in free:
        if written[a] != -1 and a < len(inside) and inside[a] == target[a] and rng.random() < 0.3:
            written[a] = 0
    need(len(extents) - len(inside) + len(target) <= 5)  # graphs have at most five axes
    fields = [("shape", dims(written))]
    if first:
        fields.append(("axis", first - rank - 1 if rng.random() < 0.3 else first))
    if last != rank:
        fields.append(("num_axes", last - first))
    net.layer("Reshape", [x], [[*extents[:first], *target, *extents[last:]]], [("reshape_param", fields)])


@step(4)
def concat(net, rng):
    x = net.pick(lambda e: len(e) >= 2)
    extents = net.blobs[x]
    axis = rng.choice([1, 1, 1, rng.randrange(1, len(extents))])
    fits = [n for n in net.order if len(net.blobs[n]) == len(extents)
            and all(a == axis or e == f for a, (e, f) in enumerate(zip(extents, net.blobs[n])))]
    bottoms = [x, rng.choice(fits)] + [rng.choice(fits)] * (rng.random() < 0.2)
    rng.shuffle(bottoms)
    total = sum(net.blobs[b][axis] for b in bottoms)
    if rng.random() < 0.2:
        fields = [("concat_dim", axis)]
    else:
        fields = _axis(rng, axis, len(extents), 1)
    net.layer("Concat", bottoms, [[*extents[:axis], total, *extents[axis + 1:]]], [("concat_param", fields)] if fields else [])


@step(3)
def slices(net, rng):
    x = net.pick(lambda e: len(e) >= 2)
    extents = net.blobs[x]
    axis = rng.choice([1, 1, rng.randrange(1, len(extents))])
    need(extents[axis] >= 2)
    fields = [("slice_dim", axis)] if rng.random() < 0.2 else _axis(rng, axis, len(extents), 1)
    if extents[axis] % 2 == 0 and rng.random() < 0.5:
        sizes = [extents[axis] // 2] * 2
    else:
        points = sorted(rng.sample(range(1, extents[axis]), min(extents[axis] - 1, rng.choice([1, 1, 2]))))
        fields += [("slice_point", p) for p in points]
        sizes = [b - a for a, b in zip([0, *points], [*points, extents[axis]])]
    net.layer("Slice", [x], [[*extents[:axis], size, *extents[axis + 1:]] for size in sizes],
              [("slice_param", fields)] if fields else [])


@step(1)
def split(net, rng):
    x = net.pick()
    net.layer("Split", [x], [net.blobs[x]] * rng.choice([1, 2, 3]))


@step(6)
def eltwise(net, rng):
    x = net.pick()
    fits = [n for n in net.order if net.blobs[n] == net.blobs[x] and n != x]
    need(fits)
    bottoms = [x, rng.choice(fits)]
    operation = rng.choice(["PROD", "SUM", "MAX", None])
    fields = [("operation", Word(operation))] if operation else []
    if operation in ("SUM", None) and rng.random() < 0.3:
        fields += [("coeff", rng.choice([1, -1, 0.5])) for _ in bottoms]
    net.layer("Eltwise", bottoms, [net.blobs[x]], [("eltwise_param", fields)] if fields else [])


@step(3)
def residual(net, rng):
    """Adds a branch of the same shape, and its sum with the input."""
    x = net.pick(is_image)
    n, c, h, w = net.blobs[x]
    (y,) = net.layer("Convolution", [x], [[n, c, h, w]],
                     [("convolution_param", [("num_output", c), ("kernel_size", 3), ("pad", 1)])], [[c, c, 3, 3], [c]])
    net.layer("Eltwise", [x, y], [[n, c, h, w]])


@step(5)
def batch_norm(net, rng):
    x = net.pick(lambda e: len(e) >= 2)
    extents = net.blobs[x]
    fields = [("batch_norm_param", [("use_global_stats", rng.random() < 0.5)])] * (rng.random() < 0.4)
    in_place = rng.random() < 0.4 and _is_made(net, x)
    (y,) = net.layer("BatchNorm", [x], [extents], fields, in_place=in_place)
    if rng.random() < 0.3:
        net.layers[-1].params = [[("lr_mult", 0)]] * 3
    if rng.random() < 0.6:
        bias = rng.random() < 0.8
        net.layer("Scale", [y], [extents], [("scale_param", [("bias_term", True)])] * bias,
                  [[extents[1]]] * (1 + bias), in_place=rng.random() < 0.5)


@step(4)
def scale_or_bias(net, rng):
    x = net.pick(lambda e: len(e) >= 2)
    extents = net.blobs[x]
    rank = len(extents)
    kind = rng.choice(["Scale", "Scale", "Bias"])
    field = kind.lower() + "_param"
    bias = kind == "Scale" and rng.random() < 0.5
    if rng.random() < 0.3:
        _of_two_bottoms(net, rng, kind, x, bias)
        return
    axis = rng.choice([1, 1, rng.randrange(1, rank)])
    count = rng.choice([1, 1, 0, -1, rng.randrange(1, rank - axis + 1)])
    fields = _axis(rng, axis, rank, 1) + ([("num_axes", count)] if count != 1 or rng.random() < 0.2 else [])
    fields += [("bias_term", True)] * bias
    own = extents[axis:] if count == -1 else extents[axis:axis + count]
    net.layer(kind, [x], [extents], [(field, fields)] if fields else [], [own] * (1 + bias),
              in_place=rng.random() < 0.4 and _is_made(net, x))


def _of_two_bottoms(net, rng, kind, x, bias):
    """Adds a Scale or Bias that reads its numbers from a second bottom. Raises Unfit if no blob fits or if `bias` is true."""
    extents = net.blobs[x]
    fits = []
    for name in net.order:
        other = net.blobs[name]
        fits += [(name, axis) for axis in range(len(extents) - len(other) + 1)
                 if name != x and extents[axis:axis + len(other)] == other and axis == 0]
    need(fits)
    name, axis = rng.choice(fits)
    need(not bias)  # the layer's own bias would have the batch's axis
    net.features.add(kind + ".of_two")
    net.layer(kind, [x, name], [extents], [(kind.lower() + "_param", [("axis", axis)])])


@step(2)
def gate(net, rng):
    """Adds squeeze and excite as Caffe nets write it: a Scale whose second bottom is [n, c]."""
    x = net.pick(is_image)
    n, c, h, w = net.blobs[x]
    (mean,) = net.layer("Pooling", [x], [[n, c, 1, 1]], [("pooling_param", [("pool", Word("AVE")), ("global_pooling", True)])])
    (wide,) = net.layer("InnerProduct", [mean], [[n, c]], [("inner_product_param", [("num_output", c)])], [[c, c], [c]])
    net.layer("Sigmoid", [wide], [[n, c]], in_place=True)
    net.features.add("Scale.of_two")
    net.layer("Scale", [x, wide], [[n, c, h, w]], [("scale_param", [("axis", 0)])])


@step(3)
def crop(net, rng):
    x = net.pick(is_image)
    extents = net.blobs[x]
    axis = rng.choice([2, 2, 2, 3, 1])
    fits = [n for n in net.order if n != x and len(net.blobs[n]) == 4
            and all(f <= e for e, f in zip(extents[axis:], net.blobs[n][axis:]))]
    need(fits)
    like = rng.choice(fits)
    rooms = [e - f for e, f in zip(extents[axis:], net.blobs[like][axis:])]
    fields = _axis(rng, axis, 4, 2)
    draw = rng.random()
    if draw < 0.4:
        fields.append(("offset", rng.randrange(min(rooms) + 1)))
    elif draw < 0.8:
        fields += [("offset", rng.randrange(room + 1)) for room in rooms]
    net.layer("Crop", [x, like], [[*extents[:axis], *net.blobs[like][axis:]]], [("crop_param", fields)] if fields else [])


@step(1)
def arg_max(net, rng):
    x = net.pick(lambda e: len(e) >= 2)
    extents = net.blobs[x]
    most = rng.random() < 0.3
    fields = [("out_max_val", True)] * most
    if rng.random() < 0.5:
        axis = rng.randrange(1, len(extents))
        top = rng.randrange(1, extents[axis] + 1)
        shape = [*extents[:axis], top, *extents[axis + 1:]]
        fields += [("axis", axis), ("top_k", top)]
    else:
        shape = [extents[0], 2 if most else 1, 1] + [1] * (len(extents) - 3)
    (top,) = net.layer("ArgMax", [x], [shape], [("argmax_param", fields)] if fields else [])
    net.order.remove(top)


@step(2)
def loss(net, rng):
    x = net.pick(lambda e: len(e) in (2, 4))
    extents = net.blobs[x]
    (target,) = net.layer("DummyData", [], [extents if rng.random() < 0.5 else [1, 1]], [])
    layer = net.layers[-1]
    kind = "EuclideanLoss" if net.blobs[target] == extents else "SoftmaxWithLoss"
    need(kind == "EuclideanLoss" or len(extents) == 2)
    layer.fields = [("dummy_data_param", [("shape", dims([net.batch, *net.blobs[target][1:]]))])]
    net.order.remove(target)
    net.unlisted.add(target)
    name = net.fresh("loss")
    tops = [name] if rng.random() < 0.6 else []
    net.unlisted.update(tops)
    net.layers.append(Layer(kind, name, [x, target], tops, [], [], net._rules()))
    net.features.add(kind)


@step(1)
def silence(net, rng):
    net.layers.append(Layer("Silence", net.fresh("silence"), [net.pick()], [], [], [], []))


@step(1)
def other_phase(net, rng):
    """Adds a copy of a layer for another phase, stage or level."""
    layers = [layer for layer in net.layers if layer.bottoms and layer.tops and layer.type not in ("ReLU", "Dropout")]
    need(layers)
    net.decoy(rng.choice(layers))
