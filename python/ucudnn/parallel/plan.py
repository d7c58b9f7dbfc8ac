"""Precomputes the data that the steps of a schedule need on one rank."""
from . import boxes as b
from .labels import Labels
from .moves import Meeting, Move
from .norm import Shares
from .operators import OVERWRITING, OVERWRITTEN


class Plan:
    """The data that the steps of a schedule need on one rank, for one batch size or for one pass over some images of a
    batch."""

    def __init__(self, executor, schedule):
        self.schedule, rank, transport = schedule, executor.rank, executor.transport
        self.moves, self.trained, self.returning, self.passes = {}, executor.trained, executor.returning(), {}
        for exchange in schedule.exchanges.values():
            held, needed = schedule.boxes_of(exchange)
            axes = b.axes_of(len(schedule.nodes[exchange.node].shape) - 1)
            move = Move(f"exchange {exchange.id} ({exchange.node} for {exchange.consumer})", transport, held, needed, axes,
                        exchange.input is None, exchange.node in self.returning)
            if move.is_part:
                self.moves[exchange.id] = move
        self.meetings, self.classifiers, self.loss, self.shares = {}, {}, {}, {}
        for one in schedule.statistics.values():
            group = next((group for group in executor.groups_of(one) if rank in group.devices), None)
            if group:
                meeting = Meeting(f"statistics {one.id} ({one.kind} of {one.node})", transport, group.devices)
                {"classifier": self.classifiers, "loss": self.loss}.get(one.kind, self.meetings)[one.node] = meeting
            if one.kind == "group_normalization" and group and len(group.devices) > 1:
                self.shares[one.node] = Shares(executor.network.by_name[one.node], group.devices, schedule.nodes[one.node].boxes,
                                               rank)
        everybody = tuple(range(schedule.devices))
        data = next(node for node in schedule.nodes.values() if not node.inputs)
        self.input = data
        rows = {device: box[b.N] for device, box in data.boxes.items()}
        self.rows, self.labels = rows.get(rank), {}
        ends = sorted({end for interval in rows.values() for end in interval})
        loaded = {(begin, end): [device for device, (low, high) in rows.items() if low <= begin and end <= high]
                  for begin, end in zip(ends, ends[1:])}
        # images that several ranks load
        self.shared = {images: devices for images, devices in loaded.items() if len(devices) > 1}
        self.whole_labels = Labels(rank, rows, dict.fromkeys(everybody, (0, schedule.batch)))
        for output in executor.network.outputs:
            name = output.node
            self.loss.setdefault(name, Meeting(f"the loss of {name}", transport, everybody))
            wanted = {device: box[b.N] for device, box in schedule.nodes[name].boxes.items()}
            self.labels[name] = Labels(rank, rows, wanted)
        inner = schedule.passes.nodes if schedule.passes else ()
        kept = {output.node for output in executor.network.outputs}
        kept.update(source for name in inner for source in executor.network.by_name[name].inputs)
        reads = self._reads(executor.network)
        self.finished = {}  # {place in the order: nodes whose output no later step reads}
        for name, places in reads.items():
            if name not in kept:
                self.finished.setdefault(places[-1], []).append(name)
        read_once = {name for name, places in reads.items() if len(places) == 1} - kept
        self.overwriting = self._overwriting(executor, read_once, executor.checkpointed.union(inner))

    def _reads(self, network):
        """Returns {node: places in the order of the steps that read its output}."""
        schedule, reads = self.schedule, {}
        for place, (kind, what, *_) in enumerate(schedule.order):
            if kind == "forward":
                for source in network.by_name[what].inputs:
                    reads.setdefault(source, []).append(place)
            elif kind in ("exchange", "wait") and (what in self.moves or schedule.exchanges[what].input is None):
                reads.setdefault(schedule.exchanges[what].node, []).append(place)
        return reads

    def _overwriting(self, executor, read_once, computed_again):
        """Returns the nodes that may write their output over their first input. No other node reads such an input."""
        nodes, overwriting = self.schedule.nodes, set()
        for node in executor.network.nodes:
            if node.op not in OVERWRITING or node.name in computed_again:
                continue
            source = executor.network.by_name[node.inputs[0]]
            if source.op in OVERWRITTEN and source.name in read_once and not nodes[source.name].partial and \
                    source.name not in executor.checkpointed and not (nodes[node.name].is_layer and nodes[source.name].is_layer):
                overwriting.add(node.name)
        return overwriting
