"""Windows that slide over cut axes, for convolutions and pooling. The rows that they read are fetched, and the image's
padding is added at its ends, so functions then run without padding along these axes."""
import contextlib
import functools
import re

from . import geometry
from .errors import NotSupported
from .grid import AXES
from .halo import extended
from .cells import ranks
from .stripe import Stripe, layout_of, name_of, striped


def of_batches(layer):
    """Decorator: makes a rule for a batch of images also accept a single image."""
    @functools.wraps(layer)
    def run(function, x, *args, **kwargs):
        if x.ndim == int(re.search(r"(\d)d", name_of(function))[1]) + 2:
            return layer(function, x, *args, **kwargs)
        found = layer(function, striped(x.unsqueeze(0), layout_of(x).inserted(0)), *args, **kwargs)
        return striped(found.squeeze(0), found.cut.removed([0]))
    return run


def spatial_dims(x, count):
    """Returns {axis: index among the last `count` dimensions}. Leaves out axes that cut the batch dimension, as when
    positions of a video are flattened into it: no window reads beyond its image."""
    if x.ndim != count + 2:
        raise NotSupported(f"{count}-dimensional windows over a tensor of {x.ndim} dimensions")
    if not x.cut.is_plain(1):
        raise NotSupported("channels are cut")
    return {axis: x.cut.dim_of(axis) - 2 for axis in x.cut.axes if axis not in x.cut.axes_of(0)}


def in_rows(x, dims=None):
    """Returns x with the dimensions `dims` (default: all positions) counted in rows, as in Layout.in_rows."""
    layout = layout_of(x).in_rows(range(2, x.ndim) if dims is None else dims)
    return striped(x, layout) if not isinstance(x, Stripe) or layout is not x.cut else x


def tuple_of(value, count):
    return (value,) * count if isinstance(value, int) else tuple(value) * (count if len(value) == 1 else 1)


def read(x, axis, window, front, back):
    """Returns the Read of each part's windows over x. Padding inside x counts as padding of the windows, so outputs are
    divided as if x had no padding (geometry.windows). If a window does not allow so much padding, the padding counts as
    rows of the image."""
    extents, (before, behind) = x.cut.extents[axis], x.cut.pads.get(axis, (0, 0))
    rows = list(extents)
    rows[0] -= before
    rows[-1] -= behind
    try:
        found = geometry.windows(ranks().geometry, axis, window, tuple(rows), front + before, back + behind)
    except NotSupported as refusal:
        if before or behind:
            with contextlib.suppress(NotSupported):
                return geometry.windows(ranks().geometry, axis, window, tuple(extents), front, back)
        is_uneven = any(extent % window.stride for extent in rows[:-1])
        sizes = extents.next_size(window.stride) if is_uneven else ""
        raise NotSupported(f"{refusal}{sizes}") from None
    reads = tuple((begin + before, end + before) for begin, end in found.reads)
    return geometry.Read(found.outputs, reads, found.needed, found.is_own_call)


def extend(x, plans, value=0.0):
    """Returns x as a plain tensor, extended by the rows that `plans`, {axis: Read}, read."""
    result = x
    for axis, plan in plans.items():
        result = extended(result, x.cut.dim_of(axis), axis, x.cut.extents[axis], plan.reads, value)
    return result


def output_layout(x, plans):
    return x.cut.with_extents({axis: (plan.outputs, plan.outputs[ranks().part(axis)]) for axis, plan in plans.items()})


def check(result, layout, plans):
    for axis, plan in plans.items():
        extent = result.shape[layout.dim_of(axis)]
        if extent != plan.outputs[ranks().part(axis)]:
            raise NotSupported(f"{AXES[axis]}: {extent} rows came out, not {plan.outputs[ranks().part(axis)]}")
