"""The ranks of torch.distributed as a spatial grid: which rank holds which stripe, and which ranks sum together."""
import atexit
import contextlib
import datetime
import importlib
import itertools
import json
import os
import time
import zlib

import torch
import torch.distributed as dist

from .errors import NotSupported, RankLost
from .geometry import Library
from .grid import AXES, Grid
from .waiting import Waiting, patience

_SENT = {torch.int16: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64}  # types that backends do not send
_current = None
_made = 0  # number of grids made so far; the same on every rank


def is_capturing():
    """Returns whether operations are being captured into a CUDA graph, so the device does not run them yet."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


class Ranks:
    is_checking = False  # whether ranks compare their operations and values at every step (UCUDNN_CHECK=1)

    def __init__(self, grid, geometry):
        self.grid = grid
        self._geometry, self.is_checking = geometry, os.environ.get("UCUDNN_CHECK") == "1"
        self.rank = dist.get_rank()
        self.group, self.place = grid.place_of(self.rank)
        self.function = None  # function of torch whose rule runs
        self.calls = []  # with UCUDNN_CHECK=1: calls of torch with stripes since the ranks last compared them
        self._uses = self._stored = 0
        self._sums_alone = self._is_lost = False
        self._store, self._prefix, self._waiting = self._met()
        timeout = datetime.timedelta(seconds=self._waiting.seconds)
        # dist.new_group is collective: every rank must make every group, in the same order.
        self.members, self._groups = {}, {}
        for axes, lines in grid.lines().items():
            for members in lines:
                group = dist.new_group(members, timeout=timeout)
                if self.rank in members:
                    self.members[axes], self._groups[axes] = members, group
        atexit.register(self._leave)

    def _met(self):
        """Waits until all ranks are here. Their starts may be further apart than an exchange's time-out."""
        global _made
        _made += 1
        store, prefix, count = dist.distributed_c10d._get_default_store(), f"ucudnn/{_made}", dist.get_world_size()
        store.set(f"{prefix}/came/{self.rank}", "")
        store.wait([f"{prefix}/came/{rank}" for rank in range(count)])
        return store, prefix, Waiting(self.rank, count, store, prefix, patience())

    def close(self):
        self._waiting.close()

    def _leave(self):
        """Ends the groups' threads before the interpreter ends. Otherwise a gloo thread could release the last
        exchange's tensors later, which aborts the process. If a rank is lost, threads may still wait for it, so nothing
        is destroyed."""
        if self._device() == "cpu" and not self._is_lost and dist.is_initialized():
            while self._groups:  # a group's threads end when its last reference is dropped
                with contextlib.suppress(ValueError):  # the program has destroyed the group already
                    dist.destroy_process_group(self._groups.popitem()[1])

    @property
    def geometry(self):
        if self._geometry is None:
            self._geometry = Library()
        return self._geometry

    def sum_alone(self):
        """Tells libucudnn not to sum gradients, because this module does. Called before the first call inside which
        ucudnn exchanges. Not called when a model is converted, because the model may be moved to a GPU later."""
        if not self._sums_alone:
            self.geometry.sum_nothing()
            self._sums_alone = True

    def part(self, axis):
        return self.place[axis]

    def _with(self, what, members):
        """A context for an exchange of torch.distributed. If the exchange fails because a rank died or came too late,
        raises RankLost. Its text has `what` and the ranks."""
        def lost(text):
            self._is_lost = True
            return RankLost(text)
        return self._waiting.awaiting(what, members, lost, "UCUDNN_SPATIAL_TIMEOUT")

    def _travels(self, tensor):
        """Returns whether torch.distributed accepts the tensor without a copy. Ranks that share a GPU use gloo, which
        accepts only host memory."""
        if tensor.device.type == self._device():
            return True
        if is_capturing():
            raise NotSupported("the capture of a CUDA graph, in which torch.distributed over gloo would go through the host's "
                               "memory: use NCCL, with a GPU for each rank")
        return False

    def _sent(self, tensor):
        """Returns the tensor as torch.distributed accepts it."""
        return (tensor if self._travels(tensor) else tensor.cpu()).to(_SENT.get(tensor.dtype, tensor.dtype))

    def _announced(self, kind, axes, shape, dtype, rows=()):
        """Returns the name of an exchange for RankLost. With UCUDNN_CHECK=1, all ranks of the group first compare the
        exchanges that they begin. All raise unless ranks that differ only along `axes` have the same kind, type, shape
        and `rows` (the rows that each part has and needs)."""
        if self.is_checking and not is_capturing():
            what = f"{kind} along {', '.join(AXES[axis] for axis in axes)}"
            told = self.told_of(what, [f"{dtype} of shape {tuple(shape)}", zlib.crc32(repr(rows).encode())])
            if any(told[rank] != told[line[0]] for line in self.grid.lines()[tuple(axes)] if line[0] in told for rank in line):
                raise NotSupported("ranks do not make the same calls in the same order; make them alike on all: " + "; ".join(
                    f"rank {rank} begins {what}, {own} (rows {rows})" for rank, (own, rows) in told.items()))
        function = "" if self.function is None else f" in {getattr(self.function, '__name__', self.function)}"
        return f"{kind} of shape {tuple(shape)}{function}"

    def told_of(self, kind, values):
        """Returns {rank: its `values`} for the ranks of the group. `values` is JSON data of at most 400 bytes; `kind`
        names it. All ranks raise if `kind` differs, or if they have made different calls (UCUDNN_CHECK=1)."""
        axes = self.grid.cut_axes
        text = json.dumps([kind, zlib.crc32(repr(self.calls).encode()), values])
        own = torch.tensor(list(text.encode().ljust(500)[:500]), dtype=torch.uint8, device=self._device())
        found = [torch.empty_like(own) for _ in self.members[axes]]
        with self._with("a comparison of calls", self.members[axes]):
            dist.all_gather(found, own, group=self._groups[axes])
            told = {rank: json.loads(bytes(each.tolist())) for rank, each in zip(self.members[axes], found)}
            calls, made = [*self.calls, kind], [None] * len(found)
            self.calls.clear()
            if all(each[:2] == [kind, told[self.rank][1]] for each in told.values()):
                return {rank: values for rank, (*_, values) in told.items()}
            dist.all_gather_object(made, calls, group=self._groups[axes])
        first = next(at for at, each in enumerate(itertools.zip_longest(*made)) if len(set(each)) > 1)
        raise NotSupported("ranks do not make the same calls in the same order; make them alike on all: " + "; ".join(
            f"rank {rank} calls {', then '.join(own[first:][:3])}" for rank, own in zip(told, made)))

    def all_reduce(self, tensor, axes):
        """Sums `tensor` in place over the ranks that differ only along `axes`."""
        there = self._sent(tensor)
        with self._with(self._announced("a sum", axes, tensor.shape, tensor.dtype), self.members[tuple(axes)]):
            dist.all_reduce(there, group=self._groups[tuple(axes)])
        return tensor if there is tensor else tensor.copy_(there)

    def begin_sum(self, tensor, axes):
        """Begins an all_reduce. It runs in the background if both tensor and group are on the CPU. Otherwise it runs at
        once: on a device, a collective waits for earlier work of its stream, so two collectives at the same time could
        deadlock. Returns a function that waits for the sum and returns it."""
        axes = tuple(axes)
        if tensor.device.type != "cpu" or self._device() != "cpu":
            summed = self.all_reduce(tensor, axes)
            return lambda: summed
        what = self._announced("a sum", axes, tensor.shape, tensor.dtype)
        with self._with(what, self.members[axes]):
            work = dist.all_reduce(tensor, group=self._groups[axes], async_op=True)

        def end():
            with self._with(what, self.members[axes]):
                work.wait()
            return tensor
        return end

    def all_gather(self, tensor, axes, kind="values"):
        """Returns the tensors of all ranks whose places in the grid differ only along `axes`, stacked in the order of
        the ranks. All tensors have the same shape."""
        there = self._sent(tensor)
        found = [torch.empty_like(there) for _ in self.members[tuple(axes)]]
        with self._with(self._announced(kind, axes, tensor.shape, tensor.dtype), self.members[tuple(axes)]):
            dist.all_gather(found, there.contiguous(), group=self._groups[tuple(axes)])
        return torch.stack(found).to(tensor.device, tensor.dtype)

    def numbers(self, values, axes, kind="values"):
        """Returns a list of the `values` of the ranks that differ only along `axes`. Each rank gives equally many
        integers. During a capture, torch.distributed's store carries the integers; ranks also wait for each other
        there."""
        axes = tuple(axes)
        if not is_capturing():
            return self.all_gather(torch.tensor(values, dtype=torch.int64, device=self._device()), axes, kind).tolist()
        self._stored += 1
        keys = [f"{self._prefix}/numbers/{self._stored}/{rank}" for rank in self.members[axes]]
        with self._with(kind, self.members[axes]):
            self._store.set(f"{self._prefix}/numbers/{self._stored}/{self.rank}", json.dumps(values))
            self._store.wait(keys, datetime.timedelta(seconds=self._waiting.seconds))
            return [json.loads(self._store.get(key)) for key in keys]

    def told(self, axis, value):
        """Returns the `value` of every part along `axis`. For values that a program may have chosen separately on each
        rank."""
        return tuple(told for told, in self.numbers([value], (axis,)))

    def _device(self):
        return "cuda" if dist.get_backend() == "nccl" else "cpu"

    def begin(self):
        """Begins a pass of a model: forgets the uses of parameters that `note` has recorded."""
        self._uses = 0

    def note(self, shape, axes):
        self._uses = zlib.crc32(repr((tuple(shape), tuple(axes))).encode(), self._uses)

    def comparison(self):
        """Returns a hook that compares the recorded uses of parameters between ranks. All ranks must call it before
        gradients are summed."""
        uses = self._uses

        def compare(*_):
            told = self.numbers([uses], self.grid.cut_axes)
            if told.count(told[0]) < len(told):
                raise NotSupported("ranks of a group have not used the same parameters, in the same order: a gradient would "
                                   "be summed with another's; set UCUDNN_CHECK=1, which names the calls that differ")
        compare.may_be_dropped = True  # the hook may be dropped if a program overwrites the tensor
        return compare

    def swap(self, axis, sent, received, *like):
        """Sends the tensors `sent` and receives into `received`, each {part along `axis`: tensor}. `like`: shape
        without rows, type, and the rows that each part has and needs."""
        what = self._announced("rows", (axis,), *like)
        there = {part: tensor if self._travels(tensor) else torch.empty_like(tensor, device=self._device())
                 for part, tensor in received.items()}
        given = {part: tensor if self._travels(tensor) else tensor.to(self._device()) for part, tensor in sent.items()}
        members, group = self.members[(axis,)], self._groups[(axis,)]
        transfers = [dist.P2POp(dist.isend, tensor.contiguous(), members[part], group) for part, tensor in given.items()]
        transfers += [dist.P2POp(dist.irecv, tensor, members[part], group) for part, tensor in there.items()]
        if transfers:
            with self._with(what, [members[part] for part in (*sent, *received)]):
                self._await(dist.batch_isend_irecv(transfers))
        for part, tensor in there.items():
            if tensor is not received[part]:
                received[part].copy_(tensor)

    def _await(self, works):
        """Waits for point-to-point messages. gloo has no time-out for them, so they get one here. NCCL has its own."""
        ends = time.monotonic() + self._waiting.seconds
        for work in works:
            if self._device() == "cuda":
                work.wait()
            else:
                work.wait(datetime.timedelta(seconds=max(ends - time.monotonic(), 0.001)))


def init(grid=None, geometry=None):
    """Makes the grid of all ranks of torch.distributed, which must be initialised. Default: the grid of UCUDNN_SPATIAL.
    `grid` is a text such as "h2w2", or a DeviceMesh of all ranks whose dimensions are named n, d, h and w in this
    order; ValueError if UCUDNN_SPATIAL is set and differs. All ranks call it; shard and convert call it if no grid
    exists. `geometry` replaces libucudnn in tests."""
    global _current
    told = os.environ.get("UCUDNN_SPATIAL")
    count = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
    if grid is None and not told:
        if count > 1:
            raise NotSupported(f"{count} ranks, and no UCUDNN_SPATIAL that says how they cut an image: set it")
        _current = None
        return None
    if hasattr(grid, "mesh_dim_names"):
        grid = Grid.of_mesh(grid.mesh_dim_names, grid.mesh.shape, grid.mesh.flatten().tolist())
    elif not isinstance(grid, Grid):
        grid = Grid(grid or told)
    if told and grid != Grid(told):
        raise ValueError(f"the grid {grid.text} is not that of UCUDNN_SPATIAL={told}, which libucudnn splits by")
    if grid.ranks != count:
        raise NotSupported(f"the grid {grid.text} has {grid.ranks} ranks, but torch.distributed has {count}: start as many")
    if _current:
        _current.close()
    _current = Ranks(grid, geometry) if grid.cut_axes else None
    if _current:
        importlib.import_module(f"{__package__}.doors").close()
    return _current


def ranks():
    """Returns the ranks of the grid; None for a single rank without a grid."""
    return _current or init()
