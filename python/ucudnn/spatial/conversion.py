"""convert: makes a model take and return stripes. Refuses modules that are not known to be right on stripes
(vouched.py)."""
import warnings

import torch

from . import stripe, sums
from .errors import NotSupported
from .factories import Sizes
from .cells import ranks
from .copies import random_states, same_draws, same_weights
from .stripe import Stripe, flat, to_local
from .vouched import looks_around, message, newer, verdict


_sizes = Sizes()  # active while a converted model runs
_states = []  # states of the random generators when the program entered the outermost running module


def name_of(module):
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _listed(model):
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            yield path, "torch.jit.ScriptModule", False
        elif getattr(module, "_compiled_call_impl", None) is not None:  # module.compile() was called
            yield path, "torch._dynamo.eval_frame.OptimizedModule", False
        else:
            p = getattr(module, "p", getattr(module, "drop_prob", 0))
            draws = isinstance(module, torch.nn.RReLU) or isinstance(p, float) and 0 < p <= 1
            yield path, name_of(module), module.training and draws


def convert(model, trust=()):
    """Returns `model`, which afterwards takes the results of shard. Its parameters get the gradients of the whole
    images of a group, complete on every rank of the group. `trust` lists classes, or names of classes, that the caller
    vouches for. Raises NotSupported, which lists every module that is not vouched for. Call convert before anything
    wraps the model. On a single rank without a grid it changes nothing."""
    if ranks() is None:
        return model
    trusted = {entry if isinstance(entry, str) else f"{entry.__module__}.{entry.__qualname__}" for entry in trust}
    found = verdict(_listed(model), trusted)
    if found:
        raise NotSupported(message(found))
    for package, installed, newest in newer(map(name_of, model.modules())):
        warnings.warn(f"the classes of {package} were read in releases up to {newest}, and {installed} is newer: what they do "
                      "with a stripe's shape may have changed")  # Python's warning filter prints this once
    if any(hasattr(tensor, "full_tensor") for tensor in model.parameters()):
        raise NotSupported("parameters lie in parts on the ranks already: convert the model first, and fully_shard it then")
    values = (*model.named_parameters(), *model.named_buffers())
    if lazy := [path for path, tensor in values if torch.nn.parameter.is_lazy(tensor)]:
        raise NotSupported(f"{lazy[0]} has no shape yet: run the model on one whole image, and convert it then")
    if any(tensor.is_cuda for tensor in model.parameters()):
        ranks().sum_alone()
    stripe._trusted.update(trusted)
    for module in model.modules():
        module._ucudnn_trust = getattr(module, "_ucudnn_trust", frozenset()) | trusted
    sums.own(model.parameters())
    for path, module in model.named_modules():
        if not hasattr(module, "_ucudnn_is_compared"):
            _name(module, path)
            if looks_around(name_of(module)):
                module.register_forward_pre_hook(_must_be_striped)
    if getattr(model, "_ucudnn_is_converted", False):
        return model
    model._ucudnn_is_converted = True
    model.register_forward_pre_hook(_must_have_stripes, with_kwargs=True)
    model.register_forward_hook(_compares)
    return model


def _has_stripes(*values):
    return any(isinstance(x, Stripe) for x in _held(values))


def _held(values):
    """Yields single values, and the attributes of objects of a program's own classes."""
    for x in flat(values):
        if isinstance(x, (torch.Tensor, torch.nn.Module, type)) or not hasattr(x, "__dict__"):
            yield x
        else:
            yield from flat(list(vars(x).values()))


class _Enter:
    """A hook before a module's forward. It is an object and not a closure, so that a converted model can be pickled."""

    def __init__(self, path, name):
        self.path, self.name = path, name

    def __call__(self, module, arguments, named):
        if ranks() is None:  # a converted model was saved, and a single process has loaded it
            return
        if way := stripe.recorded():
            raise NotSupported(f"{self.name} {way}")
        if module._backward_hooks and not module._is_full_backward_hook:
            raise NotSupported(f"{self.name} has a hook of register_backward_hook, which torch has deprecated: use "
                               "register_full_backward_hook")
        if not torch._C._is_torch_function_enabled():
            raise NotSupported(f"{self.name} runs where torch calls no __torch_function__: start a backward pass that runs it "
                               "again with the loss's own backward()")
        if _has_stripes(arguments, named):  # ranks compare only if they surely all enter this module
            _compare_copies(self.path, module)
        if not stripe._where:
            for path, part in module.named_modules(prefix=self.path):
                if not hasattr(part, "_ucudnn_trust"):
                    raise NotSupported(f"{path}: {name_of(part)} was added after the model was converted: convert it again")
            _sizes.__enter__()
            sums.begin(module)
        stripe._where.append((self.name, module._ucudnn_trust, module))


class _Leave:
    """A hook after a module's forward. It also runs if forward fails; `result` is then None."""

    def __init__(self, name):
        self.name = name

    def __call__(self, module, arguments, result):
        if not stripe._where:
            return
        while stripe._where and stripe._where.pop()[0] != self.name:  # also pops modules that an error has left
            pass
        if stripe._where:
            return
        _sizes.__exit__(None, None, None)
        sums.end()
        _leave_plain(module)
        if _states:
            before = _states.pop()
            if result is not None:  # None after an error, which may have occurred on this rank only
                same_draws(before, module._ucudnn_trust)
                for part in module.modules():
                    part._ucudnn_modes = getattr(part, "_ucudnn_modes", frozenset()) | {part.training}


def _leave_plain(model):
    """A module may replace buffers or parameters by replicated Stripes, such as a mean. Makes these plain again."""
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if isinstance(buffer, Stripe) and not buffer.cut.is_cut:
                module._buffers[name] = to_local(buffer)
        for name, parameter in module._parameters.items():
            if isinstance(parameter, Stripe) and not parameter.cut.is_cut:
                module._parameters[name] = made = torch.nn.Parameter(to_local(parameter.detach()), parameter.requires_grad)
                if made.requires_grad:  # the pass that has just run used `parameter`, so copy its gradient to `made`
                    parameter.register_post_accumulate_grad_hook(
                        lambda used, made=made: setattr(made, "grad", to_local(used.grad)))


def _name(module, path):
    name, module._ucudnn_is_compared = path or name_of(module), False
    module.register_forward_pre_hook(_Enter(path, name), prepend=True, with_kwargs=True)
    module.register_forward_hook(_Leave(name), always_call=True)


def _compare_copies(path, module):
    """When a program enters this module, compares weights and buffers between ranks: the first time, and always with
    UCUDNN_CHECK=1. Also saves the generators' states: the first time in training and in evaluation, and always with
    UCUDNN_CHECK=1. same_draws reads the states when the module is left."""
    is_checked_now = ranks().is_checking and not stripe._where
    if not stripe._where:
        is_new = module.training not in getattr(module, "_ucudnn_modes", ())
        _states[:] = [random_states()] if is_checked_now or is_new else []
    if is_checked_now or not module._ucudnn_is_compared:
        for part in module.modules():
            part._ucudnn_is_compared = True
        same_weights(path, module)


def _must_be_striped(module, arguments):
    if ranks() and not _has_stripes(arguments):
        raise NotSupported(f"{name_of(module)}{stripe.place()} meets a plain tensor, which was made inside a converted "
                           "model or lost its stripes on the way: shard it, or use spatial.from_local for this rank's rows")


def _must_have_stripes(module, arguments, named):
    if ranks() is None:
        return
    if not _has_stripes(arguments, named):
        raise NotSupported(f"{name_of(module)} was converted: it takes what shard gives, not a plain tensor. Keep a copy that "
                           "was not converted for whole images on one rank")
    ranks().begin()


def _compares(module, arguments, result):
    if ranks() is None:
        return
    for x in _held(result if not hasattr(result, "to_tuple") else result.to_tuple()):
        if isinstance(x, torch.Tensor) and x.requires_grad:
            x.register_hook(ranks().comparison())
            return
