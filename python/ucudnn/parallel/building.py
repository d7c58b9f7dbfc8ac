"""Builds a module from a ucudnn-net file: `module(net.json)`. For networks that `ucudnn net NAME -o net.json` writes,
which have no PyTorch program."""
import math
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

from . import boxes as b
from .operators import Call, compute
from .reading import network_in


def module(path):
    """Returns a module of a ucudnn-net file. Initializes weights as torch's own layers do. The module returns the
    outputs of all nodes that no other node reads. If such a node is a softmax, the module leaves it out, because
    F.cross_entropy includes it."""
    return Built(network_in(pathlib.Path(path).read_text()))


class Built(nn.Module):
    """Runs a Network node by node."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        for name, parameter in network.parameters.items():
            self._holder(name).register_parameter(name.rpartition(".")[2],
                                                  nn.Parameter(torch.empty(parameter.shape), parameter.trained))
        for node in network.nodes:
            for key, start in zip(node.call.get("statistics", ()), (torch.zeros, torch.ones)):
                self._holder(key).register_buffer(key.rpartition(".")[2], start(node.shape[0]))
        self.reset_parameters()

    def _holder(self, name):
        path = name.rpartition(".")[0]
        if path not in self._modules:
            self.add_module(path, nn.Module())
        return self._modules[path]

    def reset_parameters(self):
        for node in self.network.nodes:
            for name in node.parameters:
                parameter = self.get_parameter(name)
                if node.op in ("batch_normalization", "group_normalization", "scale"):
                    nn.init.ones_(parameter) if name.endswith("weight") else nn.init.zeros_(parameter)
                elif parameter.ndim > 1:
                    nn.init.kaiming_uniform_(parameter, a=math.sqrt(5))
                else:
                    nn.init.zeros_(parameter)

    def forward(self, images):
        tensors = dict(self.named_parameters()) | dict(self.named_buffers())
        found = outputs_of(self.network, images, tensors, lambda node: self.training)
        return found[0] if len(found) == 1 else found


def outputs_of(network, images, tensors, is_training):
    """Returns the outputs of a Network for whole images. `tensors` has parameters and buffers by name;
    `is_training(node)` returns whether the node runs in training mode."""
    values = {}
    for node in network.nodes:
        box = b.whole(node.shape, len(images))
        if not node.inputs:
            values[node.name] = images if images.ndim > 2 else images.reshape(*images.shape, *[1] * (len(node.shape) - 1))
            continue
        shapes = [network.by_name[source].shape for source in node.inputs]
        parameters, training = [tensors[name] for name in node.parameters], is_training(node)
        if node.op == "batch_normalization":
            running = [name and tensors[name] for name in node.call["statistics"]]
            values[node.name] = F.batch_norm(values[node.inputs[0]], *running, *(parameters or (None, None)),
                                             training or running[0] is None, node.call.get("momentum", 0.1), node.call["eps"])
        elif node.op == "dropout":
            x = values[node.inputs[0]]
            kept = {"element": x.ndim, "channel": 2, "image": 1}[node.members.get("per", "element")]
            mask = x.new_ones(*x.shape[:kept], *[1] * (x.ndim - kept))
            values[node.name] = x * F.dropout(mask, node.members.get("rate", 0.5), training)
        else:
            values[node.name] = compute(
                Call(node, box, [values[source] for source in node.inputs],
                     [b.whole(shape, len(images)) for shape in shapes], shapes, parameters, len(images), training))
    return [output.of(values[output.node]) for output in network.outputs]
