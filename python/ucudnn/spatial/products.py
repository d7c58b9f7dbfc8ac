"""Products of tensors, whose dimensions have labels as in einsum. Contractions over cut positions are summed over the
ranks. If two labels are cut along the same axis, as queries and keys are, the first label of the result stays cut, and
each rank fetches all positions of the other label."""
import functools

import torch

from .errors import NotSupported
from .layout import Layout
from .pointwise import parameter, pointwise, uncut
from .positions import all_of, own_part
from .precision import lowered, wide
from .recut import brought
from .stripe import layout_of, named, rule, striped, whole
from .sums import summed, total


def product(compute, operands, labels, result, uncut=()):
    """Returns `compute(*operands)` for the whole tensors. `labels` has the labels of each operand's dimensions,
    `result` the labels of the result's dimensions. `uncut` has the labels over which `compute` does more than sum, so
    `compute` gets all positions of these labels."""
    operands = [brought(x, layout_of(operands[0])) for x in operands]
    layouts, cut = [layout_of(x) for x in operands], {}
    for layout, names in zip(layouts, labels):
        for name, atoms in zip(names, layout.dims):
            rows = atoms, {axis: layout.extents[axis] for axis, _ in atoms if axis is not None}
            if atoms and cut.setdefault(name, rows) != rows:
                raise NotSupported(f"a dimension is cut in two ways, {cut[name]} and {rows}")
    if not cut:
        return whole(compute(*operands))
    kept, extents = set(), {}
    for name in [*result, *(name for names in labels for name in names)]:
        if name in cut and name not in kept and name not in uncut and not extents.keys() & cut[name][1].keys():
            kept.add(name)
            extents.update(cut[name][1])
    ready = [_operand(x, Layout([cut[name][0] if name in kept else () for name in names], extents), extents)
             for x, names in zip(operands, labels)]
    contracted = sorted(axis for name in kept - set(result) for axis in cut[name][1])
    dims = [cut[name][0] if name in kept else () for name in result]
    if not contracted:
        return striped(compute(*ready), Layout(dims, extents))
    ready = lowered(*ready)
    dtype = functools.reduce(torch.promote_types, (x.dtype for x in ready))
    with torch.autocast(ready[0].device.type, enabled=False):  # autocast would round the ranks' partial sums
        return striped(total(compute(*map(wide, ready)), contracted).to(dtype), Layout(dims, extents))


def _operand(x, wanted, axes):
    """Returns x in the layout `wanted`: all positions along dimensions that `wanted` does not cut, and only this rank's
    positions along the others. `axes` are the grid's axes along which ranks compute different parts of the product. x's
    gradient is summed over the axes along which x itself is not cut."""
    layout = layout_of(x)
    for dim, atoms in enumerate(wanted.dims):
        if not atoms:
            x = all_of(x, dim, axes)
        elif layout.is_plain(dim) and x.shape[dim] not in (1, wanted.whole_extent(dim, 1)):
            raise NotSupported(f"a tensor of shape {tuple(x.shape)}, which is the same on every rank, meets a stripe that is "
                               f"cut along its dimension {dim}: shard it, too")
    return own_part(summed(x, tuple(sorted(axis for axis in axes if axis not in layout.axes))), layout, wanted)


def batch(count):
    """Returns labels for `count` leading dimensions, which broadcast."""
    return [f"batch {i}" for i in reversed(range(count))]


def _matmul(a, b, compute=torch.matmul):
    rows, columns = ["row"] * (a.ndim > 1), ["column"] * (b.ndim > 1)
    of_a = batch(a.ndim - 2) + rows + ["inner"]
    of_b = batch(b.ndim - 2) + ["inner"] + columns
    return product(compute, [a, b], [of_a, of_b], batch(max(a.ndim, b.ndim) - 2) + rows + columns)


@rule(*named("matmul", "mm", "bmm", "mv", "dot", "vdot", "__matmul__"))
def _multiply(function, a, *others, **named):
    b, = *others, *named.values()  # the second operand: torch names it other, mat2 or vec
    return _matmul(a, b)


@rule(torch.Tensor.__rmatmul__)
def _reflected(function, b, a):
    return _matmul(a, b)


@rule(*named("addmm", "baddbmm", "addmv"), sizes="whole")
def _add(function, x, a, b, *, beta=1, alpha=1):
    x, a, b = (striped(each, layout_of(of)) for each, of in zip(lowered(x, a, b), (x, a, b)))
    result = _matmul(a, b)
    result = result if alpha == 1 else striped(result * alpha, result.cut)
    if beta == 0:  # x may then have any values, as in torch
        return result
    return pointwise(torch.add, result, x if beta == 1 else striped(x * beta, layout_of(x)))


@rule(torch.einsum)
def _einsum(function, equation, *operands):
    if not isinstance(equation, str):
        raise NotSupported("an einsum without an equation of letters")
    operands = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    given, arrow, wanted = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    if len(terms) != len(operands):
        raise NotSupported(f"{len(operands)} operands of {equation}")
    labels = [_labels(term, x.ndim) for term, x in zip(terms, operands)]
    for x, names in zip(operands, labels):
        if len(set(names)) < len(names) and layout_of(x).is_cut:
            raise NotSupported(f"a diagonal of a stripe, by {equation}")
    count = max(len(names) - len(term.replace("...", "")) for term, names in zip(terms, labels))
    if not arrow:
        letters = given.replace(",", "").replace(".", "")
        wanted = "..." * ("..." in given) + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    result = _labels(wanted, len(wanted.replace("...", "")) + ("..." in wanted) * count)
    return product(lambda *ready: function(equation, *ready), operands, labels, result)


def _labels(term, ndim):
    before, dots, behind = term.partition("...")
    return [*before, *(batch(ndim - len(before) - len(behind)) if dots else ()), *behind]


@rule(*named("tensordot"))
def _tensordot(function, a, b, dims=2):
    if isinstance(dims, int):
        dims = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    of_a, of_b = ([dim % x.ndim for dim in ([each] if isinstance(each, int) else each)] for x, each in zip((a, b), dims))
    names_a = [f"inner {of_a.index(dim)}" if dim in of_a else f"a {dim}" for dim in range(a.ndim)]
    names_b = [f"inner {of_b.index(dim)}" if dim in of_b else f"b {dim}" for dim in range(b.ndim)]
    result = [name for name in names_a + names_b if not name.startswith("inner")]
    return product(lambda *ready: function(*ready, dims=(of_a, of_b)), [a, b], [names_a, names_b], result)


@rule(torch.cdist)
def _distances(function, a, b, *args, **kwargs):
    return product(lambda *ready: function(*ready, *args, **kwargs), [a, b],
                   [batch(a.ndim - 2) + ["row", "inner"], batch(b.ndim - 2) + ["column", "inner"]],
                   batch(max(a.ndim, b.ndim) - 2) + ["row", "column"], uncut=("inner",))


@rule(torch.nn.functional.linear)
def _linear(function, x, weight, bias=None):
    layout = layout_of(x)
    if not layout.is_plain(-1):
        names = batch(x.ndim - 1)
        result = product(function, [x, uncut(weight)], [[*names, "inner"], ["made", "inner"]], [*names, "made"])
        return result if bias is None else pointwise(torch.add, result, uncut(bias).to(result.dtype))
    weight, bias = (parameter(value, layout) for value in (weight, bias))
    if not layout.is_cut:
        return whole(function(x, weight, bias))
    return striped(function(x, weight, bias), Layout(layout.dims, layout.extents))
