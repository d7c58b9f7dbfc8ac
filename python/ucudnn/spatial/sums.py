"""Differentiable sums over ranks, and sums of gradients.

Gradients of parameters are summed over ranks in a few groups, each for the parameters of some consecutive layers. While
a converted model runs, two autograd functions stand between a parameter and its uses on stripes. When the model begins,
all parameters of a group go through _Ended, so torch runs _Ended's backward last. The first use of a parameter sends
its whole group through _Begun. _Begun's backward runs as soon as the group's gradients exist, and starts the sum.
_Ended's backward waits for the sum, and layers in between are computed meanwhile. Accumulation and hooks of a parameter
come after _Ended's backward, so they see the sum.

Parameters that already have hooks, and parameters of FSDP and DistributedDataParallel, are in no group: the gradient of
each of their uses is summed separately."""
import torch
from torch.nn.parallel import DistributedDataParallel

from .cells import ranks
from .precision import wide_type

MOST = 8  # groups in one pass
LEAST_BYTES = 1 << 20  # smallest size of a group, unless it is the only one

_pass = {}  # {id of parameter: (its group, its place in the group)} while a model runs


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, axes):
        ctx.axes = axes
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return _Total.apply(gradient, ctx.axes), None


class _Total(torch.autograd.Function):
    """Sums x over ranks; the transpose of _Summed."""

    @staticmethod
    def forward(ctx, x, axes):
        ctx.axes = axes
        own = x.to(wide_type(x.dtype), copy=True, memory_format=torch.contiguous_format)
        return ranks().all_reduce(own, axes).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return _Summed.apply(gradient, ctx.axes), None


def summed(x, axes):
    """Returns x, which is replicated along `axes`, for use with a tensor that is cut along them. The gradient of this
    use is summed over the ranks; gradients accumulated earlier are not."""
    if not axes or not isinstance(x, torch.Tensor) or not (x.requires_grad and torch.is_grad_enabled()):
        return x
    cut = getattr(x, "cut", None)
    ranks().note(x.shape if cut is None else map(cut.whole_extent, range(x.ndim), x.shape), axes)
    group, place = _pass.get(id(x), (None, 0))
    return group.use(x, place) if group and group.axes == tuple(axes) else _Summed.apply(x, tuple(axes))


def total(x, axes):
    """Returns the sum of x over ranks. The sum is replicated, and so is its gradient."""
    return _Total.apply(x, tuple(axes)) if axes else x


def greatest(x, axes):
    """Returns the maximum of x over ranks, or NaN if any value is NaN. (torch.distributed's maximum over gloo would
    drop NaN.)"""
    return ranks().all_gather(x, axes).amax(0) if axes else x


def least(x, axes):
    return ranks().all_gather(x, axes).amin(0) if axes else x


class _Group:
    """Parameters whose gradients are summed together over the ranks that differ along `axes`. Each parameter has a
    token, a tensor of the parameter's shape without memory. The token's gradient is the parameter's gradient, even if
    the parameter's values have changed since the model began."""

    def __init__(self, parameters, axes):
        self.axes, self._begun, self._sums = axes, None, []
        self._ended = _Ended.apply(self, *parameters)

    def use(self, x, place):
        if self._begun is None:
            self._begun = _Begun.apply(self, *self._ended)
        return _Used.apply(x.detach(), self._begun[place])

    def begin(self, gradients):
        """Begins the sum of the gradients, given in the order of the parameters; None entries are left out."""
        given = [gradient for gradient in gradients if gradient is not None]
        wait = None
        if given:
            wide = wide_type(given[0].dtype)
            wait = ranks().begin_sum(torch.cat([gradient.reshape(-1).to(wide) for gradient in given]), self.axes)
        pieces = [None if gradient is None else (gradient.shape, gradient.dtype) for gradient in gradients]
        self._sums.append((wait, pieces))

    def end(self):
        """Waits for the sum that was begun last. Yields the summed gradients in the order of the parameters."""
        wait, pieces = self._sums.pop()
        at, summed = 0, wait and wait()
        for piece in pieces:
            if piece is None:
                yield None
                continue
            shape, dtype = piece
            # `.data`, so that autograd does not treat the result as a view of `summed`.
            yield summed[at:at + shape.numel()].view(shape).to(dtype).data
            at += shape.numel()

    def close(self):
        """Drops the tokens after a pass. Their autograd graph refers to this group, and Python's garbage collector
        cannot find a cycle through autograd."""
        self._ended = self._begun = None


def _token(x):
    return torch.zeros((), dtype=x.dtype, device=x.device).expand(x.shape)


class _Ended(torch.autograd.Function):
    @staticmethod
    def forward(ctx, group, *parameters):
        ctx.group = group
        ctx.set_materialize_grads(False)
        return tuple(map(_token, parameters))

    @staticmethod
    def backward(ctx, *gradients):
        return None, *(gradients if torch.is_grad_enabled() else ctx.group.end())


class _Begun(torch.autograd.Function):
    forward = _Ended.forward

    @staticmethod
    def backward(ctx, *gradients):
        group = ctx.group
        if torch.is_grad_enabled():  # with create_graph, sums must be differentiable, so each gradient is summed separately
            return None, *(None if each is None else total(each, group.axes) for each in gradients)
        group.begin(gradients)
        return None, *(None if each is None else _token(each) for each in gradients)  # _Ended ignores these values


class _Used(torch.autograd.Function):
    """Returns a parameter with its present value; its gradient goes to the token."""

    @staticmethod
    def forward(ctx, x, token):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient


def own(parameters):
    """Marks the parameters of a converted model. FSDP later replaces them with parameters that are not marked. This is
    intended, because FSDP reads gradients before _Ended's backward has run."""
    for x in parameters:
        x._ucudnn_is_own = True


def _may_wait(x):
    """Returns whether nothing reads the parameter's gradient before _Ended's backward has run."""
    hooks = x._backward_hooks or getattr(x, "_post_accumulate_grad_hooks", None)
    return x.requires_grad and x.is_leaf and not hooks and getattr(x, "_ucudnn_is_own", False)


def _groups(parameters):
    """Returns at most MOST lists of consecutive parameters, of about the same size."""
    kinds = {}
    for x in parameters:
        kinds.setdefault((x.device, wide_type(x.dtype)), []).append(x)
    most = max(MOST // len(kinds), 1) if kinds else 0
    for members in kinds.values():
        found, before = {}, 0
        share = max(sum(x.nbytes for x in members) / most, LEAST_BYTES)
        for x in members:
            found.setdefault(min(int((before + x.nbytes / 2) / share), most - 1), []).append(x)
            before += x.nbytes
        yield from found.values()


def begin(model):
    """Begins a pass of a model that records gradients. Makes no groups under DistributedDataParallel, which asks the
    graph which parameters are used and waits for each of them."""
    end()
    if not torch.is_grad_enabled() or torch._C._current_autograd_node() is not None or \
            getattr(DistributedDataParallel, "_active_ddp_module", None) is not None:
        return
    axes = ranks().grid.cut_axes
    for members in _groups([x for x in model.parameters() if _may_wait(x)]):
        group = _Group(members, axes)
        _pass.update((id(x), (group, place)) for place, x in enumerate(members))


def end():
    for group, _ in _pass.values():
        group.close()
    _pass.clear()
