"""`pins` copies configurations from the plan of another network, whose layers have other names."""
from .errors import NotSupported
from .schedule import read


def pins(plan, names):
    """Returns options of `ucudnn plan` that divide nodes of a described model as the schedule file `plan` divides the
    layers of another network: each node gets the degrees of a layer, which are its numbers of parts along each axis.
    `names` maps layers of that network to nodes of the model, for example {"conv1": "features.0"}. `ucudnn plan`
    chooses the degrees of all other nodes. Does not import torch.

    Raises ValueError if `names` has a layer that the plan lacks or the same node twice, and NotSupported for a plan in
    passes, whose layers share the schedule of the passes."""
    schedule = read(plan)
    layers = [node.name for node in schedule.nodes.values() if node.is_layer and node.inputs]
    if schedule.passes:
        raise NotSupported(f"{plan} is in passes of scheme {schedule.passes.scheme}: ucudnn plan --strategy owt --scheme "
                           f"{schedule.passes.scheme} makes such a plan of the model itself")
    found, taken = [], {}
    for layer, node in names.items():
        if layer not in layers:
            raise ValueError(f"{layer!r} is no layer of {schedule.name}; its layers are {', '.join(layers)}")
        if taken.setdefault(node, layer) != layer:
            raise ValueError(f"{taken[node]!r} and {layer!r} are both {node!r}; a node has the degrees of one layer")
        degrees = schedule.nodes[layer].degrees
        found += ["--pin", f"{node}={''.join(f'{axis}{parts}' for axis, parts in degrees.items() if parts > 1) or 'n1'}"]
    return found
