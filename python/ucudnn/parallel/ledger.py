"""Counts the tensors that the executor keeps until the backward pass of a step, in elements and bytes."""
import collections

WHAT = {"parameters": "parts of parameters", "outputs": "outputs of layers", "followers": "outputs computed with a layer",
        "copies": "inputs that arrive", "assembled": "boxes put together of these and own parts",
        "sums": "bundles of gradients", "messages": "messages at one time"}


class Ledger:
    """[elements, bytes] for each kind in WHAT: the maximum of all passes since `clear`."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.most, self.own = {}, collections.defaultdict(lambda: [0, 0])

    def begin(self):
        """Begins a pass. Tensors that were added since the last one belong to that one."""
        for what, found in self.own.items():
            self.most[what] = max(self.most.get(what, [0, 0]), found)
        self.own = collections.defaultdict(lambda: [0, 0])

    def add(self, what, tensor):
        self.count(what, tensor.numel(), tensor.element_size())

    def count(self, what, elements, size):
        self.own[what][0] += elements
        self.own[what][1] += elements * size
