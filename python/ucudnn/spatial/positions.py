"""Positions of a dimension, which may have been flattened from several: the places in the whole of this rank's
positions, and the positions of all ranks. Both are in the whole's order, so values computed from all positions meet a
plain tensor as on one rank."""
import torch

from .cells import ranks
from .grid import owned
from .halo import fetch
from .layout import Layout
from .stripe import layout_of, striped


class Cut(torch.autograd.Function):
    """This rank's rows of x, which is replicated; the gradient is put together on every rank."""

    @staticmethod
    def forward(ctx, x, dim, axis, extents):
        ctx.arguments = dim, axis, extents
        begin, end = owned(extents)[ranks().part(axis)]
        return x.narrow(dim, begin, end - begin)

    @staticmethod
    def backward(ctx, gradient):
        return Gather.apply(gradient, *ctx.arguments), None, None, None


class Gather(torch.autograd.Function):
    """Gathers the whole on every rank. The gradient is the same on every rank, which keeps the part of its own rows."""

    @staticmethod
    def forward(ctx, x, dim, axis, extents):
        ctx.arguments = dim, axis, extents
        return fetch(x, dim, axis, extents, [(0, sum(extents))] * len(extents))

    @staticmethod
    def backward(ctx, gradient):
        return Cut.apply(gradient, *ctx.arguments), None, None, None


def all_of(x, dim, apart=()):
    """Returns x with the positions of all ranks in the dimension `dim`. Ranks along the axes `apart` compute different
    results from these positions, so their gradients are added; ranks along other axes compute the same."""
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
    """Returns this rank's rows of x, if x, whose layout is `of_x`, has all rows of the whole where `layout` is cut. x
    is broadcast to the last dimensions of `layout`. The gradient has only these rows."""
    for dim, extent in enumerate(x.shape):
        atoms = layout.dims[len(layout.dims) - x.ndim + dim]
        if extent != 1 and atoms and of_x.is_plain(dim):
            x = x.index_select(dim, _places(atoms, layout).to(x.device))
    return x


def places(x, dim):
    """Returns the places of this rank's positions in the whole's dimension `dim`."""
    return _places(layout_of(x).dims[dim] or ((None, x.shape[dim]),), layout_of(x)).to(x.device)


def _places(atoms, layout):
    found = torch.zeros(1, dtype=torch.int64)
    for axis, size in atoms:
        extents = (size,) if axis is None else layout.extents[axis]
        begin, end = owned(extents)[0 if axis is None else ranks().part(axis)]
        found = (found.unsqueeze(1) * sum(extents) + torch.arange(begin, end)).flatten()
    return found
