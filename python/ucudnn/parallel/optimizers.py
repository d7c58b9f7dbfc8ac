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
    trained = [one for group in optimizer.param_groups for one in group["params"] if hasattr(one, "ucudnn_parts")]
    for one in trained:
        if one.grad is not None and not isinstance(one.grad, Part):
            raise NotSupported(
                f"the gradient of {one.ucudnn_parts.name} was replaced by a tensor that was not computed from it, whose norm nobody "
                "could tell: grad.copy_(...) writes into it, and functions of its elements keep its mark")
    divided = [one for one in trained if not one.ucudnn_parts.shard.is_whole]
    if not divided or optimizer in _CHECKED:
        return
    name = next((base.__name__ for base in type(optimizer).__mro__ if base.__name__ in MIXING), None)
    if name:
        raise NotSupported(f"the optimizer {name}, which mixes the elements of a parameter: ranks have parts of parameters "
                           "here, so an optimizer that treats each element by itself is expected, as SGD or AdamW")
    for one in divided:
        for what, value in optimizer.state.get(one, {}).items():
            if isinstance(value, torch.Tensor) and value.ndim and value.shape != one.shape:
                raise NotSupported(f"an optimizer that has stepped before apply: its {what!r} has the shape "
                                   f"{tuple(value.shape)}, this rank's part is {tuple(one.shape)}; "
                                   "parallel.load_state_dict(model, state, optimizer) divides it")
    _CHECKED.add(optimizer)
