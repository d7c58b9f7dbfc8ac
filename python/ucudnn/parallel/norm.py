"""Normalization over all parts of a layer: ranks merge counts, means and squared deviations, in ascending order of
devices."""
import math

import torch
from torch.autograd.function import once_differentiable

from . import boxes as b


def _wide(x):
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class Normalized(torch.autograd.Function):
    """Computes (token, y, mean, variance) of a batch normalization; statistics cover all elements of a channel.
    `meeting`: the ranks with these channels; `counts`: each rank's number of elements of a channel."""

    @staticmethod
    def forward(ctx, token, x, weight, bias, meeting, counts, eps, returns):
        dims = [dim for dim in range(x.ndim) if dim != 1]
        variance, mean = torch.var_mean(_wide(x), dims, correction=0) if len(x) else _wide(x).new_zeros(2, x.shape[1])
        own = x.numel() // max(x.shape[1], 1)

        def merge(stacked):
            total, so_far = stacked[0], counts[0]
            for count, other in zip(counts[1:], stacked[1:]):
                delta, both = other[0] - total[0], so_far + count
                total = torch.stack(
                    [total[0] + delta * (count / both), total[1] + other[1] + delta * delta * (so_far * count / both)])
                so_far = both
            return total
        mean, deviations = meeting.bring(torch.stack([mean, variance * own]), merge)
        ctx.count = sum(counts)
        variance = deviations / ctx.count
        ctx.meeting, ctx.eps, ctx.weight_dtype = meeting, eps, weight.dtype if weight is not None else None
        scale = torch.ones_like(mean) if weight is None else weight.to(mean.dtype)
        # native_batch_norm fails without images
        y = torch.empty_like(x) if x.is_meta or not len(x) else torch.ops.aten.native_batch_norm(
            x, scale, torch.zeros_like(mean) if bias is None else bias.to(mean.dtype), mean, variance, False, 0.0, eps)[0]
        ctx.save_for_backward(x, scale, mean, variance)
        ctx.returns = returns
        ctx.mark_non_differentiable(*((mean, variance) if returns else (y, mean, variance)))
        return token.clone(), y, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx, token, dy, *_):
        if not ctx.returns:
            return token, *[None] * 7
        x, scale, mean, variance = ctx.saved_tensors
        # on meta tensors, torch computes this backward in Python, which would take most of the time of counting.count
        if dy.is_meta or not len(dy):
            dx, dscale, dshift = torch.empty_like(x), torch.zeros_like(mean), torch.zeros_like(mean)
        else:
            dx, dscale, dshift = torch.ops.aten.native_batch_norm_backward(
                dy.contiguous(), x, scale, mean, variance, None, None, False, ctx.eps, [True, True, True])
        total = ctx.meeting.bring(_wide(torch.stack([dshift, dscale])), lambda stacked: _added(stacked))
        if not dy.is_meta:
            inverse = torch.rsqrt(variance + ctx.eps)
            factor = scale * inverse / ctx.count
            slope = factor * inverse * total[1]
            shape = (1, -1, *[1] * (x.ndim - 2))
            dx = dx - (_wide(x) * slope.view(shape) + (factor * total[0] - slope * mean).view(shape)).to(dx.dtype)
        parameters = (dscale.to(ctx.weight_dtype), dshift.to(ctx.weight_dtype)) if ctx.weight_dtype else (None, None)
        return token, dx, *parameters, None, None, None, None


class GroupNormalized(torch.autograd.Function):
    """Computes (token, y) of a box whose groups have channels or positions on other ranks."""

    @staticmethod
    def forward(ctx, token, x, weight, bias, meeting, shares, eps, dtype, returns):
        wide, shape = _wide(x), (1, -1, *[1] * (x.ndim - 2))
        mean, deviations = meeting.bring(shares.moments(wide), shares.merge)
        inverse = torch.rsqrt(deviations / shares.count + eps)
        y = (wide - shares.by_channel(mean)) * shares.by_channel(inverse)
        y = (y if weight is None else y * weight.view(shape) + bias.view(shape)).to(dtype)
        ctx.save_for_backward(x, mean, inverse, weight)
        ctx.meeting, ctx.shares, ctx.returns = meeting, shares, returns
        ctx.mark_non_differentiable(*(() if returns else (y,)))
        return token.clone(), y

    @staticmethod
    @once_differentiable
    def backward(ctx, token, dy):
        if not ctx.returns:
            return token, *[None] * 8
        (x, mean, inverse, weight), shares, dims = ctx.saved_tensors, ctx.shares, [0, *range(2, dy.ndim)]
        inverse, dy, parameters = shares.by_channel(inverse), _wide(dy), (None, None)
        normal = (_wide(x) - shares.by_channel(mean)) * inverse
        if weight is not None:
            parameters = ((dy * normal).sum(dims).to(weight.dtype), dy.sum(dims).to(weight.dtype))
            dy = dy * weight.view(1, -1, *[1] * (x.ndim - 2))
        sums = ctx.meeting.bring(torch.stack([shares.summed(dy), shares.summed(dy * normal)]), _added)
        of_dy, of_product = (shares.by_channel(each / shares.count) for each in sums)
        return token, ((dy - of_dy - normal * of_product) * inverse).to(x.dtype), *parameters, *[None] * 5


class Shares:
    """The groups of channels that `devices` share, and this rank's part of them. Each device sends numbers for all of
    these groups, also for groups of which it has no channel (planner/schedule/FORMAT.md)."""

    def __init__(self, node, devices, boxes, rank):
        groups, self.by_position = node.members.get("groups", 1), node.members.get("by_position", False)
        self.width, self.channels, self.spatial = node.shape[0] // groups, boxes[rank][b.C], len(node.shape) - 1
        spans = [b.groups_of(boxes[device][b.C], node.shape[0], groups) for device in devices]
        self.groups = range(min(first for first, _ in spans), max(last for _, last in spans))
        self.count = self.width * (1 if self.by_position else math.prod(node.shape[1:]))  # elements of a group
        self.counts = [[self._elements(boxes[device], group) for group in self.groups] for device in devices]
        self.place = devices.index(rank)
        self.runs = b.runs(self.channels, self.width)
        own = spans[self.place]
        # How many groups of self.groups precede this rank's own groups, and how many follow them.
        self.others = own[0] - self.groups.start, self.groups.stop - own[1]

    def _elements(self, box, group):
        """Returns how many elements of a group a box has in one image or, if `by_position`, at one position of an
        image."""
        begin, end = b.meet([box[b.C]], [(group * self.width, (group + 1) * self.width)])[0]
        return max(end - begin, 0) * (1 if self.by_position else b.elements(box[b.D:]))

    def _pieces(self, x):
        """Returns x as pieces with the axes (image, group, channel of the group, positions). Within a piece, this rank
        has the same number of channels of every group."""
        first = self.channels[0]
        return [x[:, begin - first:end - first].unflatten(1, (count, -1)) for begin, end, count in self.runs]

    def _over(self, piece):
        return [2] if self.by_position else list(range(2, piece.ndim))

    def _of_all(self, numbers):
        """Returns this rank's numbers, extended with zeros to all groups."""
        own = torch.cat(numbers, 1)
        before, behind = (own.new_zeros(own.shape[0], count, *own.shape[2:]) for count in self.others)
        return torch.cat([before, own, behind], 1)

    def _counts(self, place, like):
        """Returns a tensor with the number of elements that device number `place` has of each group."""
        counts = torch.tensor(self.counts[place], dtype=like.dtype, device=like.device)
        return counts.view(1, -1, *[1] * (like.ndim - 2))

    def summed(self, x):
        return self._of_all([piece.sum(self._over(piece)) for piece in self._pieces(x)])

    def moments(self, x):
        """Returns means and sums of squared deviations of this rank's elements, for each group."""
        found = [torch.var_mean(piece, self._over(piece), correction=0) for piece in self._pieces(x)]
        variance, mean = map(self._of_all, zip(*found))
        return torch.stack([mean, variance * self._counts(self.place, variance)])

    def merge(self, stacked):
        total, so_far = stacked[0], self._counts(0, stacked[0][0])
        for place, other in enumerate(stacked[1:], 1):
            count, delta = self._counts(place, other[0]), other[0] - total[0]
            share = count / (so_far + count).clamp(min=1)
            total = torch.stack([total[0] + delta * share, total[1] + other[1] + delta * delta * so_far * share])
            so_far = so_far + count
        return total

    def by_channel(self, numbers):
        """Returns for each channel of this rank the element of `numbers` for its group; one element if there is only
        one group."""
        found = numbers
        if len(self.groups) > 1:
            found = numbers[:, [channel // self.width - self.groups.start for channel in range(*self.channels)]]
        return found if self.by_position else found[(..., *[None] * self.spatial)]


def _added(stacked):
    total = stacked[0].clone()
    for each in stacked[1:]:
        total += each
    return total


def counts_of(devices, boxes):
    """Returns the number of elements of a channel on each device; 0 for a device without images."""
    return [b.elements(boxes[device]) // (boxes[device][b.C][1] - boxes[device][b.C][0]) if device in boxes else 0
            for device in devices]
