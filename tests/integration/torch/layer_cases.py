"""Layers and losses that are compared on stripes, one at a time. Each is (name, function that makes the layer or
loss). Pictures have 16 x 16 positions, lines have 16, and volumes have 8 x 8 x 8. layers.py runs them; layers_test.py
compares the lists with ucudnn.spatial.vouched."""
import copy
import math
import pickle
import statistics

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from ucudnn import spatial

TRUST = ["Call", "Attention", "Excitation", "Tied", "Loss", "WithVariances", "LookedUp"]


class Call(nn.Module):
    """A module that calls a function with its parameters."""

    def __init__(self, function, **parameters):
        super().__init__()
        self.function = function
        self.values = nn.ParameterDict({name: nn.Parameter(value) for name, value in parameters.items()})

    def forward(self, x):
        return self.function(x, **self.values)


def picture(*shape):
    return torch.randn(shape or (2, 4, 16, 16), generator=torch.Generator().manual_seed(7))


def layer_norm_over_positions():
    return nn.LayerNorm((4, 16, 16))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 4))

    def forward(self, x):
        n, c, *rest = x.shape
        rows = x.view(n, c, -1).transpose(1, 2)
        q, k, v = (layer(rows).view(n, -1, 2, 4).transpose(1, 2) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, -1, 8)
        return x + self.out(y).transpose(-1, -2).reshape(n, c, *rest)


class Excitation(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)

    def forward(self, x):
        s = torch.sigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))
        return x * s


class Tied(nn.Module):
    """Uses one layer three times: twice on stripes and once after global pooling."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        y = self.layer(torch.tanh(self.layer(x)))
        return y + self.layer(y.mean((2, 3), keepdim=True))


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return 3 * x * x * gradient


class Loss(nn.Module):
    """A loss whose target is cut like its input."""

    def __init__(self, loss, target):
        super().__init__()
        self.loss, self.target = loss, target

    def forward(self, x):
        return self.loss(x, spatial.shard(self.target) if isinstance(x, spatial.Stripe) else self.target)


class LookedUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4, padding_idx=2)

    def forward(self, x):
        return x * self.table((x[:, 0] * 3).round().long().clamp(0, 4)).permute(0, 3, 1, 2)


def by_known_statistics(norm):
    """Returns `norm` in evaluation mode, with running statistics that differ from its input's."""
    norm.running_mean.copy_(picture(norm.num_features))
    norm.running_var.copy_(picture(norm.num_features).square() + 0.5)
    return norm.eval()


def cases():
    yield from windows()
    yield from norms()
    yield from resizing()
    yield from padding(2)
    yield from others()
    yield from pointwise()
    yield from losses(4, 16, 16)
    yield from _sizes()
    yield from _products()
    yield from _extremes()
    yield from _moments()
    yield from _indices()
    yield from _moves()
    yield from _other_stripes()


def windows():
    for k, s, p, d in ((3, 1, 1, 1), (1, 1, 0, 1), (5, 1, 2, 1), (3, 1, 2, 2), (3, 1, 3, 3), (7, 2, 3, 1), (3, 2, 1, 1),
                       (4, 2, 1, 1), (2, 2, 0, 1), (1, 2, 0, 1), (9, 1, 4, 1), (3, 1, 7, 7)):
        yield f"conv {k} {s} {p} {d}", lambda k=k, s=s, p=p, d=d: nn.Conv2d(4, 6, k, s, p, d)
    for k, s, p, d in ((3, 1, 0, 1), (2, 1, 0, 1), (3, 2, 0, 1), (4, 1, 1, 1), (3, 1, 1, 2), (5, 2, 1, 1)):
        yield f"conv less {k} {s} {p} {d}", lambda k=k, s=s, p=p, d=d: nn.Conv2d(4, 6, k, s, p, d)
    yield "padding before a padded convolution", lambda: nn.Sequential(
        nn.ConvTranspose2d(4, 4, 3, 2, 1), nn.ZeroPad2d((1, 0, 1, 0)), nn.Conv2d(4, 4, 3, 1, 1))
    yield "a wavelet", lambda: Call(lambda x, w: F.conv2d(F.conv2d(F.pad(x, (0, 1, 0, 1), mode="reflect"), w.view(
        1, 1, 1, 2).expand(4, -1, -1, -1), stride=(1, 2), groups=4), w.view(1, 1, 2, 1).expand(4, -1, -1, -1), stride=(
            2, 1), groups=4), w=torch.tensor([0.7, 0.7]))
    yield "alexnet", lambda: nn.Sequential(nn.Upsample(scale_factor=4), nn.Conv2d(4, 4, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 1))
    yield "valid twice", lambda: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.Conv2d(6, 4, 2), nn.ConvTranspose2d(
        4, 2, 2, 2))
    yield "conv groups", lambda: nn.Conv2d(4, 8, 3, 1, 1, groups=2)
    yield "conv depthwise", lambda: nn.Conv2d(4, 4, 3, 1, 1, groups=4, bias=False)
    yield "conv same", lambda: nn.Conv2d(4, 4, 5, padding="same")
    yield "conv even and same", lambda: nn.Conv2d(4, 4, 4, padding="same")
    yield "conv reflect", lambda: nn.Conv2d(4, 4, 3, 1, 1, padding_mode="reflect")
    yield "conv replicate", lambda: nn.Conv2d(4, 4, 3, 2, 1, padding_mode="replicate")
    for k, s, p in ((3, 1, 1), (5, 2, 2)):
        yield f"conv circular {k} {s}", lambda k=k, s=s, p=p: nn.Conv2d(4, 4, k, s, p, padding_mode="circular")
    yield "circular before, conv", lambda: nn.Sequential(nn.CircularPad2d((2, 0, 2, 0)), nn.Tanh(), nn.Conv2d(4, 4, 3))
    yield "circular behind, use", lambda: nn.Sequential(nn.CircularPad2d((0, 3, 0, 3)), nn.AdaptiveAvgPool2d(1))
    yield "pad, conv", lambda: nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(4, 4, 3, 2))
    yield "pad before, conv", lambda: nn.Sequential(nn.ZeroPad2d((1, 0, 1, 0)), nn.Conv2d(4, 4, 3, 2))
    yield "pad both, conv", lambda: nn.Sequential(nn.ZeroPad2d(1), nn.ReLU(), nn.Conv2d(4, 4, 3))
    yield "reflection, conv", lambda: nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(4, 4, 5))
    yield "pad and use", lambda: nn.Sequential(nn.ZeroPad2d(1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    for k, s, p, more in ((2, 2, 0, 0), (4, 2, 1, 0), (3, 2, 1, 1), (3, 1, 1, 0)):
        yield f"transposed {k} {s} {p}", lambda k=k, s=s, p=p, more=more: nn.ConvTranspose2d(4, 3, k, s, p, more)
    for k, s, p, more in ((3, 2, 1, 0), (4, 2, 0, 0), (3, 2, 0, 0), (1, 2, 0, 0), (5, 2, 1, 1), (1, 3, 0, 1), (6, 2, 1, 0)):
        yield f"transposed more {k} {s} {p}", lambda k=k, s=s, p=p, more=more: nn.ConvTranspose2d(4, 3, k, s, p, more)
    yield "transposed and cropped", lambda: nn.Sequential(nn.ConvTranspose2d(4, 3, 4, 2), Call(
        lambda x: x[:, :, 1:-1, 1:-1]), nn.Conv2d(3, 2, 2, 2))
    yield "transposed and padded", lambda: Call(lambda x, w, v: F.pad(F.conv_transpose2d(x, w, stride=2, padding=1), (
        1, 0, 1, 0)) + F.pad(F.conv_transpose2d(x, v, stride=2), (1, 0, 1, 0)) * F.interpolate(
            x[:, :2], scale_factor=2.0), w=picture(4, 2, 3, 3), v=picture(4, 2, 1, 1))
    yield "transposed groups", lambda: nn.ConvTranspose2d(4, 4, 4, 2, 1, groups=2)
    for k, s, p in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (3, 2, 0), (2, 1, 0)):
        yield f"max pool {k} {s} {p}", lambda k=k, s=s, p=p: nn.MaxPool2d(k, s, p)
        for counted in (True, False):
            yield f"avg pool {k} {s} {p} {counted}", \
                lambda k=k, s=s, p=p, counted=counted: nn.AvgPool2d(k, s, p, count_include_pad=counted)
    for k, s, p in ((2, 2, 0), (3, 2, 0), (3, 2, 1), (4, 4, 1), (2, 4, 0)):
        yield f"max pool ceil {k} {s} {p}", lambda k=k, s=s, p=p: nn.MaxPool2d(k, s, p, ceil_mode=True)
        for counted in (True, False):
            yield f"avg pool ceil {k} {s} {p} {counted}", lambda k=k, s=s, p=p, counted=counted: nn.AvgPool2d(
                k, s, p, ceil_mode=True, count_include_pad=counted)
    yield "avg pool ceil by a divisor", lambda: nn.AvgPool2d(3, 2, ceil_mode=True, divisor_override=5)
    for size in (1, 2, 3, 6, (1, 5)):
        yield f"adaptive avg {size}", lambda size=size: nn.AdaptiveAvgPool2d(size)
        yield f"adaptive max {size}", lambda size=size: nn.AdaptiveMaxPool2d(size)
    yield "adaptive max of zeros", lambda: nn.Sequential(nn.ReLU(), Call(lambda x: x * 0), nn.AdaptiveMaxPool2d(2))
    yield "head", lambda: nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def norms():
    yield "batch norm", lambda: nn.BatchNorm2d(4)
    yield "batch norm eval", lambda: by_known_statistics(nn.BatchNorm2d(4))
    yield "instance norm", lambda: nn.InstanceNorm2d(4, affine=True)
    yield "instance norm, running", lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
    yield "instance norm, running slowly", lambda: nn.InstanceNorm2d(4, momentum=0.01, track_running_stats=True)
    yield "instance norm eval", lambda: by_known_statistics(nn.InstanceNorm2d(4, affine=True, track_running_stats=True))
    for groups in (1, 2, 4):
        yield f"group norm {groups}", lambda groups=groups: nn.GroupNorm(groups, 4)
    yield "layer norm over positions", layer_norm_over_positions
    yield "layer norm of channels", lambda: nn.Sequential(Call(lambda x: x.permute(0, 2, 3, 1)), nn.LayerNorm(4),
                                                          Call(lambda x: x.permute(0, 3, 1, 2)))


def resizing():
    yield "nearest twice", lambda: nn.UpsamplingNearest2d(scale_factor=2)
    yield "bilinear twice", lambda: nn.UpsamplingBilinear2d(scale_factor=2)
    for mode in ("nearest", "bilinear", "bicubic", "nearest-exact", "area"):
        yield f"resize 2 {mode}", lambda mode=mode: nn.Upsample(scale_factor=2, mode=mode)
        yield f"resize half {mode}", lambda mode=mode: Call(lambda x: F.interpolate(x, scale_factor=0.5, mode=mode))
        yield f"resize 1.5 {mode}", lambda mode=mode: Call(lambda x: F.interpolate(x, scale_factor=1.5, mode=mode))
    for mode in ("bilinear", "bicubic"):
        yield f"resize aligned {mode}", lambda mode=mode: nn.Upsample(scale_factor=2, mode=mode, align_corners=True)
    yield "resize to skip", lambda: Call(lambda x: F.interpolate(F.max_pool2d(x, 2), size=x.shape[-2:], mode="bilinear"))
    yield "areas of its rows", lambda: Call(lambda x: F.interpolate(x, [n // 2 for n in x.shape[2:]], mode="area"))
    yield "resize to an odd skip", lambda: Call(lambda x: F.interpolate(F.max_pool2d(x, 2), size=F.pad(x, (1, 0, 1, 0)).shape[
        -2:], mode="bilinear"))
    yield "pyramid", lambda: Call(lambda x: x * F.interpolate(F.adaptive_avg_pool2d(x, 3), size=x.shape[-2:], mode="bilinear"))
    yield "pixel shuffle", lambda: nn.Sequential(nn.Conv2d(4, 8, 1), nn.PixelShuffle(2), nn.Conv2d(2, 2, 3, 1, 1))
    yield "pixel shuffle alone", lambda: nn.PixelShuffle(2)
    shuffled = lambda x: x.reshape(2, 1, 2, 2, *x.shape[2:]).permute(0, 1, 4, 2, 5, 3).flatten(4, 5).flatten(2, 3)
    for name, layer in (("conv", lambda: nn.Conv2d(1, 2, 3, 1, 1)), ("pool", lambda: nn.MaxPool2d(2)),
                        ("average", lambda: nn.AvgPool2d(3, 1, 1)), ("pad", lambda: nn.ReflectionPad2d((1, 2, 0, 1))),
                        ("resize", lambda: nn.Upsample(scale_factor=2, mode="bilinear")),
                        ("transposed", lambda: nn.ConvTranspose2d(1, 2, 2, 2)), ("adaptive", lambda: nn.AdaptiveAvgPool2d(3)),
                        ("adaptive max", lambda: nn.AdaptiveMaxPool2d(3))):
        yield f"pixels shuffled by hand, {name}", lambda layer=layer: nn.Sequential(Call(shuffled), layer())
    yield "pixels shuffled by hand, add", lambda: Call(lambda x: shuffled(x) * F.pixel_shuffle(x, 2))
    yield "pixel unshuffle", lambda: nn.PixelUnshuffle(2)


def padding(dims):
    """Yields each kind of padding in `dims` dimensions, alone and before a convolution without padding."""
    size, conv = [2, 1] + [1, 3] * (dims - 1), getattr(nn, f"Conv{dims}d")
    for lost in ([-1, 2, -1, -1, -2, -1][:2 * dims], [0, -1] * dims):
        yield f"Zero {lost}", lambda lost=lost: Call(lambda x: F.pad(x, lost, value=0.5) * 2)
    for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular"):
        values = (1.5,) if kind == "Constant" else ()
        make = lambda pad, kind=kind, values=values: getattr(nn, f"{kind}Pad{dims}d")(pad, *values)
        yield f"{kind} {dims}-D", lambda make=make: make(tuple(size))
        yield f"{kind} 1 {dims}-D", lambda make=make: make(1)
        yield f"{kind} {dims}-D, convolution", lambda make=make: nn.Sequential(make(1), conv(4 if dims < 3 else 2, 3, 3))


def others():
    yield "attention", Attention
    yield "squeeze and excitation", Excitation
    yield "tied", Tied
    yield "conv, tanh, conv", lambda: nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.Tanh(), nn.Conv2d(4, 2, 3, 1, 1))
    yield "discriminator", lambda: nn.Sequential(nn.Conv2d(4, 6, 4, 2, 1), nn.GroupNorm(2, 6), nn.SiLU(), nn.MaxPool2d(3, 1, 1),
                                                 nn.Conv2d(6, 4, 3, 1, 1), nn.Tanh(), nn.AdaptiveAvgPool2d(1))
    yield "cubed by its own backward", lambda: Call(lambda x: Cubed.apply(x).sum((2, 3)))
    yield "scale by position", lambda: Call(lambda x, w: x * w, w=picture(1, 4, 1, 1))
    yield "concatenated with nothing", lambda: Call(lambda x: torch.cat([x[:, :0], x], 1))
    yield "concatenated", lambda: Call(lambda x: torch.cat([x, F.relu(x)], 1).chunk(2, 1)[1])
    yield "joined with what all have", lambda: Call(lambda x, w: torch.cat([x, w.expand(2, -1, -1, -1), torch.ones(2, 1, 16, 16)], 1)[
        :, 2:] * torch.stack([x[:, 0], w[0, :1].expand(2, -1, -1)], 1)[:, :1], w=picture(1, 2, 16, 16))
    yield "rare functions of one position", lambda: Call(
        lambda x: 3 // (x.detach().abs() + 1) + 5 % (x.detach() + 9) + torch.special.expit(x) + x.logaddexp2(2 * x) + (
            x.abs() + 1).conj().digamma() + x.i0() * torch.heaviside(x, torch.ones(1)).detach() + x.ldexp(torch.tensor(2)) + (
            x.signbit() | x.isposinf()).to(x))
    yield "differences of rows", lambda: Call(
        lambda x: x.diff(dim=2).abs().sum((2, 3)) + torch.diff(x, n=2, dim=-1).square().mean((2, 3)) + (
            x.diff(1, 1).sum(1, keepdim=True).mean((2, 3))))
    yield "its type as it is", lambda: Call(lambda x, w: x * w.type_as(x).to(x).mean(), w=picture(1, 4, 1, 1))
    yield "joined along what numpy calls an axis", lambda: Call(
        lambda x: torch.cat([x, F.relu(x)], axis=1) * torch.stack([x, x * x], axis=1).flatten(1, 2))
    yield "sums by numpy's names", lambda: Call(
        lambda x: x.mean(axis=(2, 3), keepdims=True) * x.softmax(axis=1) + x.max(axis=1, keepdims=True)[0] * x.var(
            axis=1, keepdims=True))
    yield "operands by name", lambda: Call(
        lambda x, w: torch.matmul(x.movedim(1, -1), other=w).mean((1, 2)) + torch.bmm(
            x.flatten(2), mat2=x.flatten(2).mT).sum(2), w=picture(4, 4))
    yield "parts by name", lambda: Call(
        lambda x: F.pixel_shuffle(torch.chunk(x, chunks=1, dim=1)[0], upscale_factor=2) * F.cosine_similarity(
            x1=x, x2=x * x, dim=1).mean() + torch.where(condition=x > 0, input=x, other=x * x).mean())
    yield "what only the whole may do, of what all ranks have", lambda: Call(_of_whole)
    yield "mean", lambda: Call(lambda x: (x * x).mean())
    yield "mean of rows", lambda: Call(lambda x: x.mean(3, keepdim=True) * x + x.sum(2, keepdim=True))
    yield "amax", lambda: Call(lambda x: F.relu(x).amax((2, 3)))
    yield "inplace", lambda: nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 1),
                                            nn.SiLU(inplace=True))


def _of_whole(x):
    pooled = F.adaptive_avg_pool2d(x, 4)
    greatest, at = F.max_pool2d(pooled, 2, return_indices=True)
    one, place = F.adaptive_max_pool2d(pooled[0], 2, return_indices=True)
    by_image = (greatest.sum((1, 2, 3)) + pooled.flatten(2).gather(2, at.flatten(2)).square().sum((1, 2)) + one.sum() * place.sum() +
                pooled.roll(3).square()[0].sum() + pooled.repeat_interleave(2)[5:9].sum() +
                F.interpolate(pooled, size=3, mode="bilinear", antialias=True).square().sum((1, 2, 3)))
    return by_image + F.cross_entropy(pooled[0, :, 0, 0], at[0, 0, 0, 0] % 4) + pooled.detach().view(torch.int64).view(pooled.dtype).sum()


def pointwise():
    for name in ("Identity", "ReLU", "ReLU6", "LeakyReLU", "ELU", "CELU", "SELU", "GELU", "SiLU", "Mish", "Sigmoid", "Tanh",
                 "Hardtanh", "Hardswish", "Hardsigmoid", "Hardshrink", "Softplus", "Softshrink", "Softsign", "LogSigmoid",
                 "Tanhshrink", "Softmax2d"):
        yield name, lambda name=name: getattr(nn, name)()
    for name in ("ReLU", "ReLU6", "LeakyReLU", "ELU", "CELU", "SELU", "SiLU", "Mish", "Hardtanh", "Hardswish", "Hardsigmoid"):
        yield f"{name} in place", lambda name=name: nn.Sequential(nn.Conv2d(4, 4, 1), getattr(nn, name)(inplace=True))
    for name in ("Dropout", "Dropout2d", "AlphaDropout", "FeatureAlphaDropout", "RReLU"):
        yield f"{name} eval", lambda name=name: getattr(nn, name)().eval()
    yield "GELU by tanh", lambda: nn.GELU("tanh")
    yield "Threshold", lambda: nn.Threshold(0.1, 2.0)
    yield "PReLU", lambda: nn.PReLU()
    yield "PReLU by channel", lambda: nn.PReLU(4)
    for name in ("GLU", "Softmax", "LogSoftmax", "Softmin"):
        yield name, lambda name=name: getattr(nn, name)(1)
    yield "ChannelShuffle", lambda: nn.ChannelShuffle(2)
    yield "Unflatten", lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Tanh(), nn.Flatten(1, 2))
    yield "Linear over channels", lambda: nn.Sequential(Call(lambda x: x.movedim(1, -1)), nn.Linear(4, 3), Call(
        lambda x: x.movedim(-1, 1)))


def losses(*shape):
    """Yields losses of two images, with every reduction. The images have `shape`, whose first dimension is the
    classes. In the first half of the first image the class is 1, which some losses ignore."""
    target = picture(2, *shape).roll(1, 1)
    classes = torch.randint(0, shape[0], (2, *shape[1:]), generator=torch.Generator().manual_seed(9))
    classes[0, :shape[1] // 2] = 1
    for reduction in ("mean", "sum", "none"):
        for name, options in (("MSELoss", {}), ("L1Loss", {}), ("SmoothL1Loss", {"beta": 0.5}), ("HuberLoss", {"delta": 0.7})):
            yield f"{name} {reduction}", lambda name=name, options=options, reduction=reduction: Loss(
                getattr(nn, name)(reduction=reduction, **options), target)
        yield f"BCELoss {reduction}", lambda reduction=reduction: nn.Sequential(nn.Sigmoid(), Loss(
            nn.BCELoss(reduction=reduction), target.sigmoid()))
        yield f"BCEWithLogitsLoss {reduction}", lambda reduction=reduction: Loss(
            nn.BCEWithLogitsLoss(reduction=reduction), target.sigmoid())
        for ignored in (-100, 1):
            yield f"CrossEntropyLoss {reduction} {ignored}", lambda reduction=reduction, ignored=ignored: Loss(
                nn.CrossEntropyLoss(ignore_index=ignored, reduction=reduction), classes)
            yield f"NLLLoss {reduction} {ignored}", lambda reduction=reduction, ignored=ignored: nn.Sequential(
                nn.LogSoftmax(1), Loss(nn.NLLLoss(ignore_index=ignored, reduction=reduction), classes))
        yield from _weighted_losses(reduction, target, classes, shape)
    for name in ("sum", "mean", "batchmean"):
        yield f"KLDivLoss {name}", lambda name=name: nn.Sequential(nn.LogSoftmax(1), Loss(nn.KLDivLoss(
            reduction=name), target.softmax(1)))
    yield "loss of what is the same on all ranks", lambda: Call(lambda x, w: F.mse_loss(w, x), w=picture(1, shape[0], *[1] * (
        len(shape) - 1)))
    yield "loss by a parameter", lambda: Call(lambda x, w: F.l1_loss(x, w), w=picture(1))
    yield "several losses", lambda: Call(lambda x: F.mse_loss(x, torch.zeros_like(x)) + x.sigmoid().sum())


class WithVariances(nn.Module):
    """A loss that takes variances, given for each position and class, or for each class."""

    def __init__(self, loss, target, variances):
        super().__init__()
        self.loss, self.target, self.variances = loss, target, nn.Parameter(variances)

    def forward(self, x):
        target = spatial.shard(self.target) if isinstance(x, spatial.Stripe) else self.target
        return self.loss(x, target, x.square() + 0.2) + self.loss(x, target, self.variances.expand_as(x))


def _weighted_losses(reduction, target, classes, shape):
    """Yields losses with weights for classes, with label smoothing, and with probabilities as targets."""
    weight, ones = picture(shape[0]).sigmoid(), [1] * (len(shape) - 1)
    for name, options in (("weights", {"weight": weight}), ("smoothed", {"label_smoothing": 0.1}),
                          ("both", {"weight": weight, "label_smoothing": 0.2, "ignore_index": 1})):
        loss = nn.CrossEntropyLoss(reduction=reduction, **options)
        yield f"CrossEntropyLoss, {name}, {reduction}", lambda loss=loss: Loss(loss, classes)
        yield f"CrossEntropyLoss of probabilities, {name}, {reduction}", lambda options=options: Loss(nn.CrossEntropyLoss(
            reduction=reduction, **{key: value for key, value in options.items() if key != "ignore_index"}), target.softmax(1))
    yield f"NLLLoss, weights, {reduction}", lambda: nn.Sequential(nn.LogSoftmax(1), Loss(nn.NLLLoss(
        weight, reduction=reduction), classes))
    yield f"BCELoss, weights, {reduction}", lambda: nn.Sequential(nn.Sigmoid(), Loss(nn.BCELoss(
        weight.view(-1, *ones), reduction=reduction), target.sigmoid()))
    yield f"BCEWithLogitsLoss, weights, {reduction}", lambda: Loss(nn.BCEWithLogitsLoss(
        weight.view(-1, *ones), reduction=reduction, pos_weight=weight.view(-1, *ones) * 3), target.sigmoid())
    yield f"GaussianNLLLoss {reduction}", lambda: WithVariances(nn.GaussianNLLLoss(
        reduction=reduction, full=True), target, weight.view(-1, *ones))
    for is_log in (True, False):
        yield f"PoissonNLLLoss {is_log} {reduction}", lambda is_log=is_log: nn.Sequential(nn.Sigmoid(), Loss(
            nn.PoissonNLLLoss(is_log, full=True, reduction=reduction), target.exp()))
def rows():
    """Yields a case for grids that cut only h."""
    yield "pooled by its own rows", lambda: Call(lambda x: F.max_pool2d(F.relu(x), (x.shape[2], 3), 2, (0, 1), ceil_mode=True))


def lines():
    yield "conv 1-D", lambda: nn.Conv1d(4, 3, 3, 1, 1)
    yield "conv 1-D by 2", lambda: nn.Conv1d(4, 3, 4, 2, 1)
    yield "conv 1-D, depthwise", lambda: nn.Conv1d(4, 4, 3, 1, 1, groups=4)
    yield "transposed 1-D", lambda: nn.ConvTranspose1d(4, 3, 4, 2, 1)
    yield "max pool 1-D", lambda: nn.MaxPool1d(3, 2, 1)
    for counted in (True, False):
        yield f"avg pool 1-D {counted}", lambda counted=counted: nn.AvgPool1d(3, 1, 1, count_include_pad=counted)
    for size in (1, 3):
        yield f"adaptive avg 1-D {size}", lambda size=size: nn.AdaptiveAvgPool1d(size)
        yield f"adaptive max 1-D {size}", lambda size=size: nn.AdaptiveMaxPool1d(size)
    yield "batch norm 1-D", lambda: nn.BatchNorm1d(4)
    yield "batch norm 1-D eval", lambda: by_known_statistics(nn.BatchNorm1d(4))
    yield "instance norm 1-D", lambda: nn.InstanceNorm1d(4, affine=True)
    yield "instance norm 1-D, running", lambda: nn.InstanceNorm1d(4, track_running_stats=True)
    yield "group norm 1-D", lambda: nn.GroupNorm(2, 4)
    for mode in ("nearest", "nearest-exact", "linear"):
        yield f"twice 1-D {mode}", lambda mode=mode: nn.Upsample(scale_factor=2, mode=mode)
        yield f"half 1-D {mode}", lambda mode=mode: Call(lambda x: F.interpolate(x, scale_factor=0.5, mode=mode))
    yield "attention 1-D", Attention
    yield "Dropout1d eval", lambda: nn.Dropout1d().eval()
    yield from padding(1)
    yield from losses(4, 16)


def _by_time(x):
    """Returns the positions of two videos as separate lines: (images * d * h, channels, time). The time is the
    dimension w. Grids of volumes cut d and h."""
    return x.permute(0, 2, 3, 1, 4).flatten(0, 2)


def _by_position(x):
    """Turns the result of _by_time, (positions, channels, time), into (1, channels, positions, time)."""
    return x.permute(1, 0, 2).unsqueeze(0).tanh()


def volumes():
    yield "conv 3d", lambda: nn.Conv3d(2, 3, 3, 1, 1)
    yield "conv 3d, depthwise", lambda: nn.Conv3d(2, 2, 3, 1, 1, groups=2)
    yield "transposed 3d", lambda: nn.ConvTranspose3d(2, 3, 2, 2)
    yield "max pool 3d", lambda: nn.MaxPool3d(3, 2, 1)
    yield "avg pool 3d", lambda: nn.AvgPool3d(3, 2, 1, count_include_pad=False)
    yield "batch norm 3d", lambda: nn.BatchNorm3d(2)
    yield "instance norm 3d", lambda: nn.InstanceNorm3d(2, affine=True)
    yield "instance norm 3d, running", lambda: nn.InstanceNorm3d(2, track_running_stats=True)
    yield "group norm 3d", lambda: nn.GroupNorm(2, 2)
    yield "layer norm 3d", lambda: nn.LayerNorm((2, 8, 8, 8))
    for mode in ("nearest", "nearest-exact", "trilinear"):
        yield f"twice 3d {mode}", lambda mode=mode: nn.Upsample(scale_factor=2, mode=mode)
        yield f"half 3d {mode}", lambda mode=mode: Call(lambda x: F.interpolate(x, scale_factor=0.5, mode=mode))
    for name, module in (("convolution", lambda: nn.Conv1d(2, 2, 3, padding=1)), ("pool", lambda: nn.MaxPool1d(3, 2, 1)),
                         ("average", lambda: nn.AvgPool1d(2, ceil_mode=True)), ("norm", lambda: nn.BatchNorm1d(2)),
                         ("norm by image", lambda: nn.InstanceNorm1d(2, track_running_stats=True)),
                         ("groups", lambda: nn.GroupNorm(2, 2)), ("pad", lambda: nn.ConstantPad1d((2, 0), 0.5)),
                         ("reflection", lambda: nn.ReflectionPad1d(2)), ("adaptive", lambda: nn.AdaptiveAvgPool1d(3)),
                         ("adaptive max", lambda: nn.AdaptiveMaxPool1d(1)), ("adaptive one", lambda: nn.AdaptiveAvgPool1d(1)),
                         ("enlarged", lambda: nn.Upsample(scale_factor=2, mode="linear")),
                         ("transposed", lambda: nn.ConvTranspose1d(2, 2, 4, 2, 1))):
        yield f"{name} along time", lambda module=module: nn.Sequential(Call(_by_time), module(), Call(_by_position))
    yield "attention along time", lambda: nn.Sequential(Call(_by_time), Call(lambda x: F.scaled_dot_product_attention(
        *[x.mT] * 3, is_causal=True).mT), Call(_by_position))
    yield "Dropout3d eval", lambda: nn.Dropout3d().eval()
    yield from padding(3)
    yield "adaptive 3d", lambda: nn.AdaptiveAvgPool3d((1, 2, 3))
    yield "adaptive max 3d", lambda: nn.AdaptiveMaxPool3d(2)


# Functions that draw random numbers in training: {name: (module class, function)}. The function may run only if
# `trust` names this class. If the class is None, the function may not run on stripes.
DRAWN = {
    "dropout": ("Dropout", lambda x: F.dropout(x, 0.5, True)),
    "dropout in place": ("Dropout", lambda x: F.dropout(x * 1, inplace=True)),
    "torch's dropout": ("Dropout", lambda x: torch.dropout(x, 0.5, train=True)),
    "dropout of channels": ("Dropout2d", lambda x: F.dropout2d(x)),
    "feature dropout": ("Dropout2d", lambda x: torch.feature_dropout(x, 0.5, True)),
    "alpha dropout": ("AlphaDropout", lambda x: F.alpha_dropout(x, training=True)),
    "alpha dropout in place": ("AlphaDropout", lambda x: torch.alpha_dropout_(x * 1, 0.5, True)),
    "alpha dropout of channels": ("FeatureAlphaDropout", lambda x: F.feature_alpha_dropout(x, training=True)),
    "rrelu": ("RReLU", lambda x: F.rrelu(x, training=True)),
    "rrelu in place": ("RReLU", lambda x: F.rrelu_(x * 1, training=True)),
    "dropout with its mask": (None, lambda x: torch.native_dropout(x, 0.5, True)[0]),
    "noise in place": (None, lambda x: x + torch.zeros_like(x).normal_()),
    "a mask drawn in place": (None, lambda x: x * torch.ones_like(x).bernoulli_(0.5)),
    "noise alike": (None, lambda x: x + torch.randn_like(x)),
    "drawn by a stripe": (None, lambda x: torch.bernoulli(torch.sigmoid(x))),
    "Gumbel's softmax": (None, lambda x: F.gumbel_softmax(x, dim=1)),
}
def _same_pads(x, k, stride):
    """Returns the padding of TensorFlow's "same", in the order of F.pad. If the padding is odd, the larger half is at
    the end."""
    pads = [max((math.ceil(n / stride) - 1) * stride + k - n, 0) for n in reversed(x.shape[2:])]
    return [side for pad in pads for side in (pad // 2, pad - pad // 2)]


def _sizes():
    """Yields programs that compute with x.shape or branch on it. They must get the sizes of the whole image."""
    yield "rows taken", lambda: Call(lambda x: x[:, :, 1:, 1:])
    yield "every second row", lambda: Call(lambda x: x[:, :, ::2, 1::2])
    yield "all but its last rows", lambda: Call(lambda x: x[:, :, :x.shape[2] - 1, :-1])
    yield "narrow", lambda: Call(lambda x: x.narrow(2, 1, x.size(2) - 2))
    yield "a mean by sizes", lambda: Call(lambda x: x.sum((2, 3)) / (x.shape[2] * x.shape[3]))
    yield "a mean by numel", lambda: Call(lambda x: x.sum() / x.numel())
    yield "by a plain number of its sizes' class", lambda: Call(lambda x: x * type(x.shape[2])(8) + type(x.shape[2] / 3)(8.5))
    yield "by the mean of its sizes", lambda: Call(lambda x: x / statistics.mean(x.shape[2:]))
    yield "a mean by copies of its sizes", lambda: Call(lambda x: x.sum((2, 3), keepdim=True).expand(
        *copy.deepcopy(x.shape)) / math.prod(pickle.loads(pickle.dumps(x.shape))))
    yield "a branch by rows", lambda: Call(lambda x: x * 3 if x.shape[2] % 16 == 0 and x.shape[3] > 8 else x)
    yield "patches", lambda: Call(lambda x: x.view(2, 4, x.shape[2] // 2, 2, x.shape[3] // 2, 2).permute(
        0, 1, 3, 5, 2, 4).flatten(1, 3))
    yield "patches and back", lambda: Call(lambda x: (x.unflatten(3, (x.shape[3] // 2, 2)).unflatten(
        2, (-1, 2)) * 2).view(*x.shape))
    yield "patches of a padded picture", lambda: Call(lambda x: _in_patches(
        F.pad(x, (0, -x.shape[3] % 12, 0, -x.shape[2] % 12)), 2)[:, :, :x.shape[2], :x.shape[3]])
    yield "a parameter by position", lambda: Call(lambda x, w: x * w + w.square().mean(1, keepdim=True), w=picture(1, 4, 16, 16))
    yield "weights of all positions", lambda: Call(lambda x: F.binary_cross_entropy_with_logits(
        x, x.sigmoid(), pos_weight=picture(4, 16, 16).sigmoid()))
    yield "a matrix over positions", lambda: Call(lambda x: picture(1, 1, 256, 256)[0, 0] @ x.flatten(2).mT)
    yield "a bias of the whole's queries", lambda: Call(lambda x, w: F.scaled_dot_product_attention(
        *[x.flatten(2).mT] * 3, attn_mask=w), w=picture(1, 1, 256, 256)[0, 0])
    yield "a loss against the whole", lambda: Call(lambda x: F.mse_loss(x, picture()))
    yield "bytes", lambda: Call(lambda x: x * (x * 20 + 128).byte() + x.short() + (x > 0).char())
    yield "a grid of rows", lambda: Call(lambda x: x.view(2, 4, 4, x.shape[2] // 4, 4, x.shape[3] // 4).square().sum((3, 5)))
    yield "heads of the whole's numbers", lambda: Call(lambda x: x.reshape(2, 2, -1, 256).softmax(2).view(2, -1, 16, 16))
    yield "a view by the whole's numbers", lambda: Call(lambda x: (x.view(2, 4, 4, 4, 16) * 2).flatten(2).view(2, 4, 16, 16))
    yield "pooled by its own size", lambda: Call(lambda x: F.avg_pool2d(x, x.size()[2:]) + F.max_pool2d(x, x.shape[2:]))
    yield "pooled by its own size, equal ones", lambda: Call(lambda x: F.max_pool2d(F.relu(x - 2), x.shape[2:]))
    yield "expanded to its rows", lambda: Call(lambda x: F.adaptive_avg_pool2d(x, 1).expand(-1, -1, *x.shape[2:]).sum((2, 3)))
    yield "expanded as it", lambda: Call(lambda x: x * F.adaptive_avg_pool2d(x, 1).expand_as(x))
    yield "a small picture to its rows", lambda: Call(lambda x: F.interpolate(F.adaptive_avg_pool2d(x, 3), x.shape[2:]).sum(1))
    yield "a small picture to a fixed size", lambda: Call(lambda x: F.interpolate(F.adaptive_avg_pool2d(x, 3), (4, 6)).sum())
    yield "enlarged by its rows", lambda: Call(lambda x: F.interpolate(x, [2 * n for n in x.shape[2:]], mode="bilinear"))
    yield "layer norm of its own shape", lambda: Call(lambda x: F.layer_norm(x, x.shape[1:]))
    yield "coordinates", lambda: Call(lambda x: x * torch.linspace(1, 2, x.shape[2]).view(1, 1, -1, 1) + torch.arange(x.shape[3]))
    yield "a mesh", lambda: Call(lambda x: x + sum(torch.meshgrid(
        *(torch.arange(n, dtype=x.dtype) for n in x.shape[2:]), indexing="ij")))
    yield "a mesh of a list", lambda: Call(lambda x: x + sum(torch.meshgrid(
        [torch.arange(n, dtype=x.dtype) for n in x.shape[2:]], indexing="ij")))
    yield "a mesh with a parameter", lambda: Call(lambda x, w: torch.meshgrid(
        torch.arange(x.shape[2], dtype=x.dtype), w, indexing="ij")[1] * x.mean((0, 1, 3))[:, None], w=picture(3))
    yield "joined with nothing", lambda: Call(lambda x: torch.cat([torch.empty(0), x, x.tanh(), x.new_empty(0)], 1))
    yield "written to a slice of it last", lambda: Call(lambda x: _written_to_a_slice(x * 1))
    yield "written behind no_grad", lambda: Call(lambda x, w: _without_gradients(x).mul_(w) + x, w=picture(1, 4, 1, 1))
    yield "positions by a matrix", lambda: Call(lambda x, w, b: F.linear(x.flatten(2), w, b), w=picture(3, 256), b=picture(3))
    yield "broadcast to each other", lambda: Call(lambda x, w: torch.cat(torch.broadcast_tensors(w, x), 1), w=picture(1, 4, 1, 1))
    yield "polar coordinates", lambda: Call(lambda x, w: torch.polar(x.exp(), x * w).real, w=picture(1))
    yield "positions relative to each other", lambda: Call(lambda x: x * (
        torch.arange(x.shape[2])[:, None] - torch.arange(int(x.shape[2]))[None]).double().mean(1)[:, None])
    yield "a mask of its rows", lambda: Call(lambda x: torch.cat([x, torch.full((2, 1, *x.shape[2:]), 2.0)], 1))
    yield "plain numbers of sizes", lambda: Call(lambda x: x / torch.tensor([x.shape[2] * 1.0, 1.0]).sum() / (torch.ones(1) * x.shape[3]))
    yield "enlarged to a size", lambda: nn.Upsample(size=(24, 40), mode="bilinear")
    yield "by what reads a number past its methods", lambda: Call(lambda x: x * torch.tensor(
        [math.log(x.shape[2]), math.isqrt(x.shape[3]), len(range(x.shape[2])), x.shape.numel(), float(f"{x.shape[3]}"),
         np.zeros(x.shape[2]).size, len(x.flatten(2).permute(2, 0, 1)), (x.shape[2] - 1).bit_length()]).view(2, 4, 1, 1))
    for k, stride in ((2, 1), (3, 2), (4, 2), (5, 2)):
        yield f"TensorFlow's same {k} {stride}", lambda k=k, stride=stride: Call(
            lambda x, w: F.conv2d(F.pad(x, _same_pads(x, k, stride)), w, stride=stride), w=picture(3, 4, k, k))
    yield "by strides and bytes", lambda: Call(lambda x: x * sum(
        y.stride(1) / 7 + sum(y.stride()) + y.nbytes / 3 for y in (
            x, x.mT, x.mT.contiguous(), x.permute(2, 0, 1, 3), x.contiguous(memory_format=torch.channels_last), x[:, :, None],
            x.mean(1), x.mean(1).expand(3, -1, -1, -1), x.flatten(2), x.mean((2, 3)))) / 1e5 + x[:, :2].stride(2))
    yield "windows, counted by a number that lost its rows", lambda: Call(_counted_windows)
    yield "a part of a table", lambda: Call(lambda x, w: x * w[:, :x.shape[2], :x.shape[3]], w=picture(4, 20, 24))
    yield "by numbers of Python's and of numpy's", lambda: Call(lambda x: x.view(2, 4, int(x.shape[2]) * int(x.shape[3])).sum(2) / (
        float(x.shape[2]) * math.sqrt(x.shape[3] * 4) + np.prod(x.shape[2:]) + np.ceil(x.shape[3] / 3) + math.sqrt(x.shape[2] / 5)))


def _rows(x, count):
    """Returns the first `count` channels of x as (images, positions, channels)."""
    return x[:, :count].flatten(2).transpose(1, 2)


def _attended(x, w, q, k, v):
    """Computes attention with a bias for each key. Every rank has the biases of all positions of the whole image."""
    q, k, v = (F.linear(_rows(x, 4), each) for each in (q, k, v))
    scores = q @ k.transpose(-2, -1) * 0.3
    return (torch.softmax(scores + w.flatten(2), -1) @ v).transpose(1, 2).reshape(x.shape)


def _in_shifted_windows(x, q, k, v):
    """Computes attention in windows of 4 x 4 of a padded and rolled picture, as in Swin. The mask separates positions
    that were not neighbours until the picture was rolled."""
    n, c, h, w = x.shape
    y = F.pad(x, (0, -(w + 2) % 4 + 2, 0, -(h + 2) % 4 + 2)).permute(0, 2, 3, 1)
    _, rows, columns, _ = y.shape
    mask = x.new_zeros((rows, columns))
    for i, along in enumerate((slice(0, -4), slice(-4, -2), slice(-2, None))):
        for j, across in enumerate((slice(0, -4), slice(-4, -2), slice(-2, None))):
            mask[along, across] = i * 3 + j
    windows = lambda z: z.view(-1, rows // 4, 4, columns // 4, 4, z.shape[-1]).transpose(2, 3).reshape(-1, 16, z.shape[-1])
    y, mask = windows(torch.roll(y, (-2, -2), (1, 2))), windows(mask.unsqueeze(-1)).squeeze(-1)
    count = (rows // 4) * (columns // 4)
    scores = (y @ q @ (y @ k).mT).view(y.size(0) // count, count, 1, 16, 16)
    scores = scores.masked_fill((mask.unsqueeze(1) != mask.unsqueeze(2)).unsqueeze(1).unsqueeze(0), -100.0)
    y = scores.view(-1, 16, 16).softmax(-1) @ y @ v
    y = y.view(n, rows // 4, columns // 4, 4, 4, c).transpose(2, 3).reshape(n, rows, columns, c)
    return torch.roll(y, (2, 2), (1, 2))[:, :h, :w].permute(0, 3, 1, 2)


def _by_pairs(x):
    """Computes attention whose weights add up to 1 over all pairs (query, key)."""
    n, c, h, w = x.shape
    pairs = torch.matmul(x.flatten(2).transpose(1, 2), x.sin().flatten(2))
    weights = torch.softmax(pairs.view(n, -1), 1).view(n, h * w, h * w)
    return torch.matmul(weights, x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(n, c, h, w)


def _products():
    yield "attention by pairs", lambda: Call(_by_pairs)
    weights = {name: picture(4, 4).roll(i) for i, name in enumerate("qkv")}
    yield "a type as another's", lambda: Call(lambda x: F.max_pool2d(x, 2).type_as(x) + F.avg_pool2d(x.float().to(x), 2))
    yield "matmul", lambda: Call(lambda x: x @ x.transpose(-1, -2))
    yield "matmul over channels", lambda: Call(lambda x, q: (x.permute(0, 2, 3, 1) @ q).permute(0, 3, 1, 2), **_of("q", weights))
    yield "a matrix times channels", lambda: Call(lambda x, q: torch.matmul(q, x.flatten(2)).view(x.shape), **_of("q", weights))
    yield "channels by channels", lambda: Call(lambda x: torch.bmm(x.flatten(2), x.flatten(2).mT) / (x.shape[2] * x.shape[3]))
    yield "channels of two pictures", lambda: Call(lambda x: torch.einsum("nchw,nchw->nhw", x, torch.tanh(x)))
    yield "einsum over channels", lambda: Call(lambda x, q: torch.einsum("n...hw,d...->ndhw", x, q[:, 0]).sum(1)
                                               + torch.einsum("dc, nc... -> n...d", q, x)[..., 1], **_of("q", weights))
    yield "einsum without its result", lambda: Call(lambda x, q: torch.einsum("nchw,cd", x, q), **_of("q", weights))
    yield "tensordot", lambda: Call(lambda x, q: torch.tensordot(q, x, dims=([1], [1])), **_of("q", weights))
    yield "linear attention", lambda: Call(lambda x, q, k, v: F.relu(_rows(x, 4) @ q) @ (
        F.relu(_rows(x, 4) @ k).transpose(1, 2) @ (_rows(x, 4) @ v)), **weights)
    yield "attention by hand", lambda: Call(_attended, w=picture(1, 1, 16, 16), **weights)
    yield "attention by bmm", lambda: Call(lambda x: torch.bmm(x.flatten(2), torch.softmax(torch.baddbmm(torch.empty(
        2, 1, 1), _rows(x, 4), x.flatten(2), beta=0, alpha=0.2), 2).permute(0, 2, 1)).reshape(x.shape))
    yield "attention along an axis", lambda: Call(lambda x: _along(x.permute(0, 3, 2, 1)).permute(0, 3, 2, 1) + _along(
        x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
    yield "attention with a mask of keys", lambda: Call(lambda x, w: F.scaled_dot_product_attention(
        *[_rows(x, 4)] * 3, attn_mask=w), w=picture(1, 256))
    yield "causal attention", lambda: Call(lambda x: F.scaled_dot_product_attention(*[_rows(x, 4)] * 3, is_causal=True))
    yield "attention of what all ranks have", lambda: Call(lambda x, w: F.scaled_dot_product_attention(
        w.expand(2, 3, 4), _rows(x, 4), _rows(x, 4)), w=picture(3, 4))
    yield "attention by the transposed scores", lambda: Call(lambda x: x.flatten(2) @ torch.softmax(_rows(x, 4) @ x.flatten(2), 1))
    yield "rows that attend to positions", lambda: Call(lambda x: torch.softmax(x.mean(3).mT @ x.flatten(2), 2) @ _rows(x, 4))
    yield "positions that attend to fewer", lambda: Call(lambda x: torch.softmax(_rows(x, 4) @ F.max_pool2d(x, 2).flatten(
        2), 2) @ _rows(F.avg_pool2d(x, 2), 4))
    yield "each row by each row", lambda: Call(lambda x: torch.einsum("nhHw,ncHw->nchw", torch.einsum(
        "nchw,ncHw->nhHw", x, x.sin()).softmax(2), x))
    yield "scores under their diagonal", lambda: Call(lambda x: (_rows(x, 4) @ x.flatten(2)).tril().sum(2))
    yield "weights of its own", lambda: Call(lambda x: torch.einsum("ncd,nchw->ndhw", x.mean((2, 3))[:, :, None] * x.amax(
        (2, 3))[:, None], x))
    yield "shifted windows", lambda: Call(_in_shifted_windows, **weights)
    yield "addmm", lambda: Call(lambda x, q: torch.addmm(q[0], _rows(x, 4)[0], q, beta=0.5, alpha=2), **_of("q", weights))
    yield "cdist", lambda: Call(lambda x, q: torch.cdist(_rows(x, 4), q).mT, **_of("q", weights))
    yield "cdist of positions", lambda: Call(lambda x: torch.cdist(_rows(x, 4)[:1], _rows(x, 4)[1:]).square())


def _over(x, function):
    """Returns the sum of function(x, dim) over several values of dim: channels, rows, columns, all three together, and
    rows as a tuple. Each summand is combined with x."""
    return sum(function(x, dim) * (1 + torch.tanh(x)) for dim in (1, 2, 3, (1, 2, 3), (2,)))


def _in_tenths(x):
    """Returns x rounded to multiples of 1/5, so that many elements are equal. Gradients pass as if x were not
    rounded."""
    return x + ((x * 5).round() / 5 - x).detach()


def _extremes():
    one = (1, 2, 3)
    yield "max of a dimension", lambda: Call(lambda x: sum(x.max(d, keepdim=True)[0] * x for d in one))
    yield "min of a dimension", lambda: Call(lambda x: sum(torch.min(x, d, True).values * x for d in one))
    yield "max of equal ones", lambda: Call(lambda x: sum(_in_tenths(x).max(d, True)[0] + _in_tenths(x).min(d, True)[0] * x
                                                          for d in one))
    yield "max of equal ones in all", lambda: Call(lambda x: _in_tenths(x).max() * 3 + F.relu(x).min() * x)
    yield "max of two", lambda: Call(lambda x: torch.max(x, x.mean()) + x.min(torch.zeros(1)))
    yield "max of flattened positions", lambda: Call(lambda x: x.flatten(2).max(2)[0] + x.flatten(2).argmax(2) * 0.01)
    yield "where the largest stand", lambda: Call(lambda x: sum((x.argmax(d, keepdim=True) - x.max(d, True)[1] * 2 + x.min(
        d, True)[1]) * x for d in one) * 0.1)
    yield "where the smallest stand", lambda: Call(lambda x: (x.argmin() + x.argmax(1).argmin(2)) * x.mean() * 0.1)
    yield "aminmax", lambda: Call(lambda x: x * sum(
        x.detach().aminmax().max * y.min + y.max for y in [x.detach().aminmax(dim=2, keepdim=True)]))
    yield "any, all and how many", lambda: Call(lambda x: x * ((x > 1).any(2, True) | (x > -1).all(1, True)) + (
        x > 0).any() * x.count_nonzero() + torch.count_nonzero(x.relu(), (1, 3)).sum() + (x < 9).all())
    yield "ranked channels", lambda: Call(lambda x: x.topk(2, 1)[0] + x.sort(1)[0][:, 1:3] + x.sort(
        1, descending=True)[1][:, 1:3] + x.median(1, True)[0] + x.kthvalue(2, 1)[0].unsqueeze(1) + x.argsort(1)[:, :2])
    yield "running sums of channels", lambda: Call(lambda x: x.cumsum(1) + x.cumprod(1) + x.cummax(1)[0] + torch.prod(
        x, 1, keepdim=True) + x.diff(dim=1).sum(1, True))


def _moments():
    norms = (2, 1, 3, float("inf"))
    yield "variances", lambda: Call(lambda x: _over(x, lambda x, d: x.var(d, keepdim=True) + x.std(d, keepdim=True)))
    yield "variances as they are counted", lambda: Call(lambda x: _over(x, lambda x, d: x.var(d, False, True) + torch.std(
        x, d, correction=0, keepdim=True)) + x.var() + x.std(False) + torch.std_mean(x)[0])
    yield "variances with their means", lambda: Call(lambda x: _over(x, lambda x, d: torch.var_mean(
        x, d, keepdim=True)[0] + torch.std_mean(x, d, keepdim=True)[1]) + sum(torch.var_mean(x, (2, 3)))[..., None, None])
    yield "a deviation of zeros", lambda: Call(lambda x: x + (x * 0).std((2, 3), keepdim=True) + (x * 0).norm())
    yield "norms", lambda: Call(lambda x: x.norm(dim=1, keepdim=True) + x.norm(dim=(2, 3), keepdim=True) + sum(
        x.norm(p) + torch.norm(x, p, 2, True) for p in norms))
    yield "norms of matrices", lambda: Call(lambda x: torch.linalg.norm(x.mean((2, 3))) + torch.linalg.norm(
        x.mean((2, 3)), 2) + torch.linalg.norm(x, "fro", (2, 3)) + torch.linalg.norm(x.mean((0, 1))))
    yield "pooled without a batch", lambda: Call(lambda x: torch.stack([
        F.max_pool2d(each, 2).mean() + F.avg_pool2d(each, 3, 1, 1).amax((1, 2)) + F.adaptive_avg_pool2d(each, 1).flatten() +
        F.adaptive_max_pool2d(each, (2, 3)).sum((1, 2)) for each in x]))
    yield "convolutions without a batch", lambda: Call(_without_a_batch, w=picture(6, 4, 3, 3), b=picture(6))
    yield "transposed matrices", lambda: Call(lambda x: x.flatten(2)[0].t() @ torch.t(x.mean((2, 3))) + (
        x[0, 0].t() @ x[1, 0]).square().mean() + x[0, 0].mean(0).t().mean())
    yield "all in a row", lambda: Call(lambda x: x.ravel() * torch.ravel(x.sin()) + x.mean((2, 3)).ravel().sum())
    yield "norms of vectors", lambda: Call(lambda x: sum(torch.linalg.vector_norm(x, p, d, True) for p in norms for d in (
        1, 2, (2, 3))) + torch.linalg.norm(x, dim=1, keepdim=True) * torch.linalg.norm(x) + torch.linalg.vector_norm(x, 0))
    yield "logsumexp", lambda: Call(lambda x: _over(x, lambda x, d: x.logsumexp(d, keepdim=True)))
    yield "softmax over positions", lambda: Call(lambda x: sum(
        torch.softmax(x, d) + x.log_softmax(d) + F.softmin(x, d) for d in (1, 2, 3)))
    yield "softmax over flattened positions", lambda: Call(lambda x: (F.softmax(x.flatten(2), -1) * x.flatten(2)).sum(-1))
    yield "normalize", lambda: Call(lambda x: sum(F.normalize(x, dim=d) + F.normalize(x, 1, d) for d in (1, 2, 3)))
    yield "cosine similarity", lambda: Call(lambda x, w: F.cosine_similarity(x, x.sin()) + F.cosine_similarity(
        x, w, 1) + F.cosine_similarity(x, x.tanh(), 2).unsqueeze(2).sum(1), w=picture(1, 4, 1, 1))
    yield "CosineSimilarity", lambda: Loss(nn.CosineSimilarity(), picture().sin())
    yield "PairwiseDistance", lambda: Loss(nn.PairwiseDistance(), picture().sin())
    yield "PairwiseDistance over channels", lambda: Call(lambda x: F.pairwise_distance(x.movedim(1, -1), x.sin().movedim(1, -1)))
    yield "RMSNorm", lambda: nn.Sequential(Call(lambda x: x.movedim(1, -1)), nn.RMSNorm(4))
    yield "RMSNorm over positions", lambda: nn.RMSNorm((16, 16))
    yield "LocalResponseNorm", lambda: nn.LocalResponseNorm(3, 0.1)


def _without_a_batch(x, w, b):
    each = torch.stack([F.conv2d(F.pad(picture, (1, 1, 1, 1), "reflect"), w, b, padding=0) for picture in x])
    up = torch.stack([F.conv_transpose2d(picture, w[:4], stride=2, padding=1, output_padding=1) for picture in x])
    return each[:, :4] * F.avg_pool2d(up, 2) + F.conv1d(x.mean(3)[0], w[:, :, 0], padding="same")[:4].unsqueeze(2).mean(2, True)


def _written(x, w):
    """Writes channels, rows and columns by index into a new tensor, and returns it."""
    y = x.new_zeros(x.shape)
    y[:, 1] = x[:, 0] * 2
    y[:, [0, 2], 1:, :-1] = x[:, 2:, 1:, :-1]
    y[0, torch.tensor([3])] = w
    y[:, :, x.shape[2] // 8:, :-1:2] = 3.5
    y[:, :, -3:-0, -2:0] = 7.0  # an empty slice; code for shifted windows writes such slices if the shift is 0
    y[x > 1] = -1.5
    return y * x


def _indices():
    table = torch.tensor([[2, 0], [1, 1]])
    yield "channels by a list", lambda: Call(lambda x: x[:, [2, 0, 1]] + x[:, range(3)])
    yield "channels by tensors", lambda: Call(lambda x: x[torch.tensor([1, 0]), table[0]] + x[:, table][:, 0, 1] * x[
        0, :, None][torch.tensor([True, False, True, False])][:, 0])
    yield "indices apart from each other", lambda: Call(lambda x: x.unsqueeze(2)[torch.tensor([1, 0, 1]), :, [0, 0, 0]])
    yield "index_select", lambda: Call(lambda x: x.index_select(1, table[0]) + torch.index_select(x, 1, table[1]))
    yield "gather", lambda: Call(lambda x: x.gather(1, x.argsort(1)[:, :2]) * torch.take_along_dim(
        x, x.argmax(1, keepdim=True), 1) + torch.take_along_dim(x, table[0].view(1, 2, 1, 1), 1))
    yield "scattered along channels", lambda: Call(lambda x: torch.zeros_like(x).scatter_(1, x.argmax(1, keepdim=True), 1.0) * x + (
        x.scatter_add(1, x.argsort(1)[:, :2], 2 * x[:, 2:])) + x.scatter(1, x.argsort(1)[:, 2:], x[:, 1:3]))
    yield "gathered from the whole", lambda: Call(lambda x, w: torch.gather(w.expand(2, -1, -1, -1), 2, (
        x * 5).long().abs().clamp(max=15)) * torch.gather(w.expand(2, -1, -1, -1), 3, (x * 3).long().abs().clamp(max=15)) + x,
        w=picture(1, 4, 16, 16))
    yield "sampled from the whole", lambda: Call(lambda x, w: F.grid_sample(
        w.expand(2, -1, -1, -1), x[:, :2].tanh().permute(0, 2, 3, 1), align_corners=False) + x, w=picture(1, 4, 9, 7))
    yield "rows of a table", lambda: Call(lambda x, w: w[(x[:, 0] > 0).long()].permute(0, 3, 1, 2) * x, w=picture(2, 4))
    yield "Embedding", lambda: LookedUp()
    yield "one_hot", lambda: Call(lambda x: F.one_hot(x.argmax(1), 5).permute(0, 3, 1, 2)[:, :4] * x + F.one_hot(
        (x[:, 0] > 0.2).long()).sum(3, keepdim=True).permute(0, 3, 1, 2))
    yield "written by index", lambda: Call(_written, w=picture(1, 1, 1))
    yield "new tensors", lambda: Call(lambda x: x.new_ones(x.shape) * x.new_full((1, 4, 1, 1), 2.5) * x + x.new_tensor(
        [1.0, 2.0, 3.0, 4.0]).view(1, 4, 1, 1) * x.new_full(x.size(), x.shape[2]) + x.new_zeros(1) + x.new_empty(
        2, 1, *x.shape[2:]).fill_(1.5))


def _moves():
    yield "repeat", lambda: Call(lambda x: x.repeat(1, 2, 1, 1)[:, 2:6] + torch.tile(x, (2, 1, 1))[:, 1:5] + x[:, :1].repeat(
        2, 1, 4, 1, 1)[1] + F.adaptive_avg_pool2d(x, 1).repeat(1, 1, *x.shape[2:]))
    yield "repeat_interleave", lambda: Call(lambda x: x.repeat_interleave(2, 1)[:, ::2] * torch.repeat_interleave(
        x, torch.tensor([1, 2, 0, 1]), dim=1))
    yield "rows twice", lambda: nn.Sequential(Call(lambda x: x.repeat_interleave(2, dim=2).repeat_interleave(3, -1)), nn.Conv2d(
        4, 2, 3, 1, 1))
    yield "flattened positions twice", lambda: Call(lambda x: x.flatten(2).repeat_interleave(2, 2).sum(2))
    yield "flip", lambda: Call(lambda x: x.flip(1) + x.flip(2) * 2 + torch.flip(x, (2, 3)) + x.fliplr() + x.flatten(2).flip(
        2).view(x.shape) * x)
    yield "roll", lambda: Call(lambda x: x.roll(1, 1) + x.roll(3, 2) * 2 + torch.roll(x, (-5, 9), (2, 3)) + x.roll(
        -x.shape[3] // 2, -1) * x + x.roll((16, 1), dims=(2, 0)))
    yield "turned by 90 degrees", lambda: Call(lambda x: x.rot90(1, (2, 3)).transpose(2, 3) + x.rot90(-1, (-1, -2)).mT * 2 +
                                               torch.rot90(x, 2, (2, 3)) * x + x.rot90(4, (1, 2)) + x.rot90(1, (0, 1)).rot90(3))
    yield "a turned picture, convolution", lambda: nn.Sequential(Call(lambda x: x.rot90(dims=(2, 3))), nn.Conv2d(4, 2, 3, 1, 1))
    yield "triangles", lambda: Call(lambda x: x.tril() + x.triu(-2) * x + x.permute(0, 2, 3, 1).tril(1).permute(0, 3, 1, 2))


def _neighbours(x):
    """Combines differences of neighbours along both axes, in new tensors and in place."""
    down, right, y = x[:, :, 1:] - x[:, :, :-1], x[..., 1:] - x[..., :-1], x * 2
    down += x[:, :, :-1].sin()
    length = (down[..., :-1].square() + right[:, :, :-1].square() + 1).sqrt()
    y[:, :, 1:, 1:] = torch.where(x[:, :, :-1, 1:] > 0, right[:, :, :-1], x[:, :, 1:, 1:])
    return length + down[..., 1:] * y[:, :, 1:, 1:]


def _merged(x):
    """Merges each 2 x 2 square of positions into one (stripes have odd numbers of rows), splits the squares again, and
    concatenates the result with x."""
    parts = [x[:, :, i::2, j::2] for i in range(2) for j in range(2)]
    whole = F.pixel_shuffle(torch.stack([part * (i + 1) for i, part in enumerate(parts)], 2).flatten(1, 2), 2)
    return torch.cat([whole.tanh(), x, F.interpolate(torch.cat(parts, 1), scale_factor=2)], 1)


def _written_to_a_slice(y):
    y[:, :1].sigmoid_()
    return y


def _without_gradients(x):
    with torch.no_grad():
        return x * 2


def _other_stripes():
    """Yields programs that combine different slices of one picture; a rank has different rows of each slice."""
    yield "neighbours", lambda: Call(_neighbours)
    yield "neighbours in a row", lambda: Call(lambda x: x[:, :, 1:, 1:].flatten(2) * x[:, :, :-1, :-1].flatten(2) + (
        x[:, :, 1:, 1:].flatten(2) > x[:, :, 1:, :-1].flatten(2)))
    yield "neighbours alike", lambda: Call(lambda x: torch.einsum("nchw,ndhw->ncd", x[:, :, 1:, 1:], x[:, :, :-1, :-1]) +
                                           F.cosine_similarity(x[:, :, 1:, 1:], x[:, :, :-1, :-1]).mean())
    classes = picture().argmax(1).roll(1, 1)
    yield "classes of the whole", lambda: Call(lambda x: F.cross_entropy(x, classes) + F.nll_loss(
        F.log_softmax(x, 1), classes, picture(4).abs(), reduction="none").square().mean() + F.cross_entropy(
            x, classes, ignore_index=1, label_smoothing=0.1))
    yield "probabilities of the whole", lambda: Call(lambda x, w: F.cross_entropy(x, w.softmax(1)), w=picture())
    yield "neighbours in a loss", lambda: Call(lambda x: F.l1_loss(x[:, :, 1:, 1:], x[:, :, :-1, :-1]) + F.cross_entropy(
        x[:, :, 1:, 1:], x[:, :, :-1, :-1].argmax(1)) + F.cross_entropy(x[:, :, 1:], x[:, :, :-1].softmax(1)))
    yield "merged and joined", lambda: nn.Sequential(nn.ReflectionPad2d(1), Call(_merged), nn.Conv2d(24, 2, 3, 1, 1))
    yield "merged patches", lambda: Call(lambda x: _merged_patches(F.pad(x, (2, 2, 2, 2))))
    yield "windows of five", lambda: Call(lambda x: x * _in_fives(_for_fives(x))[:, :, 1:-3, 1:-3])
    yield "written into windows of five", lambda: Call(_written_fives)
    yield "unshuffled by five", lambda: nn.Sequential(nn.ReflectionPad2d((1, 3, 1, 3)), nn.PixelUnshuffle(5), nn.Tanh(),
                                                     nn.PixelShuffle(5))


def _for_fives(x):
    """Pads 16 rows and columns to 20, which are four windows of 5. On each grid, at least one window crosses a cut."""
    return F.pad(x, (1, 3, 1, 3))


def _fives(x):
    n, c, h, w = x.shape
    return x.view(n, c, h // 5, 5, w // 5, 5)


def _over_fives(x, write):
    """Calls write(x, windows), where `windows` is a view of x. `write` writes into x or into `windows`."""
    windows = _fives(x)
    write(x, windows)
    return windows.mean() + x


def _in_fives(x):
    """Returns the softmax of each window of 5 x 5."""
    windows = _fives(x).permute(0, 2, 4, 3, 5, 1).flatten(3, 4)
    return windows.softmax(3).unflatten(3, (5, 5)).permute(0, 5, 1, 3, 2, 4).reshape(x.shape)


def _written_fives(x):
    """Writes into a copy of the windows, and then into a copy of the picture."""
    y = _for_fives(x)
    windows, z = _fives(y).clone(), y.clone()
    windows[:, :, :, 1] *= 2
    z += windows.reshape(z.shape)
    return z


def _merged_patches(x):
    """Views x as 2 x 2 patches, adds neighbouring patches, and returns the sums as a picture of h - 2 rows."""
    n, c, h, w = x.shape
    pairs = x.view(n, c, h // 2, 2, w // 2, 2).square()
    return (pairs[:, :, 1:, :, 1:] + pairs[:, :, :-1, :, :-1]).reshape(n, c, h - 2, w - 2)


def _of(names, values):
    return {name: values[name] for name in names}


def _along(x):
    n, rows, columns, c = x.shape
    return F.scaled_dot_product_attention(*[x.reshape(n * rows, columns, c)] * 3).reshape(x.shape)


def _in_patches(x, size):
    """Squares x through a view of `size` x `size` patches."""
    n, c, h, w = x.shape
    return x.view(n, c, h // size, size, w // size, size).square().reshape(n, c, h, w)


def _counted_windows(x):
    n, c, h, w = x.shape
    windows = x.view(n, c, h // 4, 4, w // 4, 4).permute(0, 4, 2, 3, 5, 1).reshape(-1, 16, c)
    count = (int(h) // 4) * (int(w) // 4)
    return windows.view(windows.shape[0] // count, count, 16, c)


def _middle(x):
    """Returns the middle 6 of 16 rows and columns. If x has two parts, each part has 3 of these rows, the size of a
    small filter."""
    return x[:, :, 5:-5, 5:-5]


REFUSED = {
    **{name: lambda function=function: Call(function) for name, (_, function) in DRAWN.items()},
    "too much padding": lambda: nn.Conv2d(4, 4, 3, 1, 2),
    "running sums of rows": lambda: Call(lambda x: x.cumsum(2).cumsum(3)),
    "the largest three of all positions": lambda: Call(lambda x: x.flatten(2).topk(3)),
    "the largest singular value of rows": lambda: Call(lambda x: torch.linalg.norm(x, 2, (2, 3))),
    "rows in order, by numpy's name": lambda: Call(lambda x: x.sort(axis=2)[0].sort(axis=3)[0]),
    "around twice": lambda: nn.CircularPad2d(20),
    "sampled by a grid": lambda: Call(lambda x: F.grid_sample(x, torch.zeros(2, 4, 4, 2), align_corners=False)),
    "rows by a list": lambda: Call(lambda x: x[:, :, [0, 3]][:, :, :, [0, 3]]),
    "rows by a table": lambda: Call(lambda x: x.gather(2, torch.zeros_like(x).long()).gather(3, torch.zeros_like(x).long())),
    "elements by a mask": lambda: Call(lambda x: x[x > 0]),
    "elements selected by a mask": lambda: Call(lambda x: torch.masked_select(x, x > 0)),
    "a stripe written into a plain tensor": lambda: Call(lambda x: torch.zeros(2, 4, 16, 16).__setitem__(slice(None), x)),
    "a stripe written into what all have": lambda: Call(lambda x: x.new_zeros(2, 1, 1, 1).__setitem__(slice(None), x)),
    "written over behind windows": lambda: Call(lambda x: _over_fives(_for_fives(x), lambda y, _: y.add_(1))),
    "windows written over": lambda: Call(lambda x: _over_fives(_for_fives(x), lambda _, each: each[..., 0].mul_(2))),
    "rows of windows written": lambda: Call(lambda x: _over_fives(_for_fives(x), lambda _, each: each.__setitem__(0, 1))),
    "rows repeated behind one another": lambda: Call(lambda x: x.repeat(1, 1, 2, 2)),
    "positions rolled together": lambda: Call(lambda x: x.permute(0, 1, 3, 2).flatten(2).roll(1, 2) + x.flatten(2).roll(1, 2)),
    "the first rows, by a bare number": lambda: Call(lambda x: x[:, :, :3, :3]),
    "enlarged to a bare number": lambda: Call(lambda x: F.interpolate(x, size=(32, 32))),
    "a grid of rows, and an open number": lambda: Call(lambda x: x.view(2, -1, 2, x.shape[2] // 2, 2, x.shape[3] // 2)),
    "not as many rows": lambda: Call(lambda x: F.interpolate(x, size=[n + 1 for n in x.shape[2:]])),
    "a type by a plain tensor": lambda: Call(lambda x: torch.add(x, x, out=torch.empty(0))),
    "data of another shape": lambda: Call(lambda x: setattr(x, "data", spatial.to_local(x)[:, :1])),
    "split along its rows": lambda: Call(lambda x: (x.split(x.shape[2] // 2, 2), x.split(x.shape[3] // 2, 3))),
    "rows one by one": lambda: Call(lambda x: (x.unbind(2), x.unbind(3))),
    "bytes between rows": lambda: Call(lambda x: F.interpolate(x.byte(), scale_factor=2, mode="bilinear")),
    "a whole picture": lambda: Call(lambda x: x + torch.ones(2, 4, 8, 8)),
    "noise": lambda: Call(lambda x: x + torch.randn(x.shape)),
    "by a part of a row": lambda: nn.Upsample(scale_factor=1.3),
    "detached in place": lambda: Call(lambda x, w: (x * w).detach_(), w=picture(1)),
    "antialias": lambda: Call(lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)),
    "by areas, to the rows of a stripe": lambda: Call(lambda x: F.interpolate(
        F.adaptive_avg_pool2d(x, 3), x.shape[2:], mode="area")),
    "weights of squares": lambda: Call(lambda x: F.mse_loss(x, x, weight=torch.ones(1))),
    "size_average": lambda: Call(lambda x: F.mse_loss(x, x, size_average=False)),
    "reduce": lambda: Call(lambda x: F.cross_entropy(x, spatial.shard(torch.zeros(2, 16, 16).long()), reduce=False)),
    "strides of a part": lambda: Call(lambda x: x[:, :2] * x[:, :2].stride(0)),
    "strides of a part of the rows": lambda: Call(lambda x: x * sum(x[:, :, 1:-1, 1:-1].stride())),
    "its memory's bytes": lambda: Call(lambda x: x * x.untyped_storage().nbytes()),
    "its memory as a list": lambda: Call(lambda x: x * sum(x.detach().untyped_storage().tolist())),
    "a tensor set to its memory": lambda: Call(lambda x: torch.empty(0).set_(x.detach().untyped_storage()).mean() * x),
    "where its memory begins": lambda: Call(lambda x: x * x[:, 1:].storage_offset()),
    "a picture as filters": lambda: Call(lambda x: F.conv2d(_middle(x), _middle(x), padding=1)),
    "a picture as filters of groups": lambda: Call(
        lambda x: F.conv2d(_middle(x), _middle(x)[:, :1].repeat(2, 1, 1, 1), padding=1, groups=4)),
    "a picture as transposed filters": lambda: Call(lambda x: F.conv_transpose2d(x, x.transpose(0, 1))),
    "filters as large as the picture": lambda: Call(lambda x, w: F.conv2d(
        _middle(x), w.expand(-1, -1, *_middle(x).shape[2:]), padding=1), w=picture(3, 4, 1, 1)),
    "positions as a bias": lambda: Call(lambda x: F.conv2d(x, torch.ones(256, 4, 1, 1), x[0, 0].flatten())),
    "positions as a linear layer": lambda: Call(lambda x: F.linear(torch.ones(3, 256), x[0].flatten(1))),
    "positions as weights of a norm": lambda: Call(lambda x: F.batch_norm(x, None, None, x[0, 0].flatten(), training=True)),
    "positions as statistics": lambda: Call(lambda x: F.batch_norm(x, x[0, 0].flatten(), torch.ones(4))),
    "positions as weights of a plain picture": lambda: Call(
        lambda x: F.layer_norm(torch.ones(3, 4, 256), (256,), x[0, 0].flatten())),
    "classes of fewer rows": lambda: Call(lambda x: F.cross_entropy(x, torch.zeros(2, 8, 8).long())),
    "positions as weights of classes": lambda: Call(lambda x: F.cross_entropy(x, x.argmax(1), x[0, 0].flatten())),
    "a matrix of positions by positions": lambda: Call(lambda x: _rows(x, 4).unsqueeze(2) - _rows(x, 4).unsqueeze(1)),
}
