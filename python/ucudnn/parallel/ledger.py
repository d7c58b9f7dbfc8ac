"""Counts the tensors that the executor keeps until the backward pass of a step, in elements and bytes. PassKind is the
key by which passes are counted."""
import collections
from dataclasses import dataclass

WHAT = {"parameters": "parts of parameters", "outputs": "outputs of layers", "followers": "outputs computed with a layer",
        "copies": "inputs that arrive", "assembled": "boxes put together of these and own parts",
        "sums": "bundles of gradients", "messages": "messages at one time"}


class Ledger:
    """Counts [elements, bytes] of each kind in WHAT except parameters and messages. `own`: what the current step has
    kept so far. `most`: the maximum of `own` at the ends of all steps and passes since `clear`."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.most, self.own = {}, collections.defaultdict(lambda: [0, 0])

    def settle(self):
        for what, found in self.own.items():
            self.most[what] = [*map(max, self.most.get(what, [0, 0]), found)]

    def begin(self):
        """Begins a step. Tensors added before this call count for the previous step."""
        self.settle()
        self.own = collections.defaultdict(lambda: [0, 0])

    def add(self, what, tensor):
        self.count(what, tensor.numel(), tensor.element_size())

    def count(self, what, elements, size):
        own = self.own[what]
        own[0] += elements
        own[1] += elements * size


class PassLedger(Ledger):
    """Counts the tensors of one pass, which are kept until `end`. Also adds them to the ledger of the step."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def count(self, what, elements, size):
        super().count(what, elements, size)
        self.step.count(what, elements, size)

    def end(self):
        self.step.settle()
        for what, (elements, size) in self.own.items():
            self.step.own[what][0] -= elements
            self.step.own[what][1] -= size


@dataclass(frozen=True)
class PassKind:
    """The facts that decide which messages a pass sends. `label_elements`: numbers in the label of one image, or None
    without labels. `running`: names of the batch normalizations that use running statistics."""
    plan: object
    is_recording: bool
    is_synchronous: bool
    label_elements: int | None
    running: frozenset
