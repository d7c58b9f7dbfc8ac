"""Tensors that a converted model makes with the sizes of its stripes. They are cut like the stripes and have the whole
tensor's values at these positions. Factory functions have no stripe argument, so torch does not call Stripe's
__torch_function__; a mode intercepts them while the model runs."""
import torch
from torch.overrides import TorchFunctionMode

from .drawing import NAMES, compare_drawn
from .errors import NotSupported
from .grid import owned
from .layout import Layout
from .cells import ranks
from .pointwise import completed
from .sizes import Own, at, plain, rows_of, whole_of
from .stripe import Stripe, _where, flat, name_of, rule, striped, whole
from .vouched import DRAWS


_DRAWING = (torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal)
_DRAWN = {*NAMES, *map(name_of, _DRAWING)}
# Functions that replace all numbers of a tensor by random numbers. Ranks compare these numbers.
_REPLACED = "bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_".split()
_PARTS = "__getitem__ narrow split chunk tensor_split split_with_sizes index_select".split()


class Sizes(TorchFunctionMode):
    """A mode for functions without a stripe argument. It interprets sizes of stripes, refuses random draws without a
    generator, and marks tensors that are computed only from weights. If the model trusts a class that draws different
    numbers on each rank, it compares the draws that must be the same on all ranks."""
    _buffers = None  # buffers of the running model, by id

    def __exit__(self, *why):
        self._buffers = None
        return super().__exit__(*why)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        values = list(flat((args, kwargs)))
        is_sized = any(isinstance(value, Own) for value in values) and not any(isinstance(value, Stripe) for value in values)
        if not is_sized and (function not in _DRAWING or kwargs.get("generator") is not None):
            result = function(*args, **kwargs)
            if name_of(function) in _DRAWN and not any(isinstance(value, Stripe) for value in values):
                compare_drawn(name_of(function), result)
            if function is torch.Tensor.__setitem__ and getattr(args[0], "_ucudnn_is_of_weights", False):
                self._note(function, args, values, args[0])
            if isinstance(result, (torch.Tensor, tuple, list)) and args:
                self._note(function, args, values, result)
            return result
        return Stripe.__torch_function__(function, types, args, kwargs)

    def _note(self, function, args, values, result):
        """Marks results that are computed only from weights, or only from numbers that all ranks draw alike, such as
        the mask of a StochasticDepth. A single row that is taken out of a weight is not marked, because it may be a row
        of a stripe."""
        is_drawn = name_of(function) in _REPLACED and args[0] is result and \
            not any(isinstance(value, (torch.Tensor, torch.Generator)) for value in values[1:])
        tensors = [value for value in values if isinstance(value, torch.Tensor) and value.ndim]
        is_of_weights = is_drawn or bool(tensors) and all(map(self._is_of_weights, tensors))
        for each in flat(result):
            if isinstance(each, torch.Tensor) and not isinstance(each, (Stripe, torch.nn.Parameter)):
                is_row = is_of_weights and name_of(function) in _PARTS and _ones(each) > _ones(args[0]) + _added(args[1:])
                if is_of_weights or self._is_of_weights(each):
                    each._ucudnn_is_of_weights = is_of_weights and not is_row

    def _is_of_weights(self, x):
        if isinstance(x, torch.nn.Parameter) or hasattr(x, "_ucudnn_is_of_weights"):
            return getattr(x, "_ucudnn_is_of_weights", True)
        if self._buffers is None and _where:
            self._buffers = {id(buffer): buffer for buffer in _where[0][2].buffers()}
        return id(x) in (self._buffers or {})


def _ones(x):
    return sum(extent == 1 for extent in x.shape)


def _added(index):
    """Returns the number of dimensions that an index adds."""
    return sum(entry is None for entry in flat(index))


def of_sizes(sizes):
    """Returns the layout of a tensor with these sizes; a dimension is cut if its size is an Own."""
    found = [rows_of(size) if isinstance(size, Own) else None for size in sizes]
    return Layout([((of[0], plain(size)),) if of else () for of, size in zip(found, sizes)], dict(filter(None, found)))


@rule(torch.zeros, torch.ones, torch.empty, torch.full, sizes="made")
def _filled(function, *args, **kwargs):
    if "size" in kwargs:
        args = (kwargs.pop("size"), *args)
    count = len(args) - 1 if function is torch.full and "fill_value" not in kwargs else len(args)
    sizes, rest = args[:count], args[count:]
    sizes = list(sizes[0]) if isinstance(sizes[0], (list, tuple)) else list(sizes)
    made = function(plain(sizes), *whole_of(rest), **{key: whole_of(value) for key, value in kwargs.items()})
    return striped(made, of_sizes(sizes))


def _own_part(values, axes, count):
    """Returns this rank's part of the whole tensor's `values`. `count({axis: part})` is the number of values of a
    part."""
    if len(axes) != 1:
        raise NotSupported("positions along several axes")
    rows = tuple(count({axes[0]: part}) for part in range(ranks().grid.parts[axes[0]]))
    if sum(rows) != len(values) or min(rows) < 1:
        raise NotSupported(f"{rows} positions on the ranks are not the {len(values)} of the whole")
    begin, end = owned(rows)[ranks().part(axes[0])]
    return striped(values[begin:end], Layout([((axes[0], end - begin),)], {axes[0]: rows}))


@rule(torch.arange, sizes="made")
def _arange(function, *args, **kwargs):
    bounds = [*args, *(kwargs.pop(key) for key in ("start", "end", "step") if key in kwargs)]
    axes = sorted({axis for bound in bounds if isinstance(bound, Own) for axis in bound.axes})
    return _own_part(function(*whole_of(bounds), **kwargs), axes,
                     lambda place: len(function(*(at(bound, place) for bound in bounds), device="meta")))


@rule(torch.linspace, sizes="made")
def _linspace(function, start, end, steps, **kwargs):
    values = function(*whole_of([start, end, steps]), **kwargs)
    if not isinstance(steps, Own):
        return whole(values)
    return _own_part(values, steps.axes, lambda place: at(steps, place))


@rule(torch.tensor, torch.as_tensor)
def _numbers(function, data, **kwargs):
    return whole(function(whole_of(data), **kwargs))


@rule(*_DRAWING, sizes="made")
def _drawn(function, *args, **kwargs):
    raise NotSupported(f"it {DRAWS}: draw it before, the same on all ranks, and shard it")


@rule(torch.meshgrid, torch._VF.meshgrid)
def _meshgrid(function, *tensors, indexing="ij"):
    tensors = list(tensors[0]) if isinstance(tensors[0], (list, tuple)) else list(tensors)
    layouts = [x.cut if isinstance(x, Stripe) else Layout([()], {}) for x in tensors]
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    extents = {axis: rows for layout in layouts for axis, rows in layout.extents.items()}
    layout = Layout([layouts[at].dims[0] for at in order], extents)
    return tuple(striped(x, layout) for x in function([completed(x, layout) for x in tensors], indexing=indexing))
