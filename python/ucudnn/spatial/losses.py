"""Losses: of each position, then summed over all."""
import torch
from torch.nn import functional

from .errors import NotSupported
from .layout import Layout
from .pointwise import broadcast, completed
from .precision import wide_type
from .reduce import added_up, mean
from .stripe import layout_of, rule, striped


def _reduced(result, reduction):
    if reduction == "none":
        return result
    return added_up(result, list(range(result.ndim))) if reduction == "sum" else mean(None, result)


def _only_reduction(size_average, reduce):
    if size_average is not None or reduce is not None:
        raise NotSupported("size_average and reduce, of which torch says that reduction takes their place")


@rule(functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss,
      functional.binary_cross_entropy_with_logits, functional.binary_cross_entropy)
def _elementwise(function, x, target, *args, reduction="mean", size_average=None, reduce=None, **kwargs):
    if args or any(isinstance(value, torch.Tensor) for value in kwargs.values()):
        raise NotSupported("weights, or reductions by position")
    _only_reduction(size_average, reduce)
    layout = broadcast([x, target])
    result = function(completed(x, layout), completed(target, layout), reduction="none", **kwargs)
    return _reduced(striped(result, layout), reduction)


@rule(functional.cross_entropy, functional.nll_loss)
def _classes(function, x, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
             **kwargs):
    if weight is not None or kwargs.get("label_smoothing"):
        raise NotSupported("weights of classes, or smoothed labels")
    _only_reduction(size_average, reduce)
    layout = layout_of(x)
    if not layout.is_plain(1) or layout.removed([1]) != layout_of(target):
        raise NotSupported(f"targets of shape {tuple(target.shape)} are not cut as the predictions are: shard them, too")
    each = striped(function(x, target, ignore_index=ignore_index, reduction="none"),
                   Layout(layout_of(target).dims, layout.extents))
    if reduction != "mean":
        return _reduced(each, reduction)
    counted = striped(target != ignore_index, each.cut)
    result, count = (added_up(values, list(range(each.ndim)), dtype=wide_type(each.dtype)) for values in (each, counted))
    return striped((result / count).to(each.dtype), result.cut)
