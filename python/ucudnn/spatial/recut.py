"""Moves rows between ranks: when tensors in different stripes meet, and when rows that belong together are on two
ranks."""
from itertools import pairwise

from .cells import ranks
from .grid import owned
from .halo import fetch
from .layout import Extents, Uneven
from .stripe import layout_of, striped


def agreed(layouts, keeps_first):
    """Returns {axis: (rows by part, this rank's rows)} for the axes along which these layouts have different stripes
    with the same total of rows. Chooses the stripes whose largest part is smallest or, with `keeps_first`, the first
    layout's stripes. All ranks choose the same."""
    met = {}
    for layout in layouts:
        for axis, rows in layout.extents.items():
            met.setdefault(axis, []).append(rows)
    chosen = {axis: found[0] if keeps_first else min(found, key=max) for axis, found in met.items()
              if len(set(found)) > 1 and len(set(map(sum, found))) == 1}
    return {axis: (rows, rows[ranks().part(axis)]) for axis, rows in chosen.items()}


def in_stripes(x, extents):
    """Returns x in the stripes `extents` along the axes that cut it; fetches rows from the ranks that have them."""
    own = layout_of(x)
    if any(sum(rows) != sum(extents.get(axis, rows)) for axis, rows in own.extents.items()):
        own = own.in_rows(range(len(own.dims)))
    moved = [axis for axis, rows in own.extents.items() if extents.get(axis, rows) != rows]
    for dim, atoms in enumerate(own.dims):
        if any(axis in moved for axis, _ in atoms):
            x = x.unflatten(dim, [size for _, size in atoms])
            for at, (axis, _) in enumerate(atoms, dim):
                if axis in moved:
                    x = fetch(x, at, axis, own.extents[axis], owned(extents[axis]))
            x = x.flatten(dim, dim + len(atoms) - 1)
    return x


def brought(x, layout):
    """Returns x in the stripes of `layout`, along axes where both have the same total of rows."""
    stripes = agreed([layout, layout_of(x)], keeps_first=True)
    extents = {axis: rows for axis, (rows, _) in stripes.items()}
    return striped(in_stripes(x, extents), layout_of(x).in_stripes(stripes)) if stripes else x


def in_groups(layout, axis, size):
    """Returns the layout in stripes of multiples of `size` rows, as similar as possible to the present stripes. Raises
    Uneven if a rank would have no rows."""
    extents = layout.extents[axis]
    count, ends = sum(extents) // size, [0]
    if sum(extents) % size or count < len(extents):
        raise Uneven(axis, extents, size)
    for after, (_, end) in zip(reversed(range(len(extents))), owned(extents)):
        ends.append(min(max(round(end / size), ends[-1] + 1), count - after))
    rows = Extents([size * (end - begin) for begin, end in pairwise(ends)], apart=extents.apart)
    return layout if rows == extents else layout.in_stripes({axis: (rows, rows[ranks().part(axis)])})


def share(x, y):
    """Marks x and y, which are two copies here but would share memory in torch. Neither may be written in place."""
    for each in (x, y):
        each.untyped_storage()._ucudnn_is_shared = True


def is_shared(x):
    return getattr(x.untyped_storage(), "_ucudnn_is_shared", False)
