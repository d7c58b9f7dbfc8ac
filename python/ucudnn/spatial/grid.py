"""The grid into which images are cut, as UCUDNN_SPATIAL names it: "h4", "h2w2", "n2h4". Pure values, without torch.
Axes are 0 (d), 1 (h) and 2 (w). Parts of an axis are numbered from 0; in rank numbers, w varies fastest and n
slowest."""
import re
from itertools import combinations

from .errors import NotSupported

AXES = "dhw"


class Grid:
    def __init__(self, text):
        self.text = text
        found = re.findall(r"([ndhw])([1-9][0-9]*)", text.lower())
        if not found or "".join(letter + parts for letter, parts in found) != text.lower() or \
                len({letter for letter, _ in found}) != len(found):
            raise ValueError(f'"{text}" is not a spatial grid: expected n, d, h and w, each at most once and with its '
                             "number of parts, as in h4, h2w2, d2h2w2 or n2h4")
        parts = {letter: int(count) for letter, count in found}
        self.groups = parts.get("n", 1)
        self.parts = tuple(parts.get(letter, 1) for letter in AXES)

    @classmethod
    def of_mesh(cls, names, extents, ranks):
        """Returns the grid of a DeviceMesh of torch.distributed whose dimensions have these `names` and `extents`.
        `ranks` is the flattened mesh, the last dimension varying fastest. ValueError if it is no spatial grid."""
        if not names or list(names) != [letter for letter in "n" + AXES if letter in names]:
            raise ValueError(f"a mesh with the dimensions {names} is no spatial grid: their names are some of n, d, h and w, "
                             "in this order")
        if list(ranks) != list(range(len(ranks))):
            raise ValueError(f"a mesh of the ranks {list(ranks)} is no spatial grid, which has all ranks in their order")
        return cls("".join(f"{name}{extent}" for name, extent in zip(names, extents)))

    def __eq__(self, other):
        return isinstance(other, Grid) and (self.groups, self.parts) == (other.groups, other.parts)

    __hash__ = None

    @property
    def cut_axes(self):
        return tuple(axis for axis in range(3) if self.parts[axis] > 1)

    @property
    def group_size(self):
        return self.parts[0] * self.parts[1] * self.parts[2]

    @property
    def ranks(self):
        return self.groups * self.group_size

    def place_of(self, rank):
        """Returns (group, (part along d, h, w))."""
        group, cell = divmod(rank, self.group_size)
        rest, w = divmod(cell, self.parts[2])
        return group, (*divmod(rest, self.parts[1]), w)

    def rank_of(self, group, place):
        d, h, w = place
        return group * self.group_size + (d * self.parts[1] + h) * self.parts[2] + w

    def lines(self):
        """Returns {axes: [ranks, ...]} for every combination of cut axes. Each list has ranks that differ only along
        these axes, in the order of their parts. The ranks of a list sum together."""
        found = {}
        for count in range(1, len(self.cut_axes) + 1):
            for axes in combinations(self.cut_axes, count):
                members = {}
                for rank in range(self.ranks):
                    group, place = self.place_of(rank)
                    rest = tuple(part for axis, part in enumerate(place) if axis not in axes)
                    members.setdefault((group, rest), []).append(rank)
                found[axes] = list(members.values())
        return found


def divided(extent, parts):
    """Divides `extent` rows into `parts` stripes; the first extent % parts stripes have one more row."""
    return tuple(extent // parts + (part < extent % parts) for part in range(parts))


def stripes(axis, extent, parts, multiple=1):
    """Divides `extent` rows into `parts` stripes of multiples of `multiple` rows; only the last stripe may have
    fewer."""
    blocks = -(-extent // multiple)
    if blocks < parts:
        raise NotSupported(f"{AXES[axis]}: {extent} rows are not {parts} stripes of multiples of {multiple}: "
                           "use a smaller multiple, larger images or fewer ranks")
    rows = [multiple * each for each in divided(blocks, parts)]
    return (*rows[:-1], rows[-1] - (blocks * multiple - extent))


def owned(extents):
    """Returns [begin, end) of each part's rows, counted from the first row of the whole tensor."""
    intervals, end = [], 0
    for extent in extents:
        intervals.append((end, end + extent))
        end += extent
    return intervals
