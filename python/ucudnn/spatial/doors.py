"""Replaces entry points of torch that call no __torch_function__ but must see stripes: backward passes that start from
stripes, a checkpoint's backward, autograd functions of a program (whose gradients are stripes, too), hooks of modules,
and scripted functions and DLPack, which are refused. They are replaced once, when the first grid is made. For anything
but stripes, the replacements do the same as torch."""
import functools

import torch
from torch.autograd import Function
from torch.nn.modules import module as modules
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.checkpoint import CheckpointFunction

from .errors import NotSupported
from .stripe import Stripe, flat, layout_of, may_be_saved, place, plainly, start_backward, striped, to_local

_descriptor = Function.__dict__["apply"]  # a class method; newer releases implement it in C
_backward = torch.autograd.backward
_script = torch._C.ScriptFunction.__call__
_multi_grad_hook = torch.autograd.graph.register_multi_grad_hook
_data = torch._C.TensorBase.data


@functools.lru_cache(maxsize=None)
def close():
    torch.autograd.backward = backward
    Function.apply = classmethod(apply)
    modules.BackwardHook = ModuleHook
    torch._C.ScriptFunction.__call__ = scripted
    torch.autograd.graph.register_multi_grad_hook = multi_grad_hook
    CheckpointFunction.backward = staticmethod(_plain_results(CheckpointFunction.backward))
    torch.Tensor.data = property(_data.__get__, set_data)
    for home in (torch, torch.utils.dlpack, torch._C):
        for name in ("to_dlpack", "_to_dlpack", "_to_dlpack_versioned"):
            if hasattr(home, name):
                setattr(home, name, _without_stripes(getattr(home, name)))


def _apply(cls, *args, **kwargs):
    return _descriptor.__get__(None, cls)(*args, **kwargs)


def _is_cut(x):
    return isinstance(x, Stripe) and x.cut.is_cut


@functools.wraps(_backward)
def backward(tensors, grad_tensors=None, *args, **kwargs):
    if any(isinstance(x, Stripe) for x in flat((tensors, grad_tensors))):
        return start_backward(tensors, grad_tensors, *args, **kwargs)
    return _backward(tensors, grad_tensors, *args, **kwargs)


def scripted(function, *args, **kwargs):
    """Calls a torch.jit.ScriptFunction. Refuses stripes here, because errors raised inside it would lose their
    message."""
    if any(_is_cut(x) for x in flat((args, kwargs))):
        raise NotSupported(f"{function.name}{place()} is a scripted function, whose calls cannot be seen: "
                           "call the function that was scripted")
    return _script(function, *args, **kwargs)


@functools.wraps(_multi_grad_hook)
def multi_grad_hook(tensors, *args, **kwargs):
    if any(map(_is_cut, tensors)):
        raise NotSupported(f"register_multi_grad_hook{place()}, which would get this rank's rows of gradients: use each "
                           "stripe's register_hook")
    return _multi_grad_hook(tensors, *args, **kwargs)


def set_data(x, values):
    """Sets x.data. torch calls __torch_function__ only for x, so a plain x would silently get this rank's rows."""
    if _is_cut(values) and not isinstance(x, Stripe):
        raise NotSupported(f"a plain tensor's data{place()} = a stripe: use the stripe itself, or spatial.to_local(x)")
    _data.__set__(x, values)


def _without_stripes(function):
    """Returns a wrapper of `function`, a function of torch that reads a tensor's memory. The wrapper refuses
    stripes."""
    @functools.wraps(function)
    def call(x, *args, **kwargs):
        if _is_cut(x):
            raise NotSupported(f"{function.__name__}{place()} of a stripe, whose memory has this rank's rows: pass "
                               "spatial.gather(x), or spatial.to_local(x)")
        return function(x, *args, **kwargs)
    return call


def _plain_results(function):
    return lambda *args: tuple(map(to_local, function(*args)))


def _layouts(values):
    return [layout_of(x) if isinstance(x, torch.Tensor) else None
            for x in (values if isinstance(values, (list, tuple)) else (values,))]


def _seen(tensors, layouts):
    """Returns `tensors` as stripes with these `layouts`; a tensor whose layout is None stays plain."""
    with plainly():
        return tuple(x if layout is None or isinstance(x, Stripe) or not isinstance(x, torch.Tensor) else striped(x, layout)
                     for x, layout in zip(tensors, layouts))


def apply(cls, *args, **kwargs):
    """Replaces autograd.Function.apply. For torch's own functions, results are stripes if inputs are. A program's
    functions see stripes in backward as in forward, so sums that they compute are sums over ranks."""
    if not any(_is_cut(x) for x in flat((args, kwargs))):
        return _apply(cls, *args, **kwargs)
    may_be_saved()
    if cls.__name__ == "_FromTorchTensor":  # DTensor.from_local
        raise NotSupported(f"DTensor.from_local{place()} of a stripe, whose shape is the whole tensor's: pass spatial.to_local(x)")
    if cls is BackwardHookFunction:
        with torch._C._DisableTorchDispatch():
            results = _apply(cls, *args)
        return _seen(results, _layouts(args))
    if cls.__module__.split(".")[0] in ("torch", "ucudnn"):
        return _apply(cls, *args, **kwargs)
    made = _on_stripes(cls)
    with torch._C._DisableTorchDispatch():  # torch may make views of the results, which Stripe would refuse
        results = _apply(made, *args, **kwargs)
    is_one = isinstance(results, torch.Tensor)
    found = _seen((results,) if is_one else results, made.results.pop())
    return found[0] if is_one else found


class _seeing:
    """A context that makes stripes visible within _DisableTorchDispatch."""

    def __enter__(self):
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Python) | \
            torch._C.DispatchKeySet(torch._C.DispatchKey.PythonTLSSnapshot)
        excluded = torch._C._dispatch_tls_local_exclude_set() - keys
        self.guard = torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)
        self.guard.__enter__()

    def __exit__(self, *why):
        self.guard.__exit__(*why)


class _Context:
    """The ctx of a program's backward; its saved tensors are stripes."""

    def __init__(self, ctx):
        object.__setattr__(self, "_ctx", ctx)

    def __getattr__(self, name):
        value = getattr(self._ctx, name)
        return _seen(value, self._ctx.ucudnn_saved) if name == "saved_tensors" else value

    def __setattr__(self, name, value):
        setattr(self._ctx, name, value)


def _gradient(cls, gradient, layout):
    """Returns the gradient of an input with this layout, as a plain tensor, which torch expects. Raises NotSupported if
    the gradient is cut otherwise."""
    if not isinstance(gradient, torch.Tensor) or layout is None:
        return gradient
    if layout_of(gradient).extents != layout.extents or layout_of(gradient).dims != layout.dims:
        raise NotSupported(f"{cls.__name__}.backward gives a gradient that is not cut as the input is: "
                           "return one of the input's shape, summed over what the input lacks")
    return to_local(gradient)


@functools.lru_cache(maxsize=None)
def _on_stripes(cls):
    """Returns a subclass of `cls` whose backward gets stripes. `results`: layouts of forward's latest results."""
    kept = []

    def note(ctx, inputs, outputs):
        ctx.ucudnn_inputs, ctx.ucudnn_outputs = _layouts(inputs), _layouts(outputs)
        ctx.ucudnn_saved = _layouts(getattr(ctx, "to_save", ()) or ())
        kept.append(ctx.ucudnn_outputs)

    def forward(ctx, *args):
        with _seeing():
            outputs = cls.forward(ctx, *args)
        note(ctx, args, outputs)
        return outputs

    def forward_alone(*args):
        with _seeing():
            return cls.forward(*args)

    def setup_context(ctx, inputs, output):
        with _seeing():
            cls.setup_context(ctx, inputs, output)
        note(ctx, inputs, output)

    def backward(ctx, *gradients):
        found = cls.backward(_Context(ctx), *_seen(gradients, ctx.ucudnn_outputs))
        found = found if isinstance(found, (list, tuple)) else (found,)
        return tuple(_gradient(cls, each, layout) for each, layout in zip(found, ctx.ucudnn_inputs))

    methods = {"backward": staticmethod(backward), "results": kept, "__module__": cls.__module__}
    if torch.autograd.function._is_setup_context_defined(cls.setup_context):
        methods |= {"forward": staticmethod(forward_alone), "setup_context": staticmethod(setup_context)}
    else:
        methods["forward"] = staticmethod(forward)
    return type(cls)(cls.__name__, (cls,), methods)


class ModuleHook(modules.BackwardHook):
    """Full backward hooks of torch.nn.Module, which get the gradients of stripes as stripes."""

    def __init__(self, module, hooks, pre_hooks):
        self.given, self.made = [], []
        super().__init__(module, [self._on_stripes(hook, 2) for hook in hooks],
                         [self._on_stripes(hook, 1) for hook in pre_hooks])

    def _on_stripes(self, hook, count):
        def call(module, *gradients):
            layouts = (self.given, self.made)[2 - count:]
            found = hook(module, *(_seen(each, of) for each, of in zip(gradients, layouts)))
            if found is None:
                return None
            found = found if isinstance(found, tuple) else (found,)
            return tuple(_gradient(hook, each, layout) for each, layout in zip(found, layouts[0]))
        return call

    def setup_input_hook(self, args):
        self.given = _layouts(args)
        return super().setup_input_hook(args)

    def setup_output_hook(self, args):
        self.made = _layouts(args)
        return super().setup_output_hook(args)


def tensor_hook(hook, layout):
    """Returns a function for torch that calls a stripe's `hook`. The function gets a plain gradient; the hook gets a
    stripe."""
    def call(gradient):
        found = hook(*_seen((gradient,), (layout,)))
        return None if found is None else _gradient(hook, found, layout)
    call.may_be_dropped = getattr(hook, "may_be_dropped", False)
    return call
