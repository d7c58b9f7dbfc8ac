"""Compares a model with the Network that describes it, on random images and without dropout: outputs, running
statistics and gradients. torch.export shows only the forward pass, so a backward pass that the program defines itself
is found only here."""
import copy
import math

import torch
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from .building import outputs_of
from .errors import NotSupported

LARGE = 50_000_000  # number of parameters, or of multiply-adds of one image; see compare
IMAGES = 3  # with two images, normalized values would be 1 and -1 for any input


def compare(model, network, shape):
    """Raises NotSupported if the model computes something other than `network`. Comparing takes time and memory, so a
    model above LARGE is compared only if its backward pass may contain the program's own code. A model whose copy does
    not run is not compared."""
    size = sum(network.parameters[name].elements * math.prod(node.shape[1:]) for node in network.nodes for name in node.parameters)
    if max(size, sum(one.elements for one in network.parameters.values())) > LARGE and not _has_own_backward(model, shape):
        return
    # a model may convert images to another type, so float32 has a wide tolerance
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-2)):
        try:
            rows = [row for is_training in (True, False) for row in _compared(model, network, shape, dtype, is_training)]
        except Exception:  # the program's own code may expect values or a device that the copy does not have
            continue
        for what, wanted, found, most in rows:
            if wanted.shape != found.shape:
                raise NotSupported(f"{what} has the shape {tuple(wanted.shape)}, and {tuple(found.shape)} by the operators of its export")
            bound = tolerance * wanted.abs().max() + 1e-3 * tolerance * most if wanted.numel() else 0
            if wanted.isfinite().all() and wanted.numel() and not (found - wanted).abs().max() <= bound:
                raise NotSupported(f"{what} has the norm {wanted.norm():.6g} for random images, and {found.norm():.6g} by the operators of "
                                   "its export, which a plan runs: a torch.autograd.Function, a hook of a tensor or a change of values "
                                   "that an export does not show has no rule")
        return


def _compared(model, network, shape, dtype, is_training):
    """Returns a row (name, the model's tensor, the network's tensor, greatest magnitude) for each compared tensor. The
    magnitude is the greatest of all outputs of the model, or of all its gradients; 0 for running statistics."""
    generator = torch.Generator().manual_seed(0)
    twin = _twin(model, network, generator, dtype).train(is_training)
    constants, parameters = dict(twin.named_buffers(remove_duplicate=False)), dict(twin.named_parameters())
    parameters = {name: parameters[name] for name in network.parameters if name in parameters}
    statistics = {name: twin.get_buffer(name).clone() for node in network.nodes for name in node.call.get("statistics", ()) if name}
    images = torch.randn(IMAGES, *shape, generator=generator, dtype=dtype).requires_grad_()
    with _Undropped(), torch.enable_grad():
        wanted = _tensors(twin(images.clone()))
        found = outputs_of(network, images.clone(), constants | parameters | statistics, lambda node: twin.get_submodule(node.module).training)
    if not is_training:
        found = [found[place] for place in network.evaluated[0]]
    mode = "training" if is_training else "evaluation"
    rows = [(f"output {place} in {mode}", *pair) for place, pair in enumerate(zip(wanted, found))]
    rows = _with_greatest(rows) + [(f"{name} in {mode}", twin.get_buffer(name), own, 0) for name, own in statistics.items()]
    if is_training:
        leaves = {f"the gradient of {name}": leaf for name, leaf in parameters.items()} | {"the gradient of the images": images}
        slopes = [torch.randn(y.shape, generator=generator, dtype=dtype) for y in wanted]
        rows += _with_greatest(list(zip(leaves, *(_gradients(outputs, leaves.values(), slopes) for outputs in (wanted, found)))))
    return rows


def _with_greatest(rows):
    most = max((wanted.abs().max().item() for _, wanted, _ in rows if wanted.numel()), default=0.0)
    return [(*row, most) for row in rows]


def _gradients(outputs, leaves, slopes):
    total = sum((y * slope).sum() for y, slope in zip(outputs, slopes)) + 0 * next(iter(leaves)).sum()
    return torch.autograd.grad(total, list(leaves), allow_unused=True, materialize_grads=True)


def _tensors(outputs):
    return [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]


def _twin(model, network, generator, dtype, device="cpu"):
    """Returns a copy of the model with random parameters and running statistics. Other buffers keep the model's
    values."""
    drawn = {name for node in network.nodes for name in node.call.get("statistics", ())} if network else ()

    def made(tensor, is_drawn):
        if not tensor.is_floating_point():
            return torch.zeros_like(tensor, device=device) if tensor.is_meta else tensor.detach().to(device, copy=True)
        if device == "meta":
            return torch.empty_like(tensor, device=device)
        if not is_drawn and not tensor.is_meta:
            return tensor.detach().to(device, dtype, copy=True)
        if tensor.ndim > 1:
            spread = math.sqrt(2 * tensor.shape[0] / max(tensor.numel(), 1))
            return torch.randn(tensor.shape, generator=generator, dtype=dtype) * spread
        return torch.rand(tensor.shape, generator=generator, dtype=dtype) + 0.5
    memo = {id(one): torch.nn.Parameter(made(one, True), one.is_floating_point()) for one in model.parameters()}
    memo |= {id(one): made(one, name in drawn) for name, one in model.named_buffers()}
    return copy.deepcopy(model, memo)


class _Undropped(TorchFunctionMode):
    """Replaces functions named dropout by the identity. `is_hooked`: whether a tensor was given a hook."""

    is_hooked = False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(function, "__name__", "")
        self.is_hooked |= name == "register_hook"
        if "dropout" in name:
            return args[0] if args else kwargs["input"]
        if name == "bernoulli_":
            return args[0].fill_(args[1] if len(args) > 1 else kwargs["p"])
        return function(*args, **kwargs)


def _has_own_backward(model, shape):
    """Runs a copy of the model on meta tensors. Returns whether the copy's backward pass has an autograd.Function of
    the program or a hook. Also returns True if the copy fails."""
    try:
        twin, dtype = _twin(model, None, None, None, "meta").train(), next(model.parameters()).dtype
        with torch.enable_grad(), _Undropped() as mode:
            pending = [y.grad_fn for y in _tensors(twin(torch.empty(IMAGES, *shape, dtype=dtype, device="meta")))]
    except Exception:  # the program's own code, as in compare()
        return True
    seen = set()
    while pending:
        node = pending.pop()
        if isinstance(node, BackwardCFunction):
            return True
        if node is not None and node not in seen:
            seen.add(node)
            pending += [source for source, _ in node.next_functions]
    return mode.is_hooked
