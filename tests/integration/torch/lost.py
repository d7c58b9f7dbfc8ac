"""Runs a model in which rank 1 kills itself; the other ranks must end with an error. lost_test.py runs this file."""
import os
import pathlib
import signal
import sys
import time

import torch
from torch import nn

import gloo
from ucudnn import spatial


class Lost(nn.Module):
    """A layer in which rank 1 kills itself."""

    def forward(self, x):
        if os.environ["RANK"] == "1":
            print("lost", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return x


def wait_for_all():
    """Waits until every process has started. Without this, a process could start later than the time-out of join()
    allows."""
    folder = pathlib.Path(os.environ["UCUDNN_TEST_RENDEZVOUS"].removeprefix("file://")).parent
    (folder / f"came {os.environ['RANK']}").touch()
    while len(list(folder.glob("came *"))) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.05)


if __name__ == "__main__":
    wait_for_all()
    gloo.join(seconds=10)
    torch.manual_seed(3)
    model = spatial.convert(nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), Lost(), *(nn.Conv2d(4, 4, 3, 1, 1) for _ in range(4)),
                                          nn.GroupNorm(2, 4)), trust=["Lost"])
    stripe = spatial.shard(torch.randn(1, 4, 16, 16))
    began = time.monotonic()
    try:
        whole = spatial.gather(model(stripe))
    except spatial.RankLost as error:
        print(f"{time.monotonic() - began:.1f} s: {error}", flush=True)
        sys.exit(3)
    print(f"a result: {whole.sum()}", flush=True)
