"""Steps of random ONNX nets: functions of one element, functions of elements at the same place, softmax and residual
branches."""

import numpy
from onnx import TensorProto, helper

from constants import drawn
from steps import leads, need, pick, pick_axis, step, volume, written


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
    """Returns the shape of a constant that is broadcast to x: 1 along the batch of x."""
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
    """Combines a computed tensor with a larger constant. The tensor has extent 1 along some axes other than the batch,
    and the constant is larger there."""
    x = pick(net, rng, lambda t: t.batch.axis == 0 and t.rank in (2, 3, 4) and 1 in t.extents()[1:])
    shape = [1] + [e if e > 1 else rng.choice([2, 3]) for e in net[x].extents()[1:]]
    return net.add(rng.choice(["Add", "Mul"]), [x, drawn(net, rng, shape)])


@step(6)
def of_two(net, rng):
    """Combines computed tensors of one shape, or of shapes that are broadcast to each other."""
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
    """Adds a branch of the same shape to its input."""
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
def filled_by_shape(net, rng):
    """Adds a tensor of ones whose shape is the output of a Shape node."""
    need(net.opset >= 9)
    x = pick(net, rng)
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [1.0])
    shape = net.add("Shape", [x])
    return net.add("Add", [x, net.add("ConstantOfShape", [shape], value=value)])
