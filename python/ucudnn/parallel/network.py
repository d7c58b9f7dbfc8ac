"""A network in the planner's format (planner/graph/FORMAT.md, `ucudnn-net`), with additional data that running it
needs: names of the model's parameters that each node reads, and torch's arguments. Plain values, without torch."""
import json
import math
from dataclasses import dataclass, field

FORMAT, VERSION = "ucudnn-net", 1
# planner operators, by the names that losses.named returns
LOSSES = {"cross_entropy": "cross_entropy", "logistic": "logistic_loss"}


@dataclass
class Node:
    name: str
    op: str
    inputs: tuple = ()
    members: dict = field(default_factory=dict)  # attributes in the file: filters, window, ...
    shape: tuple = ()  # shape of one image: channels, (d,) h, w; features have h = w = 1
    parameters: tuple = ()  # names in the model, weights before biases
    has_shift: bool = False  # whether the node's single parameter is a bias
    module: str = ""  # path of the module that has `training` and the buffers of this node
    call: dict = field(default_factory=dict)  # torch's arguments that are not in `members`


@dataclass
class Parameter:
    shape: tuple
    trained: bool = True

    @property
    def elements(self):
        return math.prod(self.shape)


@dataclass
class Output:
    """An output of a model: the output of `node`, as a tensor with `dims` dimensions (1: one number for each image, 2:
    features without positions)."""
    node: str
    dims: int

    def of(self, x):
        """Returns the model's output; `x` is the output tensor of the node, with all axes."""
        return x.flatten() if self.dims == 1 else x.flatten(1) if self.dims == 2 else x


@dataclass
class Network:
    name: str
    nodes: list
    parameters: dict  # by name in the model
    outputs: list
    structure: object = None  # torch's pytree of the outputs
    # (indices into `outputs`, pytree) of the outputs in evaluation; None: as in training
    evaluated: tuple | None = None
    is_built: bool = False  # whether building.module made the model, whose nodes have no modules

    def __post_init__(self):
        self.by_name = {node.name: node for node in self.nodes}

    def add_losses(self, operators):
        """Adds a loss node for each output whose entry of `operators` is not None. The node returns the output
        unchanged; the operator says which loss is computed from it."""
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
        """Returns {parameter: names of the nodes that read it}."""
        found = {}
        for node in self.nodes:
            for name in node.parameters:
                found.setdefault(name, []).append(node.name)
        return found

    def text(self):
        """Returns the text of the ucudnn-net file. Writes a node's parameters only if the operator does not imply them:
        if a parameter is shared or frozen, or if the node is opaque."""
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
        """Returns the hash that a schedule stores as `network` (planner/schedule/FORMAT.md). If `is_all_trained`,
        frozen parameters count as trained."""
        value = 0xcbf29ce484222325
        for node in self.nodes:
            trained = sum(self.parameters[name].elements for name in node.parameters
                          if is_all_trained or self.parameters[name].trained)
            line = "\t".join((node.name, node.op, ",".join(node.inputs), "x".join(map(str, node.shape)), str(trained))) + "\n"
            for byte in line.encode():
                value = (value ^ byte) * 0x100000001b3 % 2**64
        return f"{value:016x}"
