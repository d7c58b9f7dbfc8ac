"""Indexing by slices, numbers and tables, for reading and writing. A cut dimension can be sliced. A mask that is cut
like the tensor can select where a single number is written."""
import torch
from torch.nn import functional

from .cells import ranks
from .errors import NotSupported
from .grid import owned
from .layout import Layout
from .positions import own_part
from .pointwise import broadcast, completed, may_be_written, parameter
from .sizes import Own, whole_of
from .stripe import layout_of, name_of, named, rule, striped, whole
from .sums import greatest, summed


def _of_rows(x, layout, dim, entry, may_be_none):
    """`entry` is a slice of a cut dimension of the whole tensor. Returns (this rank's slice, the axis that cuts the
    dimension, rows by part)."""
    axis = next((axis for axis in layout.axes if layout.dims[dim] == ((axis, x.shape[dim]),)), None)
    if axis is None:
        raise NotSupported(f"slice {entry} of positions along several axes")
    extents, stop = layout.extents[axis], entry.stop
    if stop is not None and not isinstance(stop, Own) and stop > 0:
        raise NotSupported(f"rows up to {stop}, by a number that may be this rank's own or the whole tensor's: count "
                           "from the end, or with x.shape")
    taken = range(sum(extents))[slice(*whole_of([entry.start, stop, entry.step]))]
    parts = [taken[max(0, -(-(begin - taken.start) // taken.step)):max(0, -(-(end - taken.start) // taken.step))]
             for begin, end in owned(extents)]
    if min(map(len, parts)) < 1 and not may_be_none:
        raise NotSupported(f"slice {entry} leaves {tuple(map(len, parts))} of {tuple(extents)} rows")
    part = ranks().part(axis)
    first = max(0, parts[part].start - owned(extents)[part][0])
    own = slice(first, first + max(0, (len(parts[part]) - 1) * taken.step + 1), taken.step)
    return own, axis, tuple(map(len, parts))


@rule(*named("narrow"), sizes="own")
def _narrow(function, x, dim, start, length):
    if not x.cut.is_plain(dim):
        return getitem(torch.Tensor.__getitem__, x, (slice(None),) * (dim % x.ndim) + (slice(start, start + length),))
    return striped(function(x, dim, *whole_of([start, length])), x.cut)


@rule(*named("select"), sizes="whole")
def _select(function, x, dim, index):
    if not x.cut.is_plain(dim):
        raise NotSupported(f"a stripe taken apart along its cut dimension {dim}")
    return striped(function(x, dim, index), x.cut.removed([dim % x.ndim]))


def _entries(x, index):
    """Returns the list of an index's entries, one for each dimension (None adds one): numbers, slices, None and
    tensors."""
    entries = []
    for entry in index if isinstance(index, tuple) else [index]:
        if isinstance(entry, (list, range)):
            entry = torch.tensor(whole_of(list(entry)), device=x.device)
        if isinstance(entry, torch.Tensor) and entry.dtype in (torch.bool, torch.uint8):
            if entry.ndim == 0 or layout_of(entry).is_cut:
                raise NotSupported("how many elements a mask takes is known when all ranks have counted: multiply by it, or "
                                   "use torch.where")
            entries += entry.nonzero().unbind(1)
        elif isinstance(entry, bool) or not isinstance(entry, (int, slice, torch.Tensor, type(None), type(Ellipsis))):
            raise NotSupported(f"an index by {type(entry).__name__}")
        else:
            entries.append(entry)
    at = next((at for at, entry in enumerate(entries) if entry is Ellipsis), len(entries))
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    return entries[:at] + [slice(None)] * (x.ndim - used) + entries[at + 1:]


def _located(x, index, may_be_none=False):
    """Returns (entries, layout, tables). `entries` is `index` for this rank's x, with full slices in place of tensors.
    `layout` is the layout of x[entries]. `tables` is {dimension of x[entries]: tensor of the index}, for _looked_up.
    `may_be_none`: slices may leave a rank without rows."""
    layout, entries, dims, dim, tables = layout_of(x), _entries(x, index), [], 0, {}
    extents = dict(layout.extents)
    for at, entry in enumerate(entries):
        if entry is None:
            dims.append(())
            continue
        atoms = layout.dims[dim]
        if isinstance(entry, slice):
            entry = slice(*map(_number, (entry.start, entry.stop, entry.step)))
            entries[at] = entry if atoms else slice(*whole_of([entry.start, entry.stop, entry.step]))
            if atoms and entry != slice(None):
                entries[at], axis, rows = _of_rows(x, layout, dim, entry, may_be_none)
                extents[axis] = extents[axis].followed_by(rows)
                atoms = ((axis, rows[ranks().part(axis)]),)
        elif atoms:
            what = f"by {entry}" if isinstance(entry, int) else "by a tensor, which may name rows of any rank: gather it first"
            raise NotSupported(f"the cut dimension {dim} is indexed {what}")
        elif isinstance(entry, torch.Tensor):
            tables[len(dims)], entries[at] = entry, slice(None)
        else:
            entries[at] = whole_of(entry)
        if not isinstance(entry, int):
            dims.append(atoms)
        dim += 1
    return tuple(entries), Layout(dims, extents), tables


def _number(value):
    """Returns the start, stop or step of a slice. Raises NotSupported for a tensor."""
    if value is not None and not isinstance(value, int):
        raise NotSupported("a slice by a tensor")
    return value


def _looked_up(layout, tables):
    """Returns (an index made of `tables`, the layout of the result of applying it to a tensor with `layout`)."""
    found, dims = broadcast(list(tables.values())), list(layout.dims)
    first, last = min(tables), max(tables)
    is_together = last - first + 1 == len(tables)  # otherwise torch puts the dimensions of the tables first
    rest = [atoms for dim, atoms in enumerate(dims) if dim not in tables]
    at = first if is_together else 0
    index = tuple(tables.get(dim, slice(None)) for dim in range(last + 1))
    return index, Layout([*rest[:at], *found.dims, *rest[at:]], {**found.extents, **layout.extents})


@rule(torch.Tensor.__getitem__, sizes="own")
def getitem(function, x, index):
    entries, layout, tables = _located(x, index)
    result = function(x, entries)
    if not tables:
        return striped(result, layout)
    index, made = _looked_up(layout, tables)
    return striped(function(completed(striped(result, layout), made), index), made)


@rule(torch.Tensor.__setitem__, sizes="own")
def _setitem(function, x, index, value):
    may_be_written(x)
    value = whole_of(value)
    if isinstance(index, torch.Tensor) and layout_of(index).is_cut and index.dtype == torch.bool:
        return _masked(x, index, value)
    is_plain = not (isinstance(value, torch.Tensor) and layout_of(value).is_cut)
    entries, layout, tables = _located(x, index, may_be_none=is_plain)
    place = torch.Tensor.__getitem__(x, entries)
    index, made = _looked_up(layout, tables) if tables else ((Ellipsis,), layout)
    if made.extents.keys() - layout.extents.keys():
        raise NotSupported("what all ranks have alike is written where a stripe says")
    if isinstance(value, torch.Tensor):
        if broadcast([striped(torch.Tensor.__getitem__(place, index), made), value], keeps_first=True) != made:
            raise NotSupported("a stripe written into what is not cut alike")
        value = completed(value, made)
    function(place, index, value)


def _masked(x, mask, value):
    layout = layout_of(mask)
    is_number = not isinstance(value, torch.Tensor) or value.ndim == 0 and not layout_of(value).is_cut
    if not is_number or Layout(layout_of(x).dims[:mask.ndim], layout_of(x).extents) != layout:
        raise NotSupported("other than one number written where a stripe that is cut alike says")
    value = completed(value, layout_of(x)) if isinstance(value, torch.Tensor) else value
    x.masked_fill_(mask.view(*mask.shape, *[1] * (x.ndim - mask.ndim)), value)


@rule(*named("index_select"))
def _index_select(function, x, dim, index):
    return getitem(torch.Tensor.__getitem__, x, (slice(None),) * (dim % x.ndim) + (index,))


@rule(*named("gather", "take_along_dim"))
def _gather(function, x, dim, index, *args, **kwargs):
    """Takes elements along a dimension that is not cut, or from a replicated tensor. Along the other dimensions, x and
    index have the same rows."""
    if name_of(function) == "take_along_dim":
        dim, index = index, dim
    if not isinstance(dim, int):
        raise NotSupported("elements counted in the flattened tensor")
    layouts = [layout_of(x), layout_of(index)]
    given = (dim, index) if name_of(function) == "gather" else (index, dim)
    if not layouts[0].is_cut:
        others = Layout([() if at == dim % x.ndim else atoms for at, atoms in enumerate(layouts[1].dims)], layouts[1].extents)
        own = own_part(summed(x, layouts[1].axes), layouts[0], others)
        return striped(function(own, *given, *args, **kwargs), layouts[1])
    if not all(layout.is_plain(dim) for layout in layouts):
        raise NotSupported(f"elements taken along the cut dimension {dim}, which may be of any rank: gather it first")
    if name_of(function) == "gather" and layouts[0] != layouts[1]:
        raise NotSupported("an index that is not cut as the tensor is")
    made = broadcast([striped(each.narrow(dim, 0, 1), layout) for each, layout in zip((x, index), layouts)])
    return striped(function(completed(x, made), *given, *args, **kwargs), Layout(made.dims, made.extents))


@rule(functional.embedding)
def _embedding(function, index, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
               sparse=False):
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NotSupported("max_norm, scale_grad_by_freq or sparse, which look at what all ranks take")
    layout = layout_of(index)
    return striped(function(index, parameter(weight, layout), padding_idx), Layout([*layout.dims, ()], layout.extents))


@rule(functional.one_hot)
def _one_hot(function, x, num_classes=-1):
    layout = layout_of(x)
    if num_classes == -1:
        num_classes = int(greatest(x.max(), layout.axes)) + 1
    return striped(function(x, num_classes), Layout([*layout.dims, ()], layout.extents))


@rule(*named("scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"), sizes="whole")
def _scatter(function, x, dim, index, *args, **kwargs):
    """Writes elements along a dimension that is not cut. Along the other dimensions, all tensors have the same rows."""
    operands = [x, index, *(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor) and value.ndim)]
    if not isinstance(dim, int) or not all(layout_of(operand).is_plain(dim) for operand in operands):
        raise NotSupported(f"elements written along the cut dimension {dim}, which may be of any rank: gather it first")
    if any(layout_of(operand) != layout_of(x) for operand in operands):
        raise NotSupported("an index or values that are not cut as the tensor is: shard them, too, or make the tensor with the "
                           "stripe's sizes")
    if name_of(function).endswith("_"):
        may_be_written(x)
    return striped(function(x, dim, index, *args, **kwargs), layout_of(x))


@rule(*named("masked_select", "nonzero", "argwhere", "take", "unique"))
def _counted(function, x, *args, **kwargs):
    if layout_of(x).is_cut or any(layout_of(value).is_cut for value in args if isinstance(value, torch.Tensor)):
        raise NotSupported("how many elements each rank finds depends on their values, so that nothing says where they stand in "
                           "the whole: gather first, or multiply by the mask")
    return whole(function(x, *args, **kwargs))
