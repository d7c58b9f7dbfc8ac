"""Functions that move elements without computing."""
import math

import torch

from .errors import NotSupported
from .layout import Layout, Uneven
from .cells import ranks
from .pointwise import broadcast, completed, met
from .recut import in_groups, in_stripes, share
from .sizes import Own, plain, rows_of, sizes_of, whole_of
from .stripe import layout_of, name_of, named, rule, striped, whole


def as_list(values):
    return list(values[0]) if len(values) == 1 and isinstance(values[0], (list, tuple, torch.Size)) else list(values)


@rule(*named("view", "reshape"), sizes="own")
def _reshape(function, x, *shape, **kwargs):
    sizes = as_list(shape) or list(kwargs.pop("shape", kwargs.pop("size", ())))
    if kwargs or len(sizes) == 1 and isinstance(sizes[0], torch.dtype):
        if not x.cut.is_cut:
            return whole(function(x, *shape, **kwargs))
        raise NotSupported("a view as another type")
    x, layout, own = _in_sizes(x, sizes)
    return striped(function(x, own), layout)


@rule(*named("unflatten"), sizes="own")
def _unflatten(function, x, dim, sizes):
    dim, others = dim % x.ndim, sizes_of(x.shape, x.cut)
    x, layout, own = _in_sizes(x, [*others[:dim], *sizes, *others[dim + 1:]])
    return striped(function(x, dim, own[dim:dim + len(sizes)]), layout)


def _in_sizes(x, sizes):
    """Returns (x, layout, shape on this rank) for a reshape of x to `sizes`, given by a program. A reshape may group
    rows; if stripes of x do not have whole groups, x is moved to other stripes. All ranks decide alike, because they
    decide by the shapes of the whole tensor.

    A size from x.shape (an Own) names rows, and so does a dimension that stays unchanged. A plain number is a size of
    the whole tensor if there is no -1, because the number of elements must match, or if -1 is for uncut dimensions
    only."""
    old = [x.cut.whole_extent(dim, extent) for dim, extent in enumerate(x.shape)]
    new = whole_of(list(sizes))
    if -1 in new:
        new[new.index(-1)] = math.prod(old) // max(1, math.prod(size for size in new if size != -1))
    if math.prod(new) != math.prod(old):
        raise NotSupported(f"the whole tensor of shape {tuple(old)} as {tuple(new)}")
    is_named = any(isinstance(size, Own) for size in sizes)  # if so, -1 may be for dimensions without a name
    is_clear = -1 not in sizes or not is_named and _is_of_plain(x.cut, old, new, list(sizes).index(-1))
    rows = [dim for dim, size in enumerate(sizes)
            if isinstance(size, Own) or (not (is_named and new[dim] == 1) if size == -1 else is_clear and new[dim] > 1)]
    cut, layout = x.cut, None
    while layout is None:
        try:
            layout = cut.reshaped(old, new, rows)
        except Uneven as uneven:
            cut = in_groups(cut, uneven.axis, uneven.size)
    for dim, size in enumerate(sizes):
        if not layout.is_plain(dim) and dim not in rows and layout.dims[dim] not in cut.dims:
            raise NotSupported(f"{size} as the size of rows does not say whether it is this rank's or the whole tensor's: compute "
                               "it from x.shape")
    if cut is not x.cut:
        given, x = x, striped(in_stripes(x, cut.extents), cut)
        share(given, x)
    own = [math.prod(size for _, size in atoms) if atoms else extent for atoms, extent in zip(layout.dims, new)]
    return x, layout, own


def _is_of_plain(cut, old, new, dim):
    """Returns whether dimension `dim` of `new` comes only from dimensions that are not cut."""
    ends = [math.prod(old[:count]) for count in range(len(old) + 1)]
    first = max((end for count in range(dim + 1) if (end := math.prod(new[:count])) in ends))
    last = min((end for count in range(dim + 1, len(new) + 1) if (end := math.prod(new[:count])) in ends))
    return all(cut.is_plain(at) for at in range(len(old)) if first <= ends[at] and ends[at + 1] <= last)


@rule(*named("flatten", "ravel"))
def _flatten(function, x, start_dim=0, end_dim=-1):
    first, last, sizes = start_dim % max(x.ndim, 1), end_dim % max(x.ndim, 1), sizes_of(x.shape, x.cut)
    x, layout, _ = _in_sizes(x, [*sizes[:first], math.prod(sizes[first:last + 1]), *sizes[last + 1:]])
    return striped(x.flatten(start_dim, end_dim), layout)


@rule(*named("view_as", "reshape_as"))
def _as_other(function, x, other):
    x, layout, _ = _in_sizes(x, sizes_of(other.shape, layout_of(other)))
    if layout.dims != layout_of(other).dims:
        raise NotSupported("the shape of a tensor that is cut in another way")
    return striped(function(x, other), layout)


@rule(*named("transpose", "swapaxes", "swapdims"))
def _transpose(function, x, dim0, dim1):
    order = list(range(x.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return striped(function(x, dim0, dim1), x.cut.permuted(order))


@rule(*named("t"))
def _transpose_matrix(function, x):
    return striped(function(x), x.cut.permuted(reversed(range(x.ndim))))


@rule(*named("permute"))
def _permute(function, x, *dims, **kwargs):
    order = [dim % x.ndim for dim in (kwargs["dims"] if "dims" in kwargs else as_list(dims))]
    return striped(torch.permute(x, order), x.cut.permuted(order))


@rule(*named("movedim", "moveaxis"))
def _movedim(function, x, source, destination):
    source = [dim % x.ndim for dim in ([source] if isinstance(source, int) else source)]
    destination = [dim % x.ndim for dim in ([destination] if isinstance(destination, int) else destination)]
    order = [None] * x.ndim
    for dim, place in zip(source, destination):
        order[place] = dim
    rest = iter(dim for dim in range(x.ndim) if dim not in source)
    order = [next(rest) if dim is None else dim for dim in order]
    return striped(torch.permute(x, order), x.cut.permuted(order))


@rule(*named("unsqueeze"))
def _unsqueeze(function, x, dim):
    return striped(function(x, dim), x.cut.inserted(dim % (x.ndim + 1)))


@rule(*named("squeeze"))
def _squeeze(function, x, dim=None):
    dims = range(x.ndim) if dim is None else [d % x.ndim for d in ([dim] if isinstance(dim, int) else dim)]
    dims = [d for d in dims if x.shape[d] == 1 and x.cut.is_plain(d)]
    return striped(torch.squeeze(x, dims), x.cut.removed(dims))


@rule(*named("expand", "broadcast_to"), sizes="made")
def expand(function, x, *sizes, **kwargs):
    sizes = list(kwargs["size"]) if "size" in kwargs else as_list(sizes)
    layout, dims, extents = layout_of(x), [()] * len(sizes), {}
    offset = len(sizes) - x.ndim
    for dim, size in enumerate(sizes):
        if dim >= offset and layout.dims[dim - offset]:
            dims[dim] = layout.dims[dim - offset]
            own = plain(size)
            if own != -1 and (not isinstance(size, Own) or own != x.shape[dim - offset]):
                raise NotSupported(f"dimension {dim} is cut, and {size} is not its size")
        elif isinstance(size, Own):
            axis, rows = rows_of(size)
            dims[dim], extents[axis] = ((axis, size.here),), rows
    made = Layout(dims, {**layout.extents, **extents})
    if any(dim >= offset and x.shape[dim - offset] != 1 for axis in extents for dim in [made.dim_of(axis)]):
        raise NotSupported("what is the same on every rank has as many rows as a stripe: shard it, too")
    return striped(torch.Tensor.expand(completed(x, made), plain(sizes)), made)


@rule(*named("expand_as"))
def _expand_as(function, x, other):
    layout = broadcast([other, x], keeps_first=True)
    if layout != layout_of(other):
        raise NotSupported("a stripe beside what is not cut alike")
    return striped(function(completed(x, layout), other), layout)


@rule(*named("cat", "concat", "concatenate", "stack"))
def _join(function, tensors, dim=0):
    stacked = name_of(function) == "stack"
    # torch joins an empty vector with tensors of any number of dimensions; only its type counts.
    nothing = [x for x in tensors if not stacked and x.shape == (0,)]
    tensors = [x for x in tensors if stacked or x.shape != (0,)] or [nothing.pop()]
    dim %= tensors[0].ndim + stacked
    if not stacked and any(not layout_of(x).is_plain(dim) for x in tensors):
        raise NotSupported(f"joined along the cut dimension {dim}")
    layout = broadcast([x if stacked else striped(x.narrow(dim, 0, min(1, x.shape[dim])), layout_of(x)) for x in tensors],
                       takes_whole=True)
    if any(atoms and not own and x.shape[at] == 1 for x in tensors
           for at, (atoms, own) in enumerate(zip(layout.dims, layout_of(x).dims))):
        raise NotSupported("one row, which is the same on every rank, joined with a stripe: shard it, too")
    result = function([*nothing, *(met(x, layout) for x in tensors)], dim)
    return striped(result, layout.inserted(dim) if stacked else Layout(layout.dims, layout.extents))


@rule(*named("chunk", "split", "tensor_split", "split_with_sizes"), sizes="whole")
def _split(function, x, *args, **kwargs):
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    if not x.cut.is_plain(dim):
        raise NotSupported(f"a stripe taken apart along its cut dimension {dim}, whose parts lie on some ranks alone: gather it first")
    return tuple(striped(part, x.cut) for part in function(x, *args, **kwargs))


@rule(*named("unbind"))
def _unbind(function, x, dim=0):
    if not x.cut.is_plain(dim):
        raise NotSupported(f"a stripe taken apart along its cut dimension {dim}, whose parts lie on some ranks alone: gather it first")
    return tuple(striped(part, x.cut.removed([dim % x.ndim])) for part in function(x, dim))


@rule(*named("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "native_channel_shuffle"))
def _shuffle(function, x, *factors, **named):
    changed, cut, (factor,) = {}, x.cut, (*factors, *named.values())
    for axis, rows in x.cut.extents.items():
        x.cut.dim_of(axis)
        if name_of(function) == "pixel_shuffle":
            rows = tuple(row * factor for row in rows)
        elif name_of(function) == "pixel_unshuffle":
            cut = in_groups(cut, axis, factor)
            rows = tuple(row // factor for row in cut.extents[axis])
        changed[axis] = rows, rows[ranks().part(axis)]
    return striped(function(in_stripes(x, cut.extents), factor), cut.with_extents(changed))
