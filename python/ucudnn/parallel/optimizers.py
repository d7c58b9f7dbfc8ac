"""Checks of optimizers before their steps: gradients are marked, and each element of a part is updated as in the whole
parameter."""
import functools
import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .errors import NotSupported
from .gradients import Part

# Optimizers whose update of an element depends on other elements of its parameter.
MIXING = {"Adafactor", "LAMB", "LARS", "LBFGS", "Lamb", "Lars", "Muon", "Shampoo", "SOAP"}
_CHECKED = weakref.WeakSet()


@functools.cache
def watch():
    register_optimizer_step_pre_hook(_before_step)


def _before_step(optimizer, *_):
    for one in _trained(optimizer):
        if one.grad is not None and not isinstance(one.grad, Part):
            raise NotSupported(
                f"the gradient of {one.ucudnn_parts.name} was replaced by a tensor that was not computed from it, whose norm nobody "
                "could tell: grad.copy_(...) writes into it, and functions of its elements keep its mark")
        is_foreign = optimizer not in _CHECKED and not one.ucudnn_parts.shard.is_whole
        for what, value in optimizer.state.get(one, {}).items() if is_foreign else ():
            if isinstance(value, torch.Tensor) and value.ndim:
                raise NotSupported(f"an optimizer that has stepped before apply: its {what!r} of {one.ucudnn_parts.name}, of shape "
                                   f"{tuple(value.shape)}, or one that load_state_dict gave a state of one rank; "
                                   "parallel.load_state_dict(model, state, optimizer) divides it")
    adopt(optimizer)


def adopt(optimizer):
    """Notes that the optimizer's state is that of this rank's parts, and refuses that torch saves or loads it as a whole."""
    if optimizer not in _CHECKED and any(not one.ucudnn_parts.shard.is_whole for one in _trained(optimizer)):
        _refuse_mixing(optimizer)
        _CHECKED.add(optimizer)
        optimizer.register_state_dict_pre_hook(_refuse_state)
        optimizer.register_load_state_dict_pre_hook(_refuse_state)


def _trained(optimizer):
    return [one for group in optimizer.param_groups for one in group["params"] if hasattr(one, "ucudnn_parts")]


def _refuse_mixing(optimizer):
    name = next((base.__name__ for base in type(optimizer).__mro__ if base.__name__ in MIXING), None)
    if name:
        raise NotSupported(f"the optimizer {name}, which mixes the elements of a parameter: ranks have parts of parameters "
                           "here, so an optimizer that treats each element by itself is expected, as SGD or AdamW")


def _refuse_state(optimizer, *_):
    raise NotSupported(f"state_dict or load_state_dict of {type(optimizer).__name__}, which has the state of this rank's parts: "
                       "parallel.save and parallel.load, or parallel.state_dict(model, optimizer), have their boxes")
