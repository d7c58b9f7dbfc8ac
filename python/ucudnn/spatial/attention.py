"""Attention over positions: each rank has its own queries, and fetches all keys and values."""
import torch

from .errors import NotSupported
from .halo import fetch
from .layout import Layout
from .cells import ranks
from .stripe import layout_of, rule, striped, summed


def _all_positions(x, axes):
    """x (…, positions, channels) with the positions of all ranks along `axes`, in the order of the parts. What an own
    query reads of another's keys is a part of their gradient: it goes back, and is added there."""
    layout = layout_of(x)
    own = {axis for axis, _ in layout.dims[-2] if axis is not None}
    for axis in sorted(own):
        inner = x.shape[-2] // layout.extents[axis][ranks().part(axis)]
        # Other cut axes of the same dimension have been fetched whole before, on all these ranks alike.
        extents = tuple(rows * inner for rows in layout.extents[axis])
        x = fetch(x, x.ndim - 2, axis, extents, [(0, sum(extents))] * len(extents))
    return summed(x, tuple(axis for axis in axes if axis not in own))


@rule(torch.nn.functional.scaled_dot_product_attention)
def _attention(function, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if attn_mask is not None or is_causal:
        raise NotSupported("a mask over positions")
    if dropout_p:
        raise NotSupported("dropout of attention weights")
    layouts = [layout_of(x) for x in (query, key, value)]
    for layout in layouts:
        if any(layout.dims[dim] for dim in range(len(layout.dims)) if dim != len(layout.dims) - 2):
            raise NotSupported("a cut dimension that is not the one of positions")
    axes = layouts[0].axes
    if not axes and any(layout.is_cut for layout in layouts):
        raise NotSupported("queries that are the same on every rank, over keys that are not")
    result = function(query, _all_positions(key, axes), _all_positions(value, axes), scale=scale, enable_gqa=enable_gqa)
    return striped(result, Layout(layouts[0].dims, layouts[0].extents))
