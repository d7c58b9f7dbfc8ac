"""Compares every layer of layer_cases.py separately, on each rank of UCUDNN_SPATIAL, and prints failures.
layers_test.py runs this file."""
import copy
import functools
import itertools
import os
import random
import sys
import traceback
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import gloo
from comparison import check_close, own as striped_part, penalty_like_whole, striped_like_whole
from counting import Calls
from layer_cases import DRAWN, REFUSED, TRUST, Call, cases, lines, picture, rows, volumes
from ucudnn import spatial
from ucudnn.spatial import rows as kernels
from ucudnn.spatial.errors import names_step


def failures(wanted):
    grid = spatial.ranks().grid
    chosen = [(name, make, picture()) for name, make in cases()] if grid.parts[0] == 1 else []
    chosen += [(name, make, picture(2, 2, 8, 8, 8)) for name, make in volumes()]
    chosen += [(name, make, picture(2, 4, 16)) for name, make in lines()] if grid.cut_axes == (2,) else []
    chosen += [(name, make, picture()) for name, make in rows()] if grid.cut_axes == (1,) else []
    for name, make, x in chosen:
        if wanted and name not in wanted:
            continue
        torch.manual_seed(3)
        try:
            striped_like_whole(make(), x, trust=TRUST)
            torch.manual_seed(3)
            penalty_like_whole(make(), x, trust=TRUST)
        except Exception:
            yield name, traceback.format_exc()
    for name, make in REFUSED.items() if grid.parts[0] == 1 and not wanted else ():
        torch.manual_seed(3)
        try:
            spatial.convert(make(), trust=["Call"])(spatial.shard(picture()))
            yield name, "was not refused"
        except spatial.NotSupported as refusal:
            if not names_step(str(refusal)):
                yield name, f"names no next step: {refusal}"
        except Exception:
            yield name, traceback.format_exc()


class CountingGeometry:
    """A geometry that counts the calls of sum_nothing. If there is a reason `why`, it refuses these calls."""

    def __init__(self, geometry, why=None):
        self.geometry, self.why, self.times = geometry, why, 0

    def __getattr__(self, name):
        return getattr(self.geometry, name)

    def sum_nothing(self):
        self.times += 1
        if self.why:
            raise spatial.NotSupported(self.why)


def moved_later():
    """A model may be moved to a GPU after it was converted. Then ucudnn exchanges rows inside convolutions, so the geometry
    is told who sums gradients, once, before the first such convolution. Here the CPU runs this convolution, so its values
    are not compared."""
    from ucudnn.spatial import convolution
    ranks, route = spatial.ranks(), convolution.route
    before, ranks._geometry = ranks._geometry, CountingGeometry(ranks._geometry)
    torch.manual_seed(3)
    try:
        model = spatial.convert(nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.Conv2d(4, 4, 3, 1, 1)))
        model(spatial.shard(picture()))
        assert ranks._geometry.times == 0, "nothing is exchanged under a call"
        convolution.route = lambda *_: convolution.UCUDNN
        model(spatial.shard(picture()))
        assert ranks._geometry.times == 1, "it is said once, before the first one"
    finally:
        ranks._geometry, convolution.route = before, route


def norms_as_on_gpus():
    """On GPUs, norms use neither the CPU's kernels for rows nor torch's norms. torch's norms call cuDNN, and inside these
    calls ucudnn would sum the statistics a second time. The operations used on GPUs give equal results."""
    for name in ("batch norm", "instance norm, running", "group norm 2", "layer norm over positions"):
        make, found = dict(cases())[name], []
        with Calls() as calls:
            make()(picture())
        assert any("_norm" in each for each in calls.counts), calls.counts
        for first in (kernels._first, lambda *_: None):
            torch.manual_seed(3)
            model, x = spatial.convert(make()), spatial.shard(picture()).requires_grad_()
            with Calls() as calls, mock.patch.object(kernels, "_first", first):
                y = model(x)
                (y ** 3).sum().backward()
            found.append([spatial.gather(y), x.grad, *(each.grad for each in model.parameters())])
        assert not [each for each in calls.counts if "_norm" in each], calls.counts
        for mine, other in zip(*found, strict=True):
            check_close(f"{name} by rows", spatial.to_local(mine), spatial.to_local(other))


def second_order_of_calls_of_cudnn():
    """Second derivatives through calls of cuDNN equal the whole image's. Rows are exchanged before a convolution's call or
    inside of it."""
    from ucudnn.spatial import convolution

    split, taken = convolution._Split, []
    save, backward = split.forward, split.backward

    # On the CPU nothing exchanges rows inside of a call. So the result and the first derivatives are computed from fetched
    # rows.
    def forward(ctx, x, weight, bias, layout, arguments, fetched):
        taken.append(weight.shape)
        save(ctx, x, weight, bias, layout, arguments, fetched)
        return fetched(x, weight, bias)

    def first_or_second(ctx, gradient):
        if torch.is_grad_enabled():
            return backward(ctx, gradient)
        with torch.enable_grad():
            return tuple(each if each is None else each.detach() for each in backward(ctx, gradient))
    torch.manual_seed(3)
    groups = nn.Sequential(nn.Conv2d(4, 8, 4, 2, 1, groups=2), nn.Tanh(), nn.Conv2d(8, 4, 3, 1, 1, groups=4, bias=False), nn.SiLU())
    made = {name: dict(cases())[name]() for name in ("conv, tanh, conv", "transposed groups", "discriminator")}
    made["strides and groups"] = groups
    with mock.patch.object(convolution, "_run", lambda *arguments: convolution._Own.apply(*arguments)):
        for name, model in made.items():
            penalty_like_whole(copy.deepcopy(model), picture())
        with mock.patch.object(convolution, "route", lambda *_: convolution.UCUDNN), \
                mock.patch.multiple(split, forward=staticmethod(forward), backward=staticmethod(first_or_second)):
            for name, model in made.items():
                for each in (model, nn.Sequential(nn.Tanh(), model)):  # the layer's input is a leaf, or is computed from one
                    taken.clear()
                    penalty_like_whole(copy.deepcopy(each), picture())
                    assert taken, name
    with mock.patch.object(convolution, "route", lambda *_: convolution.UCUDNN):
        for layer in (nn.Conv2d(4, 4, 3, 1, 1), nn.ConvTranspose2d(4, 3, 4, 2, 1)):
            own, x = copy.deepcopy(layer), spatial.shard(picture()).detach().requires_grad_()
            gradient, = torch.autograd.grad(spatial.convert(nn.Sequential(layer))(x).sum(), x)
            alone = spatial.to_local(x).detach().requires_grad_()
            expected, = torch.autograd.grad(own(alone).sum(), alone)
            assert torch.equal(spatial.to_local(gradient), expected), "the backward of the call fetches no rows"


def gradients_of_stripes():
    """torch.autograd.grad returns gradients that are cut like their stripes, and accepts only such gradients."""
    x = spatial.shard(picture()).detach().requires_grad_()
    y, unused = x * x, x.detach().clone().requires_grad_()
    found, none = torch.autograd.grad(y, [x, unused], torch.ones_like(y), retain_graph=True, materialize_grads=True)
    assert found.cut == x.cut and torch.equal(spatial.to_local(found), 2 * spatial.to_local(x))
    assert none.cut == x.cut and not spatial.to_local(none).any()
    for call in (lambda x: torch.autograd.grad(y, x, torch.ones(spatial.to_local(y).shape)),
                 lambda x: y.backward(torch.ones(spatial.to_local(y).shape))):
        refused_by_name(call, x, "not cut as the stripe is")
    refused_by_name(lambda x: torch.autograd.grad(y, x, torch.ones_like(y), is_grads_batched=True), x, "vmap")


def in_16_bits():
    """In 16-bit types, results are rounded once, after the sum over all ranks. fp32 sums of integers below 2^24 are
    exact, and so are quotients by powers of two. So the result must equal the rounded fp64 result. Windows whose size
    is no power of two divide by numbers that fp32 rounds, so their results have a tolerance. Interpolation, forward and
    backward, also rounds once."""
    noise = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(5))
    whole = torch.randint(-8, 9, (1, 2, 128, 64), generator=torch.Generator().manual_seed(5)).double()
    means = {"mean": torch.mean, "sum": lambda x: x.sum((2, 3)), "adaptive": lambda x: F.adaptive_avg_pool2d(x, 1),
             "pooled": lambda x: F.avg_pool2d(x, x.shape[2:]), "mse": lambda x: F.mse_loss(x, x * 0),
             "l1": lambda x: F.l1_loss(x, x * 0, reduction="sum")}
    for dtype, roundoff in ((torch.float16, 2 ** -11), (torch.bfloat16, 2 ** -8)):
        x = spatial.shard(whole.to(dtype))
        for name, function in means.items():
            found, expected = function(x), function(whole).to(dtype)
            assert found.dtype == dtype and torch.equal(spatial.to_local(found), expected), f"{name} in {dtype}"
        found, expected = F.adaptive_avg_pool2d(x, (3, 5)), F.adaptive_avg_pool2d(whole, (3, 5))
        bound = roundoff * expected.abs() + 200 * 2 ** -24 * 8
        assert found.dtype == dtype and ((spatial.to_local(found) - expected).abs() <= bound).all(), "adaptive"
        weight = torch.ones(1, 2, 1, 1, dtype=dtype, requires_grad=True)
        (x * weight).sum().backward()  # each rank rounds its part of the gradient before the ranks' parts are added
        parts = spatial.ranks().all_gather((spatial.to_local(x).double().sum((2, 3), keepdim=True)).to(dtype), x.cut.axes)
        assert torch.equal(weight.grad, parts.double().sum(0).to(dtype)), "a gradient that ranks add"
        by_positions = {"var": lambda x: x.var((2, 3)), "norm": lambda x: torch.linalg.vector_norm(x, dim=(2, 3)),
                        "softmax": lambda x: x.flatten(2).softmax(2), "logsumexp": lambda x: x.logsumexp((2, 3)),
                        "einsum": lambda x: torch.einsum("nchw,ndhw->ncd", x / 16, x / 16),
                        "cosine": lambda x: F.cosine_similarity(x.flatten(2)[:, :1], x.flatten(2)[:, 1:] + 1, 2)}
        # 2^-14 allows for fp32 roundings, which are far smaller than one rounding of a 16-bit type.
        for name, function in by_positions.items():
            found, expected = function(x), function(whole)
            bound = (roundoff + 2 ** -14) * expected.abs() + 2 ** -24
            assert found.dtype == dtype, name
            assert ((spatial.gather(found).double() - expected).abs() <= bound).all(), f"{name} in {dtype}"
        a, b = x.flatten(2)[:, :1], spatial.shard(whole.float()).flatten(2)[:, 1:] + 1
        assert F.cosine_similarity(a, b, 2).dtype == F.cosine_similarity(b, a, 2).dtype == torch.float32, "two types"
        for mode, factors in itertools.product(("nearest", "bilinear", "bicubic", "area"), ((2, 1), (1, 2), (2, 2), (0.5, 0.5))):
            resized = functools.partial(F.interpolate, scale_factor=factors, mode=mode)
            starts = spatial.shard(noise.to(dtype)).requires_grad_(), noise.to(dtype).double().requires_grad_()
            results = [resized(each) for each in starts]
            slope = torch.randn(results[1].shape, generator=torch.Generator().manual_seed(6)).to(dtype)
            results += [torch.autograd.grad(results[0], starts[0], spatial.shard(slope))[0],
                        torch.autograd.grad(results[1], starts[1], slope.double())[0]]
            for found, expected in zip(results[::2], results[1::2]):
                bound = roundoff * expected.abs() + 2 ** -20
                assert found.dtype == dtype
                assert ((spatial.gather(found).double() - expected).abs() <= bound).all(), f"{mode} by {factors} in {dtype}"
        small = noise[:, :, :3, :3].to(dtype)
        spread = Call(lambda x: F.interpolate(small.to(x.dtype), x.shape[2:], mode="bicubic"))
        found, expected = spatial.convert(copy.deepcopy(spread), trust=["Call"])(x), spread(whole)
        assert found.dtype == dtype
        assert ((spatial.gather(found).double() - expected).abs() <= roundoff * expected.abs() + 2 ** -20).all(), "spread"
        normed, expected = F.instance_norm(x), F.instance_norm(whole)
        check_close("norm", spatial.gather(normed).double(), expected, 2 * roundoff)


def under_autocast():
    """Under autocast, results have the same types as torch's, and are close to torch's, forward and backward."""
    linear = nn.Sequential(Call(lambda x: x.movedim(1, -1)), nn.Linear(4, 4), Call(lambda x: x.movedim(-1, 1)),
                           nn.Conv2d(4, 3, 3, 1, 1))
    for name, make in [*cases(), ("linear, conv", lambda: linear)]:
        torch.manual_seed(3)
        model, x = make().float(), picture().float()
        whole, striped = copy.deepcopy(model), spatial.convert(model, trust=TRUST)
        with torch.autocast("cpu", torch.bfloat16):
            try:
                y = whole(x)
            except RuntimeError:
                continue
            own = striped(spatial.shard(x))
        assert own.dtype == y.dtype, f"{name}: {own.dtype} instead of {y.dtype}"
        check_close(name, spatial.gather(own).float(), y.float(), 2 ** -5)
        for model, result in ((whole, y), (striped, own)):
            if result.requires_grad:
                result.float().sum().backward()
        parameters = dict(whole.named_parameters())
        for path, parameter in striped.named_parameters():
            check_close(f"{name}: {path}", parameter.grad, parameters[path].grad, 2 ** -4)


def a_value_of_any_rank_that_is_none():
    """A NaN on any rank is the maximum and the minimum of the whole image, as in torch. Integer types work as well,
    even those that torch.distributed cannot send."""
    functions = {"amax": lambda x: x.amax((2, 3)), "amin": lambda x: x.amin((2, 3)),
                 "adaptive": lambda x: F.adaptive_max_pool2d(x, 2), "global": lambda x: F.adaptive_max_pool2d(x, 1),
                 "pooled": lambda x: F.max_pool2d(x, x.shape[2:]), "max": lambda x: x.max(2).values.max(2).values,
                 "min": lambda x: x.min(3).values.min(2).values}
    for row, column in ((0, 0), (15, 0), (0, 15), (15, 15), (5, 11), (9, 6)):  # each rank has one of these positions
        whole = picture()
        whole[1, 2, row, column] = float("nan")
        for name, function in functions.items():
            x_whole, x = whole.clone().requires_grad_(), spatial.shard(whole).requires_grad_()
            expected, found = function(x_whole), function(x)
            assert torch.equal(spatial.to_local(found).nan_to_num(77), expected.nan_to_num(77)), f"{name} at {row}, {column}"
            expected.sum().backward()
            found.sum().backward()
            own, expected = spatial.to_local(x.grad), striped_part(x_whole.grad, x)
            assert torch.equal(own.nan_to_num(77), expected.nan_to_num(77)), f"gradient of {name}"
    axes = spatial.ranks().grid.cut_axes
    for dtype in (torch.uint16, torch.uint32):
        expected = torch.full((len(spatial.ranks().members[axes]), 1), torch.iinfo(dtype).max, dtype=torch.int64).to(dtype)
        found = spatial.ranks().all_gather(expected[0], axes)
        assert found.dtype == dtype and torch.equal(found, expected), f"all_gather of {dtype}"
    whole = torch.randint(-2 ** 15, 2 ** 15, (1, 2, 16, 16), generator=torch.Generator().manual_seed(5)).to(torch.int16)
    for name, function in {
            "max": torch.max, "min": torch.min, "rows": lambda x: x.max(2).values, "columns": lambda x: x.min(3).values,
            "aminmax": lambda x: torch.stack(x.aminmax()), "where": lambda x: x.argmax(),
            "product": lambda x: x.flatten(2)[0] @ x.flatten(2)[0].T,
            "sum": lambda x: x.sum((2, 3), dtype=torch.int16)}.items():
        found, expected = spatial.gather(function(spatial.shard(whole))), function(whole)
        assert found.dtype == expected.dtype and torch.equal(spatial.to_local(found), expected), f"{name} of int16"
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.bool, torch.int64):
        whole = torch.randint(-128, 128, (1, 2, 16, 16), generator=torch.Generator().manual_seed(5)).to(dtype)
        for name in ("amax", "amin"):
            found, expected = (getattr(x, name)((2, 3)) for x in (spatial.shard(whole), whole))
            assert torch.equal(spatial.to_local(found), expected), f"{name} of {dtype}"


def one_row():
    """If stripes have one row, a plain tensor of one row is ambiguous, since it may be a rank's row. Such a tensor is
    refused unless it is known to be a weight."""
    class Scaled(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.weight, self.function = nn.Parameter(torch.randn(1, 4, 1, 1)), function
            self.register_buffer("factors", torch.rand(4) + 0.5)
            self.positions = nn.Parameter(torch.randn(1, 4, 8, 8))

        def forward(self, x):
            return self.function(self, x)
    plain = lambda x: [int(n) for n in x.shape]
    exact = {"weights": lambda self, x: x * self.weight + self.factors.view(1, -1, 1, 1) + torch.tensor(2.0),
             "a part of a weight": lambda self, x: x + self.positions[:, :, :x.shape[2], :x.shape[3]],
             "a loss": lambda self, x: F.mse_loss(x, torch.zeros(plain(x))),
             "the whole's rows joined": lambda self, x: torch.cat([x, torch.zeros(plain(x))], 1),
             "computed of weights": lambda self, x: x * (1 + self.weight.exp()) + (self.factors * 2).rsqrt()[:, None, None] +
             self.positions[:, [2, 3, 0, 1]].mean((2, 3), keepdim=True),
             "means": lambda self, x: x * x.mean((2, 3), keepdim=True) + F.adaptive_avg_pool2d(x, 1).expand(
                 -1, -1, *x.shape[2:]),
             "weights by channel": lambda self, x: F.prelu(x, self.factors)}
    refused = {"a row of a weight": lambda self, x: x + self.positions[:, :, :1, :1],
               "a row of a weight, computed": lambda self, x: x + self.positions.narrow(2, 0, 1).narrow(3, 0, 1).sin(),
               "a weight and what is none": lambda self, x: x + self.weight * torch.ones(4, 1, 1),
               "a row joined": lambda self, x: torch.cat([x, torch.zeros(2, 4, 1, 1)], 1),
               "a row in a loss": lambda self, x: F.mse_loss(x, torch.zeros(2, 4, 1, 1))}
    for extent in [2, 3][:1 + all(parts == 2 for parts in spatial.ranks().grid.parts[1:] if parts > 1)]:
        picture = torch.randn(2, 4, *[extent * max(1, parts // 2) for parts in spatial.ranks().grid.parts[1:]],
                              generator=torch.Generator().manual_seed(7))
        for name, function in exact.items():
            torch.manual_seed(3)
            striped_like_whole(Scaled(function), picture, trust=["Scaled"])
        for name, function in refused.items():
            refused_by_name(spatial.convert(Scaled(function), trust=["Scaled"]), spatial.shard(picture))


def reduced_over_one_axis():
    """On a grid with two axes, a tensor reduced over one axis is still cut along the other, here into unequal parts."""
    for name, function in {
            "rows without their mean": lambda x, w: (w * x) - (w * x).mean(2, keepdim=True),
            "softmax over rows": lambda x, w: (w * x).softmax(2) * x,
            "gates of rows and columns": lambda x, w: x * (w * F.adaptive_avg_pool2d(x, (None, 1))).sigmoid() * (
                w * F.adaptive_avg_pool2d(x, (1, None))).sigmoid()}.items():
        torch.manual_seed(3)
        try:
            striped_like_whole(Call(function, w=picture(1, 4, 1, 1)), picture(2, 4, 8, 8), multiple=5, trust=["Call"])
        except Exception as error:
            raise AssertionError(name) from error


def other_calls_are_named():
    """Tests UCUDNN_CHECK=1. If ranks make different calls, all raise an error before they exchange anything. The error
    names the calls."""
    ranks, x = spatial.ranks(), spatial.shard(picture())
    is_last = ranks.place == tuple(parts - 1 for parts in ranks.grid.parts)
    ranks.is_checking = True
    try:
        model = spatial.convert(nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.AdaptiveMaxPool2d(2)))
        model(x).sum().backward()
        begin, count = ranks.group * ranks.grid.group_size, ranks.grid.group_size
        own, first, last = int(is_last), f"rank {begin} calls ", f"rank {begin + count - 1} calls "
        for call, words in (
                (lambda: x.sum() if is_last else F.max_pool2d(x, 3, 1, 1), (f"{first}max_pool2d(", f"{last}sum(", "a sum along")),
                (lambda: (x[:, :1] if is_last else x).sum((0, 2, 3)), (f"{last}__getitem__(", "sum(float64 [2, 4, 16, 16]")),
                (lambda: x.sum((0, 2, 3) if is_last else (1, 2, 3)), ("16, 16], [1, 2, 3])", "16, 16], [0, 2, 3])")),
                (lambda: spatial.gather(F.gelu(x) if is_last else F.silu(x)), (f"{first}silu(", f"{last}gelu(")),
                (lambda: x.mean() if is_last else x.sum(), (f"{first}sum(", f"{last}mean(")),
                (lambda: (x.sigmoid() if is_last else x).sum(), (f"{first}sum(", f"{last}sigmoid(")),
                (lambda: F.max_pool2d(x, 3 + 2 * own, 1, 1 + own), ("16, 16], 3, ", "16, 16], 5, ")),
                (lambda: F.avg_pool2d(x.float() if is_last else x, 3, 1, 1), (f"{last}float(",)),
                (lambda: spatial.gather(x[:, own:own + 1]), ("slice(0, 1, None)", "slice(1, 2, None)")),
                (lambda: spatial.shard(picture()) if is_last else x.sum(), (f"{first}sum(", f"{last}the cut of an image by shard")),
                (lambda: spatial.shard(picture()) if is_last else spatial.from_local(picture()), ("what from_local joins", "by shard")),
                (lambda: spatial.gather(x * (0.5 + own)), ("16, 16], 0.5)", "16, 16], 1.5)")),
                (lambda: x.clamp(max=np.float64(own)).sum(), ("max=0.0)", "max=1.0)")),
                (lambda: x[:, [own]].sum(), ("[0]])", "[1]])"))):
            refused_by_name(lambda _: call(), x, "same calls", *words)
        with torch.autocast("cpu", torch.bfloat16, enabled=bool(own)):
            refused_by_name(nn.Conv2d(4, 4, 3, 1, 1).float(), x.float(), "same calls", "torch.float32 of", "torch.bfloat16 of")
        y = x.detach().requires_grad_()
        for call, words in ((lambda: ((y * y).mean() * (1 + own)).backward(), "a backward pass starts from"),
                            (lambda: torch.autograd.grad(y.sum() + own, y), "a backward pass starts from"),
                            (lambda: (spatial.gather(y) * (1 + own)).sum().backward(), "the gradient of what gather gave"),
                            (lambda: x * (x.mean() + own), "a tensor of shape () that meets a stripe")):
            refused_by_name(lambda _: call(), x, words, "is not the same")
        if is_last:  # reading attributes on a single rank does not count as a call
            assert x.shape == (2, 4, 16, 16) and x.is_contiguous() and x.grad is None
        (x.to("cpu:0") if is_last else x.to("cpu")).sum()
    finally:
        ranks.is_checking = False


def copies_are_compared():
    """Ranks compare weights, buffers, images that shard cuts, and random draws of the first pass. Under UCUDNN_CHECK=1,
    they also compare plain operands and the draws of each pass. If the last rank differs, all ranks refuse."""
    ranks = spatial.ranks()
    is_last = ranks.place == tuple(parts - 1 for parts in ranks.grid.parts)

    def changed(path):
        model = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
        with torch.no_grad():
            for value in model.state_dict(keep_vars=True).values():
                value.zero_()
            if is_last:
                model.state_dict(keep_vars=True)[path].add_(1)
        return spatial.convert(model)
    for path in ("0.weight", "1.running_var", "1.num_batches_tracked"):
        refused_by_name(changed(path), spatial.shard(picture()), path, "is not the same")
    more = nn.Sequential(*[nn.Conv2d(4, 4, 1)] * (1 + is_last), nn.Conv2d(4, 4, 1, bias=False))
    refused_by_name(spatial.convert(more), spatial.shard(picture()), "is not the same")
    refused_by_name(spatial.shard, torch.full((3, 4, 16, 16), float(is_last)), "(3, 4, 16, 16) that shard cuts")
    spatial.shard(torch.ones(3, 4, 16, 16))
    refused_by_name(spatial.shard, torch.full((3, 4, 16, 16), float(is_last)), "(3, 4, 16, 16) that shard cuts")
    x = spatial.shard(picture())
    draws = spatial.convert(Call(lambda x: x * torch.empty(2, 1, 1, 1).bernoulli_(0.5)), trust=["Call"])
    for is_training in (True, False):
        torch.manual_seed(int(is_last))
        refused_by_name(draws.train(is_training), x, "drawn by torch's generator of the CPU")
        torch.manual_seed(3)
        draws(x)
    torch.manual_seed(int(is_last))
    draws(x)  # accepted without UCUDNN_CHECK, because draws of this mode were already compared
    ranks.is_checking = True
    try:
        x, model = spatial.shard(picture()), spatial.convert(nn.Identity())
        unlike = lambda *shape: torch.full(shape, 1.0 + is_last)
        channels_last, classes = x.movedim(1, -1), x.argmax(1)
        for name, call in {
                "(4, 1, 1)": lambda: x * unlike(4, 1, 1), "(4, 5)": lambda: channels_last @ unlike(4, 5),
                "(4, 6)": lambda: torch.einsum("nchw,cd->ndhw", x, unlike(4, 6)), "(7, 4)": lambda: F.linear(channels_last, unlike(7, 4)),
                "(256, 256)": lambda: F.scaled_dot_product_attention(*[x.flatten(2).mT] * 3, attn_mask=unlike(256, 256)),
                "(2,)": lambda: x[:, unlike(2).long()],
                "(3,)": lambda: x.index_select(1, unlike(3).long()), "(4,)": lambda: F.cross_entropy(x, classes, unlike(4)),
                "(2, 4, 16, 16)": lambda: F.mse_loss(x, unlike(2, 4, 16, 16)), "(3, 8)": lambda: F.embedding(classes, unlike(3, 8)),
                "(2, 4, 1, 1)": lambda: F.conv2d(x, unlike(2, 4, 1, 1)), "()": lambda: (x * 1).__setitem__((slice(None), 0), unlike()),
                "(4,) that": lambda: F.group_norm(x, 2, unlike(4)), "(1, 4) that": lambda: torch.cdist(channels_last, unlike(1, 4)),
                "(2, 1, 16, 16)": lambda: torch.cat([x, unlike(2, 1, 16, 16)], 1)}.items():
            refused_by_name(lambda _: call(), x, f"a tensor of shape {name}", "that meets a stripe")
        model(x * torch.ones(4, 1, 1))
        draws = spatial.convert(Call(lambda x: x * random.choice([1, 1])), trust=["Call"])
        random.seed(int(is_last))
        model(x)
        refused_by_name(draws, x, "Python's random")
        random.seed(1)
        draws(x)
        draws = spatial.convert(Call(lambda x: x + 0 * np.random.rand()), trust=["Call"])
        np.random.seed(int(is_last))
        refused_by_name(draws, x, "numpy's generator")
        np.random.seed(1)
        draws(x)
        draws = spatial.convert(Call(lambda x: x * min(1, torch.empty(1 + is_last).uniform_().numel())), trust=["Call"])
        refused_by_name(draws, x, "generator of the CPU")
    finally:
        ranks.is_checking = False
        torch.manual_seed(3)


class OnGpu(nn.Parameter):
    """A parameter whose is_cuda is True, although it is on the CPU."""
    is_cuda = True


def refused_where_gradients_were_summed():
    """Once a gradient was summed, convert cannot change who sums any more. It then raises an error and changes nothing. A
    converted model may also be moved to a GPU after a gradient was summed. Then the error comes from the model's first
    convolution inside which ucudnn would exchange rows."""
    from ucudnn.spatial import convolution
    ranks, route = spatial.ranks(), convolution.route
    before = ranks._geometry, ranks._sums_alone
    ranks._geometry, ranks._sums_alone = CountingGeometry(before[0], "a gradient of a split convolution has run before"), False
    try:
        moved = spatial.convert(nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1)))
        model = nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1))
        hooks = len(model._forward_hooks)
        model[0].weight = OnGpu(model[0].weight.detach())
        convolution.route = lambda *_: convolution.UCUDNN
        for call in (lambda: spatial.convert(model), lambda: spatial.convert(model), lambda: moved(spatial.shard(picture()))):
            try:
                call()
            except spatial.NotSupported as refusal:
                assert "has run before" in str(refusal), refusal
                continue
            raise AssertionError("not refused")
        assert len(model._forward_hooks) == hooks, "half converted"
    finally:
        (ranks._geometry, ranks._sums_alone), convolution.route = before, route


def refused_by_name(model, x, *words):
    try:
        model(x)
    except spatial.NotSupported as refusal:
        assert all(word in str(refusal) for word in words) and names_step(str(refusal)), refusal
        return
    raise AssertionError(f"not refused: {words}")


def nothing_is_drawn_unless_trusted():
    """Inside a trusted class, random draws on stripes are refused. Draws on replicated tensors are refused, too, unless the
    tensor is drawn in place. A module that was converted in evaluation mode may not draw either. A function that draws a
    number for each position runs on stripes if its own class, such as Dropout, is trusted. It then also runs when a
    checkpoint repeats it outside of any module."""
    for name, (cls, function) in DRAWN.items():
        draws = "draws on each rank by itself" + (f": in training it is not equal to one process, unless {cls}" if cls else "")
        for before in (nn.Identity(), nn.AdaptiveAvgPool2d(1))[:1 if name in ("noise in place", "a mask drawn in place") else 2]:
            refused_by_name(spatial.convert(nn.Sequential(before, Call(function)), trust=["Call"]), spatial.shard(picture()),
                            "in 1: ", draws)
        if cls in ("Dropout", "AlphaDropout", "RReLU"):
            trust = ["Call", getattr(nn, cls)]
            x = spatial.shard(picture())
            y = spatial.convert(Call(function), trust=trust)(x)
            assert y.cut == x.cut and not torch.equal(spatial.to_local(y), spatial.to_local(x)), name
            refused_by_name(spatial.convert(nn.Sequential(nn.AdaptiveAvgPool2d(1), Call(function)), trust=trust),
                            spatial.shard(picture()), "what is the same on all of them")
    for reentrant in (True, False):
        x = spatial.shard(picture()).detach().requires_grad_()
        model = Call(lambda x: checkpoint(lambda x: F.dropout(x * x), x, use_reentrant=reentrant))
        spatial.convert(model, trust=["Call", "Dropout"])(x).sum().backward()
        dropped = spatial.to_local(x.grad) == 0
        assert dropped.any() and not dropped.all()
    path = Call(torch.sin)
    path.drop_prob = 0.1
    refused_by_name(lambda _: spatial.convert(path), None, "layer_cases.Call", "it draws on each rank by itself")
    depth = spatial.convert(nn.Sequential(nn.Dropout(), Call(lambda x: x * torch.empty(2, 1, 1, 1).uniform_())),
                            trust=["Call", "Dropout"])
    torch.manual_seed(spatial.ranks().rank)
    refused_by_name(depth, spatial.shard(picture()), "what uniform_ drew is not the same")
    if all(len(set(rows)) == 1 for rows in spatial.shard(picture()).cut.extents.values()):
        torch.manual_seed(3)
        depth(spatial.shard(picture()))
    paths_are_dropped_alike()
    later = spatial.convert(nn.Sequential(nn.Dropout()).eval()).train()
    refused_by_name(later, spatial.shard(picture()), "dropout in 0: ", "unless Dropout is named")
    spatial.convert(later, trust=["Dropout"])(spatial.shard(picture()))


def paths_are_dropped_alike():
    """Masks for whole images are drawn in place, as by torchvision's StochasticDepth and timm's DropPath. They are the same
    on all ranks. This holds for stripes of one row, too, and when a checkpoint draws again. Ranks with unlike seeds are
    refused."""
    parts = spatial.ranks().grid.parts[1:]
    shape = lambda x: (x.shape[0],) + (1,) * (x.ndim - 1)
    plain = lambda x: x * torch.empty(shape(x), dtype=x.dtype).bernoulli_(0.5).div_(0.5)
    new = lambda x: x * x.new_empty(shape(x)).bernoulli_(0.5).div_(0.5)
    again = lambda x: checkpoint(new, x, use_reentrant=False)
    for drop in (plain, new, again):
        for extents in ([2 * each for each in parts], parts):
            torch.manual_seed(3)
            model = nn.Sequential(nn.Conv2d(4, 4, 1), Call(drop), nn.Conv2d(4, 4, 1), Call(drop))
            torch.manual_seed(5)
            striped_like_whole(model, picture(8, 4, *extents), trust=["Call"], call=lambda model, x: _seeded(model, x))
    for drop in (plain, new):
        for trust, words in ((["Call"], "drawn by torch's generator of the CPU"), (["Call", "Dropout"], "bernoulli_ drew")):
            torch.manual_seed(spatial.ranks().rank)
            refused_by_name(spatial.convert(Call(drop), trust=trust), spatial.shard(picture()), words, "is not the same")
    torch.manual_seed(spatial.ranks().rank)
    refused_by_name(lambda x: x.new_empty(8).uniform_(), spatial.shard(picture()), "uniform_ drew")
    own = spatial.convert(Call(lambda x: x * torch.full((2, 4, 1, 1), 2.0)), trust=["Call"])
    refused_by_name(own, spatial.shard(picture(2, 4, *parts)), "Register it as a buffer", "new_zeros")
    torch.manual_seed(3)


def _seeded(model, x):
    torch.manual_seed(7)
    return model(x)


def in_fp32():
    """In fp32, oneDNN computes convolutions. Converted models must also work with those backends of oneDNN for which
    torch has no name."""
    for make in (lambda: nn.ConvTranspose2d(4, 3, 4, 2, 1), lambda: nn.Conv2d(4, 3, 3, 1, 1)):
        torch.manual_seed(3)
        model, x = make().float(), picture().float()
        whole = model(x)
        check_close("in fp32", spatial.gather(spatial.convert(model)(spatial.shard(x))), whole, 1e-5)


def on_another_device():
    """A tensor that torch.distributed cannot send from its device is copied through host memory. In this test, every tensor
    counts as such."""
    ranks = spatial.ranks()
    ranks._travels = lambda tensor: False
    try:
        for name in ("conv 3 1 1 1", "adaptive max 2", "batch norm", "group norm 2", "amax"):
            torch.manual_seed(3)
            striped_like_whole(dict(cases())[name](), picture(), trust=["Call"])
    finally:
        del ranks._travels


def in_a_capture():
    """During the capture of a CUDA graph, ranks compare values without the device. The capture is simulated by
    is_capturing. A step gives the results of the whole image. Layers whose tensors would be copied through host memory
    are refused."""
    from ucudnn.spatial import cells
    ranks, was, gathered = spatial.ranks(), cells.is_capturing, []
    cells.is_capturing = lambda: True
    all_gather = ranks.all_gather
    ranks.all_gather = lambda tensor, axes: gathered.append(tensor.dtype) or all_gather(tensor, axes)
    try:
        torch.manual_seed(3)
        striped_like_whole(nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.BatchNorm2d(4)), picture())
        striped_like_whole(Call(lambda x: F.interpolate(x, size=x.shape[-2:])), picture(), trust=["Call"])
        assert gathered and torch.int64 not in gathered, gathered
        used = spatial.convert(Call(lambda x, a, b: x * (a if any(ranks.place) else b), a=picture(1, 4, 1, 1),
                                    b=picture(1, 1, 1, 1)), trust=["Call"])
        refused_by_name(lambda x: used(x).sum().backward(), spatial.shard(picture()), "same parameters")
        ranks._device = lambda: "another"
        for model in (nn.Conv2d(4, 4, 3, 1, 1), nn.BatchNorm2d(4), Call(lambda x: x.sum())):
            refused_by_name(spatial.convert(model, trust=["Call"]), spatial.shard(picture()), "CUDA graph", "NCCL")
    finally:
        cells.is_capturing = was
        del ranks.all_gather
        ranks.__dict__.pop("_device", None)


def ended():
    """_leave must end gloo's threads. They hold tensors of the last exchange and must not outlive the interpreter. This
    test runs last, because ranks cannot exchange anything afterwards."""
    before = len(os.listdir("/proc/self/task"))
    spatial.ranks()._leave()
    assert len(os.listdir("/proc/self/task")) < before, f"all {before} threads are there"


if __name__ == "__main__":
    gloo.join()
    found = list(failures(sys.argv[1:]))
    if not sys.argv[1:] and spatial.ranks().grid.parts[0] == 1:
        nothing_is_drawn_unless_trusted()
        norms_as_on_gpus()
        moved_later()
        second_order_of_calls_of_cudnn()
        gradients_of_stripes()
        copies_are_compared()
        if len(spatial.ranks().grid.cut_axes) > 1:
            reduced_over_one_axis()
        other_calls_are_named()
        one_row()
        in_16_bits()
        under_autocast()
        a_value_of_any_rank_that_is_none()
        refused_where_gradients_were_summed()
        in_fp32()
        on_another_device()
        in_a_capture()
        ended()
    for name, why in found:
        print(f"=== {name}\n{why}")
    sys.exit(1 if found else 0)
