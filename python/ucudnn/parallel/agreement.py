"""Agreement of ranks: if one rank refuses a call, all ranks refuse it, before anything else is exchanged."""
import datetime
import math
import zlib

import torch
import torch.distributed as dist

from .dropout import mixed
from .errors import NotSupported
from .transport import Transport


def differing(all_facts):
    """Describes the facts ({what: value}, for each rank) that differ between ranks; None if all are equal."""
    for what in dict.fromkeys(what for facts in all_facts for what in facts):
        first = all_facts[0].get(what)
        for rank, facts in enumerate(all_facts):
            if facts.get(what) != first:
                told = [text if len(text) <= 60 else f"{text[:57]}..." for text in (str(first), str(facts.get(what)))]
                return f"ranks differ in {what}: {told[0]} on rank 0, {told[1]} on rank {rank}; the same is expected"
    return None


def digest(tensor):
    """Returns a number that depends on each bit of a tensor with at least one dimension, and on its place. It is computed where
    the tensor is: on the host a CRC."""
    rows = tensor.detach().contiguous().reshape(len(tensor), math.prod(tensor.shape[1:]))
    if not rows.is_cuda:
        return zlib.crc32(rows.view(torch.uint8).cpu().numpy())
    bits = rows.view({1: torch.uint8, 2: torch.int16}.get(rows.itemsize, torch.int32))
    weights = mixed(torch.arange(bits.shape[1], device=bits.device)) | 1
    sums = torch.stack([(row * weights).sum() for row in bits])  # one row at a time, because products have 8 bytes
    return mixed(mixed(torch.arange(len(sums), device=sums.device)) + sums).sum().item()


class Alone:
    """The agreement of one rank with itself, for one process, and for meta tensors, which have no values."""

    is_alone = True

    def bring(self, what, allowed, told="", facts=None, refusal=None):
        if refusal is not None:
            raise refusal
        return allowed

    def are_equal(self, what, values):
        return [True] * len(values)

    def give(self, what, tensor, source):
        pass

    def gather(self, what, tensor):
        return [tensor]

    def close(self):
        pass


class Agreement:
    """Agreement of all ranks of torch.distributed, in a gloo group of its own, because it is about numbers of the
    host."""

    is_alone = False

    def __init__(self, timeout_s):
        group = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=timeout_s))
        self.transport = Transport(group, timeout_s)

    def bring(self, what, allowed, told="", facts=None, refusal=None):
        """Returns the bits that `allowed`, a number above 0, has on all ranks. If a rank has a `refusal`, facts differ
        or no bit is left, every rank raises: its own refusal, or NotSupported with another rank's refusal, with the
        facts, or with the text `told` of each rank. So it does where `what` differs, because ranks have made different calls."""
        facts = facts or {}
        checksum = zlib.crc32(repr((what, facts)).encode())
        own = torch.tensor([0 if refusal else allowed, checksum, ~checksum])
        common, everybody = own.clone(), range(self.transport.world)
        with self.transport.named(f"agreement on {what}", everybody):
            dist.all_reduce(common, dist.ReduceOp.BAND, group=self.transport.group)
            if common[0] and torch.equal(common[1:], own[1:]):
                return int(common[0])
        answers = self.answers(what, (refusal and str(refusal), facts, told, what))
        for rank, (_, _, _, other) in enumerate(answers):
            if other != answers[0][3]:
                raise NotSupported(f"ranks make different calls: {answers[0][3]} on rank 0, {other} on rank {rank}; all ranks make each "
                                   "call, in the same order")
        if refusal is not None:
            raise refusal
        for rank, (text, _, _, _) in enumerate(answers):
            if text is not None:
                raise NotSupported(f"rank {rank} refuses: {text}")
        raise NotSupported(differing([facts for _, facts, _, _ in answers]) or
                           f"{what}: {', '.join(f'{text} on rank {rank}' for rank, (_, _, text, _) in enumerate(answers))}")

    def are_equal(self, what, values):
        """Returns for each of several numbers whether it is the same on all ranks that have it, where it is not None."""
        common = torch.tensor([[-1, -1] if value is None else [value, ~value] for value in values])
        with self.transport.named(f"agreement on {what}", range(self.transport.world)):
            dist.all_reduce(common, dist.ReduceOp.BAND, group=self.transport.group)
        return (common[:, 0] == ~common[:, 1]).tolist()

    def give(self, what, tensor, source):
        """Overwrites a tensor of the host with that of the rank `source`."""
        with self.transport.named(f"agreement on {what}", range(self.transport.world)):
            dist.broadcast(tensor.reshape(-1).view(torch.uint8), source, group=self.transport.group)

    def gather(self, what, tensor):
        """Returns the tensors of the host of all ranks."""
        found = [torch.empty_like(tensor) for _ in range(self.transport.world)]
        with self.transport.named(f"agreement on {what}", range(self.transport.world)):
            dist.all_gather(found, tensor, group=self.transport.group)
        return found

    def answers(self, what, own):
        """Returns the objects `own` of all ranks."""
        found = [None] * self.transport.world
        with self.transport.named(f"agreement on {what}", range(self.transport.world)):
            dist.all_gather_object(found, own, group=self.transport.group)
        return found

    def compare(self, what, numbers):
        """Has all ranks refuse numbers, {what: number}, that differ between ranks that have them: None is a rank's that has none."""
        if not numbers:
            return
        equal = self.are_equal(what, numbers.values())
        if all(equal):
            return
        name = list(numbers)[equal.index(False)]
        answers = self.answers(what, numbers[name])
        (first, number), *rest = [(rank, answer) for rank, answer in enumerate(answers) if answer is not None]
        rank, other = next(one for one in rest if one[1] != number)
        raise NotSupported(f"ranks differ in {name}: {number} on rank {first}, {other} on rank {rank}; the same is expected")

    def close(self):
        self.transport.close()
        dist.destroy_process_group(self.transport.group)
