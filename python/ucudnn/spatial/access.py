"""Functions that read or mark a tensor without computing with it."""
import math

import torch

from .doors import tensor_hook
from .errors import NotSupported
from .sizes import sizes_of, strides_of
from .stripe import Stripe, RULES, layout_of, named, rule, striped, to_local

_SAME = named("dim", "ndimension", "is_floating_point", "is_complex", "is_contiguous",
              "element_size", "data_ptr", "requires_grad_", "retain_grad", "get_device", "is_signed", "__repr__", "__hash__",
              "is_pinned", "is_same_size", "_is_view", "register_post_accumulate_grad_hook", homes=(torch, torch.Tensor))
_TRANSPOSED = ("T", "mT", "H", "mH")


@rule(*_SAME)
def _as_it_is(function, *args, **kwargs):
    return function(*args, **kwargs)


@rule(torch.Tensor.register_hook)
def _register_hook(function, x, hook):
    x.grad_fn  # Reading this renews an old view's function; a hook registered on the old function makes torch end the process.
    return function(x, tensor_hook(hook, x.cut))


@rule(torch.Tensor.__deepcopy__)
def _deepcopy(function, x, memo):
    return memo.setdefault(id(x), striped(function(to_local(x), {}), x.cut))


@rule(torch.Tensor.__format__)
def _format(function, x, text):
    if x.cut.is_cut:
        raise NotSupported("the values of a stripe are not those of the whole: gather it first")
    return function(to_local(x), text)


@rule(torch.Tensor.size)
def _size(function, x, dim=None):
    sizes = sizes_of(x.shape, x.cut)
    return sizes if dim is None else sizes[dim]


@rule(torch.Tensor.__len__)
def _len(function, x):
    return function(x) if x.cut.is_plain(0) else sizes_of(x.shape, x.cut)[0]


@rule(*named("numel", "nelement", homes=(torch, torch.Tensor)))
def _numel(function, x):
    return math.prod(sizes_of(x.shape, x.cut))


@rule(torch.Tensor.stride)
def _stride(function, x, dim=None):
    strides = strides_of(x, x.cut)
    found = strides if dim is None else (strides[dim],)
    if None in found:
        raise NotSupported("a stripe whose memory holds more than its elements: take the strides of x.contiguous()")
    return found if dim is None else found[0]


@rule(*named("storage_offset", "untyped_storage"))
def _memory(function, x):
    if x.cut.is_cut:
        raise NotSupported("the memory of a stripe has this rank's rows: use that of spatial.to_local(x)")
    return function(x)


@rule(torch.Tensor.type)
def _type(function, x, dtype=None, **kwargs):
    return function(x) if dtype is None else striped(function(x, dtype, **kwargs), x.cut)


def _attribute(name):
    def read(function, x, *args):
        value = function(x, *args)
        if name == "shape":
            return sizes_of(value, x.cut)
        if name == "__cuda_array_interface__":
            return _memory(lambda _: value, x)
        if name == "nbytes":
            return math.prod(sizes_of(x.shape, x.cut)) * x.itemsize
        if not isinstance(value, torch.Tensor) or isinstance(value, Stripe):
            return value
        if name == "_base":  # callers only test _base for None; the real base may have another shape
            return x
        if name in _TRANSPOSED:
            kept = 0 if name in ("T", "H") else x.ndim - 2
            return striped(value, x.cut.permuted([*range(kept), *reversed(range(kept, x.ndim))]))
        if value.shape != x.shape:
            raise NotSupported(f"x.{name} of a stripe")
        return striped(value, layout_of(x))
    return read


def _set_values(function, x, value):
    if value is not None and (layout_of(value) != layout_of(x) or value.shape != x.shape):
        raise NotSupported("x.data or x.grad = what is not cut as x is: shard it, too")
    return function(x, value)


for _name in dir(torch.Tensor):
    _property = getattr(torch.Tensor, _name)
    if hasattr(_property, "__get__") and type(_property).__name__ in ("getset_descriptor", "property"):
        RULES[_property.__get__] = _attribute(_name)
        RULES[_property.__set__] = _set_values if _name in ("data", "grad") else _as_it_is


@rule(torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__float__, torch.Tensor.__bool__,
      torch.Tensor.__int__, torch.Tensor.__index__, torch.Tensor.__complex__, torch.Tensor.__array__)
def _value(function, x, *args, **kwargs):
    if x.cut.is_cut:
        raise NotSupported("the values of a stripe are not those of the whole: gather it first")
    return function(to_local(x), *args, **kwargs)


@rule(torch.Tensor.__reduce_ex__)
def _pickled(function, x, protocol):
    """Saves a replicated tensor as a plain one, so that processes without a grid can load it."""
    if x.cut.is_cut:
        raise NotSupported("a file would have this rank's rows alone: save spatial.gather(x), or spatial.to_local(x) on each rank")
    own = to_local(x)
    return function(torch.nn.Parameter(own.detach(), x.requires_grad) if isinstance(x, torch.nn.Parameter) else own, protocol)
