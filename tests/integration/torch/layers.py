"""Every layer alone, on this rank of UCUDNN_SPATIAL; prints what failed. Run by layers_test.py."""
import sys
import traceback

import torch
from torch import nn
from torch.nn import functional as F

import gloo
from comparison import check_close, striped_like_whole
from ucudnn import spatial


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


def cases():
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
    yield "batch norm", lambda: nn.BatchNorm2d(4)
    yield "batch norm eval", lambda: nn.BatchNorm2d(4).eval()
    yield "instance norm", lambda: nn.InstanceNorm2d(4, affine=True)
    for groups in (1, 2, 4):
        yield f"group norm {groups}", lambda groups=groups: nn.GroupNorm(groups, 4)
    yield "layer norm over positions", layer_norm_over_positions
    yield "layer norm of channels", lambda: nn.Sequential(Call(lambda x: x.permute(0, 2, 3, 1)), nn.LayerNorm(4),
                                                          Call(lambda x: x.permute(0, 3, 1, 2)))
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
    yield "pixel unshuffle", lambda: nn.PixelUnshuffle(2)
    yield "attention", Attention
    yield "squeeze and excitation", Excitation
    yield "tied", Tied
    yield "scale by position", lambda: Call(lambda x, w: x * w, w=picture(1, 4, 1, 1))
    yield "concatenated", lambda: Call(lambda x: torch.cat([x, F.relu(x)], 1).chunk(2, 1)[1])
    yield "mean", lambda: Call(lambda x: (x * x).mean())
    yield "mean of rows", lambda: Call(lambda x: x.mean(3, keepdim=True) * x + x.sum(2, keepdim=True))
    yield "amax", lambda: Call(lambda x: F.relu(x).amax((2, 3)))
    yield "loss", lambda: Call(lambda x: F.mse_loss(x, torch.zeros_like(x)) + x.sigmoid().sum())
    yield "prelu", lambda: nn.PReLU(4)
    yield "inplace", lambda: nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 1), nn.SiLU(inplace=True))
    yield "softmax over channels", lambda: nn.Softmax(1)


def volumes():
    yield "conv 3d", lambda: nn.Conv3d(2, 3, 3, 1, 1)
    yield "transposed 3d", lambda: nn.ConvTranspose3d(2, 3, 2, 2)
    yield "max pool 3d", lambda: nn.MaxPool3d(3, 2, 1)
    yield "avg pool 3d", lambda: nn.AvgPool3d(3, 2, 1, count_include_pad=False)
    yield "batch norm 3d", lambda: nn.BatchNorm3d(2)
    yield "trilinear", lambda: nn.Upsample(scale_factor=2, mode="trilinear")
    yield "adaptive 3d", lambda: nn.AdaptiveAvgPool3d((1, 2, 3))
    yield "adaptive max 3d", lambda: nn.AdaptiveMaxPool3d(2)


REFUSED = {
    "too much padding": lambda: nn.Conv2d(4, 4, 3, 1, 2),
    "softmax over rows": lambda: nn.Sequential(nn.Softmax(2), nn.Softmax(3)),
    "around twice": lambda: nn.CircularPad2d(20),
    "flip": lambda: Call(lambda x: x.flip(2).flip(3)),
    "rows taken": lambda: Call(lambda x: x[:, :, 1:, 1:]),
    "a whole picture": lambda: Call(lambda x: x + torch.ones(x.shape)),
    "by a part of a row": lambda: nn.Upsample(scale_factor=1.3),
    "antialias": lambda: Call(lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)),
    "matmul": lambda: Call(lambda x: x @ x.transpose(-1, -2)),
    "attention with a mask": lambda: Call(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)),
}


def failures(wanted):
    grid = spatial.ranks().grid
    chosen = [(name, make, picture()) for name, make in cases()] if grid.parts[0] == 1 else []
    chosen += [(name, make, picture(2, 2, 8, 8, 8)) for name, make in volumes()]
    for name, make, x in chosen:
        if wanted and name not in wanted:
            continue
        torch.manual_seed(3)
        try:
            striped_like_whole(make(), x, trust=["Call", "Attention", "Excitation", "Tied"])
        except Exception:
            yield name, traceback.format_exc()
    for name, make in REFUSED.items() if grid.parts[0] == 1 and not wanted else ():
        try:
            spatial.convert(make(), trust=["Call"])(spatial.shard(picture()))
            yield name, "was not refused"
        except spatial.NotSupported:
            pass


class Told:
    """A geometry that notes who is told to sum, and refuses where there is a reason."""

    def __init__(self, geometry, why=None):
        self.geometry, self.why, self.times = geometry, why, 0

    def __getattr__(self, name):
        return getattr(self.geometry, name)

    def sum_nothing(self):
        self.times += 1
        if self.why:
            raise spatial.NotSupported(self.why)


def moved_later():
    """A model that is moved to a GPU after it was converted: the first call under which ucudnn exchanges is preceded by
    who sums. Here that call is of the CPU, so its values are not looked at."""
    from ucudnn.spatial import convolution
    ranks, route = spatial.ranks(), convolution.route
    before, ranks._geometry = ranks._geometry, Told(ranks._geometry)
    try:
        model = spatial.convert(nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.Conv2d(4, 4, 3, 1, 1)))
        model(spatial.shard(picture()))
        assert ranks._geometry.times == 0, "nothing is exchanged under a call"
        convolution.route = lambda *_: convolution.UCUDNN
        model(spatial.shard(picture()))
        assert ranks._geometry.times == 1, "it is said once, before the first one"
    finally:
        ranks._geometry, convolution.route = before, route


class OnGpu(nn.Parameter):
    """One that says that it is on a GPU."""
    is_cuda = True


def refused_where_gradients_were_summed():
    """Who sums cannot be told any more: convert raises, and changes nothing; so does the first call under which ucudnn would
    exchange, of a model that was moved later."""
    from ucudnn.spatial import convolution
    ranks, route = spatial.ranks(), convolution.route
    before = ranks._geometry, ranks._sums_alone
    ranks._geometry, ranks._sums_alone = Told(before[0], "a gradient of a split convolution has run before"), False
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


def in_fp32():
    """What oneDNN computes, of which torch does not name everything."""
    for make in (lambda: nn.ConvTranspose2d(4, 3, 4, 2, 1), lambda: nn.Conv2d(4, 3, 3, 1, 1)):
        torch.manual_seed(3)
        model, x = make().float(), picture().float()
        whole = model(x)
        check_close("in fp32", spatial.gather(spatial.convert(model)(spatial.shard(x))), whole, 1e-5)


def on_another_device():
    """What torch.distributed does not take where it lies goes by way of the host's memory; here as if nothing were taken."""
    ranks = spatial.ranks()
    ranks._travels = lambda tensor: False
    try:
        for name in ("conv 3 1 1 1", "adaptive max 2", "batch norm", "group norm 2", "amax"):
            torch.manual_seed(3)
            striped_like_whole(dict(cases())[name](), picture(), trust=["Call"])
    finally:
        del ranks._travels


if __name__ == "__main__":
    gloo.join()
    found = list(failures(sys.argv[1:]))
    if not sys.argv[1:] and spatial.ranks().grid.parts[0] == 1:
        moved_later()
        refused_where_gradients_were_summed()
        in_fp32()
        on_another_device()
    for name, why in found:
        print(f"=== {name}\n{why}")
    sys.exit(1 if found else 0)
