"""Messages between ranks, over gloo or NCCL. All ranks post them in the same order, and wait where a message is needed.
Elements are counted here, at torch.distributed, and not taken from the schedule."""
import collections
import datetime
import time

import torch
import torch.distributed as dist

from ucudnn.spatial import waiting

from .errors import RankLost

_made = 0  # number of Transports made so far; the same on every rank


class Counts:
    """Elements that this rank has sent and received since the last `clear`: [kind][peer] = [sent, received]."""

    def __init__(self):
        self.under_way = [0, 0]
        self.clear()

    def clear(self):
        self.elements = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0]))
        self.messages = 0
        self.waited_ms = collections.defaultdict(float)
        self.hidden_ms = collections.defaultdict(float)
        self.most_under_way = [0, 0]

    def add(self, kind, peer, direction, elements):
        self.elements[kind][peer][direction] += elements
        self.messages += 1

    def time(self, kind, waited, hidden):
        """Adds two times in seconds for messages of `kind`: `waited`, for which the program waited, and `hidden`, for
        which messages were under way while the program computed."""
        self.waited_ms[kind] += waited * 1e3
        self.hidden_ms[kind] += hidden * 1e3

    def fly(self, elements, size):
        """Adds `elements` to the count of elements in messages that are kept now; a negative number removes some."""
        self.under_way = [self.under_way[0] + elements, self.under_way[1] + elements * size]
        self.most_under_way = [*map(max, self.most_under_way, self.under_way)]

    def total(self, kind):
        """Returns [sent, received] elements of a kind, over all peers."""
        pairs = self.elements[kind].values()
        return [sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)]


class Flight:
    """Messages that were posted. `wait` returns the arrived tensors, by peer."""

    def __init__(self, transport, what, kind, works, arriving, kept, peers):
        self.transport, self.what, self.kind, self.works = transport, what, kind, works
        self.arriving, self.kept, self.peers, self.posted = arriving, kept, peers, time.monotonic()
        self.received = sum(buffer.numel() for buffer, _ in arriving.values())
        self._fly(1)

    def _fly(self, sign):
        for tensor in (*self.kept, *(buffer for buffer, _ in self.arriving.values())):
            self.transport.counts.fly(sign * tensor.numel(), tensor.element_size())

    def wait(self):
        began = time.monotonic()
        arrived = self.arrived()
        self.transport.counts.time(self.kind, time.monotonic() - began, began - self.posted)
        return arrived

    def arrived(self):
        """Waits for the messages without adding to the waiting time. Returns the arrived tensors, by peer."""
        self.transport.await_works(self.what, self.works, self.peers)
        arrived = {peer: buffer.to(device) for peer, (buffer, device) in self.arriving.items()}
        self._fly(-1)
        self.works, self.kept, self.arriving = (), (), {}
        return arrived


class Transport:
    """The transport of one rank in one process group. Two transports may work at the same time, for example one for
    exchanges and another for sums."""

    def __init__(self, group, timeout_s, backend=None):
        """If `group` is None, all ranks make a new one, over `backend` or else over the default group's backend. Raises
        RankLost if a rank does not make its Transport within `timeout_s`."""
        global _made
        _made += 1
        self.seconds, self.counts = timeout_s, Counts()
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.tags = {True: collections.Counter(), False: collections.Counter()}  # messages so far, by direction and peer
        store = dist.distributed_c10d._get_default_store()
        self.waiting = waiting.Waiting(self.rank, self.world, store, f"ucudnn/parallel/{_made}", timeout_s, "ucudnn.parallel")
        if group is None:
            with self.named("a call of parallel.apply", range(self.world)):
                self.waiting.meet()
                group = dist.new_group(backend=backend, timeout=datetime.timedelta(seconds=timeout_s))
        self.group, self.is_nccl = group, dist.get_backend(group) == "nccl"

    def _tag(self, is_sent, peer):
        self.tags[is_sent][peer] += 1
        return self.tags[is_sent][peer] % (1 << 30)

    def post(self, what, kind, sends, receives, device):
        """Posts at most one message to and from each peer and returns a Flight. `sends`: tensor by peer; `receives`:
        (shape, type) by peer. Sent tensors are copied if they are not contiguous, and kept alive until they have
        left."""
        staged = torch.device("cpu") if device.type == "cuda" and not self.is_nccl else device
        kept, operations, arriving, works = [], [], {}, []
        with self.named(what, [*sends, *receives]):
            for peer in sorted({*sends, *receives}):
                if peer in sends:
                    tensor = sends[peer].detach().to(staged).contiguous()
                    kept.append(tensor)
                    self.counts.add(kind, peer, 0, tensor.numel())
                    operations.append((dist.isend, tensor, peer, True))
                if peer in receives:
                    shape, dtype = receives[peer]
                    buffer = torch.empty(shape, dtype=dtype, device=staged)
                    arriving[peer] = (buffer, device)
                    self.counts.add(kind, peer, 1, buffer.numel())
                    operations.append((dist.irecv, buffer, peer, False))
            if self.is_nccl:
                if operations:
                    works = dist.batch_isend_irecv([dist.P2POp(call, tensor, peer, self.group)
                                                    for call, tensor, peer, _ in operations])
            else:
                works = [call(_bytes(tensor), peer, group=self.group, tag=self._tag(is_sent, peer))
                         for call, tensor, peer, is_sent in operations]
        return Flight(self, what, kind, works, arriving, kept, [*sends, *receives])

    def await_works(self, what, works, peers):
        ends = time.monotonic() + self.seconds
        with self.named(what, list(peers)):
            for work in works:
                if self.is_nccl:
                    work.wait()
                else:  # gloo has no time-out for messages between two ranks
                    work.wait(datetime.timedelta(seconds=max(ends - time.monotonic(), 0.001)))

    def named(self, what, members):
        """Turns errors of torch.distributed in this context into RankLost, whose text says what was awaited and from
        which ranks."""
        return self.waiting.awaiting(what, members, RankLost, "the time-out")

    def close(self):
        self.waiting.close()


def _bytes(tensor):
    """Returns the tensor's memory as bytes: gloo then carries any type and any number of elements."""
    return tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor.new_empty(0, dtype=torch.uint8)


class MetaTransport:
    """Counts messages without sending them, for a rank on meta tensors that is alone in its process."""

    def __init__(self, rank, world):
        self.rank, self.world, self.counts = rank, world, Counts()

    def post(self, what, kind, sends, receives, device):
        for peer, tensor in sends.items():
            self.counts.add(kind, peer, 0, tensor.numel())
        arriving = {}
        for peer, (shape, dtype) in receives.items():
            arriving[peer] = (torch.empty(shape, dtype=dtype, device=device), device)
            self.counts.add(kind, peer, 1, arriving[peer][0].numel())
        return Flight(self, what, kind, (), arriving, [*sends.values()], [])

    def await_works(self, what, works, peers):
        pass

    def close(self):
        pass
