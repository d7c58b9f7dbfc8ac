"""Compares what ucudnn's readers make of random ONNX and Caffe nets with what is right. The program graph_dump reads each file;
shapes, trained parameters and the places of every tensor's elements are compared with the net's own records. What each part of
a node's output needs is compared with onnx.reference, for ONNX nets alone.

    check.py GRAPH_DUMP --format onnx|caffe [--count N] [--seed S] [--workers W]

Prints every kind of difference once, with its seed, and the shrunk nets of the most frequent kinds as text. The exit code is 1
if there is any."""

import argparse
import collections
import os
import re
import sys
import tempfile
import warnings

import numpy
import onnx.printer

import caffe_nets
import onnx_nets
from dump import Wrong, dumps, places_of
from slices import Slices
from steps import Recipe, recipe_of

BATCHES = (2, 4)  # at which graph_dump reads every file
AT_ONCE = 100     # number of files for one call of graph_dump
SHRUNK = 12       # kinds of difference whose nets are shrunk and printed

# The operators, layers and features of layers that a reader may refuse (planner/graph/FORMAT.md). It must read all
# others.
REFUSED = {
    "onnx": ("If", "Loop", "RandomNormal", "RandomNormalLike", "Einsum", "Constant.sparse_value"),
    "caffe": ("Pooling.mask",),
}


class Onnx:
    suffix = "onnx"

    def __init__(self, made):
        self.made, self.parameters, self.features = made, made.parameters, made.net.features
        self.content = made.content(with_values=not made.recipe or made.recipe.seed % 5 != 0)

    def extents(self, at):
        """Returns the extents of every tensor that a node of the file computes, by name."""
        return {name: self.made.net[name].at[at].shape for name in self.made.net.order}

    def must_be_listed(self):
        return [name for name in self.made.outputs if self.made.net[name].is_float and name in self.made.net.depending]

    def check_parts(self, dump, at, source, workers):
        Slices(self.made.net, dump, at).check(source, workers)

    def text(self):
        return re.sub(r"\{([^{}]{60})[^{}]*\}", r"{\1...}", onnx.printer.to_text(self.made.model))

    make = staticmethod(onnx_nets.make)


class Caffe:
    suffix = "prototxt"

    def __init__(self, made):
        self.made, self.parameters, self.features = made, made.parameters, made.features
        self.content = made.text.encode()

    def extents(self, at):
        return {name: (extents[0] * BATCHES[at], *extents[1:]) for name, extents in self.made.blobs.items()}

    def must_be_listed(self):
        return [name for name in self.made.blobs if name not in self.made.inputs]  # unread inputs may be missing

    def check_parts(self, dump, at, source, workers):
        extents = self.extents(at)
        for name, entry in dump["tensors"].items():
            if name in extents:
                places_of(name, entry, dump["nodes"][entry["node"]], extents[name])

    def text(self):
        return self.made.text

    make = staticmethod(caffe_nets.make)


FORMATS = {"onnx": Onnx, "caffe": Caffe}


def refusal(error, features, may_refuse):
    """Returns what the error names and a reader may refuse: a feature of the net, separate parts, or that no layer is left.
    Raises Wrong if there is none."""
    def is_named(feature):
        return any(re.search(rf"\b{re.escape(word)}\b", error) for word in {feature, feature.split(".")[-1].split("=")[-1]})

    if "are not connected; expected one network" in error:
        return "parts that are not connected"
    if "no layers; expected a network" in error:
        return "nets without layers"
    for feature in sorted(features & set(may_refuse)):
        if is_named(feature):
            return feature
    named = [f for f in sorted(features) if re.search(rf"\b{re.escape(f)}\b", error)]
    shape_of_error = re.sub(r"'[^']*'|\"[^\"]*\"|[-\d./x]*\d[-\d./x]*", "_", error)[-90:]
    raise Wrong(f"refused {named[0] if named else ''}: {shape_of_error}", error)


def check(case, dump, at, may_refuse, source, workers):
    """Returns the feature that the dump rightly refuses, or None. Raises Wrong at the first difference."""
    if "crash" in dump:
        raise Wrong("crash", dump["crash"])
    if "error" in dump:
        return refusal(dump["error"], case.features, may_refuse)
    own = sum(node["parameters"] for node in dump["nodes"])
    if own != dump["parameters"]:
        raise Wrong("sum of parameters", f"nodes have {own}, the dump says {dump['parameters']}")
    if own != case.parameters:
        raise Wrong("parameters", f"{own}, right are {case.parameters}: "
                    f"{[(n['name'], n['parameters']) for n in dump['nodes'] if n['parameters']]}")
    for name in case.must_be_listed():
        if name not in dump["tensors"]:
            raise Wrong("a tensor that is not listed", name)
    extents = case.extents(at)
    for name in dump["tensors"]:
        if name in extents:
            entry = dump["tensors"][name]
            places_of(name, entry, dump["nodes"][entry["node"]], extents[name])
    case.check_parts(dump, at, source, workers)
    return None


class Run:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.kind, self.may_refuse = FORMATS[arguments.format], REFUSED[arguments.format]
        self.read = 0
        self.refused = collections.Counter()
        self.differences = {}  # kind -> (how often, a short recipe, batch, message)
        self.divisible, self.listed, self.seen = collections.Counter(), collections.Counter(), collections.Counter()

    def verdicts(self, recipes):
        """Returns (case, {batch: (dump, refused feature or Wrong)}) for every recipe."""
        cases = [self.kind(self.kind.make(recipe)) for recipe in recipes]
        files = []
        for index, case in enumerate(cases):
            files.append(os.path.join(self.folder, f"{index}.{case.suffix}"))
            with open(files[-1], "wb") as file:
                file.write(case.content)
        found = [(case, {}) for case in cases]
        for at, batch in enumerate(BATCHES):
            for recipe, (case, by_batch), dump in zip(recipes, found, dumps(self.arguments.dump, batch, files)):
                source = numpy.random.default_rng(recipe.seed)
                # Checking slices is slow, so with one worker it is done for only one of the two batches.
                workers = self.arguments.workers if (recipe.seed + at) % 2 == 0 or self.arguments.workers > 1 else 0
                try:
                    by_batch[batch] = dump, check(case, dump, at, self.may_refuse, source, workers)
                except Wrong as wrong:
                    by_batch[batch] = dump, wrong
        return found

    def note(self, recipe, case, by_batch):
        wrongs = [(batch, found) for batch, (_, found) in by_batch.items() if isinstance(found, Wrong)]
        if wrongs:
            batch, wrong = wrongs[0]
            number, least, *where = self.differences.get(wrong.kind, (0, recipe, batch, str(wrong)))
            if len(recipe.steps) < len(least.steps):
                least, where = recipe, [batch, str(wrong)]
            self.differences[wrong.kind] = (number + 1, least, *where)
            return
        dump, refused = by_batch[BATCHES[0]]
        if refused:
            self.refused[refused] += 1
            return
        self.read += 1
        for node in dump["nodes"]:
            self.seen[node["op"]] += 1
            self.divisible.update((node["op"], letter) for letter in node["parts"])
        self.listed["listed"] += sum(name in dump["tensors"] for name in case.extents(0))
        self.listed["all"] += len(case.extents(0))

    def shrunk(self, recipe, kind):
        """Returns a recipe of fewer steps that shows the same kind of difference."""
        steps = list(recipe.steps)
        for index in reversed(range(len(steps))):
            shorter = steps[:index] + steps[index + 1:]
            ((_, by_batch),) = self.verdicts([Recipe(recipe.seed, tuple(shorter))])
            if any(isinstance(found, Wrong) and found.kind == kind for _, found in by_batch.values()):
                steps = shorter
        return Recipe(recipe.seed, tuple(steps))

    def report(self, count):
        refused = sum(self.refused.values())
        print(f"{self.arguments.format}: {count} nets, {self.read} read as they are, {refused} refused rightly "
              f"({100 * refused / count:.1f}%), {sum(d[0] for d in self.differences.values())} that differ")
        if self.refused:
            print("refused by name:", ", ".join(f"{feature} {number}" for feature, number in self.refused.most_common()))
        if self.listed["all"]:
            print(f"tensors that have a node: {self.listed['listed']} of {self.listed['all']}")
        for op, number in sorted(self.seen.items()):
            axes = " ".join(f"{axis} {100 * self.divisible[op, axis] // number}%" for axis in "nchw"
                            if self.divisible[op, axis])
            print(f"  {op}: {number} nodes, divisible along {axes or 'nothing'}")
        order = sorted(self.differences.items(), key=lambda item: -item[1][0])
        for index, (kind, (number, recipe, batch, message)) in enumerate(order):
            print(f"\nDIFFERENT in {number} nets: {kind}\n  seed {recipe.seed}, batch {batch}: {message}")
            if index < SHRUNK:
                print(self.kind(self.kind.make(self.shrunk(recipe, kind))).text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump")
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="parts of a node that are evaluated along each axis")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        run = Run(arguments, folder)
        for begin in range(arguments.seed, arguments.seed + arguments.count, AT_ONCE):
            seeds = range(begin, min(begin + AT_ONCE, arguments.seed + arguments.count))
            recipes = [recipe_of(seed) for seed in seeds]
            for recipe, (case, by_batch) in zip(recipes, run.verdicts(recipes)):
                run.note(recipe, case, by_batch)
        run.report(arguments.count)
    return 1 if run.differences else 0


if __name__ == "__main__":
    sys.exit(main())
