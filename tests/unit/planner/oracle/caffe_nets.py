"""Makes random valid small Caffe nets as prototxt. Gives, for the network of the training phase, the number of trained
parameters and the shape of every blob except labels, losses and masks. The rules come from Caffe's schema and from the layers'
LayerSetUp and Reshape (BVLC/caffe). A net depends only on its Recipe. Leaving out steps of a recipe gives another recipe."""

import dataclasses
import random

import caffe_layers
from caffe_net import Net, Word, dims, text_of
from steps import Recipe, grow, steps_of

STEPS = steps_of(caffe_layers)


@dataclasses.dataclass
class Made:
    recipe: Recipe
    text: str
    blobs: dict  # name -> extents for one image
    parameters: int
    features: set
    inputs: set              # the blobs that the net is given


def inputs(net, rng):
    """Adds the layers that provide the images."""
    extent = lambda: rng.choice([6, 7, 8, 9, 10, 12])
    image = [1, rng.choice([1, 2, 3, 4, 6]), extent(), extent()]
    net.batch = batch = rng.choice([1, 2, 3])
    in_file = [batch, *image[1:]]
    kind = rng.choice(["Input"] * 4 + ["shape", "dim", "DummyData", "DummyData of four", "Data", "Data", "volume", "two",
                                       "MemoryData", "ImageData"])
    if kind == "volume":
        image = [1, rng.choice([2, 4]), 4, 5, rng.choice([4, 5])]
        in_file = [batch, *image[1:]]
    if kind in ("Input", "volume"):
        net.layer("Input", [], [image], [("input_param", [("shape", dims(in_file))])])
    elif kind == "two":
        same = rng.random() < 0.5
        other = image if same else [1, rng.choice([2, 3]), *image[2:]]
        shapes = [("shape", dims(in_file))] + [("shape", dims([batch, *other[1:]]))] * (not same)
        net.layer("Input", [], [image, other], [("input_param", shapes)])
    elif kind in ("shape", "dim"):
        net.header = [("input", "data")]
        net.header += [("input_shape", dims(in_file))] if kind == "shape" else [("input_dim", e) for e in in_file]
        net.blobs["data"] = image
        net.order.append("data")
    elif kind == "DummyData":
        net.layer(kind, [], [image], [("dummy_data_param", [("shape", dims(in_file))])])
    elif kind == "DummyData of four":
        names = ("num", "channels", "height", "width")
        net.layer("DummyData", [], [image], [("dummy_data_param", list(zip(names, in_file)))])
    elif kind == "MemoryData":
        names = ("batch_size", "channels", "height", "width")
        net.layer(kind, [], [image, [1]], [("memory_data_param", list(zip(names, in_file)))])
        _label(net)
    else:
        side = image[2]
        gray = rng.random() < 0.25
        image = [1, 1 if gray else 3, side, side]
        transform = [("crop_size", side)]
        source = [("source", "somewhere"), ("batch_size", batch)]
        if kind == "Data":
            transform += [("force_gray", True)] * gray
        else:
            source += [("is_color", False)] * gray
        net.layer(kind, [], [image, [1]], [("transform_param", transform),
                                           ("data_param" if kind == "Data" else "image_data_param", source)])
        _label(net)
        layer = net.layers[-1]
        if rng.random() < 0.5 and not layer.rules:
            layer.rules = [("include", [("phase", Word("TRAIN"))])]
            net.decoy(layer)
            net.layers[-1].rules = [("include", [("phase", Word("TEST"))])]


def _label(net):
    label = net.layers[-1].tops[1]
    net.order.remove(label)
    net.unlisted.add(label)


def make(recipe):
    rng = random.Random(recipe.seed)
    net = Net(rng)
    if rng.random() < 0.2:
        net.state = [("level", rng.choice([0, 1, 2])), ("stage", "here")][:rng.choice([1, 2])]
    inputs(net, rng)
    given = set(net.blobs)
    grow(net, STEPS, recipe.steps)
    for layer in net.layers:
        if layer.type == "Split" and layer.bottoms[0] in given:  # a Split computes nothing, so its tops are given, too
            given.update(layer.tops)
    blobs = {n: e for n, e in net.blobs.items() if n not in net.unlisted}
    text = text_of(net, random.Random(recipe.seed + 1))
    return Made(recipe, text, blobs, sum(net.counted.values()), net.features, given)
