"""Which dimensions of a rank's tensor are cut, and how reshaping changes them. Immutable values, without torch.

A dimension is a tuple of atoms (axis, extent), whose product is the dimension's extent on this rank. axis is 0 (d), 1
(h), 2 (w), or None if the atom is not cut. A dimension without a cut atom is `()`. Positions that were flattened
together are a dimension of several atoms."""
from fractions import Fraction
from math import lcm, prod

from .errors import NotSupported
from .grid import AXES


class Extents(tuple):
    """The number of rows of an axis by part. `image`: the rows by part of the image that shard cut; None if unknown.
    `multiple`: the product of the strides so far, which divides the image's rows of each part except the last.
    `padding`: rows of padding before the first row. `apart`: the number of original rows that became one row, if
    reshapes have split rows."""

    def __new__(cls, rows, image=None, multiple=1, padding=0, apart=1):
        made = super().__new__(cls, rows)
        made.image, made.multiple, made.padding, made.apart = image and tuple(image), multiple, padding, apart
        return made

    def taken_apart(self, size):
        """Returns the extents after every `size` rows became one row. REQUIRES: each part's rows are a multiple of
        `size`."""
        return Extents([rows // size for rows in self], self.image, self.multiple, 0, self.apart * size)

    def put_together(self, size):
        return Extents([rows * size for rows in self], self.image, self.multiple, 0, self.apart // size)

    def followed_by(self, rows, padding=0):
        """Returns the extents after a layer whose result has `rows` by part."""
        if self.image is None or rows[0] <= padding:
            return Extents(rows)
        multiple = lcm(self.multiple, Fraction(self.image[0], rows[0] - padding).numerator)
        return Extents(rows, self.image, multiple, padding)

    def next_size(self, stride):
        """Returns the end of the message that refuses `stride`: the next image size that works. Empty if the layers
        between the image and this tensor are unknown."""
        image, own = self.image, (self[0] - self.padding, *self[1:])
        if image is None or any(a * own[0] != b * image[0] for a, b in zip(image[:-1], own[:-1])):
            return ""
        multiple = lcm(self.multiple, (Fraction(image[0], own[0]) * stride).numerator)
        total, even = sum(image), multiple * len(self)
        text = f"; strides so far multiply to {multiple}, and the next size that they divide in {len(self)} equal stripes " \
               f"is {-(-total // even) * even}"
        if total % multiple == 0 and total // multiple >= len(self):
            text += f"; of {total}, shard(..., multiple={multiple}) makes stripes that they divide"
        return text


class Uneven(NotSupported):
    """The stripes `extents` along an axis are not multiples of `size` rows."""

    def __init__(self, axis, extents, size):
        count, ranks = sum(extents) // size, len(extents)
        few = f"; {count} such groups are fewer than {ranks} ranks: take fewer, or a larger image" if count < ranks else ""
        super().__init__(f"stripes of {tuple(extents)} rows are not multiples of {size}{few}{extents.next_size(size)}")
        self.axis, self.size = axis, size


class Layout:
    __slots__ = ("dims", "extents", "pads")

    def __init__(self, dims, extents, pads=None):
        self.dims = tuple(dims)
        found = [axis for dim in self.dims for axis, _ in dim if axis is not None]
        cut = set(found)
        # If an axis cut two dimensions, each rank would combine only its own positions with each other.
        if len(found) > len(cut):
            raise NotSupported("the positions along an axis are in two places of one tensor, as where each meets each: by a "
                               "matrix product, each rank's meet all. Use int(h), the whole tensor's, in one of the two "
                               "for a table of positions")
        self.extents = {axis: rows if isinstance(rows, Extents) else Extents(rows)
                        for axis, rows in extents.items() if axis in cut}
        # {axis: (before, after)}: rows of padding in the first and in the last part.
        self.pads = {axis: rows for axis, rows in (pads or {}).items() if axis in cut}
        for axis, rows in self.extents.items():
            if rows.padding and axis not in self.pads:  # padding that is no longer in `pads` counts as rows of the image
                self.extents[axis] = Extents(rows)

    def __eq__(self, other):
        return self.dims == other.dims and self.extents == other.extents

    def __repr__(self):
        return f"Layout({self.dims}, {self.extents})"

    @property
    def axes(self):
        return tuple(sorted(self.extents))

    @property
    def is_cut(self):
        return bool(self.extents)

    def axes_of(self, dim):
        return tuple(axis for axis, _ in self.dims[dim] if axis is not None)

    def is_plain(self, dim):
        return not self.dims[dim]

    def whole_extent(self, dim, extent):
        """Returns the whole tensor's extent of a dimension that has `extent` on this rank."""
        return prod(size if axis is None else sum(self.extents[axis]) for axis, size in self.dims[dim] or ((None, extent),))

    def dim_of(self, axis):
        """Returns the dimension that consists only of `axis`. Raises NotSupported if the axis is flattened together
        with others."""
        for dim, atoms in enumerate(self.dims):
            if len(atoms) == 1 and atoms[0][0] == axis:
                return dim
        raise NotSupported(f"the positions along {AXES[axis]} are flattened together with others")

    def with_extents(self, changed, pads=None):
        """Returns a layout with the same dimensions and other extents along some axes. `changed`: {axis: (rows by part,
        this rank's rows)}."""
        dims = [tuple((axis, changed[axis][1] if axis in changed else extent) for axis, extent in atoms)
                for atoms in self.dims]
        padding = {axis: rows[0] for axis, rows in (pads or {}).items()}
        return Layout(dims, {axis: rows.followed_by(changed[axis][0], padding.get(axis, 0)) if axis in changed else rows
                             for axis, rows in self.extents.items()}, pads)

    def in_stripes(self, stripes):
        """Returns this layout in other stripes with the same total of rows. `stripes`: {axis: (rows by part, this
        rank's rows)}."""
        moved = {axis: given for axis, given in stripes.items() if self.extents.get(axis, given[0]) != given[0]}
        dims = [tuple((axis, moved[axis][1] if axis in moved else size) for axis, size in atoms) for atoms in self.dims]
        return Layout(dims, {**self.extents, **{axis: rows for axis, (rows, _) in moved.items()}},
                      {axis: rows for axis, rows in self.pads.items() if axis not in moved}) if moved else self

    def in_rows(self, dims):
        """Returns a layout for programs that interleave pixels by a reshape. In each of `dims`, uncut atoms that follow
        an axis count as rows of this axis, so the axis has more rows."""
        found, extents = list(self.dims), dict(self.extents)
        for dim in set(dims):
            axes = [axis for axis, _ in self.dims[dim]]
            if len(axes) > 1 and axes[0] is not None and not any(axis is not None for axis in axes[1:]):
                size = prod(size for _, size in self.dims[dim])
                more = size // self.dims[dim][0][1]
                found[dim] = ((axes[0], size),)
                extents[axes[0]] = extents[axes[0]].followed_by([rows * more for rows in extents[axes[0]]])
        return self if found == list(self.dims) else Layout(found, extents)

    def permuted(self, order):
        return Layout([self.dims[dim] for dim in order], self.extents, self.pads)

    def inserted(self, dim):
        return Layout(self.dims[:dim] + ((),) + self.dims[dim:], self.extents, self.pads)

    def removed(self, dims):
        return Layout([atoms for dim, atoms in enumerate(self.dims) if dim not in dims], self.extents, self.pads)

    def reshaped(self, old, new, rows=()):
        """Returns the layout after the whole tensor is reshaped from `old` to `new`. The dimensions `rows` of `new` are
        known to be rows, which a reshape may split. `old` and `new` are shapes of the whole tensor, so an extent of 1
        is never a part's single row."""
        own = {axis: size for atoms in self.dims for axis, size in atoms if axis is not None}
        whole = Layout(_resized(self.dims, own, {axis: sum(self.extents[axis]) for axis in own}), self.extents)
        dims = whole._reshaped(old, new, rows)
        extents = {axis: whole._regrouped_rows(axis, dims) for axis in self.extents}
        found = {axis: size for atoms in dims for axis, size in atoms if axis is not None}
        parts = {axis: own[axis] * found[axis] // sum(self.extents[axis]) for axis in own}
        return Layout(_resized(dims, found, parts), extents,
                      {axis: pad for axis, pad in self.pads.items() if extents[axis] is self.extents[axis]})

    def _regrouped_rows(self, axis, dims):
        """Returns the extents of `axis`, whose atom has become larger or smaller in `dims`."""
        before, after = (next(size for atoms in each for a, size in atoms if a == axis) for each in (self.dims, dims))
        if before > after:
            if any(rows % (before // after) for rows in self.extents[axis]):
                raise Uneven(axis, self.extents[axis], before // after)
            return self.extents[axis].taken_apart(before // after)
        return self.extents[axis].put_together(after // before) if after > before else self.extents[axis]

    def _reshaped(self, old, new, rows):
        dims, i, j = [], 0, 0
        while i < len(old) or j < len(new):
            first_i, first_j = i, j
            left = right = 1
            while i == first_i or j == first_j or left != right:
                if i < len(old) and (i == first_i or left < right or j >= len(new)):
                    left, i = left * old[i], i + 1
                elif j < len(new):
                    right, j = right * new[j], j + 1
                else:
                    break
            if i == len(old) or j == len(new):  # extents of 1 may be left over
                i, j = len(old), len(new)
            dims += self._regrouped(old, first_i, i, new[first_j:j], [dim in rows for dim in range(first_j, j)])
        return dims

    def _regrouped(self, old, begin, end, new, of_rows):
        if all(not self.dims[dim] for dim in range(begin, end)):
            return [()] * len(new)
        atoms = []
        for dim in range(begin, end):
            atoms += self.dims[dim] or [(None, old[dim])]
        dims = []
        for extent, is_of_rows in zip(new, of_rows):
            taken, count = [], 1
            while atoms and count < extent and extent % count == 0:
                axis, size = atoms.pop(0)
                wanted = extent // count
                if (axis is None or is_of_rows) and size > wanted and size % wanted == 0:
                    atoms.insert(0, (None, size // wanted))
                    size = wanted
                taken.append((axis, size))
                count *= size
            if count != extent:
                raise NotSupported(f"a reshape of {tuple(old)} to extents {tuple(new)} takes the positions of a cut "
                                   "dimension apart")
            dims.append(taken)
        if dims:
            dims[-1] += atoms
        elif any(axis is not None for axis, _ in atoms):
            raise NotSupported("a reshape drops a cut dimension")
        return [self._tidy(atoms) for atoms in dims]

    def _tidy(self, atoms):
        """Drops uncut atoms of extent 1, and joins rows that were split. Returns `()` if nothing is cut."""
        if all(axis is None for axis, _ in atoms):
            return ()
        tidy = []
        for axis, size in atoms:
            last, before = tidy[-1] if tidy else (None, 0)
            is_apart = last is not None and axis is None and size > 1 and self.extents[last].apart % size == 0
            if before and axis is None and (last is None or is_apart):
                tidy[-1] = last, before * size
            elif axis is not None or size != 1:
                tidy.append((axis, size))
        return tuple(tidy)


def _resized(dims, own, other):
    """Returns the dimensions of a part that has other[axis] rows instead of own[axis]."""
    return tuple(tuple((axis, size if axis is None else size * other[axis] // own[axis]) for axis, size in atoms)
                 for atoms in dims)
