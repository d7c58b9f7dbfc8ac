"""Gradients of parts. With several ranks, each gradient of a parameter is a Part, even where the rank has the whole
parameter. A result computed from a Part element by element is again a Part. A norm of a Part, or a reduction over all
of its elements, is the norm or reduction of the whole parameter. So torch's own clip_grad_norm_ and GradScaler give the
same results on every rank as on one device. Every rank has all parameters, of which some may be empty tensors, and all
ranks make the same calls."""
import functools
import math

import torch

from .errors import NotSupported
from .moves import Meeting

# Functions that return one element for each element of a Part, besides those that torch tags as pointwise.
_KEEPING = frozenset(
    "absolute conj contiguous copy cpu cuda bfloat16 bool detach divide double empty_like expand_as fill flatten float full_like "
    "greater greater_equal half int isfinite isinf isnan less less_equal long moveaxis movedim multiply negative not_equal "
    "ones_like permute pin_memory ravel requires_grad reshape reshape_as resolve_conj resolve_neg squeeze subtract swapaxes swapdims t to "
    "transpose type unflatten unsqueeze view view_as zero zeros_like __get__".split())
_OPERATORS = frozenset("abs add and eq floordiv ge gt invert le lshift lt mod mul ne neg or pos pow rshift sub truediv xor".split())
# Functions that read no element of a Part, or whose result is not used in computations. They get this rank's part
# unchanged; as_subclass(torch.Tensor) returns it as a plain tensor.
_ASKING = frozenset(
    "as_subclass data_ptr dim element_size get_device has_names nelement ndimension new_empty new_full new_ones new_tensor new_zeros "
    "numel record_stream register_hook retain_grad size storage_offset stride untyped_storage "
    "__dir__ __format__ __hash__ __len__ __repr__ __set__ __str__".split())


@functools.cache
def _is_elementwise(name):
    """Returns whether the function computes its result element by element. Returns False for functions such as
    torch.max, which compare two tensors element by element but reduce a single tensor."""
    if name in _KEEPING or name.startswith("_fused_"):
        return True
    if name.startswith("__"):
        base = name.strip("_")
        return base in _OPERATORS or base[0] in "ri" and base[1:] in _OPERATORS
    base = name.removeprefix("_foreach_").removesuffix("_")
    operator = getattr(torch.ops.aten, base, None)
    return base in _KEEPING or base not in ("equal", "max", "min") and operator is not None and any(
        torch.Tag.pointwise in getattr(operator, overload).tags for overload in operator.overloads())


class Part(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            try:
                return _by_rule(function, args, kwargs)
            except NotSupported:
                flat = [one for each in args for one in (each if isinstance(each, (list, tuple)) else [each])]
                if not all(one._parts.shard.is_whole for one in flat if isinstance(one, Part)):
                    raise
                return function(*args, **kwargs)  # every rank has the whole gradients, with the same bits

    def __deepcopy__(self, memo):
        return mark(self.as_subclass(torch.Tensor).clone(), self._parts)


def _by_rule(function, args, kwargs):
    name = getattr(function, "__name__", "")
    if name in ("zero_", "_foreach_zero_"):
        for one in args[0] if isinstance(args[0], (list, tuple)) else args[:1]:
            if isinstance(one, Part):
                one._parts.executor.discard(one._parts.name, one)
    if name == "_foreach_norm":
        return _norms(args[0], *args[1:], **kwargs)
    if name in ("linalg_vector_norm", "linalg_norm", "norm") and isinstance(args[0], Part):
        return _norm(name, *args, **kwargs)
    if name in _REDUCTIONS and args and isinstance(args[0], Part):
        return _reduced(function, *args, **kwargs)
    if name == "_amp_foreach_non_finite_check_and_unscale_":
        function(*args, **kwargs)
        _any_of_all(args[1], args[0])
        return None
    if name in _ASKING or name.startswith("is_") and name != "is_nonzero":
        return function(*args, **kwargs)
    is_mask = name == "__setitem__" and getattr(args[1], "dtype", None) == torch.bool and args[1].shape == args[0].shape
    if is_mask or _is_elementwise(name):
        return _marked(function(*args, **kwargs), [*args, *kwargs.values()])
    raise NotSupported(
        f"{name} of a gradient of which this rank has a part: functions of single elements, norms, sums and the like over all "
        "elements, torch.nn.utils.clip_grad_norm_ and GradScaler have rules; grad.as_subclass(torch.Tensor) is this rank's part alone")


def mark(gradient, parts):
    """Returns the gradient as a Part with these `parts`. If `parts` is None, all ranks' gradients are whole, and the
    gradient is returned unchanged."""
    if gradient is None or parts is None:
        return gradient
    marked = gradient.as_subclass(Part)
    marked._parts = parts
    return marked


def _marked(result, arguments):
    """Marks a new tensor with the Parts of the first argument that is a Part. If the result is a list, its element i is
    marked in the same way by element i of each argument that is a list of the same length."""
    if isinstance(result, (list, tuple)):
        return type(result)([_marked(one, [each[place] if isinstance(each, (list, tuple)) and len(each) == len(result) else each
                                           for each in arguments]) for place, one in enumerate(result)])
    if not isinstance(result, torch.Tensor) or any(result is each for each in arguments):
        return result
    return mark(result, next((each._parts for each in arguments if isinstance(each, Part)), None))


class Parts:
    """The parts of parameter `name` on all ranks; `shard` is the model.Shard of this rank's part. If several ranks have
    the same part, sums and norms count it only on the first of these ranks."""

    def __init__(self, name, shard, executor):
        self.name, self.shard, self.executor = name, shard, executor

    def meeting(self, what):
        transport = self.executor.transport
        return Meeting(what, transport, range(transport.world), "control")


def _norm(name, gradient, *args, **kwargs):
    if len(args) > 1 or kwargs.get("dim") is not None:
        raise NotSupported(f"{name} along dimensions of a gradient of which this rank has a part")
    order = args[0] if args else kwargs.get("ord", kwargs.get("p"))
    if order not in (None, "fro") and (isinstance(order, str) or name == "linalg_norm" and gradient.ndim == 2):
        raise NotSupported(f"{name} of order {order!r} of a matrix of which this rank has a part: torch.linalg.vector_norm has a rule")
    return _norms([gradient], 2.0 if order in (None, "fro") else order, kwargs.get("dtype"))[0]


def _norms(gradients, order=2.0, dtype=None):
    """Returns a list of norms: of the whole parameter's gradient for each Part, of the tensor itself for any other
    tensor."""
    order = float(order)
    if not order > 0:
        raise NotSupported(f"a norm of order {order} of a gradient of which this rank has a part: orders above 0 have rules")
    parts = next(gradient._parts for gradient in gradients if isinstance(gradient, Part))
    norms, own = [], []
    for gradient in gradients:
        plain = gradient.as_subclass(torch.Tensor)
        wide = plain.to(dtype) if dtype else plain
        norms.append(torch.linalg.vector_norm(wide, order) if plain.numel() else wide.new_zeros(()))
        number = norms[-1].double().cpu()
        counts = isinstance(gradient, Part) and gradient._parts.shard.is_first
        own.append((number if order == float("inf") else number ** order) if counts else torch.zeros((), dtype=torch.float64))
    names = [gradient._parts.name for gradient in gradients if isinstance(gradient, Part)]
    meet = parts.meeting(f"norms of the gradients of {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}")
    told = meet.bring(torch.stack(own).to(gradients[0].device), _greatest if order == float("inf") else _added)
    total = told if order == float("inf") else told ** (1.0 / order)
    return [whole.to(norm.dtype) if isinstance(gradient, Part) else norm
            for whole, norm, gradient in zip(total.unbind(), norms, gradients)]


def _reduced(function, gradient, *args, dtype=None, **kwargs):
    """`function` is a reduction over all elements, and `gradient` a part of a gradient. Returns the function's result
    for the whole gradient."""
    name, parts, plain = function.__name__, gradient._parts, gradient.as_subclass(torch.Tensor)
    if args or any(value not in (None, (), False) for value in kwargs.values()):
        raise NotSupported(f"{name} with more arguments than a type, of a gradient of which this rank has a part: {name} over all "
                           "elements has a rule")
    told = {} if dtype is None else {"dtype": dtype}
    if parts.shard.is_whole:
        return function(plain, **told)
    like = plain.dtype if name in ("max", "amax", "min", "amin") else function(plain.new_empty(0), **told).dtype
    wide = torch.float64 if like.is_floating_point else torch.int64
    if parts.shard.is_first and plain.numel():
        own = plain.sum(dtype=wide) if name in ("sum", "mean") else function(plain).to(wide)
    else:
        lowest, highest = (-math.inf, math.inf) if like.is_floating_point else (torch.iinfo(wide).min, torch.iinfo(wide).max)
        own = plain.new_full((), {_added: 0, _greatest: lowest, _least: highest}[_REDUCTIONS[name]], dtype=wide)
    count = torch.full_like(own, plain.numel() if parts.shard.is_first else 0)
    meet = parts.meeting(f"{name} of the gradient of {parts.name}")
    if name == "mean":
        total, count = meet.bring(torch.stack([own, count]), _added)
        return (total / count).to(like)
    return meet.bring(own, _REDUCTIONS[name]).to(like)


def _any_of_all(found, gradients):
    parts = next((gradient._parts for gradient in gradients if isinstance(gradient, Part)), None)
    if parts is not None:
        found.copy_(parts.meeting("whether gradients are finite").bring(found, _greatest))


def _added(stacked):
    return stacked.sum(0)


def _greatest(stacked):
    return stacked.amax(0)


def _least(stacked):
    return stacked.amin(0)


# Reductions over all elements, each with the function that merges the ranks' results.
_REDUCTIONS = {"sum": _added, "mean": _added, "count_nonzero": _added, "max": _greatest, "amax": _greatest, "any": _greatest,
               "min": _least, "amin": _least, "all": _least}
