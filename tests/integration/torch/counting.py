"""Counts which operators torch calls while a program runs, and the bytes of their results that are alive at the same
time. Also works on meta tensors, which have a size but no memory."""
import collections
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Calls(TorchDispatchMode):
    """Counts the calls of each operator."""

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.counts[str(function)] += 1
        with torch._C.DisableTorchFunctionSubclass():  # tensors of a backward pass may be stripes, which intercept functions
            return function(*args, **(kwargs or {}))


class Living(TorchDispatchMode):
    """`peak`: the largest number of bytes that `inputs` and results of operators have had at the same time. Views and
    results written in place count no bytes."""

    def __init__(self, *inputs):
        super().__init__()
        self.now = self.peak = 0
        self._known = {}
        with torch._C.DisableTorchFunctionSubclass():  # a stripe refuses access to its memory
            for tensor in inputs:
                self.add(tensor)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        # A result that shares memory with an argument, such as a view of a parameter, counts no bytes.
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            read = {id(x.untyped_storage()) for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
            result = function(*args, **kwargs)
            for tensor in tree_leaves(result):
                if isinstance(tensor, torch.Tensor) and id(tensor.untyped_storage()) not in read:
                    self.add(tensor)
        return result

    def add(self, tensor):
        storage = tensor.untyped_storage()
        key = id(storage)
        if key in self._known:
            return
        size = storage.nbytes()
        self._known[key] = weakref.ref(storage, lambda _: self._gone(key, size))
        self.now += size
        self.peak = max(self.peak, self.now)

    def _gone(self, key, size):
        self._known.pop(key)
        self.now -= size
