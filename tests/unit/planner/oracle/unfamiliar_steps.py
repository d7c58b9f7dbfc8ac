"""Steps of random ONNX nets: operators that few readers follow, so a reader may refuse them by name."""

import numpy
from onnx import TensorProto, helper

import reference
from constants import drawn
from net import Tensor
from steps import need, pick, pick_axis, step


@step(1)
def unfamiliar(net, rng):
    x = pick(net, rng)
    kind = rng.choice(["If", "If", "Loop", "RandomNormalLike", "RandomNormal", "Einsum"])
    return {"If": _if, "Loop": _loop, "RandomNormalLike": _random_like, "RandomNormal": _random,
            "Einsum": _einsum}[kind](net, rng, x)


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
