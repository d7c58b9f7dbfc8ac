"""Normalisation by statistics of all positions."""
import torch
from torch.nn import functional

from .errors import NotSupported
from .grid import owned
from .layout import Layout
from .pointwise import completed
from .cells import ranks
from .reduce import axes_in
from .stripe import count_of, rule, striped


def _statistics(x, dims, axes, count):
    """Mean and biased variance over `dims` of the whole: each rank's own, then together, in the order of the ranks."""
    variance, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
    if not axes:
        return mean, variance
    own = torch.full_like(mean, x.numel() / mean.numel())
    counts, means, variances = ranks().all_gather(torch.stack([own, mean, variance]), axes).unbind(1)
    mean = (means * counts).sum(0) / count
    return mean, (counts * (variances + (means - mean) ** 2)).sum(0) / count


class _Normalised(torch.autograd.Function):
    """(x - mean) / sqrt(variance + eps), in fp32 where x has 16 bits; and the statistics, through which no gradient flows."""

    @staticmethod
    def forward(ctx, x, dims, axes, count, eps):
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        mean, variance = _statistics(wide, dims, axes, count)
        scale = torch.rsqrt(variance + eps)
        result = (wide - mean) * scale
        ctx.arguments = dims, axes, count
        ctx.save_for_backward(result, scale)
        ctx.mark_non_differentiable(mean, variance)
        ctx.type = x.dtype
        return result, mean, variance

    @staticmethod
    def backward(ctx, gradient, *_):
        (dims, axes, count), (result, scale) = ctx.arguments, ctx.saved_tensors
        sums = torch.stack([gradient.sum(dims, keepdim=True), (gradient * result).sum(dims, keepdim=True)])
        if axes:
            ranks().all_reduce(sums, axes)
        own, along = sums / count
        return ((gradient - own - result * along) * scale).to(ctx.type), None, None, None, None


def normalised(x, dims, eps, view=None):
    """`view`: a shape in which `dims` are counted, in which the channels are two dimensions, groups and theirs."""
    layout = x.cut if view is None else x.cut.inserted(2)
    wide = striped(x if view is None else x.reshape(view), layout)
    count = count_of(wide, dims)
    result, mean, variance = _Normalised.apply(wide, dims, axes_in(wide, dims), count, eps)
    return result.reshape(x.shape), mean, variance, count


def _affine(x, result, weight, bias, dtype):
    """With weight and bias by channel."""
    layout = Layout(x.cut.dims, x.cut.extents)
    shape = [1, -1] + [1] * (x.ndim - 2)
    if weight is not None:
        result = result * completed(weight, layout).view(shape)
    if bias is not None:
        result = result + completed(bias, layout).view(shape)
    return striped(result.to(dtype), layout)


@rule(functional.group_norm, torch.group_norm)
def _group_norm(function, x, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    if x.shape[1] % num_groups or not x.cut.is_plain(1):
        raise NotSupported(f"{x.shape[1]} channels in {num_groups} groups")
    view = [x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:]]
    result, _, _, _ = normalised(x, list(range(2, len(view))), eps, view)
    return _affine(x, result, weight, bias, x.dtype)


@rule(functional.instance_norm)
def _instance_norm(function, x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                   momentum=0.1, eps=1e-5):
    if not use_input_stats:
        return _affine(x, *_by_running(x, running_mean, running_var, eps), weight, bias, x.dtype)
    if running_mean is not None:
        raise NotSupported("running statistics of instances")
    result, _, _, _ = normalised(x, list(range(2, x.ndim)), eps)
    return _affine(x, result, weight, bias, x.dtype)


def _by_running(x, mean, variance, eps):
    shape = [1, -1] + [1] * (x.ndim - 2)
    return ((x - mean.view(shape)) * torch.rsqrt(variance.view(shape) + eps),)


@rule(functional.batch_norm)
def _batch_norm(function, x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if not x.cut.is_plain(1):
        raise NotSupported("channels are cut")
    if not training:
        layout = Layout(x.cut.dims, x.cut.extents)
        weight, bias = (value if value is None else completed(value, layout) for value in (weight, bias))
        return striped(function(x, running_mean, running_var, weight, bias, False, momentum, eps), layout)
    dims = [dim for dim in range(x.ndim) if dim != 1]
    result, mean, variance, count = normalised(x, dims, eps)
    if count < 2:
        raise ValueError(f"batch norm over {count} value of each channel")
    if running_mean is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.flatten().to(running_mean.dtype), momentum)
            running_var.lerp_((variance.flatten() * (count / (count - 1))).to(running_var.dtype), momentum)
    return _affine(x, result, weight, bias, x.dtype)


@rule(functional.layer_norm, torch.layer_norm)
def _layer_norm(function, x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    dims = list(range(x.ndim - len(normalized_shape), x.ndim))
    layout = Layout(x.cut.dims, x.cut.extents)
    axes = axes_in(x, dims)
    if not axes:
        weight, bias = (value if value is None else completed(value, layout) for value in (weight, bias))
        return striped(function(x, normalized_shape, weight, bias, eps), layout)
    for dim, extent in zip(dims, normalized_shape):
        if count_of(x, [dim]) != extent:
            raise NotSupported(f"over {extent} positions of dimension {dim}, which has {count_of(x, [dim])}")
    result, _, _, _ = normalised(x, dims, eps)
    if weight is not None:
        result = result * _own_rows(weight, x, dims)
    if bias is not None:
        result = result + _own_rows(bias, x, dims)
    return striped(result.to(x.dtype), layout)


def _own_rows(weight, x, dims):
    """Of a parameter with a value for every position, those of the own ones; of its gradient each rank has a part."""
    weight = completed(weight, x.cut)
    for i, dim in enumerate(dims):
        for axis in x.cut.axes_of(dim):
            if x.cut.dim_of(axis) != dim:
                raise NotSupported("a weight for every flattened position")
            begin, end = owned(x.cut.extents[axis])[ranks().part(axis)]
            weight = weight.narrow(i, begin, end - begin)
    return weight
