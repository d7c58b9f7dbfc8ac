"""Checks made before anything is changed. They refuse what a rank would refuse while it runs, as far as that follows
from the network, the schedule, the losses and the checkpointed nodes. All ranks make the same checks, so all refuse
alike."""
from . import boxes as b
from .errors import NotSupported
from .losses import named
from .network import LOSSES
from .operators import RULES, activation_of


def check(network, schedule, losses, checkpointed=()):
    """Makes all checks of this file. `losses`: (function, weight) for each output, or None. `checkpointed`: names of
    nodes."""
    inner, statistics = schedule.passes.nodes if schedule.passes else (), {}
    for node in network.nodes:
        if node.inputs:
            _check_node(node, schedule.nodes[node.name], node.name in inner)
        for name in filter(None, node.call.get("statistics", ())):
            channels = {rank: box[b.C] for rank, box in schedule.nodes[node.name].boxes.items()}
            first, other = statistics.setdefault(name, (node.name, channels))
            if channels != other:
                raise NotSupported(f"{node.name}: its ranks have the channels {channels}, those of {first} {other}: the same are expected, "
                                   f"as both have {name}")
    if losses is not None:
        for output, (loss, _) in zip(network.outputs, losses):
            _check_loss(output, network.by_name[output.node].op, schedule, loss)
    if unknown := sorted(set(checkpointed) - set(network.by_name)):
        known = [node.name for node in network.nodes if node.inputs]
        raise NotSupported(f"checkpoint={unknown}: names of nodes are expected, as {known[:3]}")
    if norms := [name for name in checkpointed if network.by_name[name].op == "batch_normalization"]:
        raise NotSupported(f"checkpoint={norms}: batch normalizations, whose statistics are brought together once a pass")


def _check_node(node, scheduled, is_in_passes):
    whole, boxes = b.whole(node.shape, 1), scheduled.boxes.values()
    if node.op == "batch_normalization":
        if is_in_passes:
            raise NotSupported(f"{node.name}: batch normalization in passes, which would be over the images of one pass")
    elif node.op not in RULES:
        raise NotSupported(f"{node.name}: {node.op} has no rule at run time; operators with one are {', '.join(sorted(RULES))}")
    elif node.op == "activation" and activation_of(node) is None:
        raise NotSupported(f"{node.name}: the activation {node.members['kind']!r} has no rule at run time")
    elif node.op == "opaque":
        if node.call["function"] is None:
            raise NotSupported(f"{node.name}: the opaque operator {node.members.get('kind')!r} has no rule at run time")
        each = node.shape[0] // node.members.get("channel_parts", 1)
        for box in boxes:
            held = {"c": box[b.C] != whole[b.C] and (box[b.C][0] % each or box[b.C][1] % each),
                    "h": box[b.H] != whole[b.H] and not node.members.get("rows"),
                    "w": box[b.W] != whole[b.W] and not node.members.get("columns")}
            if axes := [axis for axis, is_cut in held.items() if is_cut]:
                raise NotSupported(f"{node.name}: {node.members.get('kind')} whose parts meet is divided along {axes[0]}")
    elif node.op == "softmax" and not node.call.get("is_in_loss") and any(box[b.C] != whole[b.C] for box in boxes):
        raise NotSupported(f"{node.name}: a softmax over divided channels that a layer reads; undivided ones have a rule")


def _check_loss(output, op, schedule, loss):
    if op in LOSSES.values() and LOSSES.get(named(loss)) != op:
        raise NotSupported(f"{output.node}: a plan for the loss {op}; another one is given: {loss!r}")
    scheduled = schedule.nodes[output.node]
    whole = b.whole(scheduled.shape, schedule.batch)
    for device, box in scheduled.boxes.items():
        if box[b.D:] != whole[b.D:]:
            raise NotSupported(f"{output.node}: the loss of an output that is divided along h or w; n and c have rules")
        if box[b.C] == whole[b.C] or named(loss) == "logistic":
            continue
        begin, end = box[b.C]
        if named(loss) != "cross_entropy" or output.dims != 2:
            raise NotSupported(
                f"{output.node}: classes {begin} to {end} of {scheduled.shape[0]} are on rank {device}, where F.cross_entropy "
                "and F.binary_cross_entropy_with_logits of two dimensions have rules, and other losses have none")
        if not any(one.node == output.node and one.kind == "classifier" for one in schedule.statistics.values()):
            raise NotSupported(f"{output.node}: a plan without statistics of a classifier whose classes are divided")
