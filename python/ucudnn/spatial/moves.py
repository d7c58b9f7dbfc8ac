"""Functions that move, repeat or create rows: repeat, flip, roll, triangles, new tensors."""
import torch

from .cells import ranks
from .errors import NotSupported
from .factories import of_sizes
from .grid import owned
from .halo import fetch
from .layout import Layout
from .positions import places
from .reduce import dims_of
from .shapes import as_list, expand
from .sizes import Own, plain, whole_of
from .stripe import layout_of, name_of, named, rule, striped, whole


@rule(*named("repeat", "tile"), sizes="made")
def _repeat(function, x, *repeats, **kwargs):
    repeats = as_list(repeats) or list(kwargs.get("repeats", kwargs.get("dims", ())))
    repeats = [1] * (x.ndim - len(repeats)) + repeats
    offset = len(repeats) - x.ndim
    # A single row that is repeated as often as this rank's stripe has rows (a size of type Own) becomes a stripe on
    # every rank.
    sizes = [number if isinstance(number, Own) else -1 if dim >= offset else 1 for dim, number in enumerate(repeats)]
    x = expand(torch.Tensor.expand, x, sizes)
    repeats = [1 if isinstance(number, Own) else number for number in repeats]
    for dim, number in enumerate(repeats):
        if number != 1 and not x.cut.is_plain(dim):
            raise NotSupported(f"the rows of the cut dimension {dim}, {number} times one behind the other, lie on other ranks: "
                               "use repeat_interleave, or gather them first")
    return striped(torch.Tensor.repeat(x, repeats), Layout(x.cut.dims, x.cut.extents))


@rule(*named("repeat_interleave"), sizes="whole")
def _interleave(function, x, repeats, dim=None, **kwargs):
    layout = layout_of(x)
    if not layout.is_cut:
        return whole(function(x, repeats, dim, **kwargs))
    if dim is None:
        raise NotSupported("all elements of a stripe in a row")
    result, atoms = function(x, repeats, dim), layout.dims[dim]
    if not atoms:
        return striped(result, Layout(layout.dims, layout.extents))
    if not isinstance(repeats, int):
        raise NotSupported("a number of repeats for each row of a cut dimension")
    if len(atoms) == 1:
        axis, rows = atoms[0][0], tuple(rows * repeats for rows in layout.extents[atoms[0][0]])
        return striped(result, layout.with_extents({axis: (rows, rows[ranks().part(axis)])}))
    dims = list(layout.dims)
    dims[dim] = (*atoms, (None, repeats))
    return striped(result, Layout(dims, layout.extents))


_FLIPPED = {"fliplr": (1,), "flipud": (0,)}


@rule(*named("flip", *_FLIPPED))
def _flip(function, x, *dims, **kwargs):
    """Reverses x: along a cut axis each rank fetches the rows that are as far from the last row as its own rows are
    from the first."""
    dims = _FLIPPED.get(name_of(function)) or as_list(dims) or kwargs.get("dims", ())
    layout, result = Layout(x.cut.dims, x.cut.extents), x if len(dims) else x.clone()
    for dim in dims_of(x, dims) if len(dims) else ():
        atoms = layout.dims[dim] or ((None, x.shape[dim]),)
        result = result.unflatten(dim, [size for _, size in atoms])
        for at, (axis, _) in enumerate(atoms, dim):
            if axis is not None:
                extents, rows = layout.extents[axis], sum(layout.extents[axis])
                result = fetch(result, at, axis, extents, [(rows - end, rows - begin) for begin, end in owned(extents)])
            result = result.flip(at)
        result = result.flatten(dim, dim + len(atoms) - 1)
    return striped(result, layout)


@rule(*named("rot90"))
def _rotate(function, x, k=1, dims=(0, 1)):
    first, second = (dim % x.ndim for dim in dims)
    result = _flip(torch.flip, x, [[], [second], [first, second], [first]][k % 4])
    order = list(range(x.ndim))
    if k % 2:
        order[first], order[second] = second, first
    return striped(torch.permute(result, order), result.cut.permuted(order))


@rule(*named("roll"), sizes="whole")
def _roll(function, x, shifts, dims=None):
    if not x.cut.is_cut:
        return whole(function(x, shifts, () if dims is None else dims))
    if dims is None or dims == ():
        raise NotSupported("all elements of a stripe in a row: pass dims=")
    layout, result = Layout(x.cut.dims, x.cut.extents), x
    for shift, dim in zip(*([value] if isinstance(value, int) else value for value in (shifts, dims))):
        atoms = layout.dims[dim]
        if not atoms:
            result = torch.roll(result, shift, dim)
        elif len(atoms) > 1:
            raise NotSupported("positions that are flattened together: roll them before")
        else:
            result = _rolled(result, dim % x.ndim, atoms[0][0], layout.extents[atoms[0][0]], shift)
    return striped(result, layout)


def _rolled(x, dim, axis, extents, shift):
    """Fetches the rows that wrap around from the end, and the rows before this part's own."""
    total, around, before = sum(extents), [], []
    shift %= total
    for begin, end in owned(extents):
        first, last = begin - shift, end - shift
        around.append((first + total, min(last, 0) + total) if first < 0 else (begin, begin))
        before.append((max(first, 0), last) if last > 0 else (begin, begin))
    return torch.cat([fetch(x, dim, axis, extents, rows) for rows in (around, before)], dim)


@rule(*named("tril", "triu"), sizes="whole")
def _triangle(function, x, diagonal=0):
    rows, columns = places(x, x.ndim - 2).unsqueeze(1) + diagonal, places(x, x.ndim - 1)
    is_outside = columns > rows if name_of(function) == "tril" else columns < rows
    return striped(x.masked_fill(is_outside, 0), Layout(layout_of(x).dims, layout_of(x).extents))


@rule(*named("new_zeros", "new_ones", "new_empty", "new_full"), sizes="made")
def _made(function, x, *sizes, **kwargs):
    """The result is cut if a size is an Own (from a stripe's shape); otherwise it is replicated."""
    value = [kwargs.pop("fill_value", None) if len(sizes) < 2 else sizes[1]] if name_of(function) == "new_full" else []
    sizes = list(kwargs.pop("size", None) or as_list(sizes[:1] if value else sizes))
    return striped(function(x, plain(sizes), *whole_of(value), **kwargs), of_sizes(sizes))


@rule(*named("new_tensor"))
def _new_tensor(function, x, data, **kwargs):
    if isinstance(data, torch.Tensor):
        raise NotSupported("new_tensor of a tensor: use clone().detach()")
    result = function(x, data, **kwargs)
    return striped(result, Layout([()] * result.ndim, {}))
