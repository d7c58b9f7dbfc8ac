"""Padding: the first part gets the rows before the image, the last one those behind it."""
import torch

from .errors import NotSupported
from .grid import AXES
from .cells import ranks
from .stripe import rule, striped


@rule(torch.nn.functional.pad, torch._C._nn.pad, torch.constant_pad_nd)
def _pad(function, x, pad, mode="constant", value=None):
    pad, own, changed, pads = list(pad), list(pad), {}, dict(x.cut.pads)
    for axis in x.cut.axes:
        dim = x.cut.dim_of(axis)
        at = 2 * (x.ndim - 1 - dim)
        front, back = (pad + [0, 0] * x.ndim)[at:at + 2]
        if not front and not back:
            continue
        rows = list(x.cut.extents[axis])
        if front < 0 or back < 0:
            raise NotSupported(f"{AXES[axis]}: a pad of {front} and {back} rows takes rows away")
        if mode == "circular":
            raise NotSupported(f"{AXES[axis]}: circular padding along a cut axis")
        if mode == "reflect" and (front >= rows[0] or back >= rows[-1]):
            raise NotSupported(f"{AXES[axis]}: {front} and {back} rows of reflection reach beyond stripes of {rows} rows")
        part = ranks().part(axis)
        own[at] = front if part == 0 else 0
        own[at + 1] = back if part == len(rows) - 1 else 0
        rows[0] += front
        rows[-1] += back
        before, behind = pads.get(axis, (0, 0))
        pads[axis] = before + front, behind + back
        changed[axis] = tuple(rows), rows[part]
    arguments = (x, own, mode) if value is None or mode != "constant" else (x, own, mode, value)
    return striped(torch.nn.functional.pad(*arguments), x.cut.with_extents(changed, pads))
