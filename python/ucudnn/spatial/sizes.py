"""Extents of a stripe as a program sees them: numbers of the whole image that know what they are on every part of the grid,
which arithmetic carries on. What Python, numpy and torch read in one past all that is the whole's."""
import itertools
import math
import operator

import torch

from .cells import ranks
from .errors import NotSupported

_OPERATIONS = {"truediv": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod, "add": operator.add,
               "sub": operator.sub, "mul": operator.mul, "pow": operator.pow, "lshift": operator.lshift,
               "rshift": operator.rshift, "and": operator.and_, "or": operator.or_, "xor": operator.xor}
_OF_ONE = {"neg": operator.neg, "pos": operator.pos, "abs": operator.abs, "ceil": math.ceil, "floor": math.floor,
           "trunc": math.trunc, "invert": operator.invert}


class Own:
    """A number that comes of rows, of which this rank has `here`. `whole`: what it is of the whole image; `by_place`: at every
    place of the grid along `axes`, the parts along each in their order."""
    axes, by_place, here, whole = (), {}, None, None


class OwnInt(Own, int):
    pass


class OwnFloat(Own, float):
    pass


def own(axes, number, whole):
    """The number `number({axis: part})` of this rank, of which the whole has `whole`: a plain one where it is the same on all."""
    parts = ranks().grid.parts
    by_place = {place: number(dict(zip(axes, place))) for place in itertools.product(*(range(parts[a]) for a in axes))}
    if all(value == whole for value in by_place.values()):
        return whole
    made = (OwnInt if isinstance(whole, int) else OwnFloat)(whole)
    made.axes, made.by_place, made.whole = tuple(axes), by_place, whole
    made.here = by_place[tuple(ranks().part(axis) for axis in axes)]
    return made


def at(value, place):
    """What a number is at a place {axis: part}."""
    if isinstance(value, Own):
        return value.by_place[tuple(place[axis] for axis in value.axes)]
    return value


def by_part(value, axis):
    """What a number is on every part along one axis."""
    if value.axes != (axis,):
        raise NotSupported(f"{value} comes of rows along other axes, too")
    return tuple(at(value, {axis: part}) for part in range(ranks().grid.parts[axis]))


def rows_of(number):
    """(axis, rows by part) of a number that a program gives as the size of a cut dimension."""
    axis, = number.axes if len(number.axes) == 1 else (None,)
    rows = () if axis is None else by_part(number, axis)
    if sum(rows) != number.whole or min(rows, default=0) < 1:
        raise NotSupported(f"{rows or number.here} rows on the ranks are not the {number.whole} of the whole")
    return axis, rows


def whole_of(values):
    """Numbers, also in lists and dictionaries, as the whole has them."""
    if isinstance(values, dict):
        return {key: whole_of(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)) and not hasattr(values, "_fields"):
        return type(values)(map(whole_of, values))
    return values.whole if isinstance(values, Own) else values


def plain(values):
    """Numbers, also in lists, as this rank has them, for torch."""
    if isinstance(values, (list, tuple)):
        return [plain(value) for value in values]
    return values.here if isinstance(values, Own) else values


def _computed(operation, *operands):
    whole = operation(*map(whole_of, operands))
    if isinstance(whole, complex):
        raise NotSupported(f"{whole} comes of rows")
    axes = sorted({axis for value in operands if isinstance(value, Own) for axis in value.axes})
    return own(axes, lambda place: operation(*(at(value, place) for value in operands)), whole)


def _binary(operation, is_reversed=False):
    def compute(self, other):
        if not isinstance(other, (int, float)):
            return NotImplemented
        return _computed(operation, other, self) if is_reversed else _computed(operation, self, other)
    return compute


for _kind in (OwnInt, OwnFloat):
    for _name, _operation in _OPERATIONS.items():
        if hasattr(_kind, f"__{_name}__"):
            setattr(_kind, f"__{_name}__", _binary(_operation))
            setattr(_kind, f"__r{_name}__", _binary(_operation, True))
    for _name, _operation in _OF_ONE.items():
        if hasattr(_kind, f"__{_name}__"):
            setattr(_kind, f"__{_name}__", lambda self, _operation=_operation: _computed(_operation, self))
    _kind.__divmod__ = lambda self, other: (self // other, self % other)
    _kind.__rdivmod__ = lambda self, other: (other // self, other % self)
    _kind.__round__ = lambda self, digits=None: _computed(lambda value: round(value, digits), self)


def sizes_of(shape, layout):
    """A stripe's shape: plain numbers but for cut dimensions."""
    sizes = []
    for dim, extent in enumerate(shape):
        axes = sorted(layout.axes_of(dim))

        def number(place, dim=dim):
            return math.prod(size if axis is None else size // layout.extents[axis][ranks().part(axis)] *
                             layout.extents[axis][place[axis]] for axis, size in layout.dims[dim])
        sizes.append(own(axes, number, layout.whole_extent(dim, extent)) if axes else extent)
    return torch.Size(sizes)
