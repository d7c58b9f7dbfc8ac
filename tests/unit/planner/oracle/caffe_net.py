"""Builds a Caffe net layer by layer, records the extents of its blobs and its trained numbers, and writes its text."""

import dataclasses
import math

from steps import need


class Word(str):
    """An enumerator, or a type of the V1 format, which is written without quotes."""


@dataclasses.dataclass
class Layer:
    type: str
    name: str
    bottoms: list
    tops: list
    fields: list             # (name, value); a value that is a list of such pairs is a message
    params: list             # one list of fields for each blob of numbers, as ParamSpec has them
    rules: list = dataclasses.field(default_factory=list)


class Net:
    """A net whose layers are written in the order in which they were added. `blobs` has the extents of each blob by name; the
    batch's axis has its extent for one image."""

    def __init__(self, rng):
        self.rng, self.layers, self.blobs, self.order = rng, [], {}, []
        self.counted = {}  # (layer, position) or name of shared numbers -> how many trained numbers it has
        self.shared = {}     # name of shared numbers -> (extents, fields of ParamSpec)
        self.features = set()
        self.state = []
        self.header = []
        self.batch = 1       # batch of the file
        self.counter = 0
        self.unlisted = set()

    def fresh(self, kind):
        self.counter += 1
        return self.rng.choice([f"{kind}{self.counter}", f"{kind}_{self.counter}/x", f"{self.counter}_{kind}"])

    def mark(self):
        return (len(self.layers), len(self.order), dict(self.blobs), dict(self.counted), dict(self.shared), set(self.features),
                set(self.unlisted))

    def rollback(self, mark):
        del self.layers[mark[0]:], self.order[mark[1]:]
        self.blobs, self.counted, self.shared, self.features, self.unlisted = mark[2:]

    def pick(self, test=lambda extents: True):
        names = [n for n in self.order if test(self.blobs[n])]
        need(names)
        return names[-1] if self.rng.random() < 0.75 else self.rng.choice(names[-5:])

    def layer(self, kind, bottoms, shapes, fields=(), numbers=(), in_place=False):
        """Adds a layer with a top of each of these shapes and returns the tops. `numbers` has the extents of the layer's own
        trained numbers."""
        name = self.fresh(kind.lower())
        for shape in shapes:
            need(0 < math.prod(shape) <= 20000 and all(extent > 0 for extent in shape))
        if in_place:
            tops = [bottoms[0]]
        elif len(shapes) == 1 and self.rng.random() < 0.6:
            tops = [name]
        else:
            tops = [self.fresh("top") for _ in shapes]
        params = self._params(name, numbers)
        self.layers.append(Layer(kind, name, list(bottoms), tops, list(fields), params, self._rules()))
        self.features.add(kind)
        for top, shape in zip(tops, shapes):
            self.blobs[top] = list(shape)
            if top in self.order:
                self.order.remove(top)
            self.order.append(top)
        return tops

    def _params(self, owner, numbers):
        rng = self.rng
        params = []
        for position, extents in enumerate(numbers):
            spec, key, trained = [], (owner, position), True
            there = [n for n, (shape, _) in self.shared.items() if shape == list(extents)]
            if there and rng.random() < 0.3:
                key = rng.choice(there)
                spec = list(self.shared[key][1])
            else:
                draw = rng.random()
                if draw < 0.1:
                    spec.append(("lr_mult", 0))
                elif draw < 0.3:
                    spec.append(("lr_mult", rng.choice([1, 2, 0.5])))
                if rng.random() < 0.12:
                    key = self.fresh("shared")
                    spec.append(("name", key))
                    self.shared[key] = (list(extents), list(spec))
                if rng.random() < 0.1:
                    spec.append(("decay_mult", 0))
            trained = ("lr_mult", 0) not in spec
            if trained:
                self.counted[key] = math.prod(extents)
            params.append(spec)
        while params and not params[-1]:
            params.pop()
        return params

    def _rules(self):
        """Returns rules that include a layer in the network of the training phase."""
        stage = [value for name, value in self.state if name == "stage"]
        level = next((value for name, value in self.state if name == "level"), 0)
        good = [[("include", [("phase", Word("TRAIN"))])], [("exclude", [("phase", Word("TEST"))])],
                [("include", [("min_level", level), ("max_level", level + 1)])],
                [("exclude", [("min_level", level + 1)])], [("exclude", [("stage", "absent")])],
                [("include", [("phase", Word("TEST"))]), ("include", [("not_stage", "absent")])]]
        good += [[("include", [("stage", name)])] for name in stage]
        return self.rng.choice(good) if self.rng.random() < 0.08 else []

    def decoy(self, layer):
        """Adds a copy of the layer, with a rule that excludes it from the network of the training phase."""
        stage = [value for name, value in self.state if name == "stage"]
        bad = [[("include", [("phase", Word("TEST"))])], [("exclude", [("phase", Word("TRAIN"))])],
               [("include", [("stage", "absent")])], [("include", [("phase", Word("TRAIN")), ("max_level", -1)])],
               [("include", [("min_level", 7)])]]
        bad += [[("exclude", [("stage", name)])] for name in stage]
        self.layers.append(dataclasses.replace(layer, name=self.fresh("other"), rules=self.rng.choice(bad)))


def _value(value, rng):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Word) or not isinstance(value, str):
        return str(value)
    return f'"{value}"' if rng.random() < 0.8 else f"'{value}'"


def _write(fields, rng, indent=""):
    lines = []
    for name, value in fields:
        if isinstance(value, list):
            lines += [f"{indent}{name}{rng.choice([' ', ' ', ': '])}{{", *_write(value, rng, indent + "  "), indent + "}"]
        else:
            lines.append(f"{indent}{name}: {_value(value, rng)}" + ("  # a comment" if rng.random() < 0.02 else ""))
    return lines


V1_TYPES = {"Convolution": "CONVOLUTION", "Deconvolution": "DECONVOLUTION", "Pooling": "POOLING", "ReLU": "RELU", "LRN": "LRN",
            "InnerProduct": "INNER_PRODUCT", "Softmax": "SOFTMAX", "Flatten": "FLATTEN", "Concat": "CONCAT", "Slice": "SLICE",
            "Split": "SPLIT", "Eltwise": "ELTWISE", "Sigmoid": "SIGMOID", "TanH": "TANH", "Dropout": "DROPOUT",
            "Power": "POWER", "AbsVal": "ABSVAL", "BNLL": "BNLL", "Exp": "EXP", "Threshold": "THRESHOLD", "MVN": "MVN",
            "ArgMax": "ARGMAX", "Data": "DATA", "DummyData": "DUMMY_DATA", "ImageData": "IMAGE_DATA",
            "MemoryData": "MEMORY_DATA", "SoftmaxWithLoss": "SOFTMAX_LOSS", "EuclideanLoss": "EUCLIDEAN_LOSS",
            "Accuracy": "ACCURACY", "Silence": "SILENCE"}


def _message(layer, is_v1):
    fields = [("name", layer.name), ("type", Word(V1_TYPES[layer.type]) if is_v1 else layer.type)]
    fields += [("bottom", b) for b in layer.bottoms] + [("top", t) for t in layer.tops] + layer.rules
    if not is_v1:
        return "layer", fields + [("param", list(spec)) for spec in layer.params] + layer.fields
    if layer.params and any("lr_mult" in dict(spec) for spec in layer.params):
        fields += [("blobs_lr", dict(spec).get("lr_mult", 1)) for spec in layer.params]
    if any("name" in dict(spec) for spec in layer.params):
        fields += [("param", dict(spec).get("name", "")) for spec in layer.params]
    return "layers", fields + layer.fields


def text_of(net, rng):
    is_v1 = rng.random() < 0.4 and all(layer.type in V1_TYPES and not (layer.type == "Flatten" and layer.fields)
                                       for layer in net.layers)
    fields = [("name", "random")] + net.header + ([("state", net.state)] if net.state else [])
    return "\n".join(_write(fields + [_message(layer, is_v1) for layer in net.layers], rng)) + "\n"


def dims(extents):
    return [("dim", extent) for extent in extents]
