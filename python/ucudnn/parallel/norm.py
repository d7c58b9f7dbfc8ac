"""Batch normalization over all parts of a layer: its ranks merge counts, means and squared deviations in the order of
devices."""
import torch
from torch.autograd.function import once_differentiable

from . import boxes as b


def _wide(x):
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class Normalized(torch.autograd.Function):
    """(token, y, mean, variance): of all elements of a channel. `meeting`: of the ranks that have these channels; `counts`:
    elements of a channel on each of them."""

    @staticmethod
    def forward(ctx, token, x, weight, bias, meeting, counts, eps, returns):
        dims = [dim for dim in range(x.ndim) if dim != 1]
        variance, mean = torch.var_mean(_wide(x), dims, correction=0)
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
        ctx.meeting, ctx.eps, ctx.has_weight = meeting, eps, weight is not None
        scale = torch.ones_like(mean) if weight is None else weight
        y = torch.empty_like(x) if x.is_meta else torch.ops.aten.native_batch_norm(  # see backward
            x, scale, torch.zeros_like(mean) if bias is None else bias, mean, variance, False, 0.0, eps)[0]
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
        if dy.is_meta:  # torch would derive these operators in Python, which takes most of a count
            dx, dscale, dshift = torch.empty_like(x), torch.empty_like(mean), torch.empty_like(mean)
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
        parameters = (dscale, dshift) if ctx.has_weight else (None, None)
        return token, dx, *parameters, None, None, None, None


def _added(stacked):
    total = stacked[0].clone()
    for each in stacked[1:]:
        total += each
    return total


def counts_of(devices, boxes):
    """Elements of a channel on each device."""
    return [b.elements(boxes[device]) // (boxes[device][b.C][1] - boxes[device][b.C][0]) for device in devices]
