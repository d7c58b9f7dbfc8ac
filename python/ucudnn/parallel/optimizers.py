"""Checks optimizers before their steps: gradients must be marked as Parts, and the optimizer must update each element
of a part as it would in the whole parameter."""
import collections
import copy
import functools
import itertools
import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .errors import NotSupported
from .gradients import Part

# Optimizers whose update of an element depends on other elements of its parameter.
MIXING = {"Adafactor", "LAMB", "LARS", "LBFGS", "Lamb", "Lars", "Muon", "Shampoo", "SOAP"}
NAMES = "params", "param_names"  # keys of a group that are not options
PLAIN = bool, int, float, str, tuple, type(None)
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
            # Some optimizers create their state before the first step, with equal elements; such a state is accepted.
            if isinstance(value, torch.Tensor) and value.ndim and (
                    value.shape != one.shape or value.as_subclass(torch.Tensor).unique().numel() > 1):
                raise NotSupported(f"an optimizer that has stepped before apply: its {what!r} of {one.ucudnn_parts.name}, of shape "
                                   f"{tuple(value.shape)}, or one that load_state_dict gave a state of one rank; "
                                   "parallel.load_state_dict(model, state, optimizer) divides it")
    adopt(optimizer)
    for executor in {id(one.ucudnn_parts.executor): one.ucudnn_parts.executor for one in _trained(optimizer)}.values():
        executor.shared_values.note_options(optimizer)


def adopt(optimizer):
    """Records that the optimizer's state belongs to this rank's parts. From now on, torch's own state_dict and
    load_state_dict of the optimizer raise NotSupported. Raises NotSupported if the optimizer's update of an element
    depends on other elements. Does nothing if all trained parameters are whole on every rank."""
    if optimizer not in _CHECKED and any(not one.ucudnn_parts.shard.is_whole for one in _trained(optimizer)):
        _refuse_mixing(optimizer)
        _CHECKED.add(optimizer)
        optimizer.register_state_dict_pre_hook(_refuse_state)
        optimizer.register_load_state_dict_pre_hook(_refuse_state)


def _trained(optimizer):
    return [one for group in optimizer.param_groups for one in group["params"] if hasattr(one, "ucudnn_parts")]


def _refuse_mixing(optimizer):
    name = next((base.__name__ for base in type(optimizer).__mro__ if base.__name__ in MIXING), None)
    if name is None and not isinstance(optimizer, next(iter(_trained(optimizer))).ucudnn_parts.executor.elementwise):
        name = type(optimizer).__name__ if _mixes(optimizer) else None
    if name:
        raise NotSupported(f"the optimizer {name}, which mixes the elements of a parameter: ranks have parts of parameters "
                           "here, so an optimizer that treats each element by itself is expected, as SGD or AdamW")


def _mixes(optimizer):
    """Returns whether a step of the optimizer changes an element of a small whole parameter differently than the same
    element in a part of the parameter."""
    generator = torch.Generator().manual_seed(0)
    groups = {repr({key: bool(value) if isinstance(value, float) else value for key, value in group.items() if key not in NAMES}): group
              for group in optimizer.param_groups if group["params"]}
    for group in groups.values():
        for shape in ((6,), (4, 6, 2, 2), (128, 128)):  # some optimizers mix elements only in large matrices
            pieces = [tuple(slice(at * extent // 2, (at + 1) * extent // 2) for at, extent in zip(place, shape))
                      for place in itertools.product((0, 1), repeat=min(len(shape), 2))]
            signs = torch.ones(shape, dtype=torch.float64)
            for piece in pieces[1:3]:  # the signs add up to 0 in the whole tensor, but not in a part
                signs[piece] = -1
            noise = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)]
            for start, gradients in ((1 + 0.1 * noise[0], noise), (torch.ones_like(signs), [signs] * 2)):
                whole = _stepped(optimizer, group, start, gradients)
                for piece in pieces:
                    alone = _stepped(optimizer, group, start[piece], [gradient[piece] for gradient in gradients])
                    if not torch.allclose(whole[piece], alone, rtol=0, atol=1e-6, equal_nan=True):
                        return True
    return False


def _stepped(optimizer, group, start, gradients):
    """Returns the values of a parameter that begins as `start`, after steps with `gradients`. A copy of the optimizer
    takes the steps, with the options of `group`. The copy has the optimizer's state, in which every element of a tensor
    is replaced by the tensor's greatest magnitude. Single numbers stay."""
    options = {key: value for key, value in group.items() if key not in NAMES}
    parameter = torch.nn.Parameter(start.clone().to(next(iter(group["params"])).device))
    twin = copy.copy(optimizer)
    twin.__dict__.update({key: value for key, value in vars(optimizer).items() if isinstance(value, PLAIN)})
    twin.state = collections.defaultdict(dict)
    for key, value in optimizer.state.get(group["params"][0], {}).items():
        if isinstance(value, torch.Tensor) and value.ndim:
            value = torch.full_like(parameter, value.as_subclass(torch.Tensor).abs().max().item() if value.numel() else 0.0)
        twin.state[parameter][key] = copy.deepcopy(value)
    twin.param_groups = [{"params": [parameter], **copy.deepcopy(options), **({"lr": 0.01} if "lr" in options else {})}]
    try:
        for gradient in gradients:
            parameter.grad = gradient.clone().to(parameter.device)
            with torch.random.fork_rng(devices=()):
                type(optimizer).step(twin)  # `twin.step` may be a scheduler's wrapper, which would call `optimizer`
    except Exception as error:  # an optimizer may raise any type of error
        name, text = type(optimizer).__name__, next(iter(str(error).splitlines()), type(error).__name__)
        raise NotSupported(f"the optimizer {name}, of which nobody can see whether it treats each element by itself ({text}): if so, "
                           f"parallel.apply(..., elementwise=[{name}]) says it") from error
    return parameter.detach().cpu()


def _refuse_state(optimizer, *_):
    raise NotSupported(f"state_dict or load_state_dict of {type(optimizer).__name__}, which has the state of this rank's parts: "
                       "parallel.save and parallel.load, or parallel.state_dict(model, optimizer), have their boxes")
