"""Functions that compute each position separately; their operands broadcast."""
import torch

from .cells import ranks
from .errors import NotSupported
from .layout import Layout
from .positions import own_part
from .precision import lowered
from .recut import agreed, in_stripes, is_shared
from .stripe import Stripe, flat, is_weight, layout_of, name_of, named, rule, striped
from .sums import summed

_NAMES = """
abs absolute acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil
celu clamp clamp_max clamp_min clip copysign cos cosh deg2rad div divide elu eq erf erfc erfinv exp exp2 expm1 fix float_power
floor floor_divide fmax fmin fmod frac ge gelu greater greater_equal gt hardshrink hardsigmoid hardswish hardtanh hypot
isclose isfinite isinf isnan le leaky_relu lerp less less_equal lgamma log log10 log1p log2 logaddexp logical_and logical_not
logical_or logical_xor logit logsigmoid lt masked_fill maximum minimum mish mul multiply nan_to_num ne neg negative not_equal
positive pow prelu rad2deg reciprocal relu relu6 remainder round rsqrt rsub selu sgn sigmoid sign silu sin sinc sinh
softplus softshrink softsign sqrt square sub subtract swish tan tanh tanhshrink threshold true_divide trunc where xlogy
clone contiguous detach float double half bfloat16 bool byte char short int long zeros_like ones_like empty_like full_like cpu
cuda alias copy_ fill_ zero_ __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__
__rtruediv__ __itruediv__ __div__ __rdiv__ __idiv__ __pow__ __rpow__ __ipow__ __neg__ __pos__ __abs__ __eq__ __ne__ __lt__
__le__ __gt__ __ge__ __and__ __or__ __xor__ __invert__ __mod__ __floordiv__ __rfloordiv__ __rmod__ conj conj_physical
complex digamma expit heaviside i0 isneginf isposinf isreal ldexp logaddexp2 polar resolve_conj resolve_neg signbit
""".split()


def broadcast(operands, takes_whole=False, keeps_first=False):
    """Returns the layout of the result of combining these tensors position by position. The result has the stripes of
    the first tensor, or the stripes that `agreed` chooses; `completed` brings operands into them. `takes_whole`: a
    replicated tensor may have all rows of the whole tensor; `met` keeps only this rank's rows of it."""
    layouts = [layout_of(x) for x in operands]
    ndim = max(len(layout.dims) for layout in layouts)
    stripes = agreed(layouts, keeps_first)
    layouts = [layout.in_stripes(stripes) for layout in layouts]
    if any(len({layout.dims[-dim] for layout in layouts if dim <= len(layout.dims)} - {()}) > 1 for dim in range(1, ndim + 1)):
        # If a program has flattened several dimensions into one, in_rows() counts the uncut dimensions as rows of the
        # axis before them.
        layouts = [layout.in_rows(range(len(layout.dims))) for layout in layouts]
        stripes = agreed(layouts, keeps_first)
        layouts = [layout.in_stripes(stripes) for layout in layouts]
    dims, extents, pads = [()] * ndim, {}, {}
    for layout in layouts:
        offset = ndim - len(layout.dims)
        for dim, atoms in enumerate(layout.dims):
            if atoms and dims[offset + dim] not in ((), atoms):
                raise NotSupported(f"dimension {offset + dim} is cut in two ways, {dims[offset + dim]} and {atoms}")
            dims[offset + dim] = atoms or dims[offset + dim]
        for axis, rows in layout.extents.items():
            if extents.setdefault(axis, rows) != rows:
                raise NotSupported(f"stripes of {extents[axis]} rows meet stripes of {rows} rows")
        pads.update(layout.pads)
    made = Layout(dims, extents, pads)
    for x, layout in zip(operands, layouts):
        offset = ndim - len(layout.dims)
        for dim, atoms in enumerate(layout.dims):
            if dims[offset + dim] and not atoms and x.shape[dim] != 1 and \
                    not (takes_whole and x.shape[dim] == made.whole_extent(offset + dim, 1)):
                raise NotSupported(f"a tensor of shape {tuple(x.shape)}, which is the same on every rank, meets a stripe "
                                   f"that is cut along dimension {offset + dim}: shard it, too")
            if dims[offset + dim] and not atoms and x.shape[dim] == 1 and not isinstance(x, Stripe) and \
                    _has_one_row(dims[offset + dim], extents) and not is_weight(x):
                raise NotSupported(f"a tensor of shape {tuple(x.shape)}, which is no parameter or buffer of the model, meets a "
                                   f"stripe that may have one row in dimension {offset + dim}: it may be such rows, or the "
                                   "same for all of them. Register it as a buffer, or make it with new_zeros or new_tensor of a stripe")
    return made


def _has_one_row(atoms, extents):
    """Returns whether some part has only one row. The answer is the same on all ranks."""
    return all(size == 1 if axis is None else min(extents[axis]) == 1 for axis, size in atoms)


def completed(x, layout):
    """Returns x in the stripes of `layout`, as an operand of a function whose result has `layout`. If x is not cut
    along all axes of `layout`, the gradient of x is summed over ranks."""
    axes = tuple(axis for axis in layout.axes if axis not in layout_of(x).axes)
    return summed(in_stripes(x, layout.extents) if isinstance(x, Stripe) else x, axes)


def uncut(x):
    """Returns x, which is a weight, a bias, statistics, or None. Raises NotSupported if it is cut, because every rank
    must have all of it."""
    if x is not None and layout_of(x).is_cut:
        raise NotSupported(f"a stripe of shape {tuple(x.shape)} as weights or a bias, of which each rank would use its own "
                           "part: pass spatial.gather(x)")
    return x


def parameter(x, layout):
    """Returns a weight or bias, or None, as an operand of a function whose result has `layout`."""
    return x if x is None else completed(uncut(x), layout)


def met(x, layout):
    """Returns x as a position-by-position operand of a function whose result has `layout`. If x is replicated and has
    all rows of the whole tensor, keeps only this rank's rows."""
    return own_part(completed(x, layout), layout_of(x), layout)


def _operands(args, kwargs):
    return [x for x in flat((args, kwargs)) if isinstance(x, torch.Tensor)]


def may_be_written(x):
    """Raises NotSupported if x may not be written in place. That is so if x has hooks, because torch drops hooks from
    tensors that are written through a view. It is also so if x was marked by recut.share, because x is then a copy
    where torch would give a view."""
    if is_shared(x):
        raise NotSupported("written in place where torch has one memory with a view in groups of rows, for which rows came "
                           "from other ranks: write into a clone")
    if any(not getattr(hook, "may_be_dropped", False) for hook in (getattr(x, "_backward_hooks", None) or {}).values()):
        raise NotSupported("written in place over a tensor with hooks, such as FSDP's of what a layer gives")


def pointwise(function, *args, **kwargs):
    name = name_of(function)
    is_in_place = kwargs.get("inplace") or name.endswith("_") and not name.endswith("__") or \
        name in ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__idiv__", "__ipow__")
    layout = broadcast(_operands(args, kwargs), takes_whole=True, keeps_first=is_in_place)
    if is_in_place and layout != layout_of(args[0]):
        raise NotSupported("a stripe written into a tensor that is not cut alike")
    if is_in_place:
        may_be_written(args[0])
    convert = lambda x: met(x, layout) if isinstance(x, torch.Tensor) else x
    first = args[0] if is_in_place else convert(args[0])
    result = function(first, *map(convert, args[1:]), **{key: convert(value) for key, value in kwargs.items()})
    if not isinstance(result, torch.Tensor) or result is args[0]:
        return result
    return striped(result, layout)


rule(*named(*_NAMES, *(f"{name}_" for name in _NAMES)), sizes="whole")(pointwise)


@rule(*named("detach_"))
def _detached(function, x):
    if x.requires_grad:
        raise NotSupported("a stripe is a view for torch, which detaches no view in place: write x = x.detach()")
    return x


@rule(torch.broadcast_tensors, torch.functional.broadcast_tensors)
def _broadcast_tensors(function, *tensors):
    tensors = list(tensors[0]) if isinstance(tensors[0], (list, tuple)) else tensors
    layout = broadcast(tensors, takes_whole=True)
    return tuple(striped(x, layout) for x in function(*(met(x, layout) for x in tensors)))


@rule(*named("prelu", "__prelu"))
def _prelu(function, x, weight):
    if weight.numel() > 1:
        weight = weight.view([-1] + [1] * (x.ndim - 2))
    layout = broadcast([x, weight])
    x, weight = lowered(x, parameter(weight, layout))
    return striped(torch.where(x > 0, x, weight * x), layout)


@rule(*named("to", "type_as"), sizes="whole")
def _as_type(function, x, *args, **kwargs):
    """Converts x to another type or device, or to the type and device of another tensor, which may be a stripe."""
    result = function(x, *args, **kwargs)
    return x if result is x else striped(result, layout_of(x))
