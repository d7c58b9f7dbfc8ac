"""The exchange of rows between ranks, and its transpose. All operations that read rows of other ranks use it, except
calls of cuDNN inside which ucudnn exchanges."""
import torch

from .grid import owned
from .cells import ranks


def overlap(a, b):
    return max(a[0], b[0]), max(max(a[0], b[0]), min(a[1], b[1]))


def _pieces(axis, extents, needed):
    """Yields (part, rows that it sends to this rank, rows that this rank sends to it), for every part with such rows.
    Rows are counted in the whole tensor."""
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
    """Returns the shape with "rows" in place of the number of rows, which may differ between ranks."""
    return [extent if other != dim else "rows" for other, extent in enumerate(x.shape)]


def _made(like, dim, extent):
    """Returns an empty tensor with `extent` rows, in the memory format of `like`."""
    shape, formats = list(like.shape), {4: torch.channels_last, 5: torch.channels_last_3d}
    shape[dim] = extent
    is_last = like.ndim in formats and not like.is_contiguous() and like.is_contiguous(memory_format=formats[like.ndim])
    return torch.empty(shape, dtype=like.dtype, device=like.device,
                       memory_format=formats[like.ndim] if is_last else torch.contiguous_format)


def _swapped(x, dim, axis, first, pieces, rows):
    """Exchanges rows of x. `pieces`: (part, rows that this rank sends, rows that it receives), in the order of the
    parts; row 0 of x is row `first` of the whole tensor. `rows`: the rows that each part has and needs. Returns (rows
    of the whole tensor, received tensor) for each received piece."""
    others = [piece for piece in pieces if piece[0] != ranks().part(axis)]
    sent = {part: _narrow(x, dim, given, first) for part, given, _ in others if given[0] < given[1]}
    received = {part: (wanted, _empty(x, dim, wanted)) for part, _, wanted in others if wanted[0] < wanted[1]}
    ranks().swap(axis, sent, {part: each for part, (_, each) in received.items()}, _without(x, dim), x.dtype, rows)
    return received.values()


class _Fetch(torch.autograd.Function):
    """Fetches rows of other parts. `pads`: rows of `value` to add before and after the needed rows."""

    @staticmethod
    def forward(ctx, x, dim, axis, extents, needed, pads, value):
        ctx.arguments = dim, axis, extents, needed, pads
        me, own = ranks().part(axis), owned(extents)[ranks().part(axis)]
        begin, end, kept = needed[me][0] - pads[0], needed[me][1] + pads[1], overlap(own, needed[me])
        result = _made(x, dim, end - begin)
        for rows in ((begin, needed[me][0]), (needed[me][1], end)):
            _narrow(result, dim, rows, begin).fill_(value)
        if kept[0] < kept[1]:
            _narrow(result, dim, kept, begin).copy_(_narrow(x, dim, kept, own[0]))
        pieces = [(part, given, wanted) for part, wanted, given in _pieces(axis, extents, needed)]
        for wanted, rows in _swapped(x, dim, axis, own[0], pieces, (extents, needed)):
            _narrow(result, dim, wanted, begin).copy_(rows)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return _GivenBack.apply(gradient, *ctx.arguments), None, None, None, None, None, None


class _GivenBack(torch.autograd.Function):
    """The transpose of _Fetch: rows go back to the ranks that own them, and are added there."""

    @staticmethod
    def forward(ctx, rows, dim, axis, extents, needed, pads):
        ctx.arguments = dim, axis, extents, needed, pads
        me, own = ranks().part(axis), owned(extents)[ranks().part(axis)]
        begin, kept, result = needed[me][0] - pads[0], overlap(own, needed[me]), _made(rows, dim, own[1] - own[0])
        if kept[0] < kept[1]:
            _narrow(result, dim, kept, own[0]).copy_(_narrow(rows, dim, kept, begin))
        for gap in ((own[0], kept[0]), (kept[1], own[1])) if kept[0] < kept[1] else (own,):
            _narrow(result, dim, gap, own[0]).zero_()
        for given, each in _swapped(rows, dim, axis, begin, _pieces(axis, extents, needed), (extents, needed)):
            # Adds in the order of the parts, so that every run gives the same bits.
            _narrow(result, dim, given, own[0]).add_(each)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return _Fetch.apply(gradient, *ctx.arguments, 0.0), None, None, None, None, None


def fetch(x, dim, axis, extents, needed, pads=(0, 0), value=0.0):
    """Returns the rows needed[part] of the whole tensor, with `pads` rows of `value` before and after. x has this
    rank's rows; `extents` and `needed` are for every part. The gradient of fetched rows goes back to the ranks that own
    them, and is added there."""
    own = owned(extents)
    # Each part owns all rows that it needs, so nothing is sent. `needed` is the same on all ranks, so all decide alike.
    if all(overlap(rows, own[part]) == tuple(rows) for part, rows in enumerate(needed)):
        me = ranks().part(axis)
        x = _narrow(x, dim, needed[me], own[me][0])
        return torch.nn.functional.pad(x, [0, 0] * (x.ndim - 1 - dim) + [*pads], value=value) if any(pads) else x
    return _Fetch.apply(x, dim, axis, tuple(extents), tuple(needed), pads, value)


def extended(x, dim, axis, extents, reads, value=0.0):
    """Returns the rows reads[part] of the whole tensor; rows outside of it are filled with `value`."""
    total = sum(extents)
    first, last = reads[ranks().part(axis)]
    needed = [overlap(rows, (0, total)) for rows in reads]
    return fetch(x, dim, axis, extents, needed, (max(0, -first), max(0, last - total)), value)
