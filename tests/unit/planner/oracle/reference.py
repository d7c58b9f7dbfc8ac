"""Evaluates ONNX nodes one at a time on numpy arrays by onnx.reference's operators. The functions below replace operators
that differ from the specification or are slow; comments say why. Pure functions."""

import functools
import itertools

import numpy
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import load_op

RUN_PARAMETERS = {"log": lambda *_: None, "opsets": {"": 0}, "verbose": 0, "new_ops": {}, "existing_functions": {},
                  "evaluator_cls": ReferenceEvaluator}


def attributes_of(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def outer_reads(node):
    """Returns the tensors that a node's subgraphs (If, Loop) read from outside of them."""
    reads = []
    for graph in (a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH):
        inside = {i.name for i in graph.input} | {i.name for i in graph.initializer}
        for inner in graph.node:
            reads += [n for n in [*inner.input, *outer_reads(inner)] if n and n not in inside]
            inside.update(inner.output)
        reads += [o.name for o in graph.output if o.name not in inside]
    return list(dict.fromkeys(reads))


def reads_of(node):
    """Returns the names of all tensors that a node reads; an input that is left out is ''."""
    return [*node.input, *outer_reads(node)]


def evaluator(node, opset):
    """Returns a function from the arrays that reads_of(node) names (None where left out) to the list of output arrays."""
    attributes = attributes_of(node)
    if node.op_type in OWN:
        return functools.partial(OWN[node.op_type], opset, attributes)
    if node.op_type in ("If", "Loop") or node.op_type in FUNCTIONS:
        return functools.partial(_run_as_model, node, opset)
    parameters = dict(RUN_PARAMETERS, opsets={"": opset})
    operator = load_op("", node.op_type, opset, evaluator_cls=ReferenceEvaluator)(node, parameters)
    return lambda *arrays: list(operator.run(*arrays))


# onnx.reference has these operators only as function bodies. A model of one node makes it expand them.
FUNCTIONS = ("Gelu", "HardSwish", "Swish")


def _run_as_model(node, opset, *arrays):
    given = dict(zip(reads_of(node), arrays))
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
              for n, a in given.items() if n]
    outputs = [onnx.ValueInfoProto(name=n) for n in node.output]
    model = helper.make_model(helper.make_graph([node], "node", inputs, outputs),
                              opset_imports=[helper.make_opsetid("", opset)])
    return ReferenceEvaluator(model).run(None, {n: a for n, a in given.items() if n})


def window_geometry(extents, window, attributes):
    """Returns (output extents, leading pads, trailing pads) of Conv, MaxPool and AveragePool. With ceil_mode, the last
    window must start inside the image or the pads before it."""
    rank = len(extents)
    stride = attributes.get("strides", [1] * rank)
    dilation = attributes.get("dilations", [1] * rank)
    span = [d * (w - 1) + 1 for d, w in zip(dilation, window)]
    auto_pad = attributes.get("auto_pad", b"NOTSET").decode()
    if auto_pad.startswith("SAME"):
        out = [-(-e // s) for e, s in zip(extents, stride)]
        total = [max(0, (o - 1) * s + k - e) for o, s, k, e in zip(out, stride, span, extents)]
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        return (out, small, large) if auto_pad == "SAME_UPPER" else (out, large, small)
    pads = attributes.get("pads", [0] * 2 * rank) if auto_pad == "NOTSET" else [0] * 2 * rank
    out = []
    for axis, extent in enumerate(extents):
        room = extent + pads[axis] + pads[rank + axis] - span[axis]
        count = room // stride[axis] + 1
        if attributes.get("ceil_mode", 0):
            count = -(-room // stride[axis]) + 1
            if (count - 1) * stride[axis] >= extent + pads[axis]:
                count -= 1
        out.append(count)
    return out, list(pads[:rank]), list(pads[rank:])


def _windows(x, window, attributes, fill):
    """Yields (position in the window, the elements of x that all windows have there)."""
    rank = len(window)
    stride = attributes.get("strides", [1] * rank)
    dilation = attributes.get("dilations", [1] * rank)
    out, before, after = window_geometry(x.shape[2:], window, attributes)
    # With ceil_mode, windows may also read beyond the pads. They find `fill` there, too.
    after = [max(a, (o - 1) * s + d * (w - 1) + 1 - e - b)
             for a, o, s, d, w, e, b in zip(after, out, stride, dilation, window, x.shape[2:], before)]
    padded = numpy.pad(x, [(0, 0), (0, 0), *zip(before, after)], constant_values=fill)
    for position in itertools.product(*map(range, window)):
        at = [slice(p * d, p * d + (o - 1) * s + 1, s) for p, d, o, s in zip(position, dilation, out, stride)]
        yield position, padded[(slice(None), slice(None), *at)]


def _conv(_, attributes, x, w, b=None):
    group = attributes.get("group", 1)
    n, k = x.shape[0], w.shape[0]
    y = 0
    for position, part in _windows(x, w.shape[2:], attributes, 0):
        taps = w[(slice(None), slice(None), *position)].reshape(group, k // group, -1)
        columns = part.reshape(n, group, x.shape[1] // group, -1)
        y = y + numpy.matmul(taps, columns)
    y = y.reshape(n, k, *part.shape[2:])
    return [(y if b is None else y + b.reshape(-1, *[1] * (x.ndim - 2))).astype(x.dtype)]


def transposed_geometry(extents, window, attributes):
    """Returns (output extents, number of leading elements to cut off) of ConvTranspose."""
    rank = len(extents)
    stride = attributes.get("strides", [1] * rank)
    dilation = attributes.get("dilations", [1] * rank)
    extra = attributes.get("output_padding", [0] * rank)
    pads = attributes.get("pads", [0] * 2 * rank)
    auto_pad = attributes.get("auto_pad", b"NOTSET").decode()
    full = [(e - 1) * s + d * (w - 1) + 1 + x for e, s, d, w, x in zip(extents, stride, dilation, window, extra)]
    out = attributes.get("output_shape")
    if out is None and auto_pad.startswith("SAME"):
        out = [e * s for e, s in zip(extents, stride)]
    if out is None:
        pads = pads if auto_pad == "NOTSET" else [0] * 2 * rank
        return [f - pads[i] - pads[rank + i] for i, f in enumerate(full)], list(pads[:rank])
    total = [f - o for f, o in zip(full, out)]
    return list(out), [t // 2 if auto_pad == "SAME_UPPER" else t - t // 2 for t in total]


# onnx.reference computes groups wrongly, and needs 30 ms for a small image.
def _conv_transpose(_, attributes, x, w, b=None):
    rank = x.ndim - 2
    group = attributes.get("group", 1)
    stride = attributes.get("strides", [1] * rank)
    dilation = attributes.get("dilations", [1] * rank)
    out, cut = transposed_geometry(x.shape[2:], w.shape[2:], attributes)
    n, c = x.shape[:2]
    columns = x.reshape(n, group, c // group, -1)
    whole = [max((e - 1) * s + d * (k - 1) + 1, o + b)
             for e, s, d, k, o, b in zip(x.shape[2:], stride, dilation, w.shape[2:], out, cut)]
    y = numpy.zeros((n, group * w.shape[1], *whole), x.dtype)
    for position in itertools.product(*map(range, w.shape[2:])):
        taps = w[(slice(None), slice(None), *position)].reshape(group, c // group, w.shape[1])
        part = numpy.matmul(taps.transpose(0, 2, 1), columns).reshape(n, -1, *x.shape[2:])
        at = [slice(p * d, p * d + (e - 1) * s + 1, s)
              for p, d, e, s in zip(position, dilation, x.shape[2:], stride)]
        y[(slice(None), slice(None), *at)] += part
    y = y[(slice(None), slice(None), *[slice(b, b + o) for b, o in zip(cut, out)])]
    return [y if b is None else y + b.reshape(-1, *[1] * rank)]


def _max_pool(_, attributes, x):
    y = -numpy.inf
    for _, part in _windows(x, attributes["kernel_shape"], attributes, -numpy.inf):
        y = numpy.maximum(y, part)
    return [y.astype(x.dtype)]


# onnx.reference adds ceil_mode's extra padding before the image, too.
def _average_pool(_, attributes, x):
    window = attributes["kernel_shape"]
    total = sum(part for _, part in _windows(x, window, attributes, 0))
    counted = numpy.ones((1, 1, *x.shape[2:]), x.dtype)
    if attributes.get("count_include_pad", 0):
        out, before, after = window_geometry(x.shape[2:], window, attributes)
        counted = numpy.pad(counted, [(0, 0), (0, 0), *zip(before, after)], constant_values=1)
        rank = len(window)
        attributes = {k: v for k, v in attributes.items() if k not in ("auto_pad", "pads")}
        attributes["pads"] = [0] * 2 * rank
    count = sum(part for _, part in _windows(counted, window, attributes, 0))
    # If the pads count as part of the image, a window of ceil_mode may start in the trailing pads. Then `count` has
    # more windows than `total`.
    count = count[(slice(None), slice(None), *map(slice, total.shape[2:]))]
    return [(total / numpy.maximum(count, 1)).astype(x.dtype)]


# Below opset 14, onnx.reference uses the statistics of the batch instead of `mean` and `variance`.
def _batch_normalization(_, attributes, x, scale, bias, mean, variance):
    ends = (-1, *[1] * (x.ndim - 2))
    scale = scale / numpy.sqrt(variance + attributes.get("epsilon", 1e-5))
    return [((x - mean.reshape(ends)) * scale.reshape(ends) + bias.reshape(ends)).astype(x.dtype)]


# onnx.reference loops over as many channels as there are images.
def _lrn(_, attributes, x):
    size = attributes["size"]
    before, after = (size - 1) // 2, size // 2
    squares = numpy.pad(x * x, [(0, 0), (before, after), *[(0, 0)] * (x.ndim - 2)])
    total = sum(squares[:, i:i + x.shape[1]] for i in range(size))
    base = attributes.get("bias", 1.0) + attributes.get("alpha", 1e-4) / size * total
    return [(x / base ** attributes.get("beta", 0.75)).astype(x.dtype)]


def _group_normalization(_, attributes, x, scale, bias):
    groups = attributes["num_groups"]
    parts = x.reshape(x.shape[0], groups, -1)
    deviation = parts - parts.mean(axis=2, keepdims=True)
    variance = (deviation * deviation).mean(axis=2, keepdims=True)
    parts = deviation / numpy.sqrt(variance + attributes.get("epsilon", 1e-5))
    ends = [1] * (x.ndim - 2)
    return [(parts.reshape(x.shape) * scale.reshape(-1, *ends) + bias.reshape(-1, *ends)).astype(x.dtype)]


# Below opset 13, softmax is over all axes from `axis` on. onnx.reference always computes it over one axis.
def _softmax(logarithm, opset, attributes, x):
    axis = attributes.get("axis", -1 if opset >= 13 else 1)
    axes = (axis,) if opset >= 13 else tuple(range(axis % x.ndim, x.ndim))
    shifted = x - x.max(axis=axes, keepdims=True)
    total = numpy.exp(shifted).sum(axis=axes, keepdims=True)
    return [(shifted - numpy.log(total) if logarithm else numpy.exp(shifted) / total).astype(x.dtype)]


# onnx.reference refuses negative pads, which crop.
def _pad(opset, attributes, x, pads=None, value=None, axes=None):
    pads = list(attributes["pads"] if pads is None else pads)
    value = attributes.get("value", 0.0) if value is None else value.reshape(-1)[0]
    axes = range(x.ndim) if axes is None else [a % x.ndim for a in axes]
    for axis, (begin, end) in zip(axes, zip(pads[:len(pads) // 2], pads[len(pads) // 2:])):
        cut = slice(max(0, -begin), x.shape[axis] - max(0, -end))
        x = x[(slice(None),) * axis + (cut,)]
    width = [(0, 0)] * x.ndim
    for axis, (begin, end) in zip(axes, zip(pads[:len(pads) // 2], pads[len(pads) // 2:])):
        width[axis] = (max(0, begin), max(0, end))
    mode = attributes.get("mode", b"constant").decode()
    return [numpy.pad(x, width, mode, **({"constant_values": value} if mode == "constant" else {}))]


# onnx.reference has Resize only from opset 11 on. Earlier versions map positions asymmetrically and round down.
def _early_resize(_, attributes, x, scales=None):
    scales = numpy.array(attributes["scales"] if scales is None else scales, numpy.float32)
    node = helper.make_node("Resize", ["x", "roi", "scales"], ["y"], mode=attributes.get("mode", b"nearest").decode(),
                            coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    return evaluator(node, 13)(x, None, scales)


def _resize(opset, attributes, *arrays):
    if opset < 11:
        return _early_resize(opset, attributes, *arrays)
    node = helper.make_node("Resize", ["x", "roi", "scales", "sizes"], ["y"], **attributes)
    parameters = dict(RUN_PARAMETERS, opsets={"": opset})
    return list(load_op("", "Resize", opset)(node, parameters).run(*arrays))


def _global_max_pool(_, attributes, x):
    return [x.max(axis=tuple(range(2, x.ndim)), keepdims=True)]


def _dropout(_, attributes, x, *ignored):
    return [x, numpy.ones(x.shape, bool)]


OWN = {"Conv": _conv, "ConvTranspose": _conv_transpose, "MaxPool": _max_pool, "AveragePool": _average_pool,
       "BatchNormalization": _batch_normalization, "LRN": _lrn, "GroupNormalization": _group_normalization,
       "Softmax": functools.partial(_softmax, False), "LogSoftmax": functools.partial(_softmax, True), "Pad": _pad,
       "Upsample": _early_resize, "Resize": _resize, "Dropout": _dropout, "GlobalMaxPool": _global_max_pool}
