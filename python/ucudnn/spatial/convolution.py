"""Convolutions. If padding and outputs allow it, a call that torch gives to cuDNN stays a call of cuDNN on a stripe,
and ucudnn exchanges rows inside it. For all other calls, rows are fetched here first (backends.py)."""
import torch

from .backends import REFUSE, UCUDNN, route
from .errors import NotSupported
from .geometry import Window, transposed_windows
from .grid import owned
from .halo import fetch
from .layout import Layout
from .pointwise import parameter, uncut
from .cells import ranks
from .precision import lowered
from .stripe import plainly, rule, striped
from .windows import check, extend, in_rows, of_batches, output_layout, read, spatial_dims, tuple_of


class _Own(torch.autograd.Function):
    """A call of cuDNN on rows that were already fetched, forward and backward. It is declared the rank's own, so
    libucudnn exchanges nothing inside it, and ranks may have different numbers of rows. The declaration is per thread,
    so it is made again in backward, which may run in another thread."""

    @staticmethod
    def forward(ctx, x, weight, bias, arguments):
        ctx.save_for_backward(x, weight)
        ctx.arguments, ctx.bias = arguments, None if bias is None else list(bias.shape)
        with _unsplit():
            return torch.convolution(x, weight, bias, *arguments)

    @staticmethod
    def backward(ctx, gradient):
        wanted = [*ctx.needs_input_grad[:2], ctx.bias is not None and ctx.needs_input_grad[2]]
        return *_OwnBackward.apply(gradient, *ctx.saved_tensors, ctx.bias, ctx.arguments, wanted), None


class _OwnBackward(torch.autograd.Function):
    """The backward pass of _Own. Its own backward gives second-order gradients: torch differentiates torch's function
    convolution_backward."""

    @staticmethod
    def forward(ctx, gradient, x, weight, *arguments):
        ctx.save_for_backward(gradient, x, weight)
        ctx.arguments = arguments
        return _own_backward(gradient, x, weight, *arguments)

    @staticmethod
    def backward(ctx, *gradients):
        if torch.is_grad_enabled():
            raise NotSupported("gradients of third order through a convolution of cuDNN")
        saved = ctx.saved_tensors
        with torch.enable_grad(), plainly():
            inputs = [tensor.detach().requires_grad_() for tensor in saved]
            outputs = _own_backward(*inputs, *ctx.arguments)
        outputs, gradients = zip(*[pair for pair in zip(outputs, gradients) if pair[0] is not None])
        with _unsplit():
            return *torch.autograd.grad(outputs, inputs, gradients, allow_unused=True), None, None, None


def _own_backward(gradient, x, weight, bias, arguments, wanted):
    with _unsplit(), plainly():
        return torch.ops.aten.convolution_backward(gradient, x, weight, bias, *arguments, wanted)


class _unsplit:
    def __enter__(self):
        ranks().geometry.split_thread(False)

    def __exit__(self, *_):
        ranks().geometry.split_thread(True)


def _backend(x, weight, bias, arguments):
    return torch._C._select_conv_backend(x, weight, bias, *arguments).name


def _operands(x, layout, weight, bias):
    """Returns the operands of a convolution whose result has `layout`. The casts of autocast come after `parameter`, so
    gradients are summed before they are rounded."""
    weight, bias = (parameter(value, layout) for value in (weight, bias))
    own, (x, weight, bias) = x.cut, lowered(x, weight, bias)
    return striped(x, own), weight, bias


class _Split(torch.autograd.Function):
    """A call inside which ucudnn exchanges rows, forward and backward. With create_graph, torch would differentiate the
    backward by calls of cuDNN that ucudnn could not split. So the backward of `fetched` runs instead. `fetched` is a
    function of the same inputs with the same result, but fetches rows first."""

    @staticmethod
    def forward(ctx, x, weight, bias, layout, arguments, fetched):
        ctx.save_for_backward(x, weight, bias)
        ctx.arguments = layout, arguments, fetched
        return torch.convolution(x, weight, bias, *arguments)

    @staticmethod
    def backward(ctx, gradient):
        (x, weight, bias), wanted = ctx.saved_tensors, ctx.needs_input_grad[:3]
        layout, arguments, fetched = ctx.arguments
        with plainly():
            if torch.is_grad_enabled():
                inputs = [each for each, is_wanted in zip((x, weight, bias), wanted) if is_wanted]
                found = iter(torch.autograd.grad(fetched(striped(x, layout), weight, bias), inputs, gradient, create_graph=True))
                gradients = [next(found) if is_wanted else None for is_wanted in wanted]
            else:
                shape = None if bias is None else list(bias.shape)
                gradients = torch.ops.aten.convolution_backward(gradient, x, weight, shape, *arguments, wanted)
        return *gradients, None, None, None


def _split(x, weight, bias, arguments, fetched):
    ranks().sum_alone()
    return _Split.apply(x, weight, bias, x.cut, arguments, fetched)


def _run(x, weight, bias, arguments):
    """Runs a convolution on complete rows; nothing is exchanged."""
    if x.is_cuda and _backend(x, weight, bias, arguments) in ("Cudnn", "CudnnTranspose"):
        return _Own.apply(x, weight, bias, arguments)
    return torch.convolution(x, weight, bias, *arguments)


def _routed(x, weight, bias, arguments, is_aligned):
    """Returns the route, the same on every rank. Asks torch for its backend with the largest stripe's shape, plus a
    window so that there is an output."""
    shape = list(x.shape)
    for axis, i in spatial_dims(x, weight.ndim - 2).items():
        shape[2 + i] = max(x.cut.extents[axis]) + arguments[2][i] * weight.shape[2 + i]
    is_last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    like = torch.empty(shape, dtype=x.dtype, device=x.device,
                       memory_format=torch.channels_last if is_last else torch.contiguous_format)
    backend = _backend(like, weight, bias, arguments)
    answer = route(backend, x.is_cuda, is_aligned)
    if answer == REFUSE:
        raise NotSupported(f"torch computes this convolution with {backend}, which is not known here")
    return answer


def _paddings(padding, window_extents, stride):
    """Returns (before, after) rows of padding for each axis."""
    if padding == "valid":
        return [(0, 0)] * len(window_extents)
    if padding == "same":
        return [((extent - 1) // 2, extent - 1 - (extent - 1) // 2) for extent in window_extents]
    return [(pad, pad) for pad in tuple_of(padding, len(stride))]


@rule(torch.conv1d, torch.conv2d, torch.conv3d)
@of_batches
def _convolution(function, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    count = uncut(weight).ndim - 2
    stride, dilation = tuple_of(stride, count), tuple_of(dilation, count)
    x = in_rows(x)
    windows = [Window(k, s, 0, d) for k, s, d in zip(weight.shape[2:], stride, dilation)]
    pads = _paddings(padding, [window.extent for window in windows], stride)
    if x.cut.is_cut:
        plans = {axis: read(x, axis, windows[i], *pads[i]) for axis, i in spatial_dims(x, count).items()}
    else:
        plans = {}
    aligned = all(front == back for front, back in pads) and not any(axis in x.cut.pads for axis in plans) and \
        all(plan.is_own_call for plan in plans.values())
    layout = output_layout(x, plans)
    x, weight, bias = _operands(x, layout, weight, bias)
    arguments = [list(stride), [front for front, _ in pads], list(dilation), False, [0] * count, groups]

    def fetched(x, weight, bias):
        rows, fill, padded = extend(x, plans), [], list(arguments[1])
        cut = set(spatial_dims(x, count).values()) if plans else set()
        for i, (front, back) in enumerate(pads):
            padded[i] = 0 if i in cut else min(front, back)
            fill = [0, 0] + fill if i in cut else [front - padded[i], back - padded[i]] + fill
        if any(fill):
            rows = torch.nn.functional.pad(rows, fill)
        return _run(rows, weight, bias, [arguments[0], padded, *arguments[2:]])
    if plans and _routed(x, weight, bias, arguments, aligned) == UCUDNN:
        result = _split(x, weight, bias, arguments, fetched)
    else:
        result = fetched(x, weight, bias)
    check(result, layout, plans)
    return striped(result, layout)


@rule(torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)
@of_batches
def _transposed(function, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    count = uncut(weight).ndim - 2
    stride, padding, dilation, more = (tuple_of(value, count) for value in (stride, padding, dilation, output_padding))
    x = in_rows(x)
    plans, changed, aligned = {}, {}, True
    for axis, i in (spatial_dims(x, count).items() if x.cut.is_cut else ()):
        if axis in x.cut.pads:
            raise NotSupported("a transposed convolution of what was padded along a cut axis")
        window = Window(weight.shape[2 + i], stride[i], padding[i], dilation[i])
        outputs, needed = transposed_windows(ranks().geometry, axis, window, x.cut.extents[axis], more[i])
        plans[axis] = i, outputs, needed
        aligned = aligned and outputs == tuple(extent * stride[i] for extent in x.cut.extents[axis])
        changed[axis] = outputs, outputs[ranks().part(axis)]
    layout = x.cut.with_extents(changed)
    x, weight, bias = _operands(x, layout, weight, bias)
    arguments = [list(stride), list(padding), list(dilation), True, list(more), groups]

    def fetched(x, weight, bias):
        rows, cuts, padded, added = x, [], list(padding), list(more)
        for axis, (i, outputs, needed) in plans.items():
            rows = fetch(rows, 2 + i, axis, x.cut.extents[axis], needed)
            padded[i] = added[i] = 0
            part = ranks().part(axis)
            # result[0] is the first output of the window of the first needed row, at position stride * row - padding of
            # the whole result.
            cuts.append((2 + i, owned(outputs)[part][0] - (stride[i] * needed[part][0] - padding[i]), outputs[part]))
        result = _run(rows, weight, bias, [arguments[0], padded, *arguments[2:4], added, groups])
        for dim, begin, extent in cuts:
            before, behind = max(0, -begin), max(0, begin + extent - result.shape[dim])
            if before or behind:  # positions that no window covers: output padding, or strides larger than windows
                fill = [0, 0] * (result.ndim - 1 - dim) + [before, behind]
                result = torch.nn.functional.pad(result, fill)
                if bias is not None:
                    ends = torch.ones(result.shape[dim], dtype=result.dtype, device=result.device)
                    ends[before:result.shape[dim] - behind] = 0
                    shape = [1] * result.ndim
                    shape[dim] = -1
                    result = result + ends.view(shape) * bias.view([1, -1] + [1] * count)
            result = result.narrow(dim, begin + before, extent)
        return result
    if plans and _routed(x, weight, bias, arguments, aligned) == UCUDNN:
        return striped(_split(x, weight, bias, arguments, fetched), layout)
    return striped(fetched(x, weight, bias), Layout(layout.dims, layout.extents))
