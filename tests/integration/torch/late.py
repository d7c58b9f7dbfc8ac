"""`late.py PLACE SECONDS [sum]`: runs a model in which rank 1 sleeps for SECONDS, in forward or in backward (PLACE).
With `sum`, the model's other layers are norms, which sum over ranks; without it they are convolutions. If PLACE is
`apart`, rank 1 sums a tensor that the other rank pools. late_test.py runs this file."""
import os
import sys
import time

import torch
from torch import nn

import gloo
from ucudnn import spatial


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, place, seconds):
        ctx.arguments = place, seconds
        _sleep("forward", place, seconds)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        _sleep("backward", *ctx.arguments)
        return gradient, None, None


def _sleep(here, place, seconds):
    if here == place and os.environ["RANK"] == "1":
        time.sleep(seconds)


class Sleep(nn.Module):
    def forward(self, x):
        return _Sleep.apply(x, sys.argv[1], float(sys.argv[2]))


def apart(x):
    return x.sum() if os.environ["RANK"] == "1" else nn.functional.max_pool2d(x, 3, 1, 1)


def run(model, stripe):
    y = apart(stripe) if sys.argv[1] == "apart" else model(stripe)
    y.square().sum().backward()
    return spatial.gather(y)


if __name__ == "__main__":
    gloo.join(seconds=60)
    torch.manual_seed(0)
    between = nn.GroupNorm(2, 4) if sys.argv[3:] == ["sum"] else nn.Conv2d(4, 4, 3, 1, 1)
    model = spatial.convert(nn.Sequential(between, Sleep(), between), trust=["Sleep"])
    stripe = spatial.shard(torch.randn(1, 4, 16, 16))
    began = time.monotonic()
    try:
        whole = run(model, stripe)
    except spatial.RankLost as error:
        print(f"after {time.monotonic() - began:.1f} s: {error}", flush=True)
        sys.exit(3)
    print(f"a result: {whole.sum()}", flush=True)
