"""Rows of other ranks: the one exchange under everything that looks beyond its position, and its transpose."""
import torch

from .grid import owned
from .cells import ranks


def overlap(a, b):
    return max(a[0], b[0]), max(max(a[0], b[0]), min(a[1], b[1]))


def _pieces(axis, extents, needed):
    """(part, rows that it sends this rank, rows that this rank sends it), counted in the whole, of every part that has
    or wants any."""
    me, own = ranks().part(axis), owned(extents)
    for part in range(len(extents)):
        received, sent = overlap(own[part], needed[me]), overlap(own[me], needed[part])
        if received[0] < received[1] or sent[0] < sent[1]:
            yield part, received, sent


def _narrow(tensor, dim, rows, first):
    return tensor.narrow(dim, rows[0] - first, rows[1] - rows[0])


def _empty(like, dim, rows):
    shape = list(like.shape)
    shape[dim] = rows[1] - rows[0]
    return like.new_empty(shape)


def _without(x, dim):
    """The shape but for rows, of which ranks may have different numbers."""
    return [extent if other != dim else "rows" for other, extent in enumerate(x.shape)]


class _Fetch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim, axis, extents, needed):
        ctx.arguments = dim, axis, extents, needed
        me, own = ranks().part(axis), owned(extents)[ranks().part(axis)]
        sent, received, pieces = {}, {}, []
        for part, wanted, given in _pieces(axis, extents, needed):
            if part == me:
                pieces.append(_narrow(x, dim, wanted, own[0]))
                continue
            if given[0] < given[1]:
                sent[part] = _narrow(x, dim, given, own[0])
            if wanted[0] < wanted[1]:
                received[part] = _empty(x, dim, wanted)
                pieces.append(received[part])
        ranks().swap(axis, sent, received, _without(x, dim))
        return torch.cat(pieces, dim) if pieces else _empty(x, dim, (0, 0))

    @staticmethod
    def backward(ctx, gradient):
        return _GivenBack.apply(gradient, *ctx.arguments), None, None, None, None


class _GivenBack(torch.autograd.Function):
    """The transpose of _Fetch: rows go back to the ranks that own them, and are added there."""

    @staticmethod
    def forward(ctx, rows, dim, axis, extents, needed):
        ctx.arguments = dim, axis, extents, needed
        me, own = ranks().part(axis), owned(extents)[ranks().part(axis)]
        result = rows.new_zeros(_empty(rows, dim, own).shape)
        sent, received, places = {}, {}, []
        for part, wanted, given in _pieces(axis, extents, needed):
            if part == me:
                places.append((_narrow(rows, dim, wanted, needed[me][0]), wanted))
                continue
            if wanted[0] < wanted[1]:
                sent[part] = _narrow(rows, dim, wanted, needed[me][0])
            if given[0] < given[1]:
                received[part] = _empty(rows, dim, given)
                places.append((received[part], given))
        ranks().swap(axis, sent, received, _without(rows, dim))
        for piece, place in places:  # in the order of the parts, on every run
            _narrow(result, dim, place, own[0]).add_(piece)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return _Fetch.apply(gradient, *ctx.arguments), None, None, None, None


def fetch(x, dim, axis, extents, needed):
    """The rows needed[part] of the whole, where x has this rank's of `extents`; `needed` is that of every part. Its
    gradient goes back to the ranks that own the rows, and is added there."""
    own = owned(extents)
    if all(overlap(rows, own[part]) == tuple(rows) for part, rows in enumerate(needed)):  # on every rank: nothing travels
        me = ranks().part(axis)
        return _narrow(x, dim, needed[me], own[me][0])
    return _Fetch.apply(x, dim, axis, tuple(extents), tuple(needed))


def extended(x, dim, axis, extents, reads, value=0.0):
    """The rows reads[part] of the whole, `value` for those outside it."""
    total = sum(extents)
    first, last = reads[ranks().part(axis)]
    x = fetch(x, dim, axis, extents, [overlap(rows, (0, total)) for rows in reads])
    front, back = max(0, -first), max(0, last - total)
    if front or back:
        x = torch.nn.functional.pad(x, [0, 0] * (x.ndim - 1 - dim) + [front, back], value=value)
    return x
