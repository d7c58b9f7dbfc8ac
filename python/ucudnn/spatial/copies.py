"""Checks values that must be the same on every rank of a group: weights and buffers of a model, images before they are
cut, random draws, and with UCUDNN_CHECK=1 plain tensors that meet stripes. Every rank compares the CRC-32s of all
ranks, so all refuse a difference. Nothing is compared during the capture of a CUDA graph, because tensors have no
values yet."""
import numbers
import random
import sys
import zlib

import torch

from . import cells
from .cells import ranks
from .errors import NotSupported
from .sizes import flat, sizes_of
from .vouched import DRAWING


def _checksum(value):
    """Returns the checksum of a tensor, or of the repr of anything else."""
    if not isinstance(value, torch.Tensor):
        return zlib.crc32(repr(value).encode())
    said = zlib.crc32(repr((tuple(value.shape), value.dtype)).encode())
    if value.is_meta:
        return said
    # This context disables Stripe's __torch_function__ and the program's modes.
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        own = value.detach().resolve_conj().to("cpu", copy=True)  # copy: FSDP could not free a storage that numpy has seen
        return zlib.crc32(own.contiguous().reshape(-1).view(torch.uint8).numpy(), said)


def same(values, why, kind="values"):
    """Raises NotSupported on all ranks of a group unless all have the same `values`, a list of (name, tensor or state).
    The text has the first name that differs. `kind` says what is compared. If a rank makes another call meanwhile, its
    error quotes `kind`."""
    if cells.is_capturing():
        return
    names, sums = [name for name, _ in values], [_checksum(value) for _, value in values]
    axes = ranks().grid.cut_axes
    told = ranks().numbers([zlib.crc32(repr((names, sums)).encode()), len(sums)], axes, kind)
    if all(each == told[0] for each in told):
        return
    longest = max(count for _, count in told)
    own = [zlib.crc32(repr(each).encode()) for each in zip(names, sums)] + [0] * (longest - len(sums))
    first = next(i for i, column in enumerate(zip(*ranks().numbers(own, axes))) if len(set(column)) > 1)
    name = names[first] if first < len(names) else "what another rank has more"
    raise NotSupported(f"{name} is not the same on the ranks of a group: {why}")


def same_image(x, dims, why):
    """Compares an image between ranks before it is cut along `dims`. If the image cannot be cut, `why` says so, and all
    ranks raise."""
    what = f"{x.dtype} of shape {tuple(x.shape)}" + (f", {why}" if why else f" along {dims}")
    if not cells.is_capturing():
        told = ranks().told_of("the cut of an image by shard", [what, 0 if why else _checksum(x)])
        if len({what for what, _ in told.values()}) > 1:
            raise NotSupported("shard cuts different tensors; pass the same on all ranks: " +
                               "; ".join(f"on rank {rank} {what}" for rank, (what, _) in told.items()))
        if len({checksum for _, checksum in told.values()}) > 1:
            raise NotSupported(f"the tensor of shape {tuple(x.shape)} that shard cuts is not the same on the ranks of a group: "
                               "pass the same on all, of which each takes its rows")
    if why:
        raise NotSupported(f"shard of {what}")


def _text(value):
    """Returns a text for an argument, equal on all ranks that pass the same argument. It omits device numbers, which
    differ between ranks."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]} {[*sizes_of(value.shape, value.cut)] if hasattr(value, 'cut') else [*value.shape]}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, (numbers.Number, slice, torch.dtype, type(None), str)):
        return str(value).split(":")[0]
    return type(value).__name__


def same_operands(name, args, kwargs):
    """With UCUDNN_CHECK=1, compares the replicated tensors that meet a stripe in operation `name`. Records the call
    with its arguments; ranks compare these records at the next exchange."""
    if not ranks().is_checking:
        return
    given = [*map(_text, args), *(f"{key}={_text(kwargs[key])}" for key in sorted(kwargs))]
    ranks().calls.append(f"{name}({', '.join(given[:1] if name in ('to', 'cuda') else given)})")
    plain = [(f"a tensor of shape {tuple(x.shape)} that meets a stripe", x) for x in flat((args, kwargs)) if
             isinstance(x, torch.Tensor) and not (hasattr(x, "cut") and x.cut.is_cut) and not hasattr(x, "full_tensor")]
    if plain:
        same(plain, "compute it alike on all, or shard it", f"a comparison of what {name} is given")


def same_weights(path, module):
    """Compares the weights of the module at `path` in a converted model, except parameters that are divided between
    ranks."""
    tensors = [*module.named_parameters(path), *module.named_buffers(path)]
    same([(name, tensor) for name, tensor in tensors if not hasattr(tensor, "full_tensor")],
         "seed ranks alike before a model is made, or load the same file on all of them")


def random_states():
    states = {"torch's generator of the CPU": torch.get_rng_state(), "Python's random": random.getstate()}
    if "numpy.random" in sys.modules:
        numpy = sys.modules["numpy"]
        with numpy.printoptions(threshold=sys.maxsize):
            states["numpy's generator"] = repr(numpy.random.get_state())
    if torch.cuda.is_initialized() and not cells.is_capturing():
        states["torch's generator of the GPU"] = torch.cuda.get_rng_state()
    return states


def trusts_draws(trusted):
    """Returns whether one of these class names is a class that draws different random numbers on each rank."""
    return any(name.rsplit(".", 1)[-1] in DRAWING for name in trusted)


def same_draws(before, trusted):
    """Compares the random draws of a forward pass between ranks. `before` has the generators' states at its start.
    Draws must begin at the same state and be equally many. If the model trusts a class that draws, ranks may draw
    different numbers; factories.Sizes then compares draws that must be the same, when they are made."""
    if trusts_draws(trusted):
        return
    after = random_states()
    drawn = [(name, before[name], after[name]) for name in before if _checksum(before[name]) != _checksum(after[name])]
    same([(f"what was drawn by {name}", _checksum((_checksum(old), _checksum(new)))) for name, old, new in drawn],
         "seed ranks alike, and draw alike on all")
