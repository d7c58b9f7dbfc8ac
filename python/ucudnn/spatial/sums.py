"""Sums over ranks, through which gradients flow, and the sums of gradients.

Gradients of parameters are summed over ranks in few sums, each for the parameters of some consecutive layers. While a
converted model runs, two functions of autograd stand between a parameter and its uses on stripes. All parameters of the
groups go through _Ended when the model begins, so torch runs its backward last; the first use of a parameter of a group
sends the whole group through _Begun, whose backward runs as soon as their gradients exist. _Begun begins the sum,
_Ended waits for it, and the layers in between are computed meanwhile. Operations on a gradient behind _Ended
(accumulation, hooks) see the sum. Parameters that already have hooks, and those of FSDP and DistributedDataParallel,
are in no group: the gradient of each of their uses is summed by itself."""
import torch
from torch.nn.parallel import DistributedDataParallel

from .cells import ranks
from .precision import wide_type

MOST = 8  # sums of one pass
LEAST_BYTES = 1 << 20  # of a group, unless it is the only one

_pass = {}  # while a model runs: the group of each parameter, and its place there, by the parameter's id


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
    """Returns x, which is replicated along `axes`, for use with a tensor that is cut along them. The gradient that comes back
    through this use is summed over the ranks; a gradient that was accumulated before is not."""
    if not axes or not isinstance(x, torch.Tensor) or not (x.requires_grad and torch.is_grad_enabled()):
        return x
    cut = getattr(x, "cut", None)
    ranks().note(x.shape if cut is None else map(cut.whole_extent, range(x.ndim), x.shape), axes)
    group, place = _pass.get(id(x), (None, 0))
    return group.use(x, place) if group and group.axes == tuple(axes) else _Summed.apply(x, tuple(axes))


def total(x, axes):
    """Returns the sum of all ranks' x. It is replicated, and so is its gradient."""
    return _Total.apply(x, tuple(axes)) if axes else x


def greatest(x, axes):
    """Returns the largest of all ranks' x, or NaN if any is NaN: torch.distributed's own maximum over gloo would lose
    that."""
    return ranks().all_gather(x, axes).amax(0) if axes else x


def least(x, axes):
    return ranks().all_gather(x, axes).amin(0) if axes else x


class _Group:
    """Parameters whose gradients are summed together over the ranks that differ along `axes`. Their tokens have their
    shapes and no values: the gradient of a token is the gradient of its parameter, even if the parameter's values have
    changed since the model began."""

    def __init__(self, parameters, axes):
        self.axes, self._begun, self._sums = axes, None, []
        self._ended = _Ended.apply(self, *parameters)

    def use(self, x, place):
        if self._begun is None:
            self._begun = _Begun.apply(self, *self._ended)
        return _Used.apply(x.detach(), self._begun[place])

    def begin(self, gradients):
        """Begins the sum of the gradients that are not None, in the order of the parameters."""
        given = [gradient for gradient in gradients if gradient is not None]
        wait = None
        if given:
            wide = wide_type(given[0].dtype)
            wait = ranks().begin_sum(torch.cat([gradient.reshape(-1).to(wide) for gradient in given]), self.axes)
        pieces = [None if gradient is None else (gradient.shape, gradient.dtype) for gradient in gradients]
        self._sums.append((wait, pieces))

    def end(self):
        """Returns the sums that were begun last, in the order of the parameters."""
        wait, pieces = self._sums.pop()
        at, summed = 0, wait and wait()
        for piece in pieces:
            if piece is None:
                yield None
                continue
            shape, dtype = piece
            # With `.data`, autograd does not take the result for a view of `summed`.
            yield summed[at:at + shape.numel()].view(shape).to(dtype).data
            at += shape.numel()

    def close(self):
        """Drops the tokens after a pass. Their graph refers to the group, and Python's collector cannot see a cycle through
        autograd."""
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
        if torch.is_grad_enabled():  # with create_graph sums must be differentiable, so each gradient is summed alone
            return None, *(None if each is None else total(each, group.axes) for each in gradients)
        group.begin(gradients)
        return None, *(None if each is None else _token(each) for each in gradients)  # _Ended reads none of the values


class _Used(torch.autograd.Function):
    """A parameter with its present value, whose gradient is its token's."""

    @staticmethod
    def forward(ctx, x, token):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient


def own(parameters):
    """Marks the parameters of a converted model. Parameters that FSDP puts in their place are not marked: FSDP reads
    their gradients before _Ended has run."""
    for x in parameters:
        x._ucudnn_is_own = True


def _may_wait(x):
    """Returns whether nothing reads a parameter's gradient before _Ended has run."""
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
    """Begins a pass of a model, in which gradients are recorded. DistributedDataParallel asks the graph which
    parameters are used, and waits for each of them, so it has no groups."""
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
