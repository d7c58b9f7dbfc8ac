"""Functions that move elements without computing."""
import torch

from .errors import NotSupported
from .grid import owned
from .layout import Layout
from .cells import ranks
from .pointwise import broadcast, completed
from .sizes import Own, by_part, plain, whole_extent, whole_of
from .stripe import layout_of, name_of, named, rule, striped, whole


def _list(values):
    return list(values[0]) if len(values) == 1 and isinstance(values[0], (list, tuple, torch.Size)) else list(values)


@rule(*named("view", "reshape"), takes_sizes=True)
def _reshape(function, x, *shape, **kwargs):
    sizes = _list(shape) or list(kwargs.pop("shape", kwargs.pop("size", ())))
    if kwargs or len(sizes) == 1 and isinstance(sizes[0], torch.dtype):
        raise NotSupported("a view as another type")
    return _in_sizes(function(x, plain(sizes)), x, sizes)


def _in_sizes(result, x, sizes):
    """x in another shape, of which a program gave these numbers: the stripe's rows are those that come of them."""
    rows = [dim for dim, size in enumerate(sizes) if isinstance(size, Own) or size == -1]
    layout = x.cut.reshaped(x.shape, result.shape, rows)
    for dim, size in enumerate(sizes):
        if not isinstance(size, Own):
            continue
        if layout.is_plain(dim) and any(size.by_place.values()):
            raise NotSupported(f"{size} comes of a stripe's rows, where dimension {dim} of the result has none")
        if whole_extent(layout, dim, result.shape[dim]) != size.whole:
            raise NotSupported(f"dimension {dim} would have {whole_extent(layout, dim, result.shape[dim])} rows on all ranks, and "
                               f"{size.whole} in the whole")
    return striped(result, layout)


@rule(*named("unflatten"), takes_sizes=True)
def _unflatten(function, x, dim, sizes):
    dim %= x.ndim
    result = function(x, dim, plain(sizes))
    return _in_sizes(result, x, [*x.shape[:dim], *sizes, *x.shape[dim + 1:]])


@rule(*named("flatten", "view_as", "reshape_as"))
def _flatten(function, x, *args, **kwargs):
    result = function(x, *args, **kwargs)
    others = [layout_of(other) for other in args if isinstance(other, torch.Tensor)]
    rows = [dim for other in others for dim in range(result.ndim) if not other.is_plain(dim)]
    layout = x.cut.reshaped(x.shape, result.shape, rows)
    if any(layout.dims != other.dims for other in others):
        raise NotSupported("the shape of a tensor that is cut in another way")
    return striped(result, layout)


@rule(*named("transpose", "swapaxes", "swapdims"))
def _transpose(function, x, dim0, dim1):
    order = list(range(x.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return striped(function(x, dim0, dim1), x.cut.permuted(order))


@rule(*named("permute"))
def _permute(function, x, *dims, **kwargs):
    order = [dim % x.ndim for dim in (kwargs["dims"] if "dims" in kwargs else _list(dims))]
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


@rule(*named("expand", "broadcast_to"), takes_sizes=True)
def _expand(function, x, *sizes, **kwargs):
    sizes = _list(sizes) or list(kwargs["size"])
    layout, dims, extents = layout_of(x), [()] * len(sizes), {}
    offset = len(sizes) - x.ndim
    for dim, size in enumerate(sizes):
        if dim >= offset and layout.dims[dim - offset]:
            dims[dim] = layout.dims[dim - offset]
            own = plain(size)
            if own != -1 and (not isinstance(size, Own) or own != x.shape[dim - offset]):
                raise NotSupported(f"dimension {dim} is cut, and {size} is not its size")
        elif isinstance(size, Own):
            if len(size.axes) > 1:
                raise NotSupported(f"dimension {dim} would have rows of several axes")
            axis, rows = size.axes[0], by_part(size, size.axes[0])
            if sum(rows) != size.whole or axis in extents or axis in layout.axes:
                raise NotSupported(f"{rows} rows on the ranks are not {size.whole} of the whole")
            dims[dim], extents[axis] = ((axis, int(size)),), rows
    made = Layout(dims, {**layout.extents, **extents})
    if any(dim >= offset and x.shape[dim - offset] != 1 for axis in extents for dim in [made.dim_of(axis)]):
        raise NotSupported("what is the same on every rank has as many rows as a stripe: shard it, too")
    return striped(torch.Tensor.expand(completed(x, made), plain(sizes)), made)


@rule(*named("expand_as"))
def _expand_as(function, x, other):
    layout = broadcast([x, other])
    if layout != layout_of(other):
        raise NotSupported("a stripe beside what is not cut alike")
    return striped(function(completed(x, layout), other), layout)


@rule(*named("cat", "concat", "concatenate", "stack"))
def _join(function, tensors, dim=0, **kwargs):
    stacked = name_of(function) == "stack"
    dim %= tensors[0].ndim + stacked
    if not stacked and any(not layout_of(x).is_plain(dim) for x in tensors):
        raise NotSupported(f"joined along the cut dimension {dim}")
    layout = broadcast([x if stacked else striped(x.narrow(dim, 0, 1), layout_of(x)) for x in tensors])
    if any(layout_of(x).axes != layout.axes for x in tensors):
        raise NotSupported("what is the same on every rank, joined with a stripe: shard it, too")
    result = function(tensors, dim)
    return striped(result, layout.inserted(dim) if stacked else Layout(layout.dims, layout.extents))


@rule(*named("chunk", "split", "tensor_split", "split_with_sizes"))
def _split(function, x, sizes, dim=0):
    if not x.cut.is_plain(dim):
        raise NotSupported(f"a stripe taken apart along its cut dimension {dim}")
    return tuple(striped(part, x.cut) for part in function(x, sizes, dim))


@rule(*named("unbind"))
def _unbind(function, x, dim=0):
    if not x.cut.is_plain(dim):
        raise NotSupported(f"a stripe taken apart along its cut dimension {dim}")
    return tuple(striped(part, x.cut.removed([dim % x.ndim])) for part in function(x, dim))


def _of_rows(x, layout, dim, entry):
    """(the slice of this rank's rows, the rows by part) of a slice of a cut dimension of the whole."""
    axis = next((axis for axis in layout.axes if layout.dims[dim] == ((axis, x.shape[dim]),)), None)
    if axis is None:
        raise NotSupported(f"slice {entry} of positions along several axes")
    extents, stop = layout.extents[axis], entry.stop
    if stop is not None and not isinstance(stop, Own) and stop >= 0:
        raise NotSupported(f"the first {stop} rows, by a number that may be this rank's own or the whole's: count from the end, "
                           "or with x.shape")
    taken = range(sum(extents))[slice(*whole_of([entry.start, stop, entry.step]))]
    parts = [taken[max(0, -(-(begin - taken.start) // taken.step)):max(0, -(-(end - taken.start) // taken.step))]
             for begin, end in owned(extents)]
    if min(map(len, parts)) < 1:
        raise NotSupported(f"slice {entry} leaves {tuple(map(len, parts))} of {tuple(extents)} rows")
    part = ranks().part(axis)
    first = parts[part].start - owned(extents)[part][0]
    own = slice(first, first + (len(parts[part]) - 1) * taken.step + 1, taken.step)
    return own, axis, tuple(map(len, parts))


@rule(*named("narrow"), takes_sizes=True)
def _narrow(function, x, dim, start, length):
    if not x.cut.is_plain(dim):
        return _getitem(torch.Tensor.__getitem__, x, (slice(None),) * (dim % x.ndim) + (slice(start, start + length),))
    return striped(function(x, dim, *whole_of([start, length])), x.cut)


@rule(*named("select"))
def _select(function, x, dim, index):
    if not x.cut.is_plain(dim):
        raise NotSupported(f"a stripe taken apart along its cut dimension {dim}")
    return striped(function(x, dim, index), x.cut.removed([dim % x.ndim]))


@rule(torch.Tensor.__getitem__, takes_sizes=True)
def _getitem(function, x, index):
    if not x.cut.is_cut:
        return whole(function(x, index))
    entries = list(index) if isinstance(index, tuple) else [index]
    if any(not (entry is None or entry is Ellipsis or isinstance(entry, (int, slice))) or isinstance(entry, bool)
           for entry in entries):
        raise NotSupported("a stripe indexed by a tensor or a list")
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if Ellipsis not in entries:
        entries.append(Ellipsis)
    at = entries.index(Ellipsis)
    entries[at:at + 1] = [slice(None)] * (x.ndim - used)
    dims, dim, extents = [], 0, dict(x.cut.extents)
    for at, entry in enumerate(entries):
        if entry is None:
            dims.append(())
            continue
        entries[at] = entry = slice(*map(_number, (entry.start, entry.stop, entry.step))) if isinstance(entry, slice) else entry
        atoms = x.cut.dims[dim]
        if atoms and isinstance(entry, int):
            raise NotSupported(f"the cut dimension {dim} is indexed by {entry}")
        if atoms and entry != slice(None):
            entries[at], axis, rows = _of_rows(x, x.cut, dim, entry)
            extents[axis] = extents[axis].followed_by(rows)
            atoms = ((axis, rows[ranks().part(axis)]),)
        elif isinstance(entry, slice):
            entries[at] = slice(*whole_of([entry.start, entry.stop, entry.step]))
        if not isinstance(entry, int):
            dims.append(atoms)
        dim += 1
    return striped(function(x, tuple(entries)), Layout(dims, extents))


def _number(value):
    """The start, stop or step of a slice; NotSupported of a tensor."""
    if value is not None and not isinstance(value, int):
        raise NotSupported("a slice by a tensor")
    return value


@rule(*named("softmax", "log_softmax", "softmin", "normalize", "cumsum", "argmax", "glu"))
def _over_one_dimension(function, x, *args, **kwargs):
    """Functions over the dimension `dim` alone."""
    dim = kwargs.get("dim", args[0] if args else None)
    if name_of(function) == "normalize":
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 1)
    if name_of(function) == "glu" and dim is None:
        dim = -1
    if not isinstance(dim, int) or not x.cut.is_plain(dim):
        raise NotSupported(f"over a cut dimension ({dim})")
    result = function(x, *args, **kwargs)
    layout = x.cut
    if result.ndim < x.ndim:
        layout = layout.removed([dim % x.ndim])
    return striped(result, layout)


@rule(*named("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "native_channel_shuffle"))
def _shuffle(function, x, factor):
    changed = {}
    for axis, rows in x.cut.extents.items():
        x.cut.dim_of(axis)
        if name_of(function) == "pixel_shuffle":
            rows = tuple(row * factor for row in rows)
        elif name_of(function) == "pixel_unshuffle":
            if any(row % factor for row in rows):
                raise NotSupported(f"stripes of {rows} rows are not multiples of {factor}{rows.next_size(factor)}")
            rows = tuple(row // factor for row in rows)
        changed[axis] = rows, rows[ranks().part(axis)]
    return striped(function(x, factor), x.cut.with_extents(changed))
