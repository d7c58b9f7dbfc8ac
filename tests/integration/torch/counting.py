"""What torch does while a program runs: which operators it calls."""
import collections

from torch.utils._python_dispatch import TorchDispatchMode


class Calls(TorchDispatchMode):
    """How often each operator was called."""

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.counts[str(function)] += 1
        return function(*args, **(kwargs or {}))
