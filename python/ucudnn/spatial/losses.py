"""Losses: computed at each position, then summed over all positions."""
import inspect

import torch
from torch.nn import functional

from .errors import NotSupported
from .layout import Layout
from .pointwise import broadcast, met, parameter
from .precision import wide_type
from .recut import brought
from .reduce import added_up, mean
from .stripe import count_of, layout_of, rule, striped, whole
from .sums import greatest


_WEIGHTS = ("weight", "pos_weight", "var")  # tensor arguments besides input and target


def _reduced(result, reduction):
    if reduction == "none":
        return result
    if reduction == "mean":
        return mean(None, result)
    found = added_up(result, list(range(result.ndim)))
    return found if reduction == "sum" else striped(found / count_of(result, [0]), found.cut)  # reduction "batchmean"


def _options(function, args, kwargs):
    """Returns ({name: value} of a loss's arguments after input and target, its reduction)."""
    options = inspect.signature(function).bind(None, None, *args, **kwargs).arguments
    del options["input"], options["target"]
    if options.pop("size_average", None) is not None or options.pop("reduce", None) is not None:
        raise NotSupported("size_average and reduce, of which torch says that reduction takes their place")
    return options, options.pop("reduction", "mean")


@rule(functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss, functional.kl_div,
      functional.binary_cross_entropy_with_logits, functional.binary_cross_entropy, functional.poisson_nll_loss,
      functional.gaussian_nll_loss)
def _elementwise(function, x, target, *args, **kwargs):
    options, reduction = _options(function, args, kwargs)
    weights = {name: options[name] for name in _WEIGHTS if isinstance(options.get(name), torch.Tensor)}
    if weights and function in (functional.mse_loss, functional.l1_loss, functional.huber_loss):
        raise NotSupported("weights, whose sum torch divides by: multiply the loss without a reduction by them")
    if function is functional.gaussian_nll_loss and weights:
        _check_variances(weights["var"], x)
    layout = broadcast([x, target, *weights.values()], takes_whole=True)
    options.update({name: met(value, layout) for name, value in weights.items()})
    result = function(met(x, layout), met(target, layout), reduction="none", **options)
    return _reduced(striped(result, layout), reduction)


def _check_variances(variances, x):
    """Checks variances as torch does, but on all ranks together: if only one rank raised, other ranks would wait."""
    if variances.ndim != x.ndim:
        raise NotSupported(f"variances of {variances.ndim} dimensions, where the input has {x.ndim}")
    if greatest((variances < 0).any().to(x.dtype), layout_of(variances).axes):
        raise ValueError("var has negative entry/entries")


def _has_all_rows(x, layout):
    """Returns whether x is replicated and has all rows of the whole tensor in the dimensions that `layout` cuts."""
    return x.ndim == len(layout.dims) and not layout_of(x).is_cut and all(
        layout.is_plain(dim) or extent == layout.whole_extent(dim, extent) for dim, extent in enumerate(x.shape))


@rule(functional.cross_entropy, functional.nll_loss)
def _classes(function, x, target, *args, **kwargs):
    # a target that is not cut may be the classes of a single image, without a batch dimension
    if not layout_of(x).is_cut and not layout_of(target).is_cut:
        return whole(function(x, target, *args, **kwargs))
    options, reduction = _options(function, args, kwargs)
    layout = layout_of(x)
    by_class = target.is_floating_point()  # the target has a probability for every class instead of class numbers
    wanted = layout if by_class else layout.removed([1])
    target = striped(met(target, wanted), wanted) if _has_all_rows(target, wanted) else brought(target, wanted)
    if not layout.is_plain(1) or wanted != layout_of(target):
        raise NotSupported(f"targets of shape {tuple(target.shape)} are not cut as the predictions are: shard them, too")
    weight, ignored = options.pop("weight", None), options.get("ignore_index", -100)
    each = function(x, target, parameter(weight, layout), reduction="none", **options)
    each = striped(each, Layout(layout.removed([1]).dims, layout.extents))
    if by_class or reduction != "mean":
        return _reduced(each, reduction)
    wide = wide_type(each.dtype)
    counts = torch.ones_like(target, dtype=wide) if weight is None else weight.to(wide)[target.clamp(0, len(weight) - 1)]
    dims = list(range(each.ndim))
    found, divisor = (added_up(values, dims, dtype=wide) for values in (each, striped(counts * (target != ignored), each.cut)))
    return striped((found / divisor).to(each.dtype), found.cut)
