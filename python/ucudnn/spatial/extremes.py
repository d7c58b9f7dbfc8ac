"""Largest and smallest values over dimensions, and their positions. Over cut dimensions, ranks combine their own
results. Also counts, `any`, `all`, and functions such as `sort` that need all positions of a dimension."""
import torch

from .errors import NotSupported
from .indexing import getitem
from .pointwise import pointwise
from .positions import places
from .reduce import added_up, all_striped, axes_in, dims_of, remaining
from .stripe import count_of, layout_of, name_of, named, rule, striped, whole
from .sums import greatest, least, summed, total


_EXTREMES = {"amax": (torch.amax, greatest), "amin": (torch.amin, least)}


class _Extreme(torch.autograd.Function):
    """The largest or smallest value over dimensions. Elements that are equal to the result share its gradient, as in
    torch.amax."""

    @staticmethod
    def forward(ctx, x, name, dims, axes):
        on_rank, between_ranks = _EXTREMES[name]
        result = between_ranks(on_rank(x, dims, keepdim=True), axes)
        is_it, ctx.axes = x == result, axes
        ctx.save_for_backward(is_it, total(is_it.sum(dims, keepdim=True), axes))
        return result

    @staticmethod
    def backward(ctx, gradient):
        is_it, count = ctx.saved_tensors
        return is_it * summed(gradient / count, ctx.axes), None, None, None


class _FirstLargest(torch.autograd.Function):
    """The largest of all ranks' `values`, and its place in the whole tensor. `places` are the places of this rank's
    values. The gradient goes to the first of equal values, as on a single rank."""

    @staticmethod
    def forward(ctx, values, places, axes):
        result, ctx.axes = greatest(values, axes), axes
        is_largest = (values == result) | values.isnan()
        first = least(torch.where(is_largest, places, torch.full_like(places, FAR)), axes)
        ctx.save_for_backward(is_largest & (places == first))
        ctx.mark_non_differentiable(first)
        return result, first

    @staticmethod
    def backward(ctx, gradient, _):
        is_it, = ctx.saved_tensors
        return summed(gradient, ctx.axes) * is_it, None, None


first_largest = _FirstLargest.apply  # arguments: values, their places (FAR if none), axes
FAR = torch.iinfo(torch.int64).max


@rule(*named(*_EXTREMES))
def _extreme(function, x, dim=(), keepdim=False):
    return extreme(name_of(function), x, dim, keepdim)


def extreme(name, x, dim=None, keepdim=False):
    dims = dims_of(x, dim)
    result = _Extreme.apply(x, name, dims, axes_in(x, dims))
    return striped(result if keepdim else result.squeeze(dims), remaining(x, dims, keepdim))


@rule(*named("aminmax"))
def _aminmax(function, x, *, dim=None, keepdim=False):
    return torch.return_types.aminmax([extreme(name, x, dim, keepdim) for name in ("amin", "amax")])


@rule(*named("max", "min"), sizes="whole")
def _max(function, x, dim=None, keepdim=False, *, other=None):
    is_max = name_of(function) == "max"
    other = dim if isinstance(dim, torch.Tensor) else other
    if other is not None:
        return pointwise(torch.maximum if is_max else torch.minimum, x, other)
    if dim is None:
        return extreme("amax" if is_max else "amin", x)
    dims = dims_of(x, dim)
    if not axes_in(x, dims):
        return all_striped(function(x, dim, keepdim), remaining(x, dims, keepdim))
    found = _first(x if is_max else _negative(x), dims, keepdim)
    values = found[0] if is_max else striped((-found[0]).to(x.dtype), found[0].cut)
    return getattr(torch.return_types, name_of(function))((values, found[1]))


@rule(*named("argmax", "argmin"))
def _argmax(function, x, dim=None, keepdim=False):
    dims = dims_of(x, dim)
    if not axes_in(x, dims):
        return all_striped(function(x, dim, keepdim), remaining(x, dims, keepdim))
    return _first(x if name_of(function) == "argmax" else _negative(x), dims, keepdim)[1]


def _negative(x):
    """Returns -x. Integers become int64, because the lowest 8-bit integer has no negative."""
    return striped(-(x if x.is_floating_point() else x.long()), x.cut)


def _first(x, dims, keepdim):
    """Returns the largest values over dimensions, and the first place of each in the whole tensor, in row-major order
    of `dims`."""
    place = torch.zeros(1, dtype=torch.int64, device=x.device)
    for dim in dims:
        place = (place.unsqueeze(1) * count_of(x, [dim]) + places(x, dim)).flatten()
    own = x.movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims))
    best = own.argmax(-1, keepdim=True)
    values, where = first_largest(own.gather(-1, best).squeeze(-1), place[best.squeeze(-1)], axes_in(x, dims))
    for dim in dims if keepdim else ():
        values, where = values.unsqueeze(dim), where.unsqueeze(dim)
    layout = remaining(x, dims, keepdim)
    return striped(values, layout), striped(where, layout)


@rule(*named("count_nonzero"))
def _count(function, x, dim=None):
    return added_up(striped((x != 0).long(), x.cut), dims_of(x, dim), False)


@rule(*named("any", "all"))
def _any(function, x, dim=None, keepdim=False):
    is_any = name_of(function) == "any"
    found = added_up(striped(((x != 0) == is_any).long(), x.cut), dims_of(x, dim), keepdim)
    return striped(((found > 0) == is_any).to(torch.uint8 if x.dtype == torch.uint8 else torch.bool), found.cut)


# Functions along one dimension: (index of `dim` among the arguments after the tensor, its default).
_ALONG = {"glu": (0, -1), "cumsum": (0, None), "cumprod": (0, None), "cummax": (0, None), "cummin": (0, None),
          "logcumsumexp": (0, None), "topk": (1, -1), "sort": (0, -1), "msort": (0, 0), "argsort": (0, -1), "kthvalue": (1, -1),
          "median": (0, None), "nanmedian": (0, None), "mode": (0, -1), "prod": (0, None),
          "diff": (1, -1)}


@rule(*named(*_ALONG), sizes="whole")
def _along(function, x, *args, **kwargs):
    """Runs functions that need all positions of a dimension, in order or sorted. Refuses a cut dimension, except in
    diff."""
    if not layout_of(x).is_cut:
        return whole(function(x, *args, **kwargs))
    name = name_of(function)
    at, dim = _ALONG[name]
    dim = kwargs.get("dim", args[at] if len(args) > at else dim)
    if name == "diff" and isinstance(dim, int) and not layout_of(x).is_plain(dim):
        return _differences(x, dim, *args[:1], **{key: value for key, value in kwargs.items() if key != "dim"})
    if not isinstance(dim, int) or isinstance(dim, bool) or not layout_of(x).is_plain(dim):
        what = "all dimensions" if dim is None else f"the cut dimension {dim}"
        raise NotSupported(f"over {what}, of which a rank has a part, and {name} needs all of it: gather it first")
    if any(isinstance(value, torch.Tensor) for value in (*args, *kwargs.values())):
        raise NotSupported("with another tensor")
    result = function(x, *args, **kwargs)
    is_whole = (result if isinstance(result, torch.Tensor) else result[0]).ndim == x.ndim
    return all_striped(result, layout_of(x) if is_whole else layout_of(x).removed([dim % x.ndim]))


def _differences(x, dim, n=1, **beside):
    if beside:
        raise NotSupported(f"with {' and '.join(beside)}: join it first, and shard the whole")
    for _ in range(n):
        later, earlier = (getitem(torch.Tensor.__getitem__, x, (slice(None),) * (dim % x.ndim) + (rows,))
                          for rows in (slice(1, None), slice(None, -1)))
        x = pointwise(torch.sub, later, earlier)
    return x
