"""Pooling. Windows that cross a cut read rows of the next stripe. Pooling to a fixed number of windows (adaptive,
global) gives a replicated result."""
import torch
from torch.nn import functional

from .errors import NotSupported
from .geometry import Read, Window
from .grid import AXES, owned
from .layout import Layout
from .cells import ranks
from .extremes import FAR, first_largest
from .precision import wide, wide_type
from .reduce import mean, whole_shape
from .stripe import rule, striped
from .sums import total
from .windows import check, extend, in_rows, of_batches, output_layout, read, spatial_dims, tuple_of


def _outputs(extent, window, pad, ceil_mode):
    """Returns the number of windows, as torch counts them. With ceil_mode a window may extend beyond the image, but
    must begin inside of the image or its front padding."""
    rows = extent + 2 * pad - window.extent
    if not ceil_mode:
        return rows // window.stride + 1
    count = -(-rows // window.stride) + 1
    return count - ((count - 1) * window.stride >= extent + pad)


def _slid(extent, window, pad, ceil_mode):
    """Returns [begin, end) of the rows that each window reads along an axis."""
    begins = [i * window.stride - pad for i in range(_outputs(extent, window, pad, ceil_mode))]
    return [(max(0, begin), min(extent, begin + window.extent)) for begin in begins]


def _plans(x, windows, pads, ceil_mode):
    plans = {}
    for axis, i in spatial_dims(x, len(windows)).items():
        count = _outputs(sum(x.cut.extents[axis]), windows[i], pads[i], ceil_mode)
        plans[axis] = _read(x, axis, windows[i], pads[i], count)
        if count != sum(plans[axis].outputs):
            raise NotSupported(f"{AXES[axis]}: {sum(plans[axis].outputs)} windows are not {count}")
    return plans


def _read(x, axis, window, pad, count):
    """Returns the Read of `count` windows. With ceil_mode, the last window may extend beyond the end, which counts as
    more padding behind the image. If the windows cannot be cut with that padding, the Read is made without the last
    window, which is then added to the last part."""
    extent = sum(x.cut.extents[axis])
    behind = (count - 1) * window.stride + window.extent - extent - pad
    if behind <= pad:
        return read(x, axis, window, pad, pad)
    try:
        return read(x, axis, window, pad, behind)
    except NotSupported:
        found = read(x, axis, window, pad, pad)
    last = found.reads[-1][0], found.reads[-1][1] + window.stride
    needed = found.needed[-1][0], min(last[1], extent)
    return Read((*found.outputs[:-1], found.outputs[-1] + 1), (*found.reads[:-1], last), (*found.needed[:-1], needed), False)


def _covers(x, kernel, pads):
    """Returns whether a single window covers every cut axis, as in programs that use x.shape as the kernel size."""
    dims = spatial_dims(x, len(kernel))
    return bool(dims) and all(kernel[i] == sum(x.cut.extents[axis]) and not pads[i] for axis, i in dims.items())


@rule(torch.max_pool1d, torch.max_pool2d, torch.max_pool3d, functional.max_pool1d, functional.max_pool2d,
      functional.max_pool3d, sizes="whole")
@of_batches
def _max_pool(function, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    x, count = in_rows(x), x.ndim - 2
    if return_indices:
        raise NotSupported("indices of maxima, which count the rank's own rows")
    kernel = tuple_of(kernel_size, count)
    stride = kernel if stride is None or stride == [] else tuple_of(stride, count)
    pads, dilation = tuple_of(padding, count), tuple_of(dilation, count)
    if _covers(x, kernel, pads) and set(dilation) == {1}:
        return _largest(x, [_slid(extent, Window(k, s), pad, ceil_mode)
                            for extent, k, s, pad in zip(whole_shape(x)[2:], kernel, stride, pads)])
    windows = [Window(k, s, 0, d) for k, s, d in zip(kernel, stride, dilation)]
    plans = _plans(x, windows, pads, ceil_mode)
    cut = set(spatial_dims(x, count).values())
    rest = tuple(0 if i in cut else pad for i, pad in enumerate(pads))
    result = function(extend(x, plans, float("-inf")), kernel, stride, rest, dilation, ceil_mode)
    layout = output_layout(x, plans)
    check(result, layout, plans)
    return striped(result, layout)


def _counts(x, axis, plan, window, pad):
    """Returns, for each window of this rank along a cut axis, how many rows it reads, including up to `pad` rows of
    padding at each end."""
    part, extent = ranks().part(axis), sum(x.cut.extents[axis])
    begin = torch.arange(plan.outputs[part]) * window.stride + plan.reads[part][0]
    return (begin + window.filter).clamp(max=extent + pad) - begin.clamp(min=-pad)


@rule(functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d, sizes="whole")
@of_batches
def _avg_pool(function, x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
              divisor_override=None):
    x, count = in_rows(x), x.ndim - 2
    kernel = tuple_of(kernel_size, count)
    stride = kernel if stride is None or stride == [] else tuple_of(stride, count)
    pads = tuple_of(padding, count)
    if _covers(x, kernel, pads) and divisor_override is None:
        dims = sorted(2 + i for i in spatial_dims(x, count).values())  # torch pools the other dimensions
        whole = mean(None, x, dims, True, dtype=wide_type(x.dtype))
        kernel = [1 if 2 + i in dims else extent for i, extent in enumerate(kernel)]
        return striped(function(whole, kernel, stride, pads, ceil_mode, count_include_pad).to(x.dtype), whole.cut)
    windows = [Window(k, s) for k, s in zip(kernel, stride)]
    plans = _plans(x, windows, pads, ceil_mode)
    dims = spatial_dims(x, count)
    rest = tuple(0 if i in dims.values() else pad for i, pad in enumerate(pads))
    is_scaled = (ceil_mode or not count_include_pad) and divisor_override is None
    rows = wide(extend(x, plans)) if is_scaled else extend(x, plans)
    if count == 1:
        result = function(rows, kernel, stride, rest, ceil_mode, count_include_pad)
    else:
        result = function(rows, kernel, stride, rest, ceil_mode, count_include_pad, divisor_override)
    layout = output_layout(x, plans)
    check(result, layout, plans)
    for axis, i in dims.items() if is_scaled else ():
        counts = _counts(x, axis, plans[axis], windows[i], pads[i] if count_include_pad else 0)
        result = result * (windows[i].filter / counts.to(result)).view([-1] + [1] * (count - 1 - i))
    return striped(result.to(x.dtype), layout)


def _adaptive_windows(extent, outputs):
    return [(i * extent // outputs, -(-(i + 1) * extent // outputs)) for i in range(outputs)]


def _adaptive_sizes(x, output_size, count):
    sizes = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * count
    dims = spatial_dims(x, count)
    native = [x.shape[2 + i] if size is None or i in dims.values() else size for i, size in enumerate(sizes)]
    return {axis: (i, sizes[i]) for axis, i in dims.items() if sizes[i] is not None}, native


def _without(x, axes, result):
    dims = [() if set(x.cut.axes_of(dim)) & set(axes) else atoms for dim, atoms in enumerate(x.cut.dims)]
    return striped(result, Layout(dims, x.cut.extents))


@rule(functional.adaptive_avg_pool1d, functional.adaptive_avg_pool2d, functional.adaptive_avg_pool3d)
@of_batches
def _adaptive_avg(function, x, output_size):
    """Along a cut axis, each rank adds up its own weighted rows for every window, then ranks add their sums."""
    x, count = in_rows(x), x.ndim - 2
    pooled, native = _adaptive_sizes(x, output_size, count)
    if output_size == 1 or isinstance(output_size, (list, tuple)) and set(output_size) == {1}:
        return mean(None, x, list(range(2, x.ndim)), True)
    with torch.autocast(x.device.type, enabled=False):
        result = _weighted(function, wide(x), x.cut, pooled, native)
    return _without(x, pooled, total(result, tuple(sorted(pooled))).to(x.dtype))


def _weighted(function, x, layout, pooled, native):
    """Returns the means over windows: along cut axes only what this rank's rows contribute to the means, along other
    axes complete means."""
    result = x if native == list(x.shape[2:]) else function(x, native)
    for axis, (i, size) in pooled.items():
        extents = layout.extents[axis]
        begin, end = owned(extents)[ranks().part(axis)]
        weights = torch.zeros(size, end - begin, dtype=x.dtype, device=x.device)
        for output, (first, last) in enumerate(_adaptive_windows(sum(extents), size)):
            weights[output, max(first, begin) - begin:max(0, min(last, end) - begin)] = 1 / (last - first)
        result = torch.movedim(torch.movedim(result, 2 + i, -1) @ weights.t(), -1, 2 + i)
    return result


@rule(torch.adaptive_max_pool1d, functional.adaptive_max_pool2d, functional.adaptive_max_pool3d,
      functional.adaptive_max_pool1d, *(getattr(torch._C._nn, f"adaptive_max_pool{n}d") for n in (2, 3)))
@of_batches
def _adaptive_max(function, x, output_size, return_indices=False):
    if return_indices:
        raise NotSupported("indices of maxima, which count the rank's own rows")
    x, count = in_rows(x), x.ndim - 2
    pooled, _ = _adaptive_sizes(x, output_size, count)
    sizes = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * count
    if set(pooled) != set(spatial_dims(x, count)):
        raise NotSupported(f"an output size of {sizes} that leaves a cut axis as it is")
    return _largest(x, [_adaptive_windows(extent, size or extent) for extent, size in zip(whole_shape(x)[2:], sizes)])


def _largest(x, windows):
    """Returns the largest value of each window, the same on every rank. `windows`: for each axis, a list of [begin,
    end) in the whole image."""
    # Index of each element in the whole image, in row-major order.
    place, spans = torch.zeros([1] * len(windows), dtype=torch.int64, device=x.device), []
    dims = spatial_dims(x, len(windows))
    begins, axes = {2 + i: owned(x.cut.extents[axis])[ranks().part(axis)][0] for axis, i in dims.items()}, tuple(sorted(dims))
    for i, (extent, found) in enumerate(zip(whole_shape(x)[2:], windows)):
        begin = begins.get(2 + i, 0)
        along = torch.arange(begin, begin + x.shape[2 + i], device=x.device)
        place = place * extent + along.view([-1] + [1] * (len(windows) - 1 - i))
        spans.append((begin, begin + x.shape[2 + i], found))
    return _without(x, axes, first_largest(*_window_maxima(x, place, spans), axes)[0])


def _window_maxima(x, place, spans):
    """Returns the largest value of each window among this rank's elements, and its place. For a window without such an
    element, returns -inf with a place after all elements."""
    values, places = [], []
    shape = [len(found) for _, _, found in spans]
    for flat in range(torch.Size(shape).numel()):
        slices, rest = [], flat
        for (begin, end, found), size in reversed(list(zip(spans, shape))):
            rest, index = divmod(rest, size)
            first, last = found[index]
            slices.insert(0, slice(max(first, begin) - begin, max(0, min(last, end) - begin)))
        window = x[(..., *slices)].flatten(2)
        where = place[tuple(slices)].flatten()
        if window.shape[2] == 0:
            values.append(x.new_full(x.shape[:2], float("-inf")))
            places.append(torch.full(x.shape[:2], FAR, dtype=torch.int64, device=x.device))
            continue
        best = window.argmax(2, keepdim=True)
        values.append(window.gather(2, best).squeeze(2))
        places.append(where[best.squeeze(2)])
    shape = [*x.shape[:2], *shape]
    return torch.stack(values, 2).view(shape), torch.stack(places, 2).view(shape)
