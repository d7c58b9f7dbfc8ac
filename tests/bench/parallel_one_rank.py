#!/usr/bin/env python3
"""Measures what the executor of ucudnn.parallel costs. It times training steps of ResNet-18 by turns on the only rank of a plan
and with the plain module.

    parallel_one_rank.py [--size 64] [--images 32] [--rounds 7] [--network resnet18] [--assert]

It needs a Python that has torch and torchvision. Times are processor times of one thread, so that a busy machine changes them
little."""
import argparse
import copy
import importlib.util
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALLOWED = 1.03  # the largest ratio of the time on one rank to the plain module's, in the median pair


def compare(options):
    """Returns for each round (ms of the plain module, ms on one rank)."""
    import schedules  # this module of the tests makes the plan, so that the bench needs no `ucudnn` command
    import torch
    import torchvision
    from torch.nn.functional import cross_entropy
    from ucudnn import parallel
    torch.set_num_threads(1)
    torch.manual_seed(0)
    plain = getattr(torchvision.models, options.network)()
    network = parallel.describe(plain, (3, options.size, options.size))
    one = {axis: 1 for axis in "nchwr"}
    with tempfile.TemporaryDirectory(prefix="ucudnn-one-rank-") as folder:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=0, world_size=1)
        path = pathlib.Path(folder, "plan.json")
        path.write_text(schedules.Writer(network, options.images, 1, lambda node: (one, 0)).text())
        divided = parallel.apply(copy.deepcopy(plain), path, loss=cross_entropy, network=network)
        images = torch.randn(options.images, 3, options.size, options.size)
        labels = torch.randint(0, 1000, (options.images, ))
        steps = (lambda: cross_entropy(plain(images), labels), lambda: divided(images, labels))
        models, pairs = (plain, divided), []
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]
        for at in range(options.rounds + 1):
            pair = [0.0, 0.0]
            for which in (0, 1) if at % 2 else (1, 0):
                began = time.process_time()
                optimizers[which].zero_grad()
                steps[which]().backward()
                optimizers[which].step()
                pair[which] = 1e3 * (time.process_time() - began)
            pairs.append(pair)
        torch.distributed.destroy_process_group()
    return pairs[1:]  # the first pair only warms up


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--assert", action="store_true", dest="asserts", help="fail where a figure is not what is allowed")
    options = parser.parse_args()
    for package in ("torch", "torchvision"):
        if not importlib.util.find_spec(package):
            print(f"parallel_one_rank.py: this Python has no {package}", file=sys.stderr)
            return 77
    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/integration/torch")]
    pairs = compare(options)
    ratio = statistics.median(divided / plain for plain, divided in pairs)
    for what, times in zip(("plain", "one rank"), zip(*pairs)):
        print(f"{what:<9} least {min(times):8.1f} ms   median {statistics.median(times):8.1f} ms")
    print(f"one rank of plain, median pair: {ratio:.3f} (allowed: {ALLOWED})")
    return int(options.asserts and ratio > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
