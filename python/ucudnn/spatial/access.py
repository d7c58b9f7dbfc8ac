"""What reads or marks a tensor without computing with it."""
import torch

from .errors import NotSupported
from .stripe import Stripe, RULES, layout_of, named, rule, striped

_SAME = named("size", "dim", "ndimension", "stride", "numel", "is_floating_point", "is_complex", "is_contiguous",
              "element_size", "data_ptr", "storage_offset", "requires_grad_", "register_hook", "retain_grad", "get_device",
              "is_signed", "__len__", "__repr__", "__hash__", "type", "is_pinned", "is_same_size",
              "_is_view", "as_subclass", "untyped_storage", "register_post_accumulate_grad_hook", homes=(torch, torch.Tensor))


@rule(*_SAME)
def _as_it_is(function, *args, **kwargs):
    return function(*args, **kwargs)


def _attribute(name):
    def read(function, x, *args):
        value = function(x, *args)
        if not isinstance(value, torch.Tensor) or isinstance(value, Stripe):
            return value
        if name == "_base":  # whoever asks wants to know whether there is one; its shape may be another
            return x
        if value.shape != x.shape or name in ("T", "mT", "H", "mH"):
            raise NotSupported(f"x.{name} of a stripe")
        return striped(value, layout_of(x))
    return read


for _name in dir(torch.Tensor):
    _property = getattr(torch.Tensor, _name)
    if hasattr(_property, "__get__") and type(_property).__name__ in ("getset_descriptor", "property"):
        RULES[_property.__get__] = _attribute(_name)
        RULES[_property.__set__] = _as_it_is


@rule(torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__float__, torch.Tensor.__bool__,
      torch.Tensor.__int__)
def _value(function, x, *args, **kwargs):
    if x.cut.is_cut:
        raise NotSupported("the values of a stripe are not those of the whole: gather it first")
    return function(x, *args, **kwargs)


@rule(torch.autograd.grad)
def _grad(function, *args, **kwargs):
    raise NotSupported("use backward, which runs checkpointed parts of a model as they ran before")
