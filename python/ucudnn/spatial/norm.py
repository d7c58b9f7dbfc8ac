"""Normalisation with statistics over all positions."""
import torch
from torch.nn import functional

from . import rows
from .errors import NotSupported
from .grid import owned
from .layout import Layout
from .pointwise import parameter, uncut
from .cells import ranks
from .precision import wide
from .reduce import axes_in, mean as mean_of, remaining
from .stripe import count_of, plainly, rule, striped
from .sums import summed, total


def _statistics(x, dims, axes, count):
    """Returns (mean, biased variance) over `dims` of the whole tensor: ranks compute (mean, variance) of their own
    rows, then combine these in rank order."""
    mean, variance = rows.moments(x, dims)
    if not axes:
        return mean, variance
    own = torch.full_like(mean, x.numel() / mean.numel())
    counts, means, variances = ranks().all_gather(torch.stack([own, mean, variance]), axes).unbind(1)
    mean = (means * counts).sum(0) / count
    return mean, (counts * (variances + (means - mean) ** 2)).sum(0) / count


class _Normalised(torch.autograd.Function):
    """Returns (x - mean) / sqrt(variance + eps) * weight + bias, and the statistics without a gradient. Computes in
    fp32 if x has a 16-bit type. Weight and bias have as many dimensions as x, with extent 1 along axes where they are
    constant.

    For backward, only x itself and small tensors are saved, as in torch's own norms. If rows.py uses kernels of torch's
    norms and x is not converted to fp32, no step makes a temporary tensor of x's size, except for second-order
    gradients."""

    @staticmethod
    def forward(ctx, x, weight, bias, dims, axes, count, eps):
        mean, variance = _statistics(wide(x), dims, axes, count)
        scale = torch.rsqrt(variance + eps)
        factor = scale if weight is None else scale * weight
        shift = -mean * factor if bias is None else bias - mean * factor
        ctx.arguments, ctx.eps = (dims, axes, count), eps
        ctx.shapes = [None if value is None else value.shape for value in (weight, bias)]
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.mark_non_differentiable(mean, variance)
        return rows.scaled(x, factor, shift), mean, variance

    @staticmethod
    def backward(ctx, gradient, *_):
        saved = ctx.saved_tensors  # under a checkpoint, this recomputes the saved tensors from stripes
        with plainly():
            found = (_differentiable if torch.is_grad_enabled() else _gradients)(ctx, saved, gradient)
        return (*found, None, None, None, None)


def _differentiable(ctx, saved, gradient):
    """Returns the result of _gradients, computed by differentiable operations, for second-order gradients. Computes the
    statistics again, because the saved statistics carry no gradient."""
    (dims, axes, count), (x, weight, _, _) = ctx.arguments, saved
    average = lambda values: summed(total(values.sum(dims, keepdim=True), axes) / count, axes)
    by_bias = wide(gradient)
    centred = wide(x) - average(wide(x))
    scale = torch.rsqrt(average(centred * centred) + ctx.eps)
    normal, slope = centred * scale, by_bias if weight is None else by_bias * weight
    result = scale * (slope - average(slope) - normal * average(slope * normal))
    return result.to(x.dtype), *_like_parameters(ctx, by_bias * normal, by_bias)


def _like_parameters(ctx, *values):
    """Returns the gradients of weight and bias, each in the parameter's shape, or None if there is no such
    parameter."""
    return [None if shape is None else value.sum_to_size(shape) for value, shape in zip(values, ctx.shapes)]


def _gradients(ctx, saved, gradient):
    (dims, axes, count), (x, weight, mean, scale) = ctx.arguments, saved
    same = [dim for dim in dims if weight is None or weight.shape[dim] == 1]
    own, along = rows.sums(wide(gradient), x, mean, same)
    along = along * scale
    sums = [value if weight is None else value * weight for value in (own, along)]
    sums = torch.stack([value.sum(dims, keepdim=True) for value in sums])
    if axes:
        ranks().all_reduce(sums, axes)
    mean_own, mean_along = sums / count
    slope = -mean_along * scale * scale
    result = rows.scaled(wide(x), slope, -mean_own * scale - mean * slope)
    result.addcmul_(gradient, scale if weight is None else scale * weight)
    return result.to(x.dtype), *_like_parameters(ctx, along, own)


def normalised(x, dims, eps, weight=None, bias=None, view=None):
    """Normalises x over `dims`, with a weight and a bias for each channel. `view`: the shape of a reshaped x with two
    dimensions for the channels (groups, channels of a group); `dims` are then dimensions of that shape. Returns
    (stripe, mean, biased variance, number of elements in each mean)."""
    layout = x.cut if view is None else x.cut.inserted(2)
    wide = striped(x if view is None else x.reshape(view), layout)
    shape = [1, *(wide.shape[1:2] if view is None else wide.shape[1:3])]
    shape += [1] * (wide.ndim - len(shape))
    weight, bias = (value if value is None else parameter(value, x.cut).view(shape) for value in (weight, bias))
    count = count_of(wide, dims)
    result, mean, variance = _Normalised.apply(wide, weight, bias, dims, axes_in(wide, dims), count, eps)
    return striped(result.reshape(x.shape), Layout(x.cut.dims, x.cut.extents)), mean, variance, count


@rule(functional.group_norm, torch.group_norm)
def _group_norm(function, x, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    if x.shape[1] % num_groups or not x.cut.is_plain(1):
        raise NotSupported(f"{x.shape[1]} channels in {num_groups} groups")
    view = [x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:]]
    return normalised(x, list(range(2, len(view))), eps, weight, bias, view)[0]


@rule(functional.instance_norm)
def _instance_norm(function, x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                   momentum=0.1, eps=1e-5):
    if not use_input_stats:
        return _by_running(x, running_mean, running_var, weight, bias, eps)
    result, mean, variance, count = normalised(x, list(range(2, x.ndim)), eps, weight, bias)
    if count < 2:
        raise ValueError(f"instance norm over {count} value of each channel")
    if running_mean is not None:  # as torch does, average the statistics over all images
        layout = remaining(x, range(2, x.ndim), True)
        mean, variance = (mean_of(None, striped(value, layout), 0) for value in (mean, variance))
        _update(running_mean, running_var, mean, variance, count, momentum)
    return result


def _by_running(x, mean, variance, weight, bias, eps):
    layout = Layout(x.cut.dims, x.cut.extents)
    weight, bias = (parameter(value, layout) for value in (weight, bias))
    return striped(functional.batch_norm(x, uncut(mean), uncut(variance), weight, bias, False, 0.0, eps), layout)


@rule(functional.batch_norm)
def _batch_norm(function, x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if not x.cut.is_plain(1):
        raise NotSupported("channels are cut")
    if not training:
        return _by_running(x, running_mean, running_var, weight, bias, eps)
    dims = [dim for dim in range(x.ndim) if dim != 1]
    result, mean, variance, count = normalised(x, dims, eps, weight, bias)
    if count < 2:
        raise ValueError(f"batch norm over {count} value of each channel")
    if running_mean is not None:
        _update(running_mean, running_var, mean, variance, count, momentum)
    return result


def _update(running_mean, running_var, mean, variance, count, momentum):
    """Updates the running statistics of channels in place. `mean` and the biased `variance` are over `count`
    elements."""
    uncut(running_mean), uncut(running_var)
    with torch.no_grad():
        running_mean.lerp_(mean.flatten().to(running_mean.dtype), momentum)
        running_var.lerp_((variance.flatten() * (count / (count - 1))).to(running_var.dtype), momentum)


@rule(functional.layer_norm, torch.layer_norm, sizes="whole")
def _layer_norm(function, x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    dims = list(range(x.ndim - len(normalized_shape), x.ndim))
    layout = Layout(x.cut.dims, x.cut.extents)
    axes = axes_in(x, dims)
    if not axes:
        weight, bias = (parameter(value, layout) for value in (weight, bias))
        return striped(function(x, normalized_shape, weight, bias, eps), layout)
    for dim, extent in zip(dims, normalized_shape):
        if count_of(x, [dim]) != extent:
            raise NotSupported(f"over {extent} positions of dimension {dim}, which has {count_of(x, [dim])}")
    result, _, _, _ = normalised(striped(wide(x), x.cut), dims, eps)
    if weight is not None:
        result = result * own_rows(weight, x, dims)
    if bias is not None:
        result = result + own_rows(bias, x, dims)
    return striped(result.to(x.dtype), layout)


def own_rows(weight, x, dims):
    """For a parameter that has a value for every position: returns the values of this rank's positions. Each rank gets
    a part of the gradient."""
    weight = parameter(weight, x.cut)
    for i, dim in enumerate(dims):
        for axis in x.cut.axes_of(dim):
            if x.cut.dim_of(axis) != dim:
                raise NotSupported("a weight for every flattened position")
            begin, end = owned(x.cut.extents[axis])[ranks().part(axis)]
            weight = weight.narrow(i, begin, end - begin)
    return weight
