"""Runs layers on stripes with unequal numbers of rows, as few as one row. Each layer must be exact, or refused on every
rank. uneven_test.py runs this file."""
import sys
import traceback

import torch
from torch import nn
from torch.nn import functional as F

import gloo
from comparison import striped_like_whole
from layer_cases import Attention, Call
from ucudnn import spatial


def picture(rows):
    return torch.randn(2, 4, rows, 8, generator=torch.Generator().manual_seed(7))


def exact(rows):
    for k in (2, 3, 4, 5, 6):
        yield f"same {k}", lambda k=k: nn.Conv2d(4, 4, k, padding="same")
    yield "same 4, dilated", lambda: nn.Conv2d(4, 4, (4, 2), padding="same", dilation=(1, 3))
    yield "same 4, groups", lambda: nn.Conv2d(4, 4, 4, padding="same", groups=4)
    yield "pad, even window", lambda: nn.Sequential(nn.ZeroPad2d((0, 3, 0, 3)), nn.Conv2d(4, 4, 4))
    for pad in (1, 2, (1, 0, min(3, rows - 1), 0), (0, 2, 0, min(3, rows - 1))):
        yield f"reflection {pad}", lambda pad=pad: nn.Sequential(nn.ReflectionPad2d(pad), nn.Tanh())
    yield "reflection, conv", lambda: nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(4, 4, 5))
    yield "reflecting conv", lambda: nn.Conv2d(4, 4, 5, 1, 2, padding_mode="reflect")
    yield "circular conv", lambda: nn.Conv2d(4, 4, 5, 1, 2, padding_mode="circular")
    yield "circular all the way", lambda: nn.Sequential(nn.CircularPad2d((0, 0, rows, rows)), nn.Tanh())
    yield "positions", lambda: Call(lambda x: x.flatten(2).transpose(1, 2).tanh().transpose(1, 2).view(x.shape))
    yield "attention", Attention
    yield "groups", lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.PixelShuffle(2))
    yield "twice", lambda: nn.Upsample(scale_factor=2, mode="bilinear")
    yield "max pool", lambda: nn.MaxPool2d(3, 1, 1)
    yield "average pool", lambda: nn.AvgPool2d(3, 1, 1, count_include_pad=False)
    yield "adaptive", lambda: nn.AdaptiveMaxPool2d(2)
    yield "one row beside another one", lambda: Call(lambda x: x.view(*x.shape[:3], 1, x.shape[3]))


def refused(least):
    """Yields layers that are impossible with the rows of one rank, although other ranks have enough rows for them.
    `least` is the smallest number of rows."""
    yield "half of the rows", lambda: Call(lambda x: F.interpolate(x, scale_factor=0.5))
    yield "unshuffled", lambda: nn.PixelUnshuffle(2)
    yield "reflection of all rows", lambda: nn.ReflectionPad2d((0, 0, 7, 0))
    if least == 1:
        yield "half of the rows by size", lambda: Call(lambda x: F.interpolate(x, size=(x.shape[-2] // 2, 4)))
        yield "pooled", lambda: nn.MaxPool2d(2)


def failures(rows):
    for name, make in exact(rows):
        torch.manual_seed(3)
        try:
            striped_like_whole(make(), picture(rows), trust=["Call", "Attention"])
        except Exception:
            yield name, traceback.format_exc()
    for name, make in refused(rows // spatial.ranks().grid.parts[1]):
        try:
            spatial.convert(make(), trust=["Call"])(spatial.shard(picture(rows), 2))
            yield name, "was not refused"
        except spatial.NotSupported:
            pass
        except Exception:
            yield name, traceback.format_exc()


if __name__ == "__main__":
    gloo.join()
    found = list(failures(int(sys.argv[1])))
    for name, why in found:
        print(f"=== {name}\n{why}")
    sys.exit(1 if found else 0)
