"""Sums over ranks, through which gradients flow, and the sums of gradients.

Gradients of parameters are summed over ranks in few sums, each for the parameters of some layers that follow one another.
While a converted model runs, a parameter that meets stripes goes through two functions of autograd: _Ended, made when the
model begins, whose backward torch therefore runs last, and _Begun, made where the first parameter of its group is used,
whose backward runs as soon as all gradients of the group are there. _Begun begins the sum, _Ended waits for it, and what
lies between is computed meanwhile. Whatever happens to a gradient behind _Ended (accumulation, hooks, wrappers) sees the
sum."""
import torch

from .cells import ranks
from .precision import wide_type

MOST = 8  # sums of one pass
LEAST_BYTES = 1 << 20  # of a group, unless there is only one

_pass = {}  # while a model runs: by parameter's id, its group and place there


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, axes):
        ctx.axes = axes
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return _Total.apply(gradient, ctx.axes), None


class _Total(torch.autograd.Function):
    """The transpose of _Summed."""

    @staticmethod
    def forward(ctx, x, axes):
        ctx.axes = axes
        own = x.to(wide_type(x.dtype), copy=True, memory_format=torch.contiguous_format)
        return ranks().all_reduce(own, axes).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return _Summed.apply(gradient, ctx.axes), None


def summed(x, axes):
    """x, replicated along `axes`, where it meets what is cut along them. Its incoming gradient is summed, not a
    gradient that was accumulated before."""
    if not axes or not isinstance(x, torch.Tensor) or not (x.requires_grad and torch.is_grad_enabled()):
        return x
    ranks().note(x.shape, axes)
    group, place = _pass.get(id(x), (None, 0))
    return group.use(place) if group and group.axes == tuple(axes) else _Summed.apply(x, tuple(axes))


def total(x, axes):
    """The sum of all ranks' x: replicated, as its gradient is then."""
    return _Total.apply(x, tuple(axes)) if axes else x


def greatest(x, axes):
    """The largest of all ranks' x, which is NaN where any is: torch.distributed's own maximum over gloo would lose it."""
    return ranks().all_gather(x, axes).amax(0) if axes else x


def least(x, axes):
    return ranks().all_gather(x, axes).amin(0) if axes else x


class _Group:
    """Parameters whose gradients are summed together over the ranks that differ along `axes`."""

    def __init__(self, parameters, axes):
        self.axes, self._begun, self._pieces, self._wait = axes, None, [], None
        self._parameters = _Ended.apply(self, *parameters)

    def use(self, place):
        if self._begun is None:
            self._begun = _Begun.apply(self, *self._parameters)
        return self._begun[place]

    def begin(self, gradients):
        """Begins the sum of those that are not None, in the order of the parameters."""
        given = [gradient for gradient in gradients if gradient is not None]
        self._pieces = [None if gradient is None else (gradient.shape, gradient.dtype) for gradient in gradients]
        if given:
            wide = wide_type(given[0].dtype)
            self._wait = ranks().begin_sum(torch.cat([gradient.reshape(-1).to(wide) for gradient in given]), self.axes)

    def end(self):
        """The sums, in the order of the parameters."""
        wait, self._wait, at = self._wait, None, 0
        summed = wait and wait()
        for piece in self._pieces:
            if piece is None:
                yield None
                continue
            shape, dtype = piece
            yield summed[at:at + shape.numel()].view(shape).to(dtype).data  # not a view of what torch would keep
            at += shape.numel()


class _Ended(torch.autograd.Function):
    @staticmethod
    def forward(ctx, group, *parameters):
        ctx.group = group
        ctx.set_materialize_grads(False)
        return tuple(x.view_as(x) for x in parameters)

    @staticmethod
    def backward(ctx, *gradients):
        return None, *(gradients if torch.is_grad_enabled() else ctx.group.end())


class _Begun(torch.autograd.Function):
    forward = _Ended.forward

    @staticmethod
    def backward(ctx, *gradients):
        group = ctx.group
        if torch.is_grad_enabled():  # gradients flow through these: each by itself
            return None, *(None if each is None else total(each, group.axes) for each in gradients)
        group.begin(gradients)
        return None, *(None if each is None else torch.zeros((), dtype=each.dtype, device=each.device).expand(each.shape)
                       for each in gradients)  # _Ended looks at none of them


def own(parameters):
    """Of a model that is converted. What takes their place later on, as FSDP's whole parameters do, is looked at before a
    backward pass has ended."""
    for x in parameters:
        x._ucudnn_is_own = True


def _may_wait(x):
    return x.requires_grad and x.is_leaf and not x._backward_hooks and getattr(x, "_ucudnn_is_own", False)


def _groups(parameters):
    """At most MOST lists of parameters that follow one another, of about the same size."""
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
    """A pass of a model, in which gradients are recorded."""
    end()
    if not torch.is_grad_enabled() or torch._C._current_autograd_node() is not None:
        return
    axes = ranks().grid.cut_axes
    for members in _groups([x for x in model.parameters() if _may_wait(x)]):
        group = _Group(members, axes)
        _pass.update((id(x), (group, place)) for place, x in enumerate(members))


def end():
    """Groups keep no tensors behind a pass, which keep them: nobody would see that such a ring is garbage."""
    for group, _ in _pass.values():
        group._parameters = group._begun = None
    _pass.clear()
