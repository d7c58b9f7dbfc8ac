"""One rank of a grid, in a process without the other ranks. Received rows stay uninitialised. A sum or gather
returns this rank's own values. The bytes that would come from other ranks are counted. With meta tensors, nothing
is computed."""
import collections

import torch

from plain_geometry import tested_geometry
from ucudnn.spatial.cells import Ranks
from ucudnn.spatial.grid import Grid


class FakeRanks(Ranks):
    """`received`: the bytes from other ranks, under "rows" and "sums". `largest_swap`: the largest number of bytes
    in one exchange of rows. All ranks are assumed to have stripes as large as this rank's."""

    def __init__(self, grid, rank):
        self.grid = Grid(grid)
        self._geometry, self._uses, self._sums_alone = tested_geometry(), 0, False
        self.rank = rank
        self.group, self.place = self.grid.place_of(rank)
        self.members = {axes: next(line for line in lines if rank in line) for axes, lines in self.grid.lines().items()}
        self.received, self.largest_swap = collections.Counter(), 0

    def _count(self, what, tensor, times=1):
        self.received[what] += times * tensor.numel() * tensor.element_size()

    def all_reduce(self, tensor, axes):
        self._count("sums", tensor, len(self.members[tuple(axes)]) - 1)
        return tensor

    def all_gather(self, tensor, axes, kind=""):
        others = len(self.members[tuple(axes)])
        self._count("sums", tensor, others - 1)
        return torch.stack([tensor] * others)

    def numbers(self, values, axes, kind=""):
        return [values] * len(self.members[tuple(axes)])

    def told_of(self, kind, values):
        return {rank: values for rank in self.members[self.grid.cut_axes]}

    def comparison(self):
        return lambda *_: None

    def swap(self, axis, sent, received, *like):
        before = self.received["rows"]
        for tensor in received.values():
            self._count("rows", tensor)
        self.largest_swap = max(self.largest_swap, self.received["rows"] - before)
