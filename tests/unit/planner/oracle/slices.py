"""Checks the divisions that a dump states: a part of a node's output must follow from the needed parts of its inputs alone.
The file's nodes that compute the output are evaluated with other numbers at all places where an input is not needed."""

import numpy

import reference
from dump import Wrong, box, inside, places_of

POISONS = 2


def poisoned(values, needed, source):
    """Returns `values` with the elements that are not needed replaced by other elements, which are scaled without a change
    of sign."""
    shuffled = source.permutation(values.reshape(-1)).reshape(values.shape)
    if values.dtype.kind == "f":
        shuffled = (shuffled * source.uniform(0.5, 1.5, values.shape)).astype(values.dtype)
        shuffled += numpy.asarray(0.125 * (shuffled > 0), values.dtype)
    return numpy.where(needed, values, shuffled)


def largest(values):
    return float(numpy.max(numpy.abs(values), initial=0, where=numpy.isfinite(values)))


class Slices:
    """Checks one dump of one net, both at the batch net.BATCHES[at]."""

    def __init__(self, net, dump, at):
        self.net, self.dump, self.at = net, dump, at
        self.nodes, self.tensors = dump["nodes"], dump["tensors"]
        for name in self.tensors:
            if name not in net.tensors:
                raise Wrong("a tensor that the file does not have", name)
        self.listed = [n for n in net.order if n in self.tensors and n in net.depending]
        self.places = {n: places_of(n, self.tensors[n], self.node(n), self.values(n).shape) for n in self.listed}
        self.position = {n: i for i, n in enumerate(net.order)}

    def node(self, name):
        return self.nodes[self.tensors[name]["node"]]

    def values(self, name):
        return self.net[name].at[self.at]

    def between(self, output, stop):
        """Returns (nodes, begin): the nodes, in the file's order, that compute `output` from the tensors in `begin`. A
        tensor belongs to `begin` if stop(name) holds, or if it is neither a constant nor made by a node."""
        made, begin, waiting = set(), set(), [output]
        while waiting:
            name = waiting.pop()
            if name != output and stop(name) or name not in self.net.producers and not self.net[name].is_constant:
                begin.add(name)
                continue
            node = self.net.producers.get(name)
            if node is None or self.net[name].is_constant or node.output[0] in made or name not in self.net.depending:
                continue
            made.add(node.output[0])
            waiting += [n for n in reference.reads_of(node) if n]
        nodes = [n for n in self.net.nodes if n.output[0] in made and n.op_type != "Constant"]
        return nodes, sorted(begin, key=self.position.get)

    def behind_unlisted(self, node):
        """Returns the listed nodes that `node` reads through nodes without a tensor in the file. A reader may add such
        nodes, for example to move axes."""
        listed = {self.tensors[n]["node"] for n in self.listed}
        behind, waiting = set(), [i for i in node["inputs"] if i not in listed]
        while waiting:
            inputs = self.nodes[waiting.pop()]["inputs"]
            behind |= {i for i in inputs if i in listed}
            waiting += [i for i in inputs if i not in listed]
        return behind

    def evaluate(self, nodes, given, output):
        values = dict(given)
        for node in nodes:
            reads = reference.reads_of(node)
            arrays = [(values[n] if n in values else self.values(n)) if n else None for n in reads]
            values.update(zip(node.output, self.net.evaluators[node.output[0]](*arrays)))
        return values[output]

    def check(self, source, most_workers):
        """Raises Wrong at the first difference. `source` is a numpy Generator."""
        first = {}
        for name in self.listed:
            first.setdefault(self.tensors[name]["node"], name)
        for name in self.listed:
            index = self.tensors[name]["node"]
            if name != first[index]:
                self._check_same(first[index], name, source)
        for index, output in first.items():
            if self.nodes[index].get("parts"):
                self._check_node(index, output, source, most_workers)

    def _check_same(self, one, other, source):
        """Checks that two tensors of a node have the same numbers at the same places, or numbers that follow from them place by
        place."""
        node = self.node(one)
        numbers = numpy.empty(self.values(one).size, self.values(one).dtype)
        numbers[self.places[one].reshape(-1)] = self.values(one).reshape(-1)
        if numpy.array_equal(numbers[self.places[other]], self.values(other)):
            return
        of_node = {n for n in self.places if self.tensors[n]["node"] == self.tensors[one]["node"]}
        nodes, begin = self.between(other, lambda name: name in of_node)
        if not of_node.issuperset(begin):
            raise Wrong(f"places of {node['op']}", f"tensors {one} and {other} of node {node['name']} have other numbers")
        for _ in range(POISONS):
            keep = source.random(self.values(one).size) < 0.5
            given = {n: poisoned(self.values(n), keep[self.places[n]], source) for n in begin}
            kept = keep[self.places[other]]
            if not numpy.array_equal(self.evaluate(nodes, given, other)[kept], self.values(other)[kept]):
                raise Wrong(f"places of {node['op']}", f"tensors {one} and {other} of node {node['name']} differ")

    def _check_node(self, index, output, source, most_workers):
        node = self.nodes[index]
        if output in self.net.inputs:
            return
        behind = self.behind_unlisted(node)
        read = {*node["inputs"], *behind}
        nodes, begin = self.between(output, lambda n: n in self.places and self.tensors[n]["node"] in read)
        for name in begin:
            if name not in self.places or self.tensors[name]["node"] not in {*node["inputs"], *behind}:
                raise Wrong(f"inputs of {node['op']}", f"node {node['name']} reads {name}, which is of none of its inputs")
        for letter in node["parts"]:
            needed = node["needed"][letter]
            if needed["parts"] != node["parts"][letter]:
                raise Wrong("parts", f"{node['name']} {letter}: {node['parts'][letter]} and {needed['parts']}")
            outputs = [box(pairs) for pairs in needed["output"]]
            kept = [inside(self.places[output], node["shape"], [part]) for part in outputs]
            if len(outputs) != needed["parts"] or not (sum(k.astype(int) for k in kept) == 1).all():
                raise Wrong(f"boxes of {node['op']}",
                            f"those of {node['name']} along {letter} do not tile {node['shape']}: {outputs}")
            workers = list(range(len(outputs)))
            source.shuffle(workers)
            for worker in workers[:most_workers]:
                self._check_part(node, letter, worker, kept[worker], (nodes, begin, output), source)

    def _check_part(self, node, letter, worker, kept, part, source):
        nodes, begin, output = part
        needed = {}
        for position, given in enumerate(node["inputs"]):
            needed.setdefault(given, []).append(box(node["needed"][letter]["inputs"][position][worker]))
        for index in self.behind_unlisted(node):  # the dump has no boxes of these nodes, so all their elements count as needed
            needed.setdefault(index, []).append([(0, extent) for extent in self.nodes[index]["shape"]])
        masks = {n: inside(self.places[n], self.node(n)["shape"], needed[self.tensors[n]["node"]]) for n in begin}
        if all(mask.all() for mask in masks.values()):
            return
        for _ in range(POISONS):
            given = {n: poisoned(self.values(n), masks[n], source) for n in begin}
            found = self.evaluate(nodes, given, output)
            expected = self.values(output)[kept]
            # The tolerance is relative to the largest numbers: numpy's order of sums depends on the memory layout of
            # an array, and terms may cancel.
            close = numpy.isclose(found[kept], expected, rtol=4e-6, atol=4e-6 * largest(expected) + 1e-6 * max(
                map(largest, given.values())), equal_nan=True) if expected.dtype.kind == "f" else found[kept] == expected
            if not numpy.all(close):
                count = int((~close).sum())
                raise Wrong(f"slice {letter} of {node['op']}",
                            f"{count} of {int(kept.sum())} numbers of part {worker} of {node['parts'][letter]} of node "
                            f"{node['name']} ({output}) follow from what its boxes leave out: {needed}")
