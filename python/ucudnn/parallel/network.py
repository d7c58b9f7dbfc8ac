"""A network as the planner knows it (planner/graph/FORMAT.md, `ucudnn-net`), with further data for computing each node:
the parameters of the model that it reads, and torch's own arguments. Plain values, without torch."""
import json
import math
from dataclasses import dataclass, field

FORMAT, VERSION = "ucudnn-net", 1
LOSSES = {"cross_entropy": "cross_entropy", "logistic": "logistic_loss"}  # operators, by their names in losses.named


@dataclass
class Node:
    name: str
    op: str
    inputs: tuple = ()
    members: dict = field(default_factory=dict)  # members in the file: filters, window, ...
    shape: tuple = ()  # of one image: channels, (d,) h, w; features have h = w = 1
    parameters: tuple = ()  # names in the model, weights before biases
    has_shift: bool = False  # its single parameter is a bias
    module: str = ""  # path of the module whose `training` and buffers are used
    call: dict = field(default_factory=dict)  # torch's arguments beside `members`


@dataclass
class Parameter:
    shape: tuple
    trained: bool = True

    @property
    def elements(self):
        return math.prod(self.shape)


@dataclass
class Output:
    """One of a model's outputs: a node's output, with this number of dimensions (1: one number for each image, 2: features
    without positions)."""
    node: str
    dims: int

    def of(self, x):
        """Returns the output from the tensor of its node, which has all axes."""
        return x.flatten() if self.dims == 1 else x.flatten(1) if self.dims == 2 else x


@dataclass
class Network:
    name: str
    nodes: list
    parameters: dict  # by name in the model
    outputs: list
    structure: object = None  # torch's pytree of the outputs
    evaluated: tuple | None = None  # in evaluation: (places of the model's outputs among `outputs`, their pytree)
    is_built: bool = False  # made by `module`: its nodes have no modules of their own

    def __post_init__(self):
        self.by_name = {node.name: node for node in self.nodes}

    def add_losses(self, operators):
        """Adds for each output a node that passes the output on and whose operator tells which loss is computed from
        it. For None, adds no node."""
        for place, (output, op) in enumerate(zip(self.outputs, operators)):
            if op is not None:
                name = next(name for name in ("loss", *(f"loss@{again + 1}" for again in range(len(self.nodes))))
                            if name not in self.by_name)
                node = Node(name, op, (output.node,), {}, self.by_name[output.node].shape)
                self.nodes.append(node)
                self.by_name[name] = node
                self.outputs[place] = Output(name, output.dims)
        return self

    def readers(self):
        """Returns the nodes that read each parameter, by its name."""
        found = {}
        for node in self.nodes:
            for name in node.parameters:
                found.setdefault(name, []).append(node.name)
        return found

    def text(self):
        """Returns the network as a file. Parameters are written if their operator does not imply them: shared or frozen
        ones, and those of other operators."""
        shared = {name for name, nodes in self.readers().items() if len(nodes) > 1}
        tensors = {name: number for number, name in enumerate(self.parameters) if name in shared}
        lines = []
        for node in self.nodes:
            written = {"name": node.name, "op": node.op}
            if node.inputs:
                written["inputs"] = list(node.inputs)
            named = [self.parameters[name] for name in node.parameters]
            if node.op == "opaque" or any(name in shared or not self.parameters[name].trained for name in node.parameters):
                written["parameters"] = [
                    {"elements": parameter.elements} | ({"tensor": tensors[name]} if name in tensors else {}) |
                    ({} if parameter.trained else {"trained": False}) for name, parameter in zip(node.parameters, named)]
                if not written["parameters"]:
                    del written["parameters"]
            lines.append(json.dumps(written | node.members))
        head = f'{{"format": "{FORMAT}", "version": {VERSION}, "name": {json.dumps(self.name)}, "nodes": [\n  '
        return head + ",\n  ".join(lines) + "\n]}\n"

    def hash(self, is_all_trained=False):
        """Returns the value of a schedule's `network` (planner/schedule/FORMAT.md). `is_all_trained`: computed as if
        nothing were frozen."""
        value = 0xcbf29ce484222325
        for node in self.nodes:
            trained = sum(self.parameters[name].elements for name in node.parameters
                          if is_all_trained or self.parameters[name].trained)
            line = "\t".join((node.name, node.op, ",".join(node.inputs), "x".join(map(str, node.shape)), str(trained))) + "\n"
            for byte in line.encode():
                value = (value ^ byte) * 0x100000001b3 % 2**64
        return f"{value:016x}"
