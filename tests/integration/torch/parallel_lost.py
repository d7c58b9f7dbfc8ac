"""Trains by a plan. Rank 1 ends, or sleeps too long, at one of three places: before its call of parallel.apply, while
rank 0 sends its weights to the other ranks, or between two steps. The other ranks must end with an error that names
rank 1. parallel_lost_test.py runs this file."""
import os
import signal
import sys
import time

import parallel_ranks
import torch.nn.functional as F
from parallel_habits import made, network_of, random_plan
from ucudnn import parallel
from ucudnn.parallel.agreement import Agreement


def fail(*_):
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(45)


if __name__ == "__main__":
    where = sys.argv[2]
    parallel_ranks.join()
    (model, x, y), plan, network = made(0), random_plan(3), network_of()

    def apply():
        return parallel.apply(model, plan, loss=F.cross_entropy, network=network, timeout_s=15)
    if where == "step":
        divided = apply()
        divided(x, y).backward()
    if os.environ["RANK"] == "1":
        if where == "weights":
            Agreement.give = fail
        else:
            fail()
    began = time.monotonic()
    try:
        if where != "step":
            divided = apply()
        loss = divided(x, y)
        loss.backward()
    except parallel.RankLost as error:
        print(f"after {time.monotonic() - began:.1f} s: {error}", flush=True)
        os._exit(3)
    print("a result", flush=True)
