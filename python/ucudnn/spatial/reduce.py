"""Cuts an image into stripes, gathers it again, and sums over its positions."""
import torch

from .errors import NotSupported
from .grid import stripes
from .layout import Extents, Layout
from .positions import Cut, all_of
from .cells import ranks
from .copies import same, same_image
from .precision import wide_type
from .stripe import Stripe, count_of, layout_of, named, plainly, rule, striped, to_local
from .sums import total


def shard(x, dim=None, multiple=1):
    """Returns this rank's stripe of x; x is the same on every rank of a group. `dim`: the dimensions to cut, an int or
    a list; by default all dimensions that the grid cuts, among the last three (d, h, w). Stripes are multiples of
    `multiple` rows, the product of a network's strides, and differ by at most `multiple` rows; the last stripe has the
    rest. On a single rank, returns x itself."""
    grid = ranks() and ranks().grid
    if grid is None:
        return x
    axes, why = _axes(x, dim, grid)
    with plainly():
        same_image(x, [axis + x.ndim - 3 for axis in axes], why)
        layout_dims, extents = [()] * x.ndim, {}
        for axis in axes:
            d, parts = axis + x.ndim - 3, grid.parts[axis]
            rows = stripes(axis, x.shape[d], parts, multiple)
            extents[axis] = Extents(rows, rows)
            x = Cut.apply(x, d, axis, extents[axis]).contiguous()
            layout_dims[d] = ((axis, x.shape[d]),)
        return striped(x, Layout(layout_dims, extents))


def _axes(x, dim, grid):
    """Returns (the grid's axes that cut these dimensions of x, ""), or ([], why they cannot be cut). The refusal is
    returned, because all ranks must learn of it."""
    if not isinstance(x, torch.Tensor):
        raise NotSupported(f"a {type(x).__name__} to cut: make it a tensor by torch.as_tensor(x)")
    if isinstance(x, Stripe) and x.cut.is_cut:
        return [], "it is a stripe already: use it as it is"
    dims = [axis + x.ndim - 3 for axis in grid.cut_axes] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    axes = sorted(d % x.ndim - x.ndim + 3 for d in dims) if x.ndim else []
    if axes != list(grid.cut_axes) or -x.ndim > min(axes) - 3:
        return [], f"dimensions {dims} of a tensor of {x.ndim} are not those that the grid {grid.text} cuts: " \
            f"pass dim={[axis - 3 for axis in grid.cut_axes]}"
    return axes, ""


def from_local(x, dim=None):
    """Returns the stripe whose rows on this rank are x, a plain tensor. It is the inverse of to_local, for data that
    each rank has loaded itself. `dim` is as in shard. Ranks exchange their shapes, which may differ only in rows. On a
    single rank, returns x itself."""
    grid = ranks() and ranks().grid
    if grid is None:
        return x
    axes, why = _axes(x, dim, grid)
    extents = _extents_of(ranks().told_of("what from_local joins", [str(x.dtype), why or axes, list(x.shape)]), grid)
    with plainly():
        return striped(x, Layout([((dim - x.ndim + 3, rows),) if dim - x.ndim + 3 in axes else ()
                                  for dim, rows in enumerate(x.shape)], extents))


def _extents_of(told, grid):
    """Returns {axis: rows of each part}. `told`: for each rank, [type, axes or why there are none, shape] of its
    tensor."""
    shapes = {grid.place_of(rank)[1]: shape for rank, (_, _, shape) in told.items()}
    (dtype, axes, first), *others = told.values()
    is_one = isinstance(axes, list) and all(other[:2] == [dtype, axes] and len(other[2]) == len(first) for other in others)
    extents = {}
    for axis in axes if is_one else ():
        rows = [shapes[tuple(part * (other == axis) for other in range(3))][axis - 3] for part in range(grid.parts[axis])]
        extents[axis] = Extents(rows, rows)
        is_one = is_one and min(rows) > 0
    for place, shape in shapes.items() if is_one else ():
        kept = [extents[axis][place[axis]] if axis in axes else extent for axis, extent in enumerate(first, 3 - len(first))]
        is_one = is_one and shape == kept
    if not is_one:
        raise NotSupported("what ranks have is not one tensor in stripes; pass tensors that differ only in rows: " + "; ".join(
            f"on rank {rank} {dtype} of shape {tuple(shape)}" + (f", {axes}" if isinstance(axes, str) else "")
            for rank, (dtype, axes, shape) in told.items()))
    return extents


def gather(x):
    """Returns the whole x on every rank, as a plain tensor."""
    if not isinstance(x, Stripe):
        return x
    with plainly():
        for dim in range(x.ndim):
            x = all_of(x, dim)
        x = to_local(x)
        if x.requires_grad and ranks().is_checking:
            x.register_hook(lambda gradient: same([("the gradient of what gather gave", gradient)],
                                                  "compute the same of it on all ranks"))
        return x


def whole_shape(x):
    """Returns the whole tensor's shape for a stripe x, in plain numbers."""
    with plainly():
        return torch.Size([layout_of(x).whole_extent(dim, extent) for dim, extent in enumerate(x.shape)])


def dims_of(x, dim):
    if dim is None or isinstance(dim, (list, tuple)) and len(dim) == 0:
        return list(range(x.ndim))
    return sorted(d % x.ndim for d in ([dim] if isinstance(dim, int) else dim))


def axes_in(x, dims):
    return tuple(sorted(axis for dim in dims for axis in x.cut.axes_of(dim)))


def remaining(x, dims, keepdim):
    if not keepdim:
        return x.cut.removed(dims)
    return Layout([() if dim in dims else atoms for dim, atoms in enumerate(x.cut.dims)], x.cut.extents)


def added_up(x, dims, keepdim=False, dtype=None, count=None):
    """Returns the sum over dimensions of the whole tensor. Returns the mean if the number of elements is given as
    `count`. 16-bit numbers are summed in fp32, and the result is rounded once, to the type that torch returns."""
    dtype = (torch.sum if count is None else torch.mean)(x.new_empty(0), dtype=dtype).dtype
    result = total(torch.sum(x, dims, keepdim=keepdim, dtype=wide_type(dtype)), axes_in(x, dims))
    return striped((result if count is None else result / count).to(dtype), remaining(x, dims, keepdim))


@rule(*named("sum"))
def _sum(function, x, dim=None, keepdim=False, *, dtype=None):
    return added_up(x, dims_of(x, dim), keepdim, dtype)


@rule(*named("mean"))
def mean(function, x, dim=None, keepdim=False, *, dtype=None):
    dims = dims_of(x, dim)
    return added_up(x, dims, keepdim, dtype, count_of(x, dims))


def all_striped(result, layout):
    """Returns the tensor, or the tensors in a list or (named) tuple, as stripes with `layout`."""
    if isinstance(result, torch.Tensor):
        return striped(result, layout)
    return type(result)([striped(each, layout) for each in result])
