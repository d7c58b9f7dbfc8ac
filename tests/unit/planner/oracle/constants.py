"""Adds constant sub-expressions to a random ONNX net: weights of a given shape, in the forms in which exporters leave weights
that were not folded. drawn() appends nodes to a net.Net and returns a tensor of the shape. axes_of(), sliced(), split() and
pad() add one node in the form of the net's opset, for other steps, too."""

import math

import numpy
from onnx import TensorProto, helper

from steps import Unfit


def drawn(net, rng, shape, depth=2, positive=False):
    """Returns a constant float tensor of this shape: a new weight, an existing one, or an expression of weights."""
    shape = tuple(int(extent) for extent in shape)
    draw = rng.random()
    if positive or depth == 0 or draw < 0.6 or math.prod(shape) == 1:
        return net.weight(*shape, positive=positive)
    if draw < 0.7:
        there = [t.name for t in net.tensors.values()
                 if t.is_weight and t.at[0].shape == shape and t.at[1].shape == shape and t.is_float]
        if there:
            return rng.choice(there)
    for _ in range(4):
        mark = net.mark()
        try:
            made = rng.choice(EXPRESSIONS)(net, rng, shape, depth - 1)
            if net[made].at[0].shape == shape and net[made].at[0].dtype == numpy.float32:
                return made
        except Unfit:
            pass
        net.rollback(mark)
    return net.weight(*shape)


def _axis(rng, shape, test=lambda extent: True):
    axes = [a for a, extent in enumerate(shape) if test(extent)]
    if not axes:
        raise Unfit
    return rng.choice(axes)


def _with(shape, axis, extent):
    return (*shape[:axis], extent, *shape[axis + 1:])


def axes_of(net, rng, op, inputs, axes, since=13, **attributes):
    """Adds a node whose axes are an attribute below opset `since`, and an input from there on."""
    if net.opset < since:
        return net.add(op, inputs, axes=list(axes), **attributes)
    return net.add(op, [*inputs, net.integers(*axes)], **attributes)


def sliced(net, x, starts, ends, axes, steps=None, **more):
    if net.opset < 10:
        if steps and any(step != 1 for step in steps):
            raise Unfit
        return net.add("Slice", [x], starts=starts, ends=ends, axes=axes, **more)
    inputs = [x, net.integers(*starts), net.integers(*ends)]
    inputs += [net.integers(*axes)] if axes is not None or steps else []
    return net.add("Slice", inputs + ([net.integers(*steps)] if steps else []), **more)


def split(net, rng, x, axis, sizes, **more):
    equal = len(set(sizes)) == 1
    if net.opset < 13:
        given = {} if equal and rng.random() < 0.5 else {"split": list(sizes)}
        return net.add("Split", [x], outputs=len(sizes), axis=axis, **given, **more)
    if equal and rng.random() < 0.5:
        number = {"num_outputs": len(sizes)} if net.opset >= 18 else {}
        return net.add("Split", [x], outputs=len(sizes), axis=axis, **number, **more)
    return net.add("Split", [x, net.integers(*sizes)], outputs=len(sizes), axis=axis, **more)


def _split(net, rng, shape, depth):
    axis = _axis(rng, shape)
    parts = rng.choice([2, 2, 3])
    x = drawn(net, rng, _with(shape, axis, shape[axis] * parts), depth)
    return rng.choice(split(net, rng, x, axis, [shape[axis]] * parts))


def _slice(net, rng, shape, depth):
    axis = _axis(rng, shape)
    extent = shape[axis]
    step = rng.choice([1, 1, 2, 3]) if net.opset >= 10 else 1
    begin, after = rng.choice([0, 1]), rng.choice([0, 1, 2])
    x = drawn(net, rng, _with(shape, axis, begin + (extent - 1) * step + 1 + after), depth)
    return sliced(net, x, [begin], [begin + (extent - 1) * step + 1], [axis], [step] if step > 1 else None)


def _gather(net, rng, shape, depth):
    axis = _axis(rng, shape)
    rows = shape[axis] + rng.choice([0, 1, 3])
    x = drawn(net, rng, _with(shape, axis, rows), depth)
    if rng.random() < 0.3 and net.opset >= 11:
        indices = net.add("Range", [net.constant(numpy.int64(n)) for n in (0, shape[axis], 1)])
    else:
        indices = net.integers(*(rng.randrange(rows) for _ in range(shape[axis])))
    return net.add("Gather", [x, indices], axis=axis)


def pad(net, x, pads, mode="constant", value=None, axes=None, **more):
    if net.opset < 11:
        return net.add("Pad", [x], pads=pads, mode=mode, value=value, **more)
    inputs = [x, net.integers(*pads)]
    if value is not None or axes is not None:
        inputs.append("" if value is None else net.constant(numpy.float32(value)))
    if axes is not None:
        inputs.append(net.integers(*axes))
    return net.add("Pad", inputs, mode=mode, **more)


def _pad(net, rng, shape, depth):
    axis = _axis(rng, shape, lambda extent: extent > 2)
    before = rng.choice([0, 1])
    x = drawn(net, rng, _with(shape, axis, shape[axis] - 1 - before), depth)
    pads = [0] * 2 * len(shape)
    pads[axis], pads[len(shape) + axis] = before, 1
    return pad(net, x, pads)


def _expand(net, rng, shape, depth):
    axis = _axis(rng, shape, lambda extent: extent > 1)
    if net.opset < 8 or math.prod(shape) == shape[axis]:
        raise Unfit
    return net.add("Expand", [drawn(net, rng, _with(shape, axis, 1), depth), net.integers(*shape)])


def _tile(net, rng, shape, depth):
    axis = _axis(rng, shape, lambda extent: extent > 2 and extent % 2 == 0)
    x = drawn(net, rng, _with(shape, axis, shape[axis] // 2), depth)
    return net.add("Tile", [x, net.integers(*(2 if a == axis else 1 for a in range(len(shape))))])


def _where(net, rng, shape, depth):
    if net.opset < 9:
        raise Unfit
    condition = net.constant(numpy.array([rng.random() < 0.5 for _ in range(shape[-1])]))
    return net.add("Where", [condition, drawn(net, rng, shape, depth), drawn(net, rng, _lower(rng, shape), depth)])


def _lower(rng, shape):
    """Returns a shape that can be broadcast to `shape`."""
    kept = rng.randrange(len(shape) + 1) if rng.random() < 0.4 else 0
    return tuple(1 if rng.random() < 0.3 else extent for extent in shape[kept:])


def _two(net, rng, shape, depth):
    operands = [drawn(net, rng, shape, depth), drawn(net, rng, _lower(rng, shape), depth, positive=True)]
    op = rng.choice(["Add", "Mul", "Sub", "Div"])
    return net.add(op, operands if op == "Div" or rng.random() < 0.5 else operands[::-1])


def _matmul(net, rng, shape, depth):
    if len(shape) < 2:
        raise Unfit
    inner = rng.choice([2, 3])
    left, right = drawn(net, rng, (*shape[:-1], inner), depth), drawn(net, rng, (inner, shape[-1]), depth)
    return net.add("MatMul", [left, right])


def _gemm(net, rng, shape, depth):
    if len(shape) != 2:
        raise Unfit
    inner, a, b = 3, rng.random() < 0.5, rng.random() < 0.5
    left = drawn(net, rng, (inner, shape[0]) if a else (shape[0], inner), depth)
    right = drawn(net, rng, (shape[1], inner) if b else (inner, shape[1]), depth)
    return net.add("Gemm", [left, right, drawn(net, rng, shape[1:], depth)], transA=int(a), transB=int(b))


def _reshape(net, rng, shape, depth):
    """Returns a tensor of `shape`, reshaped from another shape. The Reshape may write extents as 0 or -1."""
    if len(shape) > 1 and rng.random() < 0.5:
        at = rng.randrange(len(shape) - 1)
        source = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2:])
    else:
        source = (math.prod(shape),)
    target = list(shape)
    if rng.random() < 0.5:
        target[rng.randrange(len(target))] = -1
    if rng.random() < 0.5 and target[0] == source[0]:
        target[0] = 0
    return net.add("Reshape", [drawn(net, rng, source, depth), net.integers(*target)])


def _transpose(net, rng, shape, depth):
    order = list(range(len(shape)))
    rng.shuffle(order)
    source = [0] * len(shape)
    for to, of in enumerate(order):
        source[of] = shape[to]
    x = drawn(net, rng, source, depth)
    reversed_axes = order == list(reversed(range(len(shape))))
    return net.add("Transpose", [x], perm=None if reversed_axes and rng.random() < 0.7 else order)


def _unsqueeze(net, rng, shape, depth):
    axis = _axis(rng, shape, lambda extent: extent == 1)
    return axes_of(net, rng, "Unsqueeze", [drawn(net, rng, shape[:axis] + shape[axis + 1:], depth)], [axis])


def _squeeze(net, rng, shape, depth):
    axis = rng.randrange(len(shape) + 1)
    x = drawn(net, rng, (*shape[:axis], 1, *shape[axis:]), depth)
    if 1 not in shape and rng.random() < 0.3:
        return net.add("Squeeze", [x])
    return axes_of(net, rng, "Squeeze", [x], [axis])


def _concat(net, rng, shape, depth):
    axis = _axis(rng, shape, lambda extent: extent > 1)
    first = rng.randrange(1, shape[axis])
    parts = [drawn(net, rng, _with(shape, axis, extent), depth) for extent in (first, shape[axis] - first)]
    return net.add("Concat", parts, axis=axis)


def _filled(net, rng, shape, depth):
    if net.opset < 9:
        raise Unfit
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [rng.choice([0.5, 2.0])])
    filled = net.add("ConstantOfShape", [net.integers(*shape)], value=value)
    operands = [filled, drawn(net, rng, shape, depth)]
    return net.add(rng.choice(["Add", "Mul"]), operands if rng.random() < 0.5 else operands[::-1])


def _same(net, rng, shape, depth):
    x = drawn(net, rng, shape, depth)
    return net.add("Identity", [x]) if rng.random() < 0.5 else net.add("Cast", [x], to=TensorProto.FLOAT)


def _reduce(net, rng, shape, depth):
    axis = rng.randrange(len(shape) + 1)
    op = rng.choice(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
    x = drawn(net, rng, (*shape[:axis], rng.choice([2, 3]), *shape[axis:]), depth)
    return axes_of(net, rng, op, [x], [axis], 13 if op == "ReduceSum" else 18, keepdims=0)


def _range(net, rng, shape, depth):
    if net.opset < 11 or shape[-1] < 2:
        raise Unfit
    count = net.add("Range", [net.constant(numpy.float32(n)) for n in (0, shape[-1], 1)])
    return net.add("Add", [count, drawn(net, rng, shape, depth)])


def _clipped(net, rng, shape, depth):
    x = drawn(net, rng, shape, depth)
    if net.opset < 11:
        return net.add("Clip", [x], min=-0.5, max=0.5)
    return net.add("Clip", [x, net.constant(numpy.float32(-0.5)), net.constant(numpy.float32(0.5))])


def _one_hot(net, rng, shape, depth):
    """Looks up rows of a table by a product with one-hot rows, as exported einsums do. The product, not the table, counts as
    parameters."""
    if net.opset < 9 or len(shape) != 2:
        raise Unfit
    rows = rng.choice([2, 3])
    indices = net.integers(*(rng.randrange(rows) for _ in range(shape[0])))
    ends = net.constant(numpy.array([0, 1], numpy.float32))
    chosen = net.add("OneHot", [indices, net.constant(numpy.int64(rows)), ends], axis=-1)
    return net.add("MatMul", [chosen, drawn(net, rng, (rows, shape[1]), depth)])


def _quantized(net, rng, shape, depth):
    if net.opset < 10:
        raise Unfit
    scale, zero = net.constant(numpy.float32(0.0625)), net.constant(numpy.int8(0))
    return net.add("DequantizeLinear", [net.add("QuantizeLinear", [drawn(net, rng, shape, depth), scale, zero]),
                                        scale, zero])


EXPRESSIONS = [_split, _slice, _gather, _pad, _expand, _tile, _where, _two, _two, _matmul, _gemm, _reshape, _reshape,
               _transpose, _transpose, _unsqueeze, _squeeze, _concat, _filled, _same, _reduce, _range, _clipped, _one_hot,
               _quantized]
