"""Makes random valid small ONNX nets of opsets 7 to 22, whose shapes, numbers and parameters are known. A net depends only
on its Recipe. Leaving out steps of a recipe gives another recipe, so that a net that shows a fault can be shrunk."""

import copy
import dataclasses
import random

from onnx import TensorProto

import axis_steps
import elementwise_steps
import image_steps
import reference
import token_steps
import unfamiliar_steps
from net import Net
from steps import Recipe, grow, steps_of

STEPS = steps_of(axis_steps, elementwise_steps, image_steps, token_steps, unfamiliar_steps)


@dataclasses.dataclass(frozen=True)
class Made:
    recipe: Recipe
    net: Net
    outputs: tuple      # names
    model: object       # onnx.ModelProto
    parameters: int     # trained numbers that reach an output

    def content(self, with_values=True):
        """Returns the file's bytes. Without `with_values`, trained numbers are in another file, which does not exist."""
        if with_values:
            return self.model.SerializeToString()
        model = copy.deepcopy(self.model)
        for tensor in model.graph.initializer:
            if self.net[tensor.name].is_weight:
                tensor.ClearField("raw_data")
                tensor.data_location = TensorProto.EXTERNAL
                tensor.external_data.add(key="location", value="weights.bin")
        return model.SerializeToString()


def _inputs(net, rng):
    extent = lambda: rng.choice([4, 5, 6, 7, 8])
    channels = rng.choice([2, 3, 4, 4, 6, 8])
    kind = rng.choice(["image"] * 6 + ["tokens"] * 3 + ["features", "volume", "channels last"])
    if kind == "image":
        x = net.data((channels, extent(), extent()))
    elif kind == "volume":
        x = net.data((channels, 4, rng.choice([4, 5]), 4))
    elif kind == "tokens":
        x = net.data((rng.choice([4, 6, 8, 9]), rng.choice([4, 6, 8])))
    elif kind == "features":
        x = net.data((rng.choice([4, 6, 8, 12]),))
    else:
        x = net.data((extent(), extent(), channels))
        net.add("Transpose", [x], perm=[0, 3, 1, 2])
    if rng.random() < 0.2:
        net.data(net[x].extents()[1:] if rng.random() < 0.7 else (rng.choice([2, 4, 6]),))


def make(recipe):
    """Makes the net of a recipe."""
    rng = random.Random(recipe.seed)
    net = Net(rng.randint(7, 22), rng.choice([None, None, 1, 1, 2]), rng)
    _inputs(net, rng)
    grow(net, STEPS, recipe.steps)
    net.rng = rng = random.Random(recipe.seed + 1)
    if not net.nodes:
        net.add("Relu", [net.inputs[0]])
    net.drop_unread()
    outputs = _outputs(net, rng)
    model = net.model(outputs, rng.random() < 0.7, rng.random() < 0.3)
    return Made(recipe, net, tuple(outputs), model, sum(net.parameters(outputs).values()))


def _outputs(net, rng):
    """Returns the tensor that was computed last, and some of the tensors that nothing reads. The other unread tensors reach
    no output."""
    read = {name for node in net.nodes for name in reference.reads_of(node)}
    made = [n for n in net.order if n not in net.inputs]
    loose = [n for n in made[:-1] if n not in read and rng.random() < 0.6]
    # If any of these tensors has floats or signed integers, only such tensors become outputs.
    return [n for n in [*loose, made[-1]] if net[n].at[0].dtype.kind in "fi"] or [made[-1]]
