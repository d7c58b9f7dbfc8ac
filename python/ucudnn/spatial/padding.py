"""Padding: the first part adds the rows before the image, the last part adds the rows after it."""
import torch

from .cells import ranks
from .errors import NotSupported
from .grid import AXES, owned
from .halo import fetch
from .indexing import getitem
from .stripe import rule, striped
from .windows import in_rows


@rule(torch.nn.functional.pad, torch._C._nn.pad, torch.constant_pad_nd, sizes="whole")
def _pad(function, x, pad, mode="constant", value=None):
    pad = list(pad)
    if mode == "constant" and any(rows < 0 for rows in pad):
        lost = [max(0, -rows) for rows in pad] + [0] * (2 * x.ndim - len(pad))
        x = getitem(torch.Tensor.__getitem__, x, tuple(slice(front or None, -back or None)
                                                       for front, back in reversed(list(zip(lost[::2], lost[1::2])))))
        pad = [max(0, rows) for rows in pad]
    x = in_rows(x, [x.ndim - 1 - i // 2 for i, rows in enumerate(pad) if rows])
    own, changed, pads, far = list(pad), {}, dict(x.cut.pads), []
    for axis in x.cut.axes:
        dim = next(dim for dim in range(x.ndim) if axis in x.cut.axes_of(dim))
        at = 2 * (x.ndim - 1 - dim)
        front, back = (pad + [0, 0] * x.ndim)[at:at + 2]
        if not front and not back:
            continue
        x.cut.dim_of(axis)
        rows = list(x.cut.extents[axis])
        if front < 0 or back < 0:
            raise NotSupported(f"{AXES[axis]}: a {mode} pad of {front} and {back} rows takes rows away")
        if mode == "circular" and max(front, back) > sum(rows):
            raise NotSupported(f"{AXES[axis]}: {front} and {back} rows of circular padding go around {sum(rows)} rows more than "
                               "once")
        if mode == "reflect" and max(front, back) >= sum(rows):
            raise NotSupported(f"{AXES[axis]}: {front} and {back} rows of reflection reach beyond {sum(rows)} rows")
        part = ranks().part(axis)
        own[at] = front if part == 0 else 0
        own[at + 1] = back if part == len(rows) - 1 else 0
        if mode == "circular" or mode == "reflect" and (front >= rows[0] or back >= rows[-1]):
            far.append((dim, axis, front, back))
            own[at] = own[at + 1] = 0
        rows[0] += front
        rows[-1] += back
        before, behind = pads.get(axis, (0, 0))
        pads[axis] = before + front, behind + back
        changed[axis] = tuple(rows), rows[part]
    arguments = (own, mode) if value is None or mode != "constant" else (own, mode, value)
    result = x if far and not any(own) else torch.nn.functional.pad(x, *arguments)
    for dim, axis, front, back in far:
        put = _wrapped if mode == "circular" else _reflected
        result = put(result, dim, axis, x.cut.extents[axis], front, back)
    return striped(result, x.cut.with_extents(changed, pads))


def _reflected(x, dim, axis, extents, front, back):
    """Reflects at the ends of the image. A reflection beyond the first or last stripe fetches rows of the next
    stripes."""
    part, total, own = ranks().part(axis), sum(extents), owned(extents)
    needed = list(own)
    needed[0] = 0, max(extents[0], front + 1)
    needed[-1] = min(total - extents[-1], total - back - 1), total
    x = fetch(x, dim, axis, extents, needed)
    rows = torch.arange(own[part][0] - (front if part == 0 else 0), own[part][1] + (back if part == len(extents) - 1 else 0))
    rows = torch.where(rows < 0, -rows, torch.where(rows >= total, 2 * total - 2 - rows, rows))
    return x.index_select(dim, (rows - needed[part][0]).to(x.device))


def _wrapped(x, dim, axis, extents, front, back):
    """Circular padding: the first part gets the image's last rows before its own, the last part gets the first rows
    after its own."""
    part, total = ranks().part(axis), sum(extents)
    needed = [(begin, begin) for begin, _ in owned(extents)]
    needed[0], needed[-1] = (total - front, total), (0, back)
    # parts in between get no rows, but gradients flow back to them through this fetch
    rows = fetch(x, dim, axis, extents, needed)
    return torch.cat([rows, x] if part == 0 else [x, rows], dim)
