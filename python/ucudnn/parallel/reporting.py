"""Reports the elements that a step moved and kept, next to the plan's predictions."""
import resource
from dataclasses import dataclass, field

import torch

from . import boxes as b
from .ledger import WHAT
from .schedule import phases_of

KINDS = ("transfer", "update", "statistics", "labels")


@dataclass
class Report:
    """One rank's report on the passes since the last report. `predicted` and `counted`: [sent, received] elements by
    kind and peer. `kept`: [elements, bytes] for each kind of ledger.WHAT. `planned`: the plan's elements of these
    kinds, if it has them. `peak_bytes`: peak of torch's allocator, or of the whole process if torch has no count."""
    rank: int
    predicted: dict
    counted: dict
    waited_ms: dict = field(default_factory=dict)
    hidden_ms: dict = field(default_factory=dict)
    kept: dict = field(default_factory=dict)
    planned: dict = field(default_factory=dict)
    peak_bytes: int = 0
    is_peak_of_process: bool = True
    steps: int = 1  # backward passes

    def difference(self):
        """Returns the sum of |counted - predicted| over all kinds and peers."""
        total = 0
        for kind in KINDS:
            peers = {*self.predicted.get(kind, {}), *self.counted.get(kind, {})}
            for peer in peers:
                predicted = self.predicted.get(kind, {}).get(peer, [0, 0])
                counted = self.counted.get(kind, {}).get(peer, [0, 0])
                total += sum(abs(c - p) for c, p in zip(counted, predicted))
        return total

    def __str__(self):
        lines = [f"rank {self.rank}, elements of {self.steps} step{'s' if self.steps != 1 else ''}: sent and received"]
        for kind in KINDS:
            told = [_total(found.get(kind, {})) for found in (self.predicted, self.counted)]
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


def predicted(executor):
    """Returns this rank's [sent, received] by kind and peer for the passes since the last report, computed only from
    the schedules' boxes."""
    found, parts = {}, {}
    for (kind, is_backward), passes in executor.passes_run.items():
        if kind not in parts:
            parts[kind] = _of_pass(executor, kind)
        for what, pairs in parts[kind][is_backward].items():
            for peer, (sent, received) in pairs.items():
                _add(found, what, peer, passes * sent, passes * received)
    return found


def _of_pass(executor, kind):
    """Returns (elements of a forward pass, elements of a backward pass). Gradients of frozen parameters are not summed,
    and gradients that no node reads are not sent."""
    plan, rank, forward, backward = kind.plan, executor.rank, {}, {}
    schedule, has_loss = plan.schedule, kind.label_elements is not None
    inner = schedule.passes.nodes if schedule.passes else ()
    for exchange in schedule.exchanges.values():
        held, needed = schedule.boxes_of(exchange)
        if exchange.consumer in inner:  # gradients of these exchanges are sent before the forward pass ends
            back = forward if has_loss and kind.is_recording else {}
        else:
            back = backward
        for source, have in held.items():
            for target, need in needed.items():
                if source == target or rank not in (source, target):
                    continue
                count = b.elements(b.meet(have, need))
                sent, received = (count, 0) if rank == source else (0, count)
                if count:
                    _add(forward, "transfer", target if sent else source, sent, received)
                if count and exchange.node in plan.returning:
                    _add(back, "transfer", target if sent else source, received, sent)
    for summed in executor.sums if kind.is_synchronous else ():
        elements = sum(executor.parameters[name].numel() for name in summed.names if plan.trained[name])
        for phase in phases_of(schedule, summed.devices, elements):
            for sender, to, (begin, end) in phase:
                if rank in (sender, to):
                    _add(backward, "update", to if rank == sender else sender, end - begin, end - begin)
    _add_statistics(executor, kind, forward, backward)
    for output in executor.network.outputs if has_loss else ():
        labels = plan.labels[output.node]
        for source, pieces in labels.receives.items():
            if source != rank:
                _add(forward, "labels", source, 0, kind.label_elements * sum(end - begin for begin, end in pieces))
        for target, pieces in labels.sends.items():
            _add(forward, "labels", target, kind.label_elements * sum(end - begin for begin, end in pieces), 0)
    return forward, backward


def _add_statistics(executor, kind, forward, backward):
    losses = dict(zip((output.node for output in executor.network.outputs), (loss for loss, _ in executor.losses or ())))
    for one in kind.plan.schedule.statistics.values():
        if one.kind == "classifier" and losses.get(one.node) != "cross_entropy" or one.node in kind.running or \
                one.kind in ("classifier", "loss") and kind.label_elements is None:
            continue
        for group in executor.groups_of(one):
            if executor.rank in group.devices and len(group.devices) > 1:
                others = group.devices[1:] if executor.rank == group.devices[0] else group.devices[:1]
                for peer in others:
                    _add(forward, "statistics", peer, group.forward, group.forward)
                    if one.node in kind.plan.returning:
                        _add(backward, "statistics", peer, group.backward, group.backward)


def _kept(executor):
    executor.ledger.settle()
    parameters = executor.parameters.values()
    most = [sum(found) for found in zip(executor.transport.counts.most_under_way, executor.summing.counts.most_under_way)]
    return executor.ledger.most | {"messages": most, "parameters": [
        sum(parameter.numel() for parameter in parameters),
        sum(parameter.numel() * parameter.element_size() for parameter in parameters)]}


def _planned(schedule, rank):
    """Returns the plan file's memory figures for device `rank`, or {} if the file has none."""
    try:
        return next(one["memory"] for one in schedule.elements["by_device"] if one["device"] == rank)
    except (AttributeError, KeyError, StopIteration, TypeError):
        return {}


def _peak(device):
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device), False
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, True


def report(model):
    """Returns a Report: the elements that this rank has sent and received since the last report (or since `apply`),
    counted at torch.distributed, and the plan's prediction for the passes that have run."""
    executor = model._ucudnn
    executor.read_model(model)
    counts = executor.transport.counts
    counted = {kind: {peer: list(pair) for peer, pair in found.items()} for kind, found in counts.elements.items()}
    for kind, found in executor.summing.counts.elements.items():
        counted[kind] = {peer: list(pair) for peer, pair in found.items()}
    waited = dict(counts.waited_ms) | dict(executor.summing.counts.waited_ms)
    hidden = dict(counts.hidden_ms) | dict(executor.summing.counts.hidden_ms)
    found = Report(executor.rank, predicted(executor), counted, waited, {kind: max(0.0, ms) for kind, ms in hidden.items()},
                   _kept(executor), _planned(executor.schedule, executor.rank), *_peak(executor.device),
                   sum(passes for (_, is_backward), passes in executor.passes_run.items() if is_backward))
    executor.ledger.clear()
    counts.clear()
    executor.summing.counts.clear()
    executor.passes_run.clear()
    return found
