"""Variances, norms, softmax and similarities: sums over cut dimensions are summed over ranks."""
import functools
import math

import torch
from torch.nn import functional

from .errors import NotSupported
from .extremes import extreme
from .layout import Layout
from .norm import own_rows
from .pointwise import broadcast, completed, parameter
from .precision import wide, wide_type
from .reduce import added_up, all_striped, axes_in, dims_of, mean, remaining
from .stripe import count_of, layout_of, name_of, named, rule, striped, whole
from .sums import greatest


def _root(x):
    """Returns the square root. Where x is 0, the gradient is 0, as in torch's norms."""
    return torch.where(x == 0, 0, torch.where(x == 0, 1, x).sqrt())


@rule(*named("var", "std", "var_mean", "std_mean"), sizes="whole")
def _variance(function, x, dim=None, unbiased=None, keepdim=False, *, correction=None):
    if isinstance(dim, bool):  # positional form var(x, unbiased)
        dim, unbiased = None, dim
    dims, name = dims_of(x, dim), name_of(function)
    correction = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    if not axes_in(x, dims):
        return all_striped(function(x, dims, correction=correction, keepdim=keepdim), remaining(x, dims, keepdim))
    found, middle = _variance_over(x, dims, keepdim, correction, name.startswith("std"))
    return (found, middle) if name.endswith("mean") else found


def _rounded_once(compute):
    """Decorator: runs `compute` in fp32 if its first argument, a stripe, has a 16-bit type; further tensors must be
    converted already. The result is rounded to `dtype`, by default the stripe's type."""
    @functools.wraps(compute)
    def run(x, *args, dtype=None, **kwargs):
        dtype = dtype or x.dtype
        found = compute(x if wide_type(x.dtype) == x.dtype else striped(wide(x), x.cut), *args, **kwargs)
        found = [each if each.dtype == dtype else striped(each.to(dtype), each.cut)
                 for each in (found if isinstance(found, tuple) else (found,))]
        return tuple(found) if len(found) > 1 else found[0]
    return run


@_rounded_once
def _variance_over(x, dims, keepdim, correction, is_root):
    """Returns (variance, mean), or (its root, mean) if `is_root`."""
    middle = mean(None, x, dims, True)
    squares = striped((x - completed(middle, x.cut)).square(), x.cut)
    found = added_up(squares, dims, keepdim)
    result = found / max(count_of(x, dims) - correction, 0)
    middle = middle if keepdim else middle.squeeze(dims)
    return striped(_root(result) if is_root else result, found.cut), striped(middle, found.cut)


def _type(function, x, *args):
    """Returns the type of torch's result, which may depend on autocast."""
    return function(x.new_zeros([1] * max(x.ndim, 1)), *args).dtype


@_rounded_once
def vector_norm(x, p, dims, keepdim):
    """Computes (sum of |x|^p)^(1/p)."""
    size = striped(x.abs(), x.cut)
    if p in (math.inf, -math.inf):
        return extreme("amax" if p > 0 else "amin", size, dims, keepdim)
    if p == 0:
        return added_up(striped((x != 0).to(x.dtype), x.cut), dims, keepdim)
    if p == 1:
        return added_up(size, dims, keepdim)
    if p < 1:
        raise NotSupported(f"a norm of order {p} over cut dimensions")
    found = added_up(striped(x * x if p == 2 else size ** p, x.cut), dims, keepdim)
    if p == 2:
        return striped(_root(found), found.cut)
    return striped(torch.where(found == 0, 0, torch.where(found == 0, 1, found) ** (1 / p)), found.cut)


@rule(*named("norm"), torch.linalg.vector_norm, torch.linalg.norm)
def _norm(function, x, p=None, dim=None, keepdim=False, *, ord=None, dtype=None):
    dims, p = dims_of(x, dim), p if ord is None else ord
    if not axes_in(x, dims):
        given = {} if p is None else {"ord" if function in (torch.linalg.vector_norm, torch.linalg.norm) else "p": p}
        return all_striped(function(x, dim=dim, keepdim=keepdim, dtype=dtype, **given), remaining(x, dims, keepdim))
    is_matrix = function is torch.linalg.norm and len(dims) == 2
    if isinstance(p, str) and p != "fro" or is_matrix and p not in ("fro", None):
        raise NotSupported(f"the norm {p} of a matrix that is cut")
    p = 2 if p in ("fro", None) else p
    x = x if dtype is None else striped(x.to(dtype), x.cut)
    return vector_norm(x, p, dims, keepdim, dtype=_type(function, x))


def _exponentials(x, dims):
    """Returns (e^(x - top), its sum, top), where `top` is the largest x. `top` is a constant for autograd."""
    top = greatest(x.detach().amax(dims, keepdim=True), axes_in(x, dims))
    top = torch.where(top.isfinite(), top, 0)
    powers = striped(torch.exp(x - top), x.cut)
    return powers, added_up(powers, dims, True), top


@rule(*named("logsumexp"))
def _logsumexp(function, x, dim, keepdim=False):
    dims = dims_of(x, dim)
    if not axes_in(x, dims):
        return all_striped(function(x, dim, keepdim), remaining(x, dims, keepdim))
    return _logsumexp_over(x, dims, keepdim, dtype=_type(function, x, 0))


@_rounded_once
def _logsumexp_over(x, dims, keepdim):
    _, found, top = _exponentials(x, dims)
    result = torch.log(found) + top
    return striped(result if keepdim else result.squeeze(dims), remaining(x, dims, keepdim))


@rule(*named("softmax", "log_softmax", "softmin"))
def _softmax(function, x, dim=None, _stacklevel=3, dtype=None):
    dtype = _stacklevel if isinstance(_stacklevel, torch.dtype) else dtype  # positional form torch.softmax(x, dim, dtype)
    if dim is None:
        raise NotSupported("over a dimension that is not said: pass dim=")
    layout, name = Layout(layout_of(x).dims, layout_of(x).extents), name_of(function)
    if layout.is_plain(dim):
        return striped(function(x, dim, dtype=dtype), layout)
    x = striped(x if dtype is None else x.to(dtype), layout)
    return _softmax_over(x, dim % x.ndim, name, dtype=_type(function, x, 0))


@_rounded_once
def _softmax_over(x, dim, name):
    x = striped(-x, x.cut) if name == "softmin" else x
    powers, found, top = _exponentials(x, [dim])
    if name == "log_softmax":
        return striped(x - top - completed(striped(torch.log(found), found.cut), x.cut), x.cut)
    return striped(powers / completed(found, x.cut), x.cut)


@rule(functional.normalize)
def _normalize(function, x, p=2.0, dim=1, eps=1e-12):
    dims = dims_of(x, dim)
    if not axes_in(x, dims):
        return striped(function(x, p, dim, eps), x.cut)
    size = vector_norm(x, p, dims, True)
    layout = Layout(x.cut.dims, x.cut.extents)
    return striped(x / completed(striped(size.clamp_min(eps), size.cut), layout), layout)


def _of_two(function, a, b, dim, keepdim, own, cut):
    """Computes a function of two tensors over dimension `dim` of their broadcast shape: by `own`, torch's function, if
    the dimension is not cut, otherwise by `cut`."""
    layout = broadcast([a, b])
    ndim = len(layout.dims)
    a, b = completed(a, layout), completed(b, layout)
    if layout.is_plain(dim):
        kept = Layout(layout.dims, layout.extents)
        return striped(own(a, b), kept if keepdim else kept.removed([dim % ndim]))
    a, b = (striped(each, layout) for each in torch.broadcast_tensors(a, b))
    return cut(a, b, [dim % ndim])


@rule(functional.cosine_similarity)
def _cosine(function, x1, x2, dim=1, eps=1e-8):
    def cut(a, b, dims):
        dtype = function(a.new_zeros(1), b.new_zeros(1), 0).dtype
        return _cosine_over(a, striped(wide(b), b.cut), dims, eps, dtype=dtype)
    return _of_two(function, x1, x2, dim, False, lambda a, b: function(a, b, dim, eps), cut)


@_rounded_once
def _cosine_over(a, b, dims, eps):
    both = added_up(striped(a * b, a.cut), dims, False)
    sizes = [vector_norm(each, 2, dims, False).clamp_min(eps) for each in (a, b)]
    return striped(both / (sizes[0] * sizes[1]), both.cut)


@rule(functional.pairwise_distance)
def _pairwise(function, x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return _of_two(function, x1, x2, -1, keepdim, lambda a, b: function(a, b, p, eps, keepdim),
                   lambda a, b, dims: vector_norm(striped(a - b + eps, a.cut), p, dims, keepdim))


@rule(torch.nn.functional.rms_norm, torch.rms_norm, sizes="whole")
def _rms_norm(function, x, normalized_shape, weight=None, eps=None):
    dims = list(range(x.ndim - len(normalized_shape), x.ndim))
    layout = Layout(x.cut.dims, x.cut.extents)
    if not axes_in(x, dims):
        return striped(function(x, normalized_shape, parameter(weight, layout), eps), layout)
    if [count_of(x, [dim]) for dim in dims] != list(normalized_shape):
        raise NotSupported(f"over {list(normalized_shape)} positions of {[count_of(x, [dim]) for dim in dims]}")
    result = _rms_normed(striped(x, layout), dims, torch.finfo(x.dtype).eps if eps is None else eps)
    return result if weight is None else striped(result * own_rows(weight, x, dims), layout)


@_rounded_once
def _rms_normed(x, dims, eps):
    squares = mean(None, striped(x * x, x.cut), dims, True)
    return striped(x * completed(striped(torch.rsqrt(squares + eps), squares.cut), x.cut), x.cut)


@rule(functional.local_response_norm)
def _response_norm(function, x, *args, **kwargs):
    """Normalizes over windows of channels. Channels are not cut, so each rank runs torch's function on its own rows."""
    layout = layout_of(x)
    if not layout.is_plain(1):
        raise NotSupported("channels are cut")
    return striped(function(x, *args, **kwargs), Layout(layout.dims, layout.extents)) if layout.is_cut else whole(
        function(x, *args, **kwargs))
