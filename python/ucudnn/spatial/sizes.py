"""Sizes of a stripe, as a program sees them: numbers with the value for the whole image, which also have the value for
every part of the grid. Arithmetic with such numbers gives such numbers. Python, numpy or torch code that bypasses the
arithmetic reads the value for the whole image."""
import itertools
import math
import operator

import torch

from .cells import ranks
from .errors import NotSupported
from .grid import AXES

_OPERATIONS = {"truediv": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod, "add": operator.add,
               "sub": operator.sub, "mul": operator.mul, "pow": operator.pow, "lshift": operator.lshift,
               "rshift": operator.rshift, "and": operator.and_, "or": operator.or_, "xor": operator.xor}
_OF_ONE = {"neg": operator.neg, "pos": operator.pos, "abs": operator.abs, "ceil": math.ceil, "floor": math.floor,
           "trunc": math.trunc, "invert": operator.invert}


class Own:
    """A number computed from numbers of rows. `here` is its value on this rank, `whole` its value for the whole image.
    `by_place` has its value at every place of the grid along `axes`, a tuple of parts in the order of `axes`."""
    axes, by_place, here, whole = (), {}, None, None


class _Made(type):
    """A program's own calls, such as type(h)(8), give plain numbers."""

    def __call__(cls, *args):
        return cls.__base__(*args)


class OwnInt(Own, int, metaclass=_Made):
    pass


class OwnFloat(Own, float, metaclass=_Made):
    pass


def own(axes, number, whole):
    """Returns an Own whose value at a place is `number({axis: part})` and whose value for the whole image is `whole`.
    Returns a plain number if all values are equal."""
    parts = ranks().grid.parts
    by_place = {place: number(dict(zip(axes, place))) for place in itertools.product(*(range(parts[a]) for a in axes))}
    if all(value == whole for value in by_place.values()):
        return whole
    kind = OwnInt if isinstance(whole, int) else OwnFloat
    made = kind.__new__(kind, whole)
    made.axes, made.by_place, made.whole = tuple(axes), by_place, whole
    made.here = by_place[tuple(ranks().part(axis) for axis in axes)]
    return made


def at(value, place):
    """Returns the value of a number at `place`, {axis: part}."""
    if isinstance(value, Own):
        return value.by_place[tuple(place[axis] for axis in value.axes)]
    return value


def by_part(value, axis):
    """Returns the values of a number on every part along `axis`. Raises NotSupported if the number depends on other
    axes."""
    if value.axes != (axis,):
        raise NotSupported(f"{value} comes of rows along other axes, too")
    return tuple(at(value, {axis: part}) for part in range(ranks().grid.parts[axis]))


def rows_of(number):
    """Returns (axis, rows by part) of a size that a program gives for a cut dimension."""
    if len(number.axes) != 1:
        raise NotSupported(f"a dimension of {number.whole} positions along {' and '.join(AXES[axis] for axis in number.axes)}: make "
                           "one for each, and flatten them")
    axis, = number.axes
    rows = by_part(number, axis)
    if sum(rows) != number.whole or min(rows) < 1:
        raise NotSupported(f"{rows} rows on the ranks are not the {number.whole} of the whole")
    return axis, rows


def flat(values):
    if isinstance(values, (list, tuple)):
        for value in values:
            yield from flat(value)
    elif isinstance(values, dict):
        yield from flat(list(values.values()))
    else:
        yield values


def whole_of(values):
    """Returns numbers, or numbers in lists and dictionaries, with the values for the whole image."""
    if isinstance(values, dict):
        return {key: whole_of(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)) and not hasattr(values, "_fields"):
        return type(values)(map(whole_of, values))
    return values.whole if isinstance(values, Own) else values


def plain(values):
    """Returns numbers, or lists of numbers, with this rank's values, for calls of torch."""
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


def strides_of(x, layout):
    """Returns the strides of a stripe for the whole image. A dimension's stride is the number of elements in all
    dimensions of smaller strides; None if the stripe's memory has gaps there."""
    sizes, strides, elements = sizes_of(x.shape, layout), list(x.stride()), 1
    for dim in sorted(range(x.ndim), key=lambda dim: (strides[dim], x.shape[dim], -dim)):
        if strides[dim] == plain(elements):
            strides[dim], elements = elements, elements * sizes[dim]
        elif layout.is_cut and strides[dim]:
            strides[dim] = None
    return tuple(strides)


def sizes_of(shape, layout):
    """Returns the shape of a stripe: an Own for each cut dimension, plain numbers otherwise."""
    sizes = []
    for dim, extent in enumerate(shape):
        axes = sorted(layout.axes_of(dim))

        def number(place, dim=dim):
            return math.prod(size if axis is None else size // layout.extents[axis][ranks().part(axis)] *
                             layout.extents[axis][place[axis]] for axis, size in layout.dims[dim])
        sizes.append(own(axes, number, layout.whole_extent(dim, extent)) if axes else extent)
    return torch.Size(sizes)
