"""Interpolation. Rows near a cut read rows of the next stripe; positions are counted in the whole image. A size
computed from a stripe's shape is the size of the result's stripes (sizes.py). A scale factor is the same on all
ranks. 16-bit numbers are combined in fp32, and the result and the gradient are rounded once."""
import math
from fractions import Fraction

import torch

from .errors import NotSupported
from .grid import AXES, owned
from .halo import fetch
from .layout import Layout
from .cells import ranks
from .precision import wide
from .sizes import Own, plain, rows_of, whole_of
from .stripe import flat, layout_of, rule, running, striped, whole
from .sums import summed
from .windows import in_rows, spatial_dims

_MODES = {"nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"}


def _scaled(x, scale_factor, recompute):
    """Returns (the size on this rank, {axis: rows by part}). torch positions outputs by the factor itself, which equals
    the ratio of extents only if each part's rows times the factor is an integer. All ranks test all parts, so that they
    refuse together."""
    count = x.ndim - 2
    factors = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * count
    size, outputs = [_times(extent, factor)[0] for extent, factor in zip(x.shape[2:], factors)], {}
    for dim, (extent, factor) in enumerate(zip(x.shape[2:], factors)):
        axes = x.cut.axes_of(2 + dim)
        rows = x.cut.extents[axes[0]] if axes else (extent,)
        if not all(_times(each, factor)[1] for each in rows) and (axes or not recompute):
            exact = Fraction(factor).limit_denominator(64)
            sizes = rows.next_size(exact.denominator) if axes and abs(exact - Fraction(factor)) < 1e-9 else ""
            raise NotSupported(f"{' and '.join(map(str, rows))} rows by {factor} are not whole numbers of rows{sizes}")
        for axis in axes:
            outputs[axis] = tuple(_times(each, factor)[0] for each in rows)
    return size, outputs


def _times(extent, factor):
    """Returns (floor(extent * factor), whether the product is an integer)."""
    rows = math.floor(float(extent) * factor)
    return rows, abs(extent * factor - rows) < 1e-9


def _positions(first, last, extent, outputs, mode, align):
    """Returns the input positions that the outputs [first, last) read, as a list of rows and a list of weights. Both
    lists have an entry for each position that one output reads."""
    at = torch.arange(first, last, dtype=torch.float64)
    ratio = extent / outputs
    if mode.startswith("nearest"):  # torch computes these positions in float32 for every type
        single = torch.arange(first, last, dtype=torch.float32) + (0.5 if mode == "nearest-exact" else 0.0)
        rows = (single * torch.tensor(ratio, dtype=torch.float32)).floor().long()
        return [rows.clamp(max=extent - 1)], [torch.ones_like(at)]
    if align:
        at = at * ((extent - 1) / (outputs - 1) if outputs > 1 else 0.0)
    else:
        at = (at + 0.5) * ratio - 0.5
    if mode != "bicubic":
        at = at.clamp(min=0)
        low = at.floor().long().clamp(max=extent - 1)
        part = at - low
        return [low, (low + 1).clamp(max=extent - 1)], [1 - part, part]
    low = at.floor()
    part = at - low
    rows = [(low.long() + tap).clamp(0, extent - 1) for tap in (-1, 0, 1, 2)]
    return rows, [_cubic(part + 1), _cubic(part), _cubic(1 - part), _cubic(2 - part)]


def _cubic(distance, a=-0.75):
    """Keys' cubic kernel, with torch's parameter."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return torch.where(distance <= 1, near, far)


def _combined(rows, dim, taps, weights, first):
    """Returns weighted sums of `rows` along one dimension; row 0 of `rows` is row `first` of the whole tensor."""
    result, shape = None, [1] * rows.ndim
    shape[dim] = -1
    for tap, weight in zip(taps, weights):
        term = rows.index_select(dim, (tap - first).to(rows.device))
        if len(taps) > 1:
            term = term * weight.to(rows).view(shape)
        result = term if result is None else result + term
    return result


def _resized(x, dim, axis, extents, outputs, mode, align):
    """Resizes along one cut axis."""
    extent, whole = sum(extents), sum(outputs)
    spans = [_positions(*rows, extent, whole, mode, align) for rows in owned(outputs)]
    needed = [(int(min(tap.min() for tap in taps)), int(max(tap.max() for tap in taps)) + 1) for taps, _ in spans]
    part = ranks().part(axis)
    return _combined(fetch(x, dim, axis, extents, needed), dim, *spans[part], needed[part][0])


def _ready(x, mode):
    """Returns x in the type in which its rows, or the gradients of its rows, are combined."""
    is_nearest = mode.startswith("nearest")
    if not is_nearest and not x.is_floating_point():
        raise NotSupported(f"mode {mode} of {x.dtype}: convert it to floating point first")
    return x if is_nearest and not (x.requires_grad and torch.is_grad_enabled()) else wide(x)


def _spread(function, x, size, mode, align):
    """Resizes a replicated tensor. The result is a stripe if a size is an Own (from a stripe's shape)."""
    cut = {2 + i: rows_of(number) for i, number in enumerate(size) if isinstance(number, Own)}
    dims, extents, result = [()] * x.ndim, {}, summed(_ready(x, mode), tuple(sorted(axis for axis, _ in cut.values())))
    for dim, (axis, outputs) in cut.items():
        extents[axis] = outputs
        rows = owned(outputs)[ranks().part(axis)]
        result = _combined(result, dim, *_positions(*rows, x.shape[dim], sum(outputs), mode, align), 0)
        dims[dim] = ((axis, outputs[ranks().part(axis)]),)
    return striped(_native(function, result, plain(size), dims, mode, align).to(x.dtype), Layout(dims, extents))


def _outputs(x, axis, number):
    """Returns the rows by part for a size that a program gives along a cut axis. An Own has the sizes of the stripes. A
    plain number is the size of the whole result, and is accepted only in torch.nn.Upsample."""
    extents = x.cut.extents[axis]
    if isinstance(number, Own):
        found, rows = rows_of(number)
        if found != axis:
            raise NotSupported(f"{AXES[axis]}: {number} comes of rows along {AXES[found]}")
        return rows
    if not isinstance(running(), torch.nn.Upsample):
        raise NotSupported(f"{AXES[axis]}: size {number} does not say whether it is this rank's or the whole tensor's: use "
                           "scale_factor, or a size that comes of x.shape")
    ends = [number * end // sum(extents) for _, end in owned(extents)]
    return tuple(end - begin for begin, end in zip([0, *ends], ends))


def _check_areas(axis, extents, outputs):
    """Refuses stripes that are resized by another factor than the whole image: areas that are averaged would then cross
    the ends of stripes."""
    if any(rows * sum(extents) != extent * sum(outputs) for rows, extent in zip(outputs, extents)):
        raise NotSupported(f"{AXES[axis]}: mode area of stripes of {extents} rows, which become {outputs} rows: the same factor for "
                           "all is expected")


def _native(function, x, size, dims, mode, align, changed=()):
    """Resizes with torch along uncut axes, and along the axes in `changed` to this rank's number of rows."""
    rest = list(size)
    for i in range(len(rest)):
        for axis, _ in dims[2 + i]:
            rest[i] = changed[axis][1] if axis in changed else x.shape[2 + i]
    return x if rest == list(x.shape[2:]) else function(x, rest, mode=mode, align_corners=align)


@rule(torch.nn.functional.interpolate, torch.nn.functional.upsample, sizes="made")
def _interpolate(function, x, size=None, scale_factor=None, mode="nearest", align_corners=None,
                 recompute_scale_factor=None, antialias=False):
    x = in_rows(x if hasattr(x, "cut") else striped(x, layout_of(x)))
    if not x.cut.is_cut and not any(isinstance(value, Own) for value in flat(size)):
        return whole(function(x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias))
    if mode not in _MODES or antialias:
        raise NotSupported(f"mode {mode}{' with antialias' if antialias else ''}")
    scaled = None
    if size is None:
        size, scaled = _scaled(x, scale_factor, recompute_scale_factor)
    size = [size] * (x.ndim - 2) if isinstance(size, int) else list(size)
    if not x.cut.is_cut:
        if mode == "area":
            raise NotSupported(f"mode area of what all ranks have, to the rows {size} of a stripe")
        return _spread(function, x, size, mode, align_corners)
    result, changed = _ready(x, mode), {}
    for axis, i in spatial_dims(x, x.ndim - 2).items():
        dim, extents = 2 + i, x.cut.extents[axis]
        outputs = _outputs(x, axis, size[dim - 2]) if scaled is None else scaled[axis]
        if min(outputs) < 1:
            raise NotSupported(f"{AXES[axis]}: stripes of {outputs} rows come of stripes of {extents}")
        changed[axis] = outputs, outputs[ranks().part(axis)]
        if mode == "area":
            _check_areas(axis, extents, outputs)
        else:
            result = _resized(result, dim, axis, extents, outputs, mode, align_corners)
    result = _native(function, result, plain(whole_of(size)), x.cut.dims, mode, align_corners, changed if mode == "area" else ())
    return striped(result.to(x.dtype), x.cut.with_extents(changed))


@rule(torch.nn.functional.grid_sample, torch.grid_sampler, torch.grid_sampler_2d, torch.grid_sampler_3d)
def _sampled(function, x, grid, *args, **kwargs):
    if layout_of(x).is_cut:
        raise NotSupported("it reads rows of any rank, wherever its grid points: gather the picture first")
    cut = layout_of(grid)  # the grid has the shape (n, positions..., coordinates)
    if not cut.is_plain(0) or not cut.is_plain(-1):
        raise NotSupported("a grid whose pictures or coordinates are cut")
    made = Layout([(), (), *cut.dims[1:-1]], cut.extents)
    return striped(function(summed(x, made.axes), grid, *args, **kwargs), made)
