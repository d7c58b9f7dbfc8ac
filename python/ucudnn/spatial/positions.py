"""Positions of a dimension, which may have been flattened from several dimensions: `places` returns where this rank's
positions are in the whole dimension; `all_of` returns the positions of all ranks. Positions have the same order as in a
single process, so results match plain tensors with all positions."""
import torch

from .cells import ranks
from .grid import owned
from .halo import fetch
from .layout import Layout
from .stripe import layout_of, striped


class Cut(torch.autograd.Function):
    """Returns this rank's rows of the replicated tensor x. backward gathers the gradient of all rows on every rank."""

    @staticmethod
    def forward(ctx, x, dim, axis, extents):
        ctx.arguments = dim, axis, extents
        begin, end = owned(extents)[ranks().part(axis)]
        return x.narrow(dim, begin, end - begin)

    @staticmethod
    def backward(ctx, gradient):
        return Gather.apply(gradient, *ctx.arguments), None, None, None


class Gather(torch.autograd.Function):
    """Gathers all rows on every rank. The gradient of all rows is the same on every rank; each rank keeps the gradient
    of its own rows."""

    @staticmethod
    def forward(ctx, x, dim, axis, extents):
        ctx.arguments = dim, axis, extents
        return fetch(x, dim, axis, extents, [(0, sum(extents))] * len(extents))

    @staticmethod
    def backward(ctx, gradient):
        return Cut.apply(gradient, *ctx.arguments), None, None, None


def all_of(x, dim, apart=()):
    """Returns x with the positions of all ranks in dimension `dim`. Ranks that differ along the axes `apart` compute
    different results from these positions, so the gradients of these ranks are added. Ranks that differ along other
    axes compute the same."""
    layout, dim = layout_of(x), dim % x.ndim
    atoms = layout.dims[dim]
    if not atoms:
        return x
    result = x.unflatten(dim, [size for _, size in atoms])
    for at, (axis, _) in enumerate(atoms, dim):
        if axis in apart:
            extents = layout.extents[axis]
            result = fetch(result, at, axis, extents, [(0, sum(extents))] * len(extents))
        elif axis is not None:
            result = Gather.apply(result, at, axis, layout.extents[axis])
    return striped(result.flatten(dim, dim + len(atoms) - 1),
                   Layout(layout.dims[:dim] + ((),) + layout.dims[dim + 1:], layout.extents))


def own_part(x, of_x, layout):
    """Returns x with only this rank's rows in each dimension where `layout` is cut and x has all rows. `of_x` is the
    layout of x; its dimensions are the last dimensions of `layout`. The gradient has only these rows."""
    for dim, extent in enumerate(x.shape):
        atoms = layout.dims[len(layout.dims) - x.ndim + dim]
        if extent != 1 and atoms and of_x.is_plain(dim):
            x = x.index_select(dim, _places(atoms, layout).to(x.device))
    return x


def places(x, dim):
    """Returns the indices of this rank's positions in the whole dimension `dim`."""
    return _places(layout_of(x).dims[dim] or ((None, x.shape[dim]),), layout_of(x)).to(x.device)


def _places(atoms, layout):
    found = torch.zeros(1, dtype=torch.int64)
    for axis, size in atoms:
        extents = (size,) if axis is None else layout.extents[axis]
        begin, end = owned(extents)[0 if axis is None else ranks().part(axis)]
        found = (found.unsqueeze(1) * sum(extents) + torch.arange(begin, end)).flatten()
    return found
