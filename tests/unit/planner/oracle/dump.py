"""Reads the output of graph_dump about a file: the nodes, and in which node and where each element of the file's tensors lies.
A box is five ranges (begin, end), of n, c, d, h and w."""

import json
import subprocess

import numpy

LETTERS = "ncdhw"


class Wrong(Exception):
    """Raised when the dump contradicts the net. `kind` names the kind of difference in a few words, the same ones for every net
    with this difference."""

    def __init__(self, kind, detail=""):
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind


def dumps(program, batch, files):
    """Returns the JSON object of every file, in order. A file on which the program died has {"crash": how}."""
    seconds = 60 + len(files)
    try:
        run = subprocess.run([program, "--batch", str(batch), *files], capture_output=True, text=True, timeout=seconds)
        died = run.returncode if run.returncode < 0 or "Sanitizer" in run.stderr else 0
    except subprocess.TimeoutExpired:
        died = f"no end within {seconds} s"
        run = None
    lines = run.stdout.splitlines() if run else []
    if not died and len(lines) == len(files):
        return [json.loads(line) for line in lines]
    if len(files) == 1:
        return [{"crash": f"{died or run.returncode}: {run.stderr[-300:] if run else ''}"}]
    half = len(files) // 2
    return dumps(program, batch, files[:half]) + dumps(program, batch, files[half:])


def box(pairs):
    flat = [int(number) for pair in pairs for number in (pair if isinstance(pair, list) else [pair])]
    return [(flat[i], flat[i + 1]) for i in range(0, 10, 2)]


def inside(places, shape, boxes):
    """Returns which elements, given by their places in a node of this shape, lie in one of the boxes."""
    # numpy.unravel_index of numpy 2.4 is wrong on an array of several axes and more than 8,192 elements.
    coordinates = [of_axis.reshape(places.shape) for of_axis in numpy.unravel_index(places.reshape(-1), shape)]
    found = numpy.zeros(places.shape, bool)
    for ranges in boxes:
        within = numpy.ones(places.shape, bool)
        for coordinate, (begin, end) in zip(coordinates, ranges):
            within &= (coordinate >= begin) & (coordinate < end)
        found |= within
    return found


def places_of(name, entry, node, extents):
    """Returns the place of every element of a tensor of these extents among the elements of its node, row-major in n, c, d, h,
    w. Raises Wrong unless the dump's factors map the tensor one to one onto the node."""
    axes, shape = entry["axes"], node["shape"]
    sizes = [int(numpy.prod([size for _, size, _ in axis], dtype=numpy.int64)) for axis in axes]
    if sizes != list(extents):
        raise Wrong(f"shape of {node['op']}",
                    f"tensor {name} of node {node['name']} is {list(extents)}, the dump says {sizes}")
    if numpy.prod(shape) != numpy.prod(extents):
        raise Wrong(f"size of {node['op']}", f"tensor {name} is {list(extents)}, its node {node['name']} {shape}")
    coordinates = {letter: numpy.zeros(extents, numpy.int64) for letter in LETTERS}
    for position, axis in enumerate(axes):
        index = numpy.arange(extents[position])
        within = extents[position]
        for letter, size, stride in axis:
            within //= size
            part = (index // within % size) * stride
            coordinates[letter] += part.reshape([-1 if a == position else 1 for a in range(len(extents))])
    for letter, extent in zip(LETTERS, shape):
        if coordinates[letter].size and not (0 <= coordinates[letter].min() and coordinates[letter].max() < extent):
            raise Wrong(f"factors of {node['op']}",
                        f"tensor {name} leaves axis {letter} of node {node['name']} {shape}: {axes}")
    places = numpy.ravel_multi_index([coordinates[letter] for letter in LETTERS], shape)
    if numpy.bincount(places.reshape(-1), minlength=places.size).max(initial=1) > 1:
        raise Wrong(f"factors of {node['op']}",
                    f"two elements of tensor {name} are one of node {node['name']} {shape}: {axes}")
    return places
