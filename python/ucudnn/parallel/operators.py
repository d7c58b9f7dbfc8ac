"""Computes each operator on a box of its output, from the boxes of its inputs that it reads. A rule gets a Call and
returns the output's box as a tensor. Statistics that ranks merge are in norm.py and losses.py."""
import math
from dataclasses import KW_ONLY, dataclass

import torch
import torch.nn.functional as F

from . import boxes as b
from .dropout import kept
from .moves import cut, shape_of


@dataclass
class Call:
    node: object  # a network.Node
    box: tuple  # box of the output that is computed
    inputs: list  # one tensor for each input; None if the rule reads nothing of it
    bases: list  # the box that each tensor of `inputs` covers
    shapes: list  # the shape of one image of each input
    parameters: list  # this rank's parts
    batch: int
    training: bool
    _: KW_ONLY
    module: object = None
    seed: int = 0
    step: int = 0
    place: int = 0  # the node's position in Network.nodes
    summed: tuple | None = None  # interval of input channels that this part of a reduction sums over
    with_bias: bool = True
    images: list | None = None  # in a pass: numbers of its images in the batch
    like: tuple | None = None  # (type, device) of the output, used by zeros()
    may_overwrite: bool = False  # no other node reads the first input, so the rule may write the output over it

    @property
    def rank(self):
        return len(self.node.shape) - 1

    @property
    def axes(self):
        return b.axes_of(self.rank)

    def needed(self, place=0):
        """Returns the box of input number `place` that the rule reads."""
        return b.needed(self.node, place, self.box, self.shapes, self.summed)

    def read(self, place=0):
        """Returns (the part of an input that the rule reads, its box). The part is None if the rule reads nothing."""
        box = self.needed(place)
        if not b.elements(box):
            return None, box
        base = self.bases[place]
        x = self.inputs[place]
        return (x if box == base else cut(x, box, base, b.axes_of(x.ndim - 2))), box

    def zeros(self, shape):
        """Returns zeros of this shape, for an output whose windows lie entirely in padding or gaps of the input."""
        dtype, device = self.like
        return torch.zeros(shape, dtype=dtype, device=device)

    def spatial(self):
        return self.axes[2:]

    def overwritten(self, x):
        """Returns whether the rule may write its output over x, a tensor that `read` returned for the first input."""
        return self.may_overwrite and x is self.inputs[0]


RULES = {}
# OVERWRITING: operators that may write their output over their first input. OVERWRITTEN: operators whose output may be
# overwritten, because it is a new tensor and no backward pass reads it.
OVERWRITING = ("activation", "add")
OVERWRITTEN = ("convolution", "batch_normalization", "add")
# In-place variants of functions whose backward pass reads only their result.
IN_PLACE = {torch.ops.aten.relu: torch.ops.aten.relu_, torch.ops.aten.hardtanh: torch.ops.aten.hardtanh_}


def rule(*names):
    def add(function):
        RULES.update(dict.fromkeys(names, function))
        return function
    return add


def compute(call):
    return RULES[call.node.op](call)


def _across(parameter, rank):
    return parameter.reshape(1, -1, *[1] * rank)


def _under_windows(call, windows, outside=0.0, limits=(math.inf,) * 3):
    """Returns (the tensor over which windows slide, the padding that torch's function adds on both sides of each
    spatial axis). Where the two sides differ, or the padding exceeds `limits`, the tensor is padded here, with
    `outside`. An axis is read whole if the elements after the last window are too few for another window. If all
    windows lie in padding, the tensor has zeros only."""
    read = call.needed()
    if not b.elements(read):
        under = {axis: b.read_under(call.box[axis], windows[axis - b.D]) for axis in call.spatial()}
        return call.zeros(shape_of([under.get(axis, interval) for axis, interval in enumerate(read)], call.axes)), 0
    box, base, pads = list(read), call.bases[0], []
    for axis in call.spatial():
        begin, end = b.read_under(call.box[axis], windows[axis - b.D])
        before = read[axis][0] - begin
        if base[axis][0] == read[axis][0] and 0 <= base[axis][1] + before - end < windows[axis - b.D][1]:
            box[axis] = base[axis]
            pads.append((before, before))
        else:
            pads.append((before, end - read[axis][1]))
    x = call.inputs[0] if box == list(base) else cut(call.inputs[0], box, base, call.axes)
    if all(before == behind and 0 <= before <= limit for (before, behind), limit in zip(pads, limits)):
        return x, [before for before, _ in pads]
    return F.pad(x, _flat(pads), value=outside), 0


def _flat(pads):
    """Returns pads in the order that F.pad expects, last axis first."""
    return [extent for pair in reversed(pads) for extent in pair]


def _of_axes(call, values):
    return [values[axis - b.D] for axis in call.spatial()]


@rule("convolution")
def _convolution(call):
    members, rank = call.node.members, call.rank
    windows = b.window_of(call.node, rank)
    x, padding = _under_windows(call, windows)
    stride, dilation = (_of_axes(call, [window[at] for window in windows]) for at in (1, 3))
    weight, *bias = call.parameters
    bias = bias[0] if bias and call.with_bias else None
    function = F.conv3d if rank == 3 else F.conv2d
    groups, filters = members.get("groups", 1), members["filters"]
    if groups == 1:
        return function(x, weight, bias, stride, padding, dilation)
    outputs = []
    first = b.groups_of(call.box[b.C], filters, groups)[0]
    width, inputs = filters // groups, call.shapes[0][0] // groups
    for begin, end, count in b.runs(call.box[b.C], width):
        at = begin // width - first
        rows = slice(begin - call.box[b.C][0], end - call.box[b.C][0])
        part = x[:, at * inputs:(at + count) * inputs]
        outputs.append(function(part, weight[rows], None if bias is None else bias[rows], stride, padding, dilation, count))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1)


@rule("transposed_convolution")
def _transposed(call):
    x, read = call.read()
    rank, windows = call.rank, b.window_of(call.node, call.rank)
    weight, *bias = call.parameters
    stride, dilation = (_of_axes(call, [window[at] for window in windows]) for at in (1, 3))
    function = F.conv_transpose3d if rank == 3 else F.conv_transpose2d
    groups = call.node.members.get("groups", 1)
    first, last = b.groups_of(call.box[b.C], call.node.members["filters"], groups)
    pads = []  # negative values crop
    for axis in call.spatial():
        extent, step, pad, _ = windows[axis - b.D]
        begin, end = read[axis][0] * step - pad, (read[axis][1] - 1) * step - pad + extent
        pads.append((begin - call.box[axis][0], call.box[axis][1] - end))
    y = call.zeros(shape_of(call.box, call.axes)) if x is None else function(x, weight, None, stride, 0, 0, last - first, dilation)
    if x is not None and any(extent for pair in pads for extent in pair):
        y = F.pad(y, _flat(pads))
    return y + _across(bias[0], rank) if bias and call.with_bias else y


@rule("pooling")
def _pooling(call):
    node, rank = call.node, call.rank
    windows = b.window_of(node, rank)
    window, stride = (_of_axes(call, [each[at] for each in windows]) for at in (0, 1))
    limits = [extent // 2 for extent in window]
    if node.members["kind"] == "maximum":
        x, padding = _under_windows(call, windows, -math.inf, limits)
        return (F.max_pool3d if rank == 3 else F.max_pool2d)(x, window, stride, padding)
    x, padding = _under_windows(call, windows, 0.0, limits)
    function = F.avg_pool3d if rank == 3 else F.avg_pool2d
    divisor = node.call.get("divisor")
    counts = [_counts(call, axis, windows[axis - b.D]) for axis in call.spatial()]
    if divisor or all(min(each) == max(each) for each in counts):
        return function(x, window, stride, padding, divisor_override=divisor or math.prod(each[0] for each in counts))
    total = function(x, window, stride, padding, divisor_override=1)
    divisors = torch.ones((), dtype=total.dtype, device=total.device)
    for each in counts:
        divisors = divisors.unsqueeze(-1) * torch.tensor(each, dtype=total.dtype, device=total.device)
    return total / divisors


def _counts(call, axis, window):
    """Returns for each output along an axis the number of elements in its average, as torch counts them."""
    extent, pad = b.whole(call.shapes[0], 1)[axis][1], window[2]
    low, high = (-pad, extent + pad) if call.node.call.get("counts_padding", True) else (0, extent)
    reads = [b.read_under((at, at + 1), window) for at in range(*call.box[axis])]
    return [min(end, high) - max(begin, low) for begin, end in reads]


@rule("global_pooling")
def _global_pooling(call):
    x, _ = call.read()
    dims = list(range(2, 2 + call.rank))
    return x.amax(dims, keepdim=True) if call.node.members["kind"] == "maximum" else x.mean(dims, keepdim=True)


@rule("fully_connected")
def _fully_connected(call):
    x, _ = call.read()
    weight, *bias = call.parameters
    y = F.linear(x.flatten(1), weight, bias[0] if bias and call.with_bias else None)
    return y.reshape(*y.shape, *[1] * call.rank)


@rule("linear")
def _linear(call):
    x, _ = call.read()
    weight, *bias = call.parameters
    return F.linear(x.movedim(1, -1), weight, bias[0] if bias and call.with_bias else None).movedim(-1, 1)


def activation_of(node):
    """Returns torch's function of an activation node, or None if there is none."""
    name = node.call.get("function") or node.members["kind"]
    others = {"swish": "silu", "hard_sigmoid": "hardsigmoid", "hard_swish": "hardswish"}
    return getattr(torch.ops.aten, others.get(name, name), None)


@rule("activation")
def _activation(call):
    x, _ = call.read()
    function = activation_of(call.node)
    if call.overwritten(x):
        function = IN_PLACE.get(function, function)
    return function(*call.node.call.get("before", ()), x, *call.node.call.get("arguments", ()), **call.node.call.get("named", {}))


@rule("scale")
def _scale(call):
    x, _ = call.read()
    parameters = [_across(parameter, call.rank) for parameter in call.parameters]
    if "function" in call.node.call:
        return getattr(torch, call.node.call["function"])(x, parameters[0])
    if call.node.has_shift:
        return x + parameters[0]
    y = x * parameters[0]
    return y + parameters[1] if len(parameters) > 1 else y


@rule("group_normalization")
def _group_normalization(call):
    """Normalizes groups of which this rank has all elements, over all positions or at each position."""
    x, _ = call.read()
    members, parameters = call.node.members, call.parameters or (None, None)
    groups, eps = members.get("groups", 1) * x.shape[1] // call.node.shape[0], call.node.call["eps"]
    if not members.get("by_position"):
        return torch.group_norm(x, groups, *parameters, eps)
    last = x.movedim(1, -1)
    if groups == 1:
        return F.layer_norm(last, last.shape[-1:], *parameters, eps).movedim(-1, 1)
    return torch.group_norm(last.flatten(0, -2), groups, *parameters, eps).view(last.shape).movedim(-1, 1)


@rule("lrn")
def _lrn(call):
    x, read = call.read()
    members = call.node.members
    y = F.local_response_norm(x, members.get("size", 5), members.get("alpha", 1e-4), members.get("beta", 0.75),
                              members.get("k", 1))
    return y if read == call.box else cut(y, call.box, read, call.axes)


@rule("dropout")
def _dropout(call):
    x, _ = call.read()
    rate = call.node.members.get("rate", 0.5)
    if not call.training or rate == 0:
        return x
    mask = kept(call.seed, call.step, call.place, call.box, b.whole(call.node.shape, call.batch), call.axes, rate,
                call.node.members.get("per", "element"), x.device, call.images)
    return x * (mask.to(x.dtype) * (1 / (1 - rate) if rate < 1 else 0))


@rule("add")
def _add(call):
    total, _ = call.read(0)
    for place in range(1, len(call.inputs)):
        x, _ = call.read(place)
        total = total.add_(x) if call.overwritten(total) and x.dtype == total.dtype else total + x
    return total


@rule("multiply")
def _multiply(call):
    return call.read(0)[0] * call.read(1)[0]


@rule("concat")
def _concat(call):
    parts = [x for x, _ in map(call.read, range(len(call.inputs))) if x is not None]
    dim = call.axes.index({"c": b.C, "d": b.D, "h": b.H, "w": b.W}[call.node.members.get("axis", "c")])
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


@rule("flatten")
def _flatten(call):
    x, read = call.read()
    positions = math.prod(call.shapes[0][1:])
    y = x.flatten(1)
    begin = call.box[b.C][0] - read[b.C][0] * positions
    y = y[:, begin:begin + call.box[b.C][1] - call.box[b.C][0]]
    return y.reshape(*y.shape, *[1] * call.rank)


@rule("softmax")
def _softmax(call):
    x, _ = call.read()
    if call.node.call.get("is_in_loss"):
        return x
    return x.softmax(1)


@rule("cross_entropy", "logistic_loss")
def _loss(call):
    """Returns the output unchanged; losses.py computes the loss from it."""
    return call.read()[0]


@rule("upsampling")
def _upsampling(call):
    x, read = call.read()
    factors = b.spatial(call.node.members, "factor", 1, call.rank)
    large = list(read)
    for dim, axis in enumerate(call.spatial(), 2):
        factor = factors[axis - b.D]
        x = x.repeat_interleave(factor, dim) if factor > 1 else x
        large[axis] = (read[axis][0] * factor, read[axis][1] * factor)
    return cut(x, call.box, tuple(large), call.axes)


@rule("padding")
def _padding(call):
    x, read = call.read()
    if x is None:
        return call.zeros(shape_of(call.box, call.axes))
    before = [call.node.members.get("channels_before", 0), *b.spatial(call.node.members, "before", 0, call.rank)]
    pads = []
    for axis in call.axes[1:]:
        offset = before[axis - b.C]
        pads.append((read[axis][0] + offset - call.box[axis][0], call.box[axis][1] - read[axis][1] - offset))
    return F.pad(x, _flat(pads))


@rule("opaque")
def _opaque(call):
    x, _ = call.read()
    told = call.node.call
    function = told.get("function")
    weight = bias = None
    if told.get("has_weight") is not None:
        parameters = list(call.parameters)
        weight = parameters.pop(0) if told["has_weight"] else None
        bias = parameters.pop(0) if parameters else None
    if function == "layer_norm":
        dims = [call.axes.index({"n": b.N, "c": b.C, "d": b.D, "h": b.H, "w": b.W}[axis]) for axis in told["order"]]
        rest = [dim for dim in range(x.ndim) if dim not in dims]  # dimensions of extent 1
        y = x.permute(*dims, *rest).reshape([x.shape[dim] for dim in dims])
        y = F.layer_norm(y, told["normalized"], weight, bias, told["eps"])
        y = y.reshape([x.shape[dim] for dim in (*dims, *rest)])
        return y.permute([(*dims, *rest).index(dim) for dim in range(x.ndim)])
    return getattr(torch.ops.aten, function)(x, *call.parameters, *told["arguments"])
