"""Layers and losses to be tried on stripes, each by itself: {name: what makes it}. Pictures are 16 x 16, lines 16 long, volumes
8 x 8 x 8. layers.py runs them; layers_test.py holds the lists to ucudnn.spatial.vouched."""
import torch
from torch import nn
from torch.nn import functional as F

from ucudnn import spatial

TRUST = ["Call", "Attention", "Excitation", "Tied", "Loss"]


class Call(nn.Module):
    """A function as a module, with parameters of its own."""

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
    """One filter on stripes, twice, and behind global pooling."""

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
    """A loss, whose target is cut as its input is."""

    def __init__(self, loss, target):
        super().__init__()
        self.loss, self.target = loss, target

    def forward(self, x):
        return self.loss(x, spatial.shard(self.target) if isinstance(x, spatial.Stripe) else self.target)


def by_known_statistics(norm):
    """In evaluation, by statistics that are not those of its input."""
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


def windows():
    for k, s, p, d in ((3, 1, 1, 1), (1, 1, 0, 1), (5, 1, 2, 1), (3, 1, 2, 2), (3, 1, 3, 3), (7, 2, 3, 1), (3, 2, 1, 1),
                       (4, 2, 1, 1), (2, 2, 0, 1), (1, 2, 0, 1), (9, 1, 4, 1), (3, 1, 7, 7)):
        yield f"conv {k} {s} {p} {d}", lambda k=k, s=s, p=p, d=d: nn.Conv2d(4, 6, k, s, p, d)
    for k, s, p, d in ((3, 1, 0, 1), (2, 1, 0, 1), (3, 2, 0, 1), (4, 1, 1, 1), (3, 1, 1, 2), (5, 2, 1, 1)):
        yield f"conv less {k} {s} {p} {d}", lambda k=k, s=s, p=p, d=d: nn.Conv2d(4, 6, k, s, p, d)
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
    yield "transposed groups", lambda: nn.ConvTranspose2d(4, 4, 4, 2, 1, groups=2)
    for k, s, p in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (3, 2, 0), (2, 1, 0)):
        yield f"max pool {k} {s} {p}", lambda k=k, s=s, p=p: nn.MaxPool2d(k, s, p)
        for counted in (True, False):
            yield f"avg pool {k} {s} {p} {counted}", \
                lambda k=k, s=s, p=p, counted=counted: nn.AvgPool2d(k, s, p, count_include_pad=counted)
    yield "max pool ceil", lambda: nn.MaxPool2d(2, 2, ceil_mode=True)
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
    for mode in ("nearest", "bilinear", "bicubic", "nearest-exact"):
        yield f"resize 2 {mode}", lambda mode=mode: nn.Upsample(scale_factor=2, mode=mode)
        yield f"resize half {mode}", lambda mode=mode: Call(lambda x: F.interpolate(x, scale_factor=0.5, mode=mode))
        yield f"resize 1.5 {mode}", lambda mode=mode: Call(lambda x: F.interpolate(x, scale_factor=1.5, mode=mode))
    for mode in ("bilinear", "bicubic"):
        yield f"resize aligned {mode}", lambda mode=mode: nn.Upsample(scale_factor=2, mode=mode, align_corners=True)
    yield "resize to skip", lambda: Call(lambda x: F.interpolate(F.max_pool2d(x, 2), size=x.shape[-2:], mode="bilinear"))
    yield "resize to an odd skip", lambda: Call(lambda x: F.interpolate(F.max_pool2d(x, 2), size=F.pad(x, (1, 0, 1, 0)).shape[
        -2:], mode="bilinear"))
    yield "pyramid", lambda: Call(lambda x: x * F.interpolate(F.adaptive_avg_pool2d(x, 3), size=x.shape[-2:], mode="bilinear"))
    yield "pixel shuffle", lambda: nn.Sequential(nn.Conv2d(4, 8, 1), nn.PixelShuffle(2), nn.Conv2d(2, 2, 3, 1, 1))
    yield "pixel shuffle alone", lambda: nn.PixelShuffle(2)
    yield "pixel unshuffle", lambda: nn.PixelUnshuffle(2)


def padding(dims):
    """Of each kind alone, of a number of dimensions, and before a convolution that has none."""
    size, conv = [2, 1] + [1, 3] * (dims - 1), getattr(nn, f"Conv{dims}d")
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
    yield "concatenated", lambda: Call(lambda x: torch.cat([x, F.relu(x)], 1).chunk(2, 1)[1])
    yield "mean", lambda: Call(lambda x: (x * x).mean())
    yield "mean of rows", lambda: Call(lambda x: x.mean(3, keepdim=True) * x + x.sum(2, keepdim=True))
    yield "amax", lambda: Call(lambda x: F.relu(x).amax((2, 3)))
    yield "inplace", lambda: nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 1),
                                            nn.SiLU(inplace=True))


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
    """Of an input of two images of this shape, whose first dimension are classes, as one number and by position. Of targets by
    class, those of class 1, and of the first image's first half, count for nothing."""
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
    yield "loss of what is the same on all ranks", lambda: Call(lambda x, w: F.mse_loss(w, x), w=picture(1, shape[0], *[1] * (
        len(shape) - 1)))
    yield "loss by a parameter", lambda: Call(lambda x, w: F.l1_loss(x, w), w=picture(1))
    yield "several losses", lambda: Call(lambda x: F.mse_loss(x, torch.zeros_like(x)) + x.sigmoid().sum())


def rows():
    """Where h is all that is cut."""
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
    yield "Dropout3d eval", lambda: nn.Dropout3d().eval()
    yield from padding(3)
    yield "adaptive 3d", lambda: nn.AdaptiveAvgPool3d((1, 2, 3))
    yield "adaptive max 3d", lambda: nn.AdaptiveMaxPool3d(2)


# What draws random numbers in training, and the class that would have to be trusted, if there is one.
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
def _sizes():
    """What a program computes of x.shape, and decides by it, is the whole's."""
    yield "rows taken", lambda: Call(lambda x: x[:, :, 1:, 1:])
    yield "every second row", lambda: Call(lambda x: x[:, :, ::2, 1::2])
    yield "all but its last rows", lambda: Call(lambda x: x[:, :, :x.shape[2] - 1, :-1])
    yield "narrow", lambda: Call(lambda x: x.narrow(2, 1, x.size(2) - 2))
    yield "a mean by sizes", lambda: Call(lambda x: x.sum((2, 3)) / (x.shape[2] * x.shape[3]))
    yield "a mean by numel", lambda: Call(lambda x: x.sum() / x.numel())
    yield "a branch by rows", lambda: Call(lambda x: x * 3 if x.shape[2] % 16 == 0 and x.shape[3] > 8 else x)
    yield "patches", lambda: Call(lambda x: x.view(2, 4, x.shape[2] // 2, 2, x.shape[3] // 2, 2).permute(
        0, 1, 3, 5, 2, 4).flatten(1, 3))
    yield "patches and back", lambda: Call(lambda x: (x.unflatten(3, (x.shape[3] // 2, 2)).unflatten(
        2, (-1, 2)) * 2).view(*x.shape))
    yield "patches of a padded picture", lambda: Call(lambda x: _in_patches(
        F.pad(x, (0, -x.shape[3] % 12, 0, -x.shape[2] % 12)), 2)[:, :, :x.shape[2], :x.shape[3]])
    yield "pooled by its own size", lambda: Call(lambda x: F.avg_pool2d(x, x.size()[2:]) + F.max_pool2d(x, x.shape[2:]))
    yield "pooled by its own size, equal ones", lambda: Call(lambda x: F.max_pool2d(F.relu(x - 2), x.shape[2:]))
    yield "expanded to its rows", lambda: Call(lambda x: F.adaptive_avg_pool2d(x, 1).expand(-1, -1, *x.shape[2:]).sum((2, 3)))
    yield "expanded as it", lambda: Call(lambda x: x * F.adaptive_avg_pool2d(x, 1).expand_as(x))
    yield "a small picture to its rows", lambda: Call(lambda x: F.interpolate(F.adaptive_avg_pool2d(x, 3), x.shape[2:]).sum(1))
    yield "a small picture to a fixed size", lambda: Call(lambda x: F.interpolate(F.adaptive_avg_pool2d(x, 3), (4, 6)).sum())
    yield "enlarged by its rows", lambda: Call(lambda x: F.interpolate(x, [2 * n for n in x.shape[2:]], mode="bilinear"))
    yield "layer norm of its own shape", lambda: Call(lambda x: F.layer_norm(x, x.shape[1:]))
    yield "enlarged to a size", lambda: nn.Upsample(size=(24, 40), mode="bilinear")


def _in_patches(x, size):
    """x, through a view of patches."""
    n, c, h, w = x.shape
    return x.view(n, c, h // size, size, w // size, size).square().reshape(n, c, h, w)


REFUSED = {
    **{name: lambda function=function: Call(function) for name, (_, function) in DRAWN.items()},
    "too much padding": lambda: nn.Conv2d(4, 4, 3, 1, 2),
    "softmax over rows": lambda: nn.Sequential(nn.Softmax(2), nn.Softmax(3)),
    "around twice": lambda: nn.CircularPad2d(20),
    "flip": lambda: Call(lambda x: x.flip(2).flip(3)),
    "the first rows, by a bare number": lambda: Call(lambda x: x[:, :, :3, :3]),
    "rows of its own as a batch": lambda: Call(lambda x: (
        x.view(x.shape[2], 2, 4, -1), x.transpose(2, 3).reshape(x.shape[3], 2, 4, -1))[1]),
    "enlarged to a bare number": lambda: Call(lambda x: F.interpolate(x, size=(32, 32))),
    "a grid of rows": lambda: Call(lambda x: x.view(2, 4, 2, x.shape[2] // 2, 2, x.shape[3] // 2)),
    "not as many rows": lambda: Call(lambda x: F.interpolate(x, size=[n + 1 for n in x.shape[2:]])),
    "a type by a plain tensor": lambda: Call(lambda x: torch.add(x, x, out=torch.empty(0))),
    "data of another shape": lambda: Call(lambda x: setattr(x, "data", spatial.to_local(x)[:, :1])),
    "a whole picture": lambda: Call(lambda x: x + torch.ones(x.shape)),
    "by a part of a row": lambda: nn.Upsample(scale_factor=1.3),
    "antialias": lambda: Call(lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)),
    "by areas": lambda: Call(lambda x: F.interpolate(x, scale_factor=0.5, mode="area")),
    "weights of classes": lambda: Call(lambda x: F.cross_entropy(x, spatial.shard(torch.zeros(2, 16, 16).long()),
                                                                 torch.ones(4))),
    "weights of positives": lambda: Call(lambda x: F.binary_cross_entropy_with_logits(x, x, pos_weight=torch.ones(4, 16, 16))),
    "size_average": lambda: Call(lambda x: F.mse_loss(x, x, size_average=False)),
    "reduce": lambda: Call(lambda x: F.cross_entropy(x, spatial.shard(torch.zeros(2, 16, 16).long()), reduce=False)),
    "a whole target": lambda: Call(lambda x: F.mse_loss(x, torch.zeros(2, 4, 16, 16))),
    "matmul": lambda: Call(lambda x: x @ x.transpose(-1, -2)),
    "attention with a mask": lambda: Call(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)),
}
