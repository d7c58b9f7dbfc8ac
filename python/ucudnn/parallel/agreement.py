"""Agreement of ranks: if one rank refuses a call, all ranks refuse it before they exchange anything else."""
import math
import zlib

import torch
import torch.distributed as dist

from .dropout import mixed
from .errors import NotSupported
from .transport import Transport


def differing(all_facts):
    """`all_facts` has a dict {what: value} for each rank. Returns a text about the first value that differs between
    ranks, or None if all are equal."""
    for what in dict.fromkeys(what for facts in all_facts for what in facts):
        first = all_facts[0].get(what)
        for rank, facts in enumerate(all_facts):
            if facts.get(what) != first:
                told = [text if len(text) <= 60 else f"{text[:57]}..." for text in (str(first), str(facts.get(what)))]
                return f"ranks differ in {what}: {told[0]} on rank 0, {told[1]} on rank {rank}; the same is expected"
    return None


def digest(tensor):
    """Returns a hash of a tensor with at least one dimension. The hash depends on every bit and its position. It is
    computed on the tensor's device; for a tensor on the host it is a CRC-32."""
    rows = tensor.detach().contiguous().reshape(len(tensor), math.prod(tensor.shape[1:]))
    if not rows.is_cuda:
        return zlib.crc32(rows.view(torch.uint8).cpu().numpy())
    bits = rows.view({1: torch.uint8, 2: torch.int16}.get(rows.itemsize, torch.int32))
    weights = mixed(torch.arange(bits.shape[1], device=bits.device)) | 1
    # one row at a time, because the int64 products need 8 bytes for each element
    sums = torch.stack([(row * weights).sum() for row in bits])
    return mixed(mixed(torch.arange(len(sums), device=sums.device)) + sums).sum().item()


class Alone:
    """Replaces Agreement where there are no other ranks to ask: in a single process, and on meta tensors."""

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

    def answers(self, what, own):
        return [own]

    def close(self):
        pass


class Agreement:
    """Agreement of all ranks of torch.distributed. It has a gloo group of its own, because the compared numbers are on
    the host."""

    is_alone = False

    def __init__(self, timeout_s):
        self.transport = Transport(None, timeout_s, "gloo")

    def bring(self, what, allowed, told="", facts=None, refusal=None):
        """`allowed` is a bit mask above 0. Returns the bits that are set on all ranks. Every rank raises if a rank has
        a `refusal`, if `what` or `facts` differ, or if no common bit is left. A rank with a refusal raises its own.
        Other ranks raise NotSupported with that refusal, the different facts, or the text `told` of each rank. If
        `what` differs, ranks have made different calls."""
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
        """Returns a list that says for each of the numbers `values` whether it is equal on all ranks. A rank whose
        value is None is left out of the comparison."""
        common = torch.tensor([[-1, -1] if value is None else [value, ~value] for value in values])
        with self.transport.named(f"agreement on {what}", range(self.transport.world)):
            dist.all_reduce(common, dist.ReduceOp.BAND, group=self.transport.group)
        return (common[:, 0] == ~common[:, 1]).tolist()

    def give(self, what, tensor, source):
        """Overwrites `tensor`, which is on the host, with the tensor of rank `source`. All ranks call it with tensors
        of the same shape."""
        with self.transport.named(f"agreement on {what}", range(self.transport.world)):
            dist.broadcast(tensor.reshape(-1).view(torch.uint8), source, group=self.transport.group)

    def gather(self, what, tensor):
        """Returns a list of every rank's `tensor`. All tensors are on the host and have the same shape."""
        found = [torch.empty_like(tensor) for _ in range(self.transport.world)]
        with self.transport.named(f"agreement on {what}", range(self.transport.world)):
            dist.all_gather(found, tensor, group=self.transport.group)
        return found

    def answers(self, what, own):
        """Returns a list of every rank's object `own`."""
        found = [None] * self.transport.world
        with self.transport.named(f"agreement on {what}", range(self.transport.world)):
            dist.all_gather_object(found, own, group=self.transport.group)
        return found

    def compare(self, what, numbers):
        """`numbers` is {what: number}; a rank without a number has None. Raises NotSupported on all ranks if two ranks
        have different numbers."""
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
