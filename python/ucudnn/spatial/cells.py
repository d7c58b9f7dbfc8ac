"""The ranks of torch.distributed as a spatial grid: who holds which stripe, who sums with whom."""
import contextlib
import os
import zlib

import torch
import torch.distributed as dist

from .errors import NotSupported, RankLost
from .geometry import Library
from .grid import Grid

_current = None


class Ranks:
    def __init__(self, grid, geometry):
        self.grid = grid
        self._geometry = geometry
        self.rank = dist.get_rank()
        self.group, self.place = grid.place_of(self.rank)
        self._uses = 0
        self._sums_alone = False
        # Every rank makes every group, in the same order.
        self.members, self._groups = {}, {}
        for axes, lines in grid.lines().items():
            for members in lines:
                group = dist.new_group(members)
                if self.rank in members:
                    self.members[axes], self._groups[axes] = members, group

    @property
    def geometry(self):
        if self._geometry is None:
            self._geometry = Library()
        return self._geometry

    def sum_alone(self):
        """This module sums gradients, and nobody under it: said once, before the first call under which ucudnn exchanges,
        since a model may be moved to a GPU after it was converted."""
        if not self._sums_alone:
            self.geometry.sum_nothing()
            self._sums_alone = True

    def part(self, axis):
        return self.place[axis]

    @contextlib.contextmanager
    def _with(self, what, axes):
        """Says what was under way, and with whom, where torch.distributed fails: a rank died, or came too late."""
        try:
            yield
        except RuntimeError as error:
            members = [member for member in self.members[tuple(axes)] if member != self.rank]
            raise RankLost(f"rank {self.rank} waited for {what} with ranks {members}, of which one ended, failed or came too "
                           f"late: {error}") from error

    def all_reduce(self, tensor, axes, operation=dist.ReduceOp.SUM):
        """In place, over the ranks that differ along `axes`."""
        with self._with("a sum", axes):
            dist.all_reduce(tensor, operation, group=self._groups[tuple(axes)])
        return tensor

    def all_gather(self, tensor, axes):
        """Those of all these ranks, of one shape, stacked in their order."""
        found = [torch.empty_like(tensor) for _ in self.members[tuple(axes)]]
        with self._with("values", axes):
            dist.all_gather(found, tensor.contiguous(), group=self._groups[tuple(axes)])
        return torch.stack(found)

    def told(self, axis, value):
        """The `value` of every part along an axis: for what a program may have chosen by its own stripe."""
        own = torch.tensor([value], dtype=torch.int64, device=self._device())
        return tuple(self.all_gather(own, (axis,)).flatten().tolist())

    def _device(self):
        return "cuda" if dist.get_backend() == "nccl" else "cpu"

    def begin(self):
        """A pass of a model, in which uses of parameters are noted."""
        self._uses = 0

    def note(self, shape, axes):
        self._uses = zlib.crc32(repr((tuple(shape), tuple(axes))).encode(), self._uses)

    def comparison(self):
        """What compares the uses so far with the other ranks': to be called on all of them, before gradients are summed."""
        uses = self._uses

        def compare(*_):
            own = torch.tensor([uses], dtype=torch.int64, device=self._device())
            if len(set(self.all_gather(own, self.grid.cut_axes).flatten().tolist())) > 1:
                raise NotSupported("ranks of a group have not used the same parameters, in the same order: a gradient would "
                                   "be summed with another's")
        compare.may_be_dropped = True  # where a program writes over the result
        return compare

    def swap(self, axis, sent, received):
        """Sends the tensors `sent` and receives into `received`, both by part along `axis`."""
        members, group = self.members[(axis,)], self._groups[(axis,)]
        transfers = [dist.P2POp(dist.isend, tensor.contiguous(), members[part], group) for part, tensor in sent.items()]
        transfers += [dist.P2POp(dist.irecv, tensor, members[part], group) for part, tensor in received.items()]
        if transfers:
            with self._with("rows", (axis,)):
                for work in dist.batch_isend_irecv(transfers):
                    work.wait()


def init(grid=None, geometry=None):
    """Makes the grid, by default that of UCUDNN_SPATIAL, of all ranks of torch.distributed, which must be initialised.
    All ranks call it; shard and convert do otherwise. `geometry` stands in for libucudnn in tests."""
    global _current
    text = grid or os.environ.get("UCUDNN_SPATIAL")
    count = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
    if not text:
        if count > 1:
            raise NotSupported(f"{count} ranks, and no UCUDNN_SPATIAL that says how they cut an image")
        _current = None
        return None
    grid = Grid(text)
    if grid.ranks != count:
        raise NotSupported(f"the grid {text} has {grid.ranks} ranks, but torch.distributed has {count}")
    _current = Ranks(grid, geometry) if grid.cut_axes else None
    return _current


def ranks():
    """Those of the grid; None on one rank without a grid: nothing is cut there."""
    return _current or init()
