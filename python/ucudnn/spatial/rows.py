"""Statistics and scaling of a tensor. A CPU tensor in fp32 or fp64, made of contiguous rows of at least 16 numbers, is
given to kernels of torch's own norms, which read it once and make no temporary tensor of its size. Statistics have the
shape of the tensor, with extent 1 along axes where they are constant."""
import math

import torch

_CHUNK = 1 << 18  # elements


def _first(x, *shapes):
    """A row of x consists of the last dimensions, in which all of `shapes` have extent 1. Returns the first of these
    dimensions, or None if torch's kernels do not suit x."""
    first = x.ndim
    while first and all(shape[first - 1] == 1 for shape in shapes):
        first -= 1
    is_rows = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and x.is_contiguous()
    return first if is_rows and math.prod(x.shape[first:]) >= 16 else None


def _without(x, dims):
    return [1 if dim in dims else extent for dim, extent in enumerate(x.shape)]


def _of_rows(x, first):
    """Returns the shape of a tensor with a single value for each row."""
    return *x.shape[:first], *[1] * (x.ndim - first)


def _by_row(x, first, *values):
    """Returns (x as one image whose channels are the rows, each of `values` as a vector with a value for each row)."""
    rows = x.view(1, math.prod(x.shape[:first]), -1)
    return rows, *(value.expand(_of_rows(x, first)).reshape(-1) for value in values)


def moments(x, dims):
    """Returns (mean, biased variance) over `dims`."""
    first = _first(x, _without(x, dims))
    if first is None:
        return torch.var_mean(x, dims, correction=0, keepdim=True)[::-1]
    (rows,), found = _by_row(x, first)[0], []
    for part in rows.split(max(1, _CHUNK // rows.shape[1])):
        found.append(torch.native_group_norm(part, None, None, 1, len(part), part.shape[1], len(part), 0.0)[1:])
    means, scales = (torch.cat([each.view(-1) for each in values]).view(_of_rows(x, first)) for values in zip(*found))
    variances, rest = scales ** -2, [dim for dim in dims if dim < first]
    if not rest:
        return means, variances
    mean = means.mean(rest, keepdim=True)
    return mean, (variances + (means - mean) ** 2).mean(rest, keepdim=True)


def scaled(x, factor, shift):
    first = _first(x, factor.shape, shift.shape)
    if first is None:
        return torch.addcmul(shift, x, factor, out=torch.empty_like(x))
    rows, factor, shift = _by_row(x, first, factor, shift)
    mean, variance = torch.zeros_like(factor), torch.ones_like(factor)
    result = torch.native_batch_norm(rows, factor, shift, mean, variance, False, 0.0, 0.0)[0]
    return torch.ops.aten._unsafe_view(result, x.shape)  # not a view: layers that follow could not write in place into a view


def sums(gradient, x, mean, dims):
    """Returns the sums over `dims` of gradient and of gradient * (x - mean)."""
    first = _first(x, mean.shape, _without(x, dims))
    if first is None or gradient.dtype != x.dtype or not gradient.is_contiguous():
        own = gradient.sum(dims, keepdim=True)
        return own, (gradient * x).sum(dims, keepdim=True) - mean * own
    rows, mean = _by_row(x, first, mean)
    _, along, own = torch.ops.aten.native_batch_norm_backward(
        gradient.view_as(rows), rows, None, mean, torch.ones_like(mean), None, None, False, 0.0, [False, True, True])
    own, along = (each.view(_of_rows(x, first)) for each in (own, along))
    rest = [dim for dim in dims if dim < first]
    return (own.sum(rest, keepdim=True), along.sum(rest, keepdim=True)) if rest else (own, along)
