"""Boxes of tensors: an interval [begin, end) for each of the axes n, c, d, h, w. `needed` returns the box of an input
that an operator reads for a box of its output, by the rules of planner/cost/partition.cpp. Pure functions, without
torch."""
import math

from .errors import NotSupported

N, C, D, H, W = range(5)


def part(extent, parts, index):
    """Returns interval number `index` of `extent` elements that are cut into `parts` parts. The first extent % parts
    parts have one element more."""
    each, more = divmod(extent, parts)
    begin = index * each + min(index, more)
    return begin, begin + each + (index < more)


def meet(a, b):
    return tuple((max(i[0], j[0]), min(i[1], j[1])) for i, j in zip(a, b))


def hull(a, b):
    return tuple((min(i[0], j[0]), max(i[1], j[1])) for i, j in zip(a, b))


def elements(box):
    return math.prod(max(end - begin, 0) for begin, end in box)


def holds(a, b):
    """Returns whether box `a` contains box `b`."""
    return all(i[0] <= j[0] and j[1] <= i[1] for i, j in zip(a, b))


def whole(shape, batch):
    """Returns the box of a whole tensor. `shape` is the shape of one image: channels, (d,) h, w."""
    extents = (1,) * (4 - len(shape)) + tuple(shape[1:])
    return ((0, batch), (0, shape[0]), *((0, extent) for extent in extents))


def axes_of(rank):
    """Returns the axes (numbers as N, C, ...) of a tensor with `rank` spatial dimensions, in the order of its
    dimensions."""
    return (N, C, H, W) if rank == 2 else (N, C, D, H, W)


def spatial(members, name, neutral, rank):
    """Returns the values of member `name` of a convolution or pooling for the axes d, h, w; `neutral` for an axis
    without a value."""
    values = members.get(name) or [neutral] * rank
    return [neutral] * (3 - len(values)) + list(values)


def window_of(node, rank):
    """Returns (extent of the dilated window, stride, pad, dilation) for each spatial axis."""
    columns = [spatial(node.members, name, neutral, rank)
               for name, neutral in (("window", 1), ("stride", 1), ("pad", 0), ("dilation", 1))]
    return [((k - 1) * d + 1, s, p, d) for k, s, p, d in zip(*columns)]


def read_under(interval, window):
    """Returns the interval of input positions that the windows of the outputs in `interval` read. Positions outside the
    input are included."""
    extent, stride, pad, _ = window
    return interval[0] * stride - pad, (interval[1] - 1) * stride - pad + extent


def clip(interval, extent):
    begin, end = max(0, min(interval[0], extent)), max(0, min(interval[1], extent))
    return (begin, end)


def _under(interval, window, extent):
    begin, end = read_under(interval, window)
    begin = min(max(begin, 0), extent)
    return begin, max(begin, min(end, extent))


def _over(interval, window, extent):
    """For a transposed convolution, returns the interval of inputs that contribute to the outputs in `interval`."""
    size, stride, pad, _ = window
    begin = -(-(interval[0] + pad - size + 1) // stride)
    end = (interval[1] - 1 + pad) // stride + 1
    begin = min(max(begin, 0), extent)
    return begin, max(begin, min(end, extent))


def groups_of(channels, filters, groups):
    """Returns the interval of groups of a convolution that compute the output channels in `channels`."""
    each = filters // groups
    return channels[0] // each, -(-channels[1] // each)


def runs(channels, width):
    """Cuts the interval `channels` into runs (begin, end, groups), where a group has `width` channels: at most one
    piece of a group at either end, and all whole groups between them."""
    begin, end = channels
    found = []
    while begin < end:
        inner = begin % width
        if inner or end - begin < width:
            upto = min(end, begin - inner + width)
            found.append((begin, upto, 1))
        else:
            upto = begin + (end - begin) // width * width
            found.append((begin, upto, (upto - begin) // width))
        begin = upto
    return found


def part_of_parameter(node, place, shape, source, computed, kept, summed):
    """Returns the ranges of parameter number `place` of a node; `shape` is the parameter's shape. `computed` and `kept`
    are intervals of the output's channels, `summed` is the interval of the input's channels that are summed over,
    `source` is the input's shape (planner/schedule/parameters.cpp)."""
    rest, groups = tuple((0, extent) for extent in shape[2:]), node.members.get("groups", 1)
    if node.op == "opaque":
        return tuple((0, extent) for extent in shape)
    if place == 1 or node.op in ("batch_normalization", "group_normalization", "scale"):
        return (kept,)
    if node.op == "transposed_convolution":
        first, last = groups_of(computed, node.members["filters"], groups)
        inputs = summed if groups == 1 else (first * source[0] // groups, last * source[0] // groups)
        offset = first * shape[1] if last == first + 1 else computed[0]
        return (inputs, (computed[0] - offset, min(computed[1] - offset, shape[1])), *rest)
    if groups > 1:
        return (computed, (0, shape[1]), *rest)
    positions = math.prod(source[1:]) if node.op == "fully_connected" else 1
    return (computed, (summed[0] * positions, summed[1] * positions), *rest)


def needed(node, place, box, shapes, summed=None):
    """Returns the box of input number `place` that the node reads for `box` of its output. `shapes` are the shapes of
    one image of each input. `summed` is the interval of input channels that this part of a reduction sums over."""
    shape = shapes[place]
    rank = len(shape) - 1
    full = whole(shape, 1)
    out, op = list(box), node.op
    if op in ("convolution", "transposed_convolution"):
        groups = node.members.get("groups", 1)
        first, last = groups_of(box[C], node.members["filters"], groups)
        out[C] = (first * shape[0] // groups, last * shape[0] // groups)
    if op in ("convolution", "pooling", "transposed_convolution"):
        rule = _over if op == "transposed_convolution" else _under
        for axis, window in zip((D, H, W), window_of(node, rank)):
            out[axis] = rule(box[axis], window, full[axis][1])
    elif op == "global_pooling":
        out[D:] = full[D:]
    elif op == "opaque":
        parts, own = node.members.get("channel_parts", 1), whole(node.shape, 1)
        out[C] = full[C]
        if shape[0] % parts == 0:
            out[C] = (box[C][0] * shape[0] // node.shape[0], -(-box[C][1] * shape[0] // node.shape[0]))
        for axis, key in ((D, None), (H, "rows"), (W, "columns")):
            out[axis] = box[axis] if node.members.get(key) and full[axis] == own[axis] else full[axis]
    elif op in ("fully_connected", "linear"):
        out[C] = full[C]
        if op == "fully_connected":
            out[D:] = full[D:]
    elif op == "upsampling":
        for axis, factor in zip((D, H, W), spatial(node.members, "factor", 1, rank)):
            out[axis] = (box[axis][0] // factor, min(-(-box[axis][1] // factor), full[axis][1]))
    elif op == "padding":
        before = [node.members.get("channels_before", 0), *spatial(node.members, "before", 0, rank)]
        for axis, offset in zip((C, D, H, W), before):
            out[axis] = clip((box[axis][0] - offset, box[axis][1] - offset), full[axis][1])
    elif op == "multiply":
        for axis in (D, H, W):
            out[axis] = full[axis] if full[axis] == (0, 1) else box[axis]
    elif op == "flatten":
        positions = math.prod(shape[1:])
        out[C] = (box[C][0] // positions, -(-box[C][1] // positions))
        out[D:] = full[D:]
    elif op == "concat":
        axis = {"c": C, "d": D, "h": H, "w": W}[node.members.get("axis", "c")]
        extents = [whole(other, 1)[axis][1] for other in shapes]
        offset = sum(extents[:place])
        out[axis] = clip((box[axis][0] - offset, box[axis][1] - offset), extents[place])
    elif op == "lrn":
        reach = node.members.get("size", 5) // 2
        out[C] = (max(box[C][0] - reach, 0), min(box[C][1] + reach, shape[0]))
    elif op not in ("activation", "batch_normalization", "group_normalization", "scale", "dropout", "add", "softmax",
                    "cross_entropy", "logistic_loss"):
        raise NotSupported(f"{node.name}: {op} has no rule")
    if summed is not None:
        out[C] = summed
    return tuple(out)
