"""Stripe: the tensor of a rank's rows, which knows which of its dimensions are cut (layout.py). Every function of torch
that is called with a cut tensor either has a rule in this package (RULES) or is refused by name.

A plain tensor, and a Stripe without a cut dimension, are "replicated": the same on every rank of a group. Their
gradients are the same on every rank, too: where a replicated tensor meets a cut one, its gradient is summed over the
ranks (`summed`)."""
import functools
import importlib
import math
import sys
import threading

import torch
from torch._guards import TracingContext
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import CheckpointFunction

from .cells import ranks
from .copies import same, same_operands
from .errors import NotSupported, names_step
from .layout import Layout
from .sizes import Own, flat, whole_of
from .vouched import COMPILED, TRACED, is_named

try:
    from torch._C._dynamo.eval_frame import get_eval_frame_callback
except ImportError:  # this torch does not say whether the running code was compiled
    def get_eval_frame_callback():
        return None

_saved_tensors_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _: None)

RULES = {}
_SIZES = {}  # {rule: its `sizes`}, see `rule`
_HOMES = ("access", "factories", "pointwise", "drawing", "shapes", "indexing", "moves", "reduce", "extremes", "moments",
          "convolution", "pooling", "norm", "padding", "resize", "products", "attention", "losses")
_ENGINE = {function.__code__ for function in (getattr(torch.autograd.graph, "_engine_run_backward", None),
                                              torch.autograd.backward, torch.autograd.grad) if function}
_NAMES = {"axis": "dim", "keepdims": "keepdim"}  # numpy's argument names, which torch accepts as well
# The running modules, outermost first: (name for messages, classes that its model trusts, module).
_where = []
_trusted = set()  # classes that any converted model trusts


class Stripe(torch.Tensor):
    cut = None  # this stripe's Layout

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if way := recorded():
            raise NotSupported(f"{name_of(function)}{place()} {way}")
        if isinstance(function, torch._ops.OpOverload) and _is_of_engine():
            with torch._C.DisableTorchFunction():  # the engine called this function through a dispatch mode
                return function(*args, **(kwargs or {}))
        kwargs = {_NAMES.get(name, name): value for name, value in (kwargs or {}).items() if name != "out" or value is not None}
        if function in (torch.Tensor.backward, torch.autograd.backward):
            return start_backward(*args, **kwargs)
        if function is torch.autograd.grad:
            return start_grad(*args, **kwargs)
        _load()
        first = next((name for name in ("condition", "input") if name in kwargs), None)
        if not args and first:
            args = (kwargs.pop(first),)
        with plainly():
            try:
                return _answer(function, args, kwargs)
            except NotSupported as refusal:
                if getattr(refusal, "is_placed", False):
                    raise
                step = "" if names_step(str(refusal)) else ": run it on the whole tensor, spatial.gather(x)"
                placed = NotSupported(f"{name_of(function)}{place()}: {refusal}{step}")
                placed.is_placed = True
                raise placed from None

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        """Called for operations that bypassed the rules. Allows operations inside a rule (`plainly`), operations of
        torch's backward passes, whose gradients a rule has prepared, and copies of saved tensors by hooks. Refuses all
        others, such as operations of scripts, vmap or torch.func."""
        may_be_saved()
        is_unpacked = function is torch.ops.aten.detach.default and _of_checkpoint_or_here(sys._getframe(1))
        if not plainly.is_on() and not is_unpacked and not _is_of_engine():
            raise NotSupported(f"{function}{place()} reached a stripe past the rules of ucudnn.spatial, from a script, vmap, "
                               "torch.func or a constructor of torch: call it on spatial.gather(x)")
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            result = function(*args, **(kwargs or {}))
        return striped(result, args[0].cut) if is_unpacked and not plainly.is_on() else result


def _is_of_engine():
    """Returns whether torch's autograd engine runs this operation, directly or through a dispatch mode. False if code
    of a program, such as a hook or the backward of its own function, is on the stack in between."""
    if torch._C._current_autograd_node() is None:
        return False
    frame = sys._getframe(1)
    while frame.f_back and frame.f_back.f_code not in _ENGINE:  # in a device's thread, the stack begins inside the engine
        frame = frame.f_back
    return frame.f_code.co_name == "__torch_dispatch__"


def recorded():
    """Returns COMPILED or TRACED, as refusals say it, if the running code is being recorded or was made from a
    recording. Returns None for other code."""
    if torch.jit.is_tracing():
        return TRACED
    return COMPILED if torch.compiler.is_compiling() or get_eval_frame_callback() or TracingContext.try_get() else None


class plainly:
    """A context in which torch sees stripes as plain tensors, so torch calls neither __torch_function__ nor
    __torch_dispatch__. Exception: while a program's TorchDispatchMode is active, such as a counter of operations, the
    mode sees the operations, and Stripe.__torch_dispatch__ allows them."""
    _inside = threading.local()

    @classmethod
    def is_on(cls):
        return getattr(cls._inside, "depth", 0) > 0

    def __enter__(self):
        self.is_seen = torch._C._len_torch_dispatch_stack() > 0
        self.guards = [torch._C.DisableTorchFunction()] + ([] if self.is_seen else [torch._C._DisableTorchDispatch()])
        self._inside.depth = getattr(self._inside, "depth", 0) + self.is_seen
        for guard in self.guards:
            guard.__enter__()

    def __exit__(self, *why):
        for guard in reversed(self.guards):
            guard.__exit__(*why)
        self._inside.depth -= self.is_seen


def may_be_saved():
    """Raises NotSupported if a program's own saved-tensor hooks are active: they would see a rank's rows as a plain
    tensor. torch's own hooks do not change values."""
    hooks = torch.is_grad_enabled() and _saved_tensors_hooks(True)
    if hooks and not (getattr(hooks[0], "__module__", None) or "").startswith("torch."):
        raise NotSupported("torch.autograd.graph.saved_tensors_hooks of a program, which would get this rank's rows of what a "
                           "backward pass needs: use torch's own save_on_cpu or checkpoint")


def _answer(function, args, kwargs):
    rule, values = RULES.get(function), list(flat((args, kwargs)))
    is_cut = any(isinstance(x, Stripe) and x.cut.is_cut for x in values)
    if is_cut:
        may_be_saved()
    sizes = _SIZES.get(rule)
    if not (sizes == "made" or sizes == "own" and is_cut) and any(isinstance(value, Own) for value in values):
        if is_cut and sizes is None:
            number = next(value for value in values if isinstance(value, Own))
            raise NotSupported(f"{number.here} comes of this rank's own rows, and the whole tensor has {number.whole}: "
                               "use spatial.whole_shape(x) for the whole tensor's")
        args, kwargs = whole_of(args), whole_of(kwargs)
    if rule is None and is_cut:
        raise NotSupported("not known to be right on a stripe")
    if is_cut and "out" in kwargs:
        raise NotSupported("out= of a stripe: use the result instead")
    if rule is None or "out" in kwargs or sizes != "made" and not any(isinstance(value, Stripe) for value in values):
        return whole(function(*args, **kwargs), args)
    # Rules in `access` compute nothing, so a single rank may call them.
    if is_cut and rule.__module__ != f"{__package__}.access":
        same_operands(name_of(function), args, kwargs)
    here = ranks()
    if here:
        here.function = function
    try:
        result = rule(function, *args, **kwargs)
    except TypeError as error:
        if error.__traceback__.tb_next:  # the error comes from inside the rule, not from its arguments
            raise
        raise NotSupported(f"arguments that are not known here ({error})") from None
    except AttributeError as error:
        if error.name != "cut":  # rules read `cut` of their first tensor, which a plain tensor lacks
            raise
        raise NotSupported("a stripe meets a plain tensor, for which no rule is known here: shard it, too") from None
    finally:
        if here:
            here.function = None
    if is_cut and any(isinstance(x, torch.Tensor) and not isinstance(x, Stripe) and all(x is not value for value in values)
                      for x in flat(result)):
        raise NotSupported("it would leave a plain tensor, whose rows nobody knows: run it on the whole tensor, "
                           "spatial.gather(x)")
    return result


def to_local(x):
    """Returns this rank's rows of x as a plain tensor. Nothing checks how a program uses that tensor."""
    return _as(x, torch.Tensor) if isinstance(x, Stripe) else x


def _as(x, cls):
    # Modes are off, because a mode could give the result its own class. Gradients are on, because torch refuses
    # in-place writes to a view that was made under no_grad, and the program does not know that this is a view.
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        if x.requires_grad or torch.is_grad_enabled():
            return x.as_subclass(cls)
        with torch.enable_grad():
            return x.as_subclass(cls)


def start_backward(tensors, gradients=None, *args, **named):
    """Starts a backward pass from plain tensors. From a Stripe, torch would run all of it without __torch_function__,
    including parts of the model that a checkpoint runs again."""
    tensors, gradients = _roots(tensors, named.pop("gradient", named.pop("grad_tensors", gradients)))
    torch.autograd.backward(tensors, gradients, *args, **named)


def start_grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
               is_grads_batched=False, materialize_grads=False):
    """Replaces torch.autograd.grad; starts from plain tensors, like start_backward. Gradients of stripes are cut like
    the stripes."""
    if is_grads_batched:
        raise NotSupported("grad with is_grads_batched, which runs a backward pass under vmap: call it for each gradient")
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    with plainly():
        edges = [get_gradient_edge(x) if isinstance(x, Stripe) else x for x in inputs]
    gradients = torch.autograd.grad(*_roots(outputs, grad_outputs, edges), retain_graph=retain_graph, create_graph=create_graph,
                                    allow_unused=materialize_grads if allow_unused is None else allow_unused)
    with plainly():
        if materialize_grads:
            gradients = [torch.zeros_like(_plain(x), requires_grad=True) if gradient is None else gradient
                         for x, gradient in zip(inputs, gradients)]
        return tuple(striped(gradient, x.cut) if isinstance(x, Stripe) and gradient is not None else gradient
                     for x, gradient in zip(inputs, gradients))


def _roots(tensors, gradients, *between):
    """Returns the starting points of a backward pass as plain tensors. A stripe's gradient must be cut like the stripe.
    A plain gradient is accepted only if torch made it for a checkpoint, because otherwise its rows are unknown."""
    pairs = [(x, gradient) for x, gradient in zip(_listed(tensors), _listed(gradients)) if gradient is not None]
    if not _is_of_checkpoint() and any(layout_of(x) != layout_of(gradient) for x, gradient in pairs):
        raise NotSupported("a backward pass from a stripe, with a gradient that is not cut as the stripe is: shard it, too")
    starts = [x for x in _listed(tensors) if not layout_of(x).is_cut]
    if starts and ranks().is_checking:
        same([("what a backward pass starts from", x) for x in starts], "compute the same on all ranks")
    with plainly(), torch.enable_grad():
        return _plain(tensors), *between, _plain(gradients)


def _is_of_checkpoint():
    """Returns whether torch.utils.checkpoint started the backward pass that begins here."""
    frame = sys._getframe(1)
    while _module_of(frame).startswith(__package__):
        frame = frame.f_back
    return _module_of(frame) == CheckpointFunction.__module__


def _of_checkpoint_or_here(frame):
    return _module_of(frame) == CheckpointFunction.__module__ or _module_of(frame).startswith(__package__)


def _module_of(frame):
    return frame.f_globals.get("__name__", "") if frame else ""


def _listed(values):
    return values if isinstance(values, (list, tuple)) else [values]


def _plain(values):
    if isinstance(values, (list, tuple)):
        return [_plain(value) for value in values]
    return to_local(values)


@functools.lru_cache(maxsize=None)
def _load():
    for home in _HOMES:
        importlib.import_module(f"{__package__}.{home}")


def name_of(function):
    return getattr(function, "__name__", None) or str(function)


def place():
    return f" in {_where[-1][0]}" if _where else ""


def running():
    """Returns the innermost running module; None outside of a converted model."""
    return _where[-1][2] if _where else None


def is_weight(x):
    """Returns whether a plain tensor is a parameter, or has all elements of a parameter or buffer of the running model,
    in any shape. Also returns True for a tensor that was computed only from such tensors while the model runs
    (factories.py)."""
    home = x.untyped_storage().data_ptr()
    model = _where[0][2] if _where else torch.nn.Module()
    return isinstance(x, torch.nn.Parameter) or getattr(x, "_ucudnn_is_of_weights", False) or any(
        each.numel() == x.numel() and each.untyped_storage().data_ptr() == home
        for each in (*model.parameters(), *model.buffers()) if not hasattr(each, "full_tensor"))


def is_trusted(name):
    """Returns whether the caller vouches for the class with this full name in the running model. If no model runs, as
    when a checkpoint runs a function again in backward, classes that any converted model trusts count."""
    return is_named(name, _where[-1][1] if _where else _trusted)


def rule(*functions, sizes=None):
    """Decorator that registers a rule for these functions. `sizes` says how the rule treats numbers from a stripe's
    shape (sizes.py). "own": they are sizes, and the rule gets this rank's values. "made": like "own", even if no
    argument is a stripe. "whole": they are operands, and the rule gets the values for the whole image. None: the rule
    refuses them."""
    def register(answer):
        for function in functions:
            RULES[function] = answer
        _SIZES[answer] = sizes
        return answer
    return register


def named(*names, homes=(torch, torch.Tensor, torch.nn.functional, torch._C._nn, torch.special)):
    """Returns the functions with these names in any of the modules `homes`."""
    return {getattr(home, name) for home in homes for name in names if hasattr(home, name)}


def striped(tensor, layout):
    if tensor.ndim != len(layout.dims):
        raise AssertionError(f"{tuple(tensor.shape)} does not fit {layout}")
    for atoms, extent in zip(layout.dims, tensor.shape):
        product = 1
        for _, size in atoms:
            product *= size
        if atoms and product != extent:
            raise AssertionError(f"{tuple(tensor.shape)} does not fit {layout}")
    result = _as(tensor, Stripe)
    result.cut = layout
    return result


def layout_of(tensor):
    if isinstance(tensor, Stripe):
        return tensor.cut
    return Layout([()] * tensor.ndim, {})


def whole(result, args=()):
    """Returns the result of a function of replicated tensors, as replicated Stripes."""
    if isinstance(result, torch.Tensor):
        if any(result is x for x in flat(args)):
            return result
        return striped(result, Layout([()] * result.ndim, {}))
    if isinstance(result, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in result):
        return type(result)(*map(whole, result)) if hasattr(result, "_fields") else type(result)(map(whole, result))
    return result


def count_of(x, dims):
    """Returns the number of elements that the whole tensor has in these dimensions."""
    return math.prod(layout_of(x).whole_extent(dim, x.shape[dim]) for dim in dims)
