"""Trains by a plan; one rank ends or sleeps too long between two steps. The others must end with an error that names
it. parallel_lost_test.py runs this file."""
import os
import signal
import sys
import time

import parallel_ranks
import torch.nn.functional as F
from parallel_habits import made, random_plan
from ucudnn import parallel

if __name__ == "__main__":
    parallel_ranks.join()
    model, x, y = made(0)
    divided = parallel.apply(model, random_plan(3), loss=F.cross_entropy, timeout_s=15)
    divided(x, y).backward()
    if os.environ["RANK"] == "1":
        if sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(45)
    began = time.monotonic()
    try:
        loss = divided(x, y)
        loss.backward()
    except parallel.RankLost as error:
        print(f"after {time.monotonic() - began:.1f} s: {error}", flush=True)
        os._exit(3)
    print("a result", flush=True)
