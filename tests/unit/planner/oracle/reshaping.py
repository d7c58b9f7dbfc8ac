"""Adds Reshapes, with every form of a shape that exporters write. Axes are given by their extents, the batch by net.Batch."""

import math

import numpy

from constants import axes_of
from steps import need


def reshaped(net, rng, x, dims, batch):
    """Returns x reshaped to the extents `dims`. The axis batch.axis has its extent for one image."""
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
            target = [0 if a in same and t != -1 and a != batch.axis and rng.random() < 0.3 else t
                      for a, t in enumerate(target)]
        shape = net.integers(*target)
    elif way == "number":
        rows = []
        # In a file of one image, a reader cannot know whether a 1 before the batch's axis is the batch, so such shapes
        # are left out. Another axis is written as -1 only if it is clear which number is the batch.
        need(net.batch > 1 or 1 not in dims[:batch.axis])
        is_told = net.batch > 1 or batch.axis == 0 and dims[0] == 1
        hole = rng.choice([None] + [a for a in range(len(dims)) if a != batch.axis and is_told])
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
    """Returns the shape as tracers compute it: numbers of Shape's output joined with constants."""
    need(batch.axis in same or tensor_part(net, x) == dims[batch.axis] or dims[batch.axis] % tensor_part(net, x) == 0)
    factor = dims[batch.axis] // tensor_part(net, x)
    if rng.random() < 0.2:
        rest = math.prod(d for a, d in enumerate(dims) if a != batch.axis)
        size = net.add("Div", [net.add("Size", [x]), net.constant(numpy.int64(rest))])
    else:
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
