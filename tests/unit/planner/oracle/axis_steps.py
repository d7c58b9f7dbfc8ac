"""Steps of random ONNX nets: operators that cut, join, move, repeat and reduce axes."""

import math

import numpy
from onnx import TensorProto

from constants import axes_of, drawn, sliced, split
from net import Batch
from reshaping import reshaped, tensor_part
from steps import Unfit, divisors, leads, need, pick, pick_axis, step, written


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
        for name in made:  # pick() mostly returns the last tensor of net.order
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
    """Slices the first half of an axis; the end is computed from the output of Shape."""
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


@step(6)
def reshaping(net, rng):
    x = pick(net, rng, lambda t: t.batch.splits)
    tensor = net[x]
    digits = []  # parts of axes as (extent, is batch), in row-major order; each new axis joins neighbouring parts
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
    """Reshapes to extents that are no products of the axes' parts, such as [6, 4] to [4, 6]."""
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


@step(1)
def greatest(net, rng):
    x = pick(net, rng)
    rank = net[x].rank
    axis = pick_axis(net, rng, x)
    given = {"axis": written(net, rng, axis, rank)} if axis or rng.random() < 0.5 else {}
    found = net.add("ArgMax", [x], keepdims=rng.choice([0, 1, None]), **given)
    if rng.random() < 0.4:
        return net.add("Gather", [drawn(net, rng, (net[x].extent(axis), 3)), found], feature="Gather.computed_indices")
    return net.add("Cast", [found], to=TensorProto.FLOAT) if rng.random() < 0.6 else found
