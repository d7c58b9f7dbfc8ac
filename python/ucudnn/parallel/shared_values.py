"""Values that several ranks have, and that must stay equal: parts of parameters, running statistics, and options of
optimizers and normalizations. Ranks compare these values at some passes."""
import functools

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from . import boxes as b


class SharedValues:
    """Compares the shared values of one executor, at passes 1, 2, 4, 8, ... and every 256th. With one rank, nothing is
    compared."""

    def __init__(self, executor):
        # options: the options of optimizers that have stepped since the last pass
        self.executor, self.passes, self.options = executor, 0, {}

    def of(self, executor):
        """Returns the SharedValues of a copy of the executor, which continues this object's count of passes."""
        other = SharedValues(executor)
        other.passes = self.passes
        return other

    def is_due(self):
        """Returns whether ranks compare values at the next pass."""
        number = self.passes + 1
        return not self.executor.agreement.is_alone and (number & (number - 1) == 0 or number % 256 == 0)

    def note_options(self, optimizer):
        """Keeps the options with which an optimizer steps, for the comparison at the next pass."""
        for place, group in enumerate(optimizer.param_groups) if self.is_due() else ():
            for key, value in group.items():
                value = value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
                if key not in ("params", "param_names") and isinstance(value, (bool, int, float, str, tuple, type(None))):
                    self.options.setdefault(f"{key} of group {place} of {type(optimizer).__name__}", []).append(repr(value))

    def settings(self):
        """Returns the options of optimizers and normalizations that are compared at the next pass, by name."""
        if not self.is_due():
            return {}
        momenta = {f"{name}.momentum": module.momentum for name, module in self.executor.modules.items() if isinstance(module, _BatchNorm)}
        return momenta | {what: ", ".join(values) for what, values in self.options.items()}

    def compare(self):
        """Counts a pass; all ranks call this when a pass begins. If a comparison is due and values differ, raises
        NotSupported."""
        if self.is_due():
            self.executor.agreement.compare("values that ranks share", self._digests())
        self.passes, self.options = self.passes + 1, {}

    def _digests(self):
        """Returns a digest for each part that several ranks have: the sum of its elements' bits as integers, or None if
        this rank does not have the part."""
        kinds, own = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}, {}
        for what, (name, is_own) in self.parts.items():
            one = self.executor.tensor_of(name).detach() if is_own else None
            is_summed = is_own and one.itemsize in kinds
            own[what] = one.contiguous().view(kinds[one.itemsize]).sum() if is_summed else None
        sums = [one for one in own.values() if one is not None]
        numbers = iter(torch.stack(sums).tolist() if sums else ())
        return {what: None if one is None else next(numbers) for what, one in own.items()}

    @functools.cached_property
    def parts(self):
        """Parts that several ranks have: {what: (name, whether this rank has it)}."""
        executor, parts = self.executor, {}
        for node in executor.network.nodes:
            scheduled = executor.schedule.nodes[node.name]
            held = {name: one.parts for name, one in zip(node.parameters, scheduled.parameters)}
            if not executor.is_local:
                held |= {name: {rank: (box[b.C],) for rank, box in scheduled.boxes.items()}
                         for name in node.call.get("statistics", ()) if name}
            for name, ranges in held.items():
                for rank, one in ranges.items():
                    parts.setdefault(name, {}).setdefault(one, set()).add(rank)
        return {f"the values of {name}{f' {list(one)}' if len(found) > 1 else ''}": (name, executor.rank in ranks)
                for name, found in parts.items() for one, ranks in found.items() if len(ranks) > 1}
