"""Reports the elements that a step moved and kept, beside the plan's predictions."""
import resource
from dataclasses import dataclass, field

import torch

from . import boxes as b
from .ledger import WHAT
from .schedule import phases_of

KINDS = ("transfer", "update", "statistics", "labels")


@dataclass
class Report:
    """The report of one rank and one pass forward and backward. Elements are [sent, received] by kind and peer. `kept`:
    [elements, bytes] for each kind of ledger.WHAT; `planned`: the elements of these kinds by the plan, if it has them.
    `peak_bytes`: of torch's allocator, or of the whole process if torch has no count."""
    rank: int
    predicted: dict
    counted: dict
    waited_ms: dict = field(default_factory=dict)
    hidden_ms: dict = field(default_factory=dict)
    kept: dict = field(default_factory=dict)
    planned: dict = field(default_factory=dict)
    peak_bytes: int = 0
    is_peak_of_process: bool = True
    steps: int = 1

    def difference(self):
        """Returns the elements by which counts differ from predictions, over all kinds and peers."""
        total = 0
        for kind in KINDS:
            peers = {*self.predicted.get(kind, {}), *self.counted.get(kind, {})}
            for peer in peers:
                predicted = self.predicted.get(kind, {}).get(peer, [0, 0])
                counted = self.counted.get(kind, {}).get(peer, [0, 0])
                total += sum(abs(c - p * self.steps) for c, p in zip(counted, predicted))
        return total

    def __str__(self):
        lines = [f"rank {self.rank}, elements of {self.steps} step{'s' if self.steps != 1 else ''}: sent and received"]
        for kind in KINDS:
            told = [_total(found.get(kind, {})) for found in (self.predicted, self.counted)]
            told[0] = [count * self.steps for count in told[0]]
            lines.append(
                f"  {kind:<10} predicted {told[0][0]:>12} {told[0][1]:>12}   counted {told[1][0]:>12} {told[1][1]:>12}   "
                f"waited {self.waited_ms.get(kind, 0.0):8.1f} ms, under way meanwhile {self.hidden_ms.get(kind, 0.0):8.1f} ms")
        lines.append(f"  difference {self.difference()}")
        lines.append("  kept by one step, at most")
        for what, text in WHAT.items():
            elements, size = self.kept.get(what, [0, 0])
            plan = f"predicted {self.planned[what]:>12}   " if what in self.planned else " " * 25
            lines.append(f"    {text:<42} {plan}counted {elements:>12}   {size / 2**20:8.1f} MiB")
        of = "the process" if self.is_peak_of_process else "torch"
        lines.append(f"    {f'peak of {of}':<42} {self.peak_bytes / 2**20:58.1f} MiB")
        return "\n".join(lines)


def _total(pairs):
    return [sum(pair[0] for pair in pairs.values()), sum(pair[1] for pair in pairs.values())]


def _add(found, kind, peer, sent, received):
    pair = found.setdefault(kind, {}).setdefault(peer, [0, 0])
    pair[0] += sent
    pair[1] += received


def predicted(executor, batch=None, label_elements=1):
    """Returns [sent, received] of one training step of this rank, by kind and peer, from the schedule's boxes alone.
    Gradients of frozen parameters are not summed, and gradients that nothing reads do not travel."""
    plan = executor.plan(batch or executor.schedule.batch)
    schedule, rank, found = plan.schedule, executor.rank, {}
    for exchange in schedule.exchanges.values():
        held, needed = schedule.boxes_of(exchange)
        returns = exchange.node in plan.returning
        for source, have in held.items():
            for target, need in needed.items():
                if source == target or rank not in (source, target):
                    continue
                count = b.elements(b.meet(have, need))
                if count:
                    back = count if returns else 0
                    if rank == source:
                        _add(found, "transfer", target, count, back)
                    else:
                        _add(found, "transfer", source, back, count)
    for summed in executor.sums:
        elements = sum(executor.parameters[name].numel() for name in summed.names if executor.parameters[name].requires_grad)
        for phase in phases_of(schedule, summed.devices, elements):
            for sender, to, (begin, end) in phase:
                if rank in (sender, to):
                    _add(found, "update", to if rank == sender else sender, end - begin, end - begin)
    losses = dict(zip((output.node for output in executor.network.outputs), (loss for loss, _ in executor.losses or ())))
    for one in schedule.statistics.values():
        if one.kind == "classifier" and losses.get(one.node) != "cross_entropy":
            continue
        returns = "normalization" not in one.kind or one.node in plan.returning
        for group in executor.groups_of(one):
            if rank in group.devices and len(group.devices) > 1:
                count = group.forward + (group.backward if returns else 0)
                others = group.devices[1:] if rank == group.devices[0] else group.devices[:1]
                for peer in others:
                    _add(found, "statistics", peer, count, count)
    for output in executor.network.outputs:
        labels = plan.labels[output.node]
        for source, pieces in labels.receives.items():
            if source != rank:
                _add(found, "labels", source, 0, label_elements * sum(end - begin for begin, end in pieces))
        for target, pieces in labels.sends.items():
            _add(found, "labels", target, label_elements * sum(end - begin for begin, end in pieces), 0)
    return found


def _kept(executor):
    executor.ledger.settle()
    parameters = executor.parameters.values()
    most = [sum(found) for found in zip(executor.transport.counts.most_under_way, executor.summing.counts.most_under_way)]
    return executor.ledger.most | {"messages": most, "parameters": [
        sum(parameter.numel() for parameter in parameters),
        sum(parameter.numel() * parameter.element_size() for parameter in parameters)]}


def _planned(schedule, rank):
    """Returns the plan file's figures of a device's memory."""
    try:
        return next(one["memory"] for one in schedule.elements["by_device"] if one["device"] == rank)
    except (AttributeError, KeyError, StopIteration, TypeError):
        return {}


def _peak(device):
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device), False
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, True


def report(model):
    """Returns the elements that this rank has sent and received since the last report, or since `apply`, counted around
    torch.distributed, beside the plan's prediction for as many training steps. Evaluations in between are counted, but
    not predicted."""
    executor = model._ucudnn
    executor.read_model(model)
    counts = executor.transport.counts
    counted = {kind: {peer: list(pair) for peer, pair in found.items()} for kind, found in counts.elements.items()}
    for kind, found in executor.summing.counts.elements.items():
        counted[kind] = {peer: list(pair) for peer, pair in found.items()}
    waited = dict(counts.waited_ms) | dict(executor.summing.counts.waited_ms)
    hidden = dict(counts.hidden_ms) | dict(executor.summing.counts.hidden_ms)
    found = Report(executor.rank, predicted(executor, label_elements=executor.label_elements), counted, waited, hidden,
                   _kept(executor), _planned(executor.schedule, executor.rank), *_peak(executor.device),
                   max(executor.steps_counted, 1))
    executor.ledger.clear()
    counts.clear()
    executor.summing.counts.clear()
    executor.steps_counted = 0
    return found
