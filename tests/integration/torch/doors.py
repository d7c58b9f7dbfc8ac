"""Tries ways to call torch that bypass __torch_function__, on each rank of UCUDNN_SPATIAL. doors_test.py runs this
file."""
import copy
import functools
import pickle
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Shard, init_device_mesh
from torch.multiprocessing import reductions
from torch.nn import functional as F
from torch.utils import dlpack
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import gloo
from comparison import check_close, own, striped_like_whole
from layer_cases import Call, picture
from ucudnn import spatial
from ucudnn.spatial import stripe
from ucudnn.spatial.errors import names_step


def refused(name, call):
    """Expects NotSupported from `call`, or TorchScript's own error that quotes NotSupported."""
    try:
        found = call()
    except spatial.NotSupported as refusal:
        assert names_step(str(refusal)), f"{name} names no next step: {refusal}"
        return
    except RuntimeError as error:
        assert "ucudnn.spatial.errors.NotSupported" in str(error), f"{name}: {error}"
        return
    raise AssertionError(f"{name} gave {type(found).__name__}")


@torch.jit.script
def scripted(x: torch.Tensor):
    return x * torch.sigmoid(x)


def nothing_runs_past_the_rules():
    x, mesh = spatial.shard(picture()), init_device_mesh("cpu", (dist.get_world_size(),))
    for name, call in {
            "a script": lambda: scripted(x), "vmap": lambda: torch.vmap(lambda v: v * 2)(x),
            "grad": lambda: torch.func.grad(lambda v: (v ** 2).mean())(x),
            "jvp": lambda: torch.func.jvp(torch.sin, (x,), (x,)),
            "a script's trace": lambda: torch.jit.trace(lambda v: v.mean() * 2, x),
            "tensor": lambda: torch.tensor(x), "as_tensor": lambda: torch.as_tensor(x, dtype=torch.float32),
            "a constructor": lambda: torch.DoubleTensor(x), "as_subclass": lambda: x.as_subclass(torch.Tensor),
            "dlpack": lambda: torch.from_dlpack(x), "numpy's dlpack": lambda: np.from_dlpack(x),
            "a capsule": lambda: torch.from_dlpack(dlpack.to_dlpack(x)), "a capsule of torch's": lambda: torch.to_dlpack(x),
            "a capsule by C": lambda: torch._C._to_dlpack(x), "its own capsule": lambda: x.__dlpack__(),
            "a DTensor": lambda: DTensor.from_local(x, mesh, [Shard(2)]), "an array": lambda: np.array(x),
            "shared memory": lambda: x.share_memory_(), "storage": lambda: x.storage(), "pickle": lambda: pickle.dumps(x),
            "copy": lambda: copy.copy(x), "another process": lambda: reductions.reduce_tensor(x),
            "data of a plain tensor": lambda: setattr(picture(), "data", x),
            "data of a parameter": lambda: setattr(nn.Parameter(picture()), "data", x), "set_": lambda: x.set_(picture()),
            "numpy": lambda: x.numpy(),
            "a list": lambda: x.tolist(), "an operator": lambda: torch.ops.aten.relu(x),
            "data": lambda: setattr(x, "data", picture()), "a gradient": lambda: setattr(x, "grad", picture()),
            "where": lambda: torch.where(x > 0),
            "script module": lambda: torch.jit.script(nn.ReLU())(x),
            "a model's trace": lambda: torch.jit.trace(spatial.convert(nn.Sequential(nn.Conv2d(4, 4, 3))), x)}.items():
        refused(name, call)
    if hasattr(torch._C, "_to_dlpack_versioned"):
        refused("a versioned capsule", lambda: torch._C._to_dlpack_versioned(x))
    plain = picture()
    plain.data = torch.from_dlpack(dlpack.to_dlpack(plain)) * 2
    check_close("a plain tensor by the same functions", plain, picture() * 2)
    check_close("its type", spatial.gather(x.type(torch.float32)).double(), spatial.gather(x), 1e-6)


class Backward(torch.autograd.Function):
    """An autograd function whose backward calls `look` with a saved stripe."""

    @staticmethod
    def forward(ctx, x, look):
        ctx.save_for_backward(x)
        ctx.look = look
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.look(ctx.saved_tensors[0]), None


def nothing_runs_past_the_rules_in_a_backward_pass():
    """Code of a program that runs during a backward pass may not compute on a rank's rows alone. Its calls are refused
    as in other code."""
    def own_pass(x, gradient=None):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = (x * x.sigmoid()).square()
            return torch.autograd.grad(y.mean() if gradient is None else y, x, gradient)[0].amax()

    def by_hook(x, look):
        y = x * 2
        y.register_hook(lambda gradient: gradient * look(gradient))
        return y

    def by_closure(x, look):
        weight = torch.ones(1, requires_grad=True)
        weight.register_hook(lambda gradient: look(x.detach()))
        return x * weight

    def by_node(x, look):
        y = x * 2
        y.grad_fn.register_hook(lambda *_: look(x.detach()) and None)
        return y

    def by_accumulation(x, look):
        x.register_post_accumulate_grad_hook(lambda x: look(x.grad))
        return x * 2

    def by_module(x, look):
        model = spatial.convert(nn.Sequential(nn.Tanh()))
        model[0].register_full_backward_hook(lambda module, given, made: (given[0] * look(made[0]),))
        return model(x)
    looks = {"vmap": lambda x: torch.vmap(torch.mean)(x).mean(), "grad": lambda x: torch.func.grad(torch.mean)(x).sum(),
             "tensor": lambda x: torch.tensor(x).mean(), "a constructor": lambda x: torch.DoubleTensor(x).mean(),
             "an operator": lambda x: torch.ops.aten.mean.default(x),
             "a gradient that nobody cut": lambda x: own_pass(x, torch.ones(spatial.to_local(x).shape))}
    for way in (Backward.apply, by_hook, by_closure, by_node, by_accumulation, by_module):
        for name, look in looks.items():
            x = spatial.shard(picture()).detach().requires_grad_()
            refused(f"{name} {way.__name__}", lambda: way(x, look).square().sum().backward())
    found = []
    for x in (picture().requires_grad_(), spatial.shard(picture()).detach().requires_grad_()):
        Backward.apply(x, own_pass).square().sum().backward()
        found.append(x.grad)
    check_close("a backward pass of its own", found[1], own(found[0], found[1]))


def no_rule_leaves_a_plain_tensor():
    """No function's rule may return a rank's rows as a plain tensor, alone or inside a container: such a result is
    refused."""
    x = spatial.shard(picture())
    for function in stripe.RULES:
        for made in (spatial.to_local, lambda x: (x, [spatial.to_local(x)]), lambda x: {"rows": spatial.to_local(x)}):
            with mock.patch.dict(stripe.RULES, {function: lambda function, x: made(x)}):
                refused(stripe.name_of(function), lambda: stripe._answer(function, (x,), {}))


def no_rule_writes_elsewhere():
    """A call with `out` is refused for every function, before its rule runs."""
    x, tried = spatial.shard(picture()), 0
    for function in list(stripe.RULES):
        with stripe.plainly():
            refused(stripe.name_of(function), lambda: stripe._answer(function, (x,), {"out": torch.empty(0)}))
        tried += 1
    assert tried > 500, tried


class Scaled(torch.autograd.Function):
    """An autograd function that saves its result and averages over positions."""

    @staticmethod
    def forward(ctx, x, weight):
        y = torch.exp(x * weight)
        ctx.save_for_backward(x, weight, y)
        ctx.shift = 1.0
        return y, y.mean((2, 3), keepdim=True)

    @staticmethod
    def backward(ctx, gradient, of_mean):
        x, weight, y = ctx.saved_tensors
        inner = (gradient + of_mean / (x.shape[2] * x.shape[3])) * y * ctx.shift
        return inner * weight, (inner * x).sum((0, 2, 3), keepdim=True)


class SetUp(torch.autograd.Function):
    """An autograd function with setup_context. It combines neighbouring positions and also returns its input."""

    @staticmethod
    def forward(x):
        return x, F.avg_pool2d(x, 3, 1, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.rows = inputs[0].shape[2]

    @staticmethod
    def backward(ctx, gradient, of_pooled):
        assert ctx.rows == 16, ctx.rows
        return gradient + F.avg_pool2d(of_pooled, 3, 1, 1)


class Unsummed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        return x * weight

    @staticmethod
    def backward(ctx, gradient):
        return gradient, gradient


def functions_of_a_program():
    for call in (lambda x, w: sum(Scaled.apply(x, w)), lambda x, w: sum(SetUp.apply(x * w)) * 2):
        striped_like_whole(Call(call, w=picture(1, 4, 1, 1)), picture(), trust=["Call"])
    model = spatial.convert(Call(lambda x, w: Unsummed.apply(x, w), w=picture(1, 4, 1, 1)), trust=["Call"])
    refused("a gradient that nobody summed", lambda: model(spatial.shard(picture())).sum().backward())


def hooks():
    """Runs hooks of modules and tensors: Grad-CAM, clipping of gradients, and a hook that changes gradients."""
    x = spatial.shard(picture()).requires_grad_()
    refused("several gradients at once", lambda: torch.autograd.graph.register_multi_grad_hook([x * 2, picture()], print))

    def cam(model, x, found):
        model[2].register_full_backward_hook(
            lambda module, given, made: found.append((made[0] / made[0].square().mean()).mean((2, 3))))
        model[1].register_full_backward_pre_hook(lambda module, made: (made[0] * 2 / made[0].abs().amax(),))
        inner = []
        model[0].register_forward_hook(lambda module, given, made: inner.append(made))
        y = model(x)
        inner[0].register_hook(lambda gradient: gradient / gradient.square().sum().sqrt())
        y.square().mean().backward()
        return [found[0], *(parameter.grad for parameter in model.parameters())]
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.Tanh(), nn.Conv2d(4, 4, 3, 1, 1), nn.ReLU())
    expected = cam(copy.deepcopy(model), picture(), [])
    for name, (found, right) in enumerate(zip(cam(spatial.convert(model), spatial.shard(picture()), []), expected)):
        check_close(f"hook {name}", found, right)


def hooks_of_saved_tensors():
    """A program's own saved_tensors_hooks are refused. torch's own hooks give the same gradients as no hooks."""
    x, weight = spatial.shard(picture()).detach().requires_grad_(), picture(3, 4, 3, 3)
    for keep in (lambda x: x / x.abs().max(), functools.partial(torch.mul, 2)):
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            for name, call in {"exp": lambda: x.exp(), "conv": lambda: F.conv2d(x, weight), "a norm": lambda: F.instance_norm(x),
                               "a function": lambda: Scaled.apply(x, weight[:1, :, :1, :1]),
                               "a checkpoint": lambda: checkpoint(torch.sin, x, use_reentrant=False)}.items():
                refused(name, call)
            with torch.no_grad():
                x.exp()

    def call(model, x):
        with torch.autograd.graph.save_on_cpu():
            return model(x)
    model = nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.GroupNorm(2, 4),
                          Call(lambda x, w: sum(Scaled.apply(x.sin(), w)), w=picture(1, 4, 1, 1)))
    striped_like_whole(model, picture(), call, trust=["Call"])


def modes():
    """A dispatch mode counts operations on stripes. The counts of all ranks add up to the count for the whole image."""
    whole, model, counts = nn.Conv2d(4, 4, 3, 1, 1), spatial.convert(nn.Conv2d(4, 4, 3, 1, 1).requires_grad_(False)), []
    for each, x in ((whole, picture()), (model, spatial.shard(picture()).requires_grad_())):
        with FlopCounterMode(display=False) as counted:
            each(x).sum().backward()
        counts.append(counted.get_flop_counts()["Global"])
    forward = torch.ops.aten.convolution
    counted = torch.tensor([counts[1][forward]])
    dist.all_reduce(counted)
    assert counted == counts[0][forward] > 0, counts
    assert torch.ops.aten.convolution_backward in counts[1], counts
    for function in (torch.square, F.silu, torch.abs, lambda x: x * x, lambda x: F.mse_loss(x, x * 2)):
        x = picture().requires_grad_()
        function(x).sum().backward()
        stripe = spatial.shard(picture()).requires_grad_()
        with FlopCounterMode(display=False):
            function(stripe).sum().backward()
        check_close("a gradient under a mode", stripe.grad, own(x.grad, stripe))


def added_later():
    model = spatial.convert(nn.Sequential(nn.Conv2d(4, 4, 1)))
    model.add_module("later", nn.ReLU())
    refused("a module that was added", lambda: model(spatial.shard(picture())))
    parts = spatial.convert(nn.ModuleDict({"body": nn.Sequential(nn.Conv2d(4, 4, 1))}))
    parts["body"](spatial.shard(picture()))
    parts["body"].add_module("later", nn.ReLU())
    refused("a module that was added to a part", lambda: parts["body"](spatial.shard(picture())))
    old = spatial.convert(nn.Sequential(nn.Conv2d(4, 4, 1)))
    old[0].register_backward_hook(lambda *_: None)
    refused("a hook of long ago", lambda: old(spatial.shard(picture())))


if __name__ == "__main__":
    gloo.join()
    nothing_runs_past_the_rules()
    nothing_runs_past_the_rules_in_a_backward_pass()
    no_rule_leaves_a_plain_tensor()
    no_rule_writes_elsewhere()
    functions_of_a_program()
    hooks()
    hooks_of_saved_tensors()
    modes()
    added_later()
