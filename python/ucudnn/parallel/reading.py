"""Reads a ucudnn-net file as a Network. Shapes and parameters of each operator follow planner/graph/FORMAT.md. Does not
import torch."""
import json
import math

from .errors import NotSupported
from .network import FORMAT, VERSION, Network, Node, Output, Parameter

DROPOUT_UNITS = ("element", "channel", "image")


def json_in(text):
    """Returns the parsed value of a JSON text. Raises ValueError that says where the text is cut off, or what is
    wrong."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        kept = text.rstrip()
        if kept[:1] in ("", "{") and (not kept.endswith("}") or error.pos >= len(kept)):
            raise ValueError(f"the file is cut off behind {len(text)} characters: '}}' of its first '{{' is expected") from None
        raise


def network_in(text):
    root = json_in(text)
    if root.get("format") != FORMAT or root.get("version") != VERSION:
        raise NotSupported(
            f"'format': {root.get('format')!r}, 'version': {root.get('version')!r}; expected {FORMAT!r} and {VERSION}")
    nodes, by_name, parameters, tensors = [], {}, {}, {}
    for one in root["nodes"]:
        one = dict(one)
        name, op, inputs, told = one.pop("name"), one.pop("op"), tuple(one.pop("inputs", ())), one.pop("parameters", None)
        shapes = [by_name[source].shape for source in inputs]
        node = Node(name, op, inputs, one, shape_of(op, one, shapes, name))
        names = []
        for place, (last, shape) in enumerate(_parameters_of(node, shapes)):
            key = f"{name.replace('.', '_')}.{last}"
            entry = told[place] if told else {}
            if "tensor" in entry:
                key = tensors.setdefault((entry["tensor"], last), key)
            parameters.setdefault(key, Parameter(shape, entry.get("trained", True)))
            names.append(key)
        node.parameters = tuple(names)
        node.has_shift = op == "scale" and not one.get("scale", True)
        if op == "batch_normalization":
            key = name.replace(".", "_")
            node.call = {"eps": 1e-5, "statistics": [f"{key}.running_mean", f"{key}.running_var"]}
        elif op == "group_normalization":
            node.call = {"eps": 1e-5}
        elif op == "dropout" and one.get("per", "element") not in DROPOUT_UNITS:
            raise NotSupported(f"{name}: 'per': {one['per']!r}; expected one of {', '.join(DROPOUT_UNITS)}")
        elif op == "opaque":
            node.call = {"function": None}
        nodes.append(node)
        by_name[name] = node
    read = {source for node in nodes for source in node.inputs}
    for node in nodes:
        if node.op == "softmax" and node.name not in read:
            node.call = {"is_in_loss": True}
    outputs = [Output(node.name, 2 if max(node.shape[1:]) == 1 else len(node.shape) + 1)
               for node in nodes if node.inputs and node.name not in read]
    return Network(root.get("name", "network"), nodes, parameters, outputs, is_built=True)


def _parameters_of(node, shapes):
    """Returns a list of (name, shape) of the node's parameters."""
    members, op = node.members, node.op
    window = tuple(members.get("window", ()))
    if op == "convolution":
        found = [("weight", (members["filters"], shapes[0][0] // members.get("groups", 1), *window))]
    elif op == "transposed_convolution":
        found = [("weight", (shapes[0][0], members["filters"] // members.get("groups", 1), *window))]
    elif op in ("fully_connected", "linear"):
        found = [("weight", (members["outputs"], math.prod(shapes[0]) if op == "fully_connected" else shapes[0][0]))]
    elif op in ("batch_normalization", "group_normalization"):
        return [("weight", node.shape[:1]), ("bias", node.shape[:1])] if members.get("scale_and_shift", True) else []
    elif op == "scale":
        return [(name, node.shape[:1]) for name, key in (("weight", "scale"), ("bias", "shift")) if members.get(key, True)]
    else:
        return []
    if members.get("bias", True):
        found.append(("bias", (members.get("filters", members.get("outputs")),)))
    return found


def shape_of(op, members, shapes, name):
    """Returns the shape of one image of the operator's output (planner/graph/shapes.cpp)."""
    if op == "input":
        return (members["channels"], *members["extents"])
    channels, *extents = shapes[0]
    rank = len(extents)

    def each(key, neutral):
        return list(members.get(key) or [neutral] * rank)
    if op in ("convolution", "pooling"):
        rows = zip(extents, each("window", 1), each("stride", 1), each("pad", 0), each("extra_pad", 0), each("dilation", 1))
        found = []
        for extent, k, s, p, e, d in rows:
            rest = extent + 2 * p + e - (k - 1) * d - 1
            count = (-(-rest // s) if members.get("round_up") else rest // s) + 1
            if members.get("round_up") and (count - 1) * s >= extent + p:
                count -= 1
            found.append(count)
        return (members.get("filters", channels), *found)
    if op == "transposed_convolution":
        rows = zip(extents, each("window", 1), each("stride", 1), each("pad", 0), each("extra_extent", 0), each("dilation", 1))
        return (members["filters"], *[(extent - 1) * s - 2 * p + (k - 1) * d + 1 + e for extent, k, s, p, e, d in rows])
    if op == "global_pooling":
        return (channels, *[1] * rank)
    if op == "fully_connected":
        return (members["outputs"], 1, 1)
    if op == "linear":
        return (members["outputs"], *extents)
    if op == "flatten":
        return (math.prod(shapes[0]), 1, 1)
    if op == "concat":
        place = ("cdhw" if rank == 3 else "chw").index(members.get("axis", "c"))
        return tuple(sum(shape[axis] for shape in shapes) if axis == place else extent for axis, extent in enumerate(shapes[0]))
    if op == "upsampling":
        return (channels, *[extent * factor for extent, factor in zip(extents, members["factor"])])
    if op == "padding":
        return (channels + members.get("channels_before", 0) + members.get("channels_after", 0),
                *[extent + before + after for extent, before, after in zip(extents, each("before", 0), each("after", 0))])
    if op == "multiply":
        return max(shapes, key=math.prod)
    if op in ("activation", "batch_normalization", "group_normalization", "scale", "lrn", "dropout", "add", "softmax",
              "cross_entropy", "logistic_loss"):
        return shapes[0]
    if op == "opaque":
        return (members["channels"], *members["extents"])
    raise NotSupported(f"{name}: {op} has no rule")
