"""Functions that move elements without computing."""
import torch

from .errors import NotSupported
from .layout import Layout
from .cells import ranks
from .pointwise import broadcast, completed
from .stripe import layout_of, name_of, named, rule, striped, whole


def _list(values):
    return list(values[0]) if len(values) == 1 and isinstance(values[0], (list, tuple, torch.Size)) else list(values)


@rule(*named("view", "reshape"))
def _reshape(function, x, *shape, **kwargs):
    if kwargs or len(shape) == 1 and isinstance(shape[0], torch.dtype):
        raise NotSupported("a view as another type")
    result = function(x, _list(shape))
    return striped(result, x.cut.reshaped(x.shape, result.shape))


@rule(*named("flatten", "unflatten", "view_as", "reshape_as"))
def _flatten(function, x, *args, **kwargs):
    result = function(x, *args, **kwargs)
    return striped(result, x.cut.reshaped(x.shape, result.shape))


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


@rule(*named("expand", "expand_as"))
def _expand(function, x, *sizes):
    result = function(x, *sizes)
    layout = x.cut
    for _ in range(result.ndim - x.ndim):
        layout = layout.inserted(0)
    return striped(result, layout)  # which fails where a cut dimension of one row has become longer


@rule(*named("cat", "concat", "concatenate", "stack"))
def _join(function, tensors, dim=0, **kwargs):
    stacked = name_of(function) == "stack"
    dim %= tensors[0].ndim + stacked
    if not stacked and any(not layout_of(x).is_plain(dim) for x in tensors):
        raise NotSupported(f"joined along the cut dimension {dim}")
    layout = broadcast([x if stacked else striped(x.narrow(dim, 0, 1), layout_of(x)) for x in tensors])
    result = function([completed(x, layout) for x in tensors], dim)
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


@rule(*named("narrow"))
def _narrow(function, x, dim, start, length):
    if not x.cut.is_plain(dim):
        raise NotSupported(f"a stripe taken apart along its cut dimension {dim}")
    return striped(function(x, dim, start, length), x.cut)


@rule(*named("select"))
def _select(function, x, dim, index):
    if not x.cut.is_plain(dim):
        raise NotSupported(f"a stripe taken apart along its cut dimension {dim}")
    return striped(function(x, dim, index), x.cut.removed([dim % x.ndim]))


@rule(torch.Tensor.__getitem__)
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
    dims, dim = [], 0
    for entry in entries:
        if entry is None:
            dims.append(())
            continue
        if not x.cut.is_plain(dim) and entry != slice(None):
            raise NotSupported(f"the cut dimension {dim} is indexed by {entry}")
        if not isinstance(entry, int):
            dims.append(x.cut.dims[dim])
        dim += 1
    return striped(function(x, index), Layout(dims, x.cut.extents))


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
