#!/usr/bin/env python3
"""Times training steps of ResNet-18 on the CPU by turns: on the ranks of a grid with one thread each, and in one process with
as many threads.

    torch_step_bench.py [--grid h2] [--size 512] [--rounds 10] [--network resnet18] [--profile FOLDER] [--assert]

It needs a Python that has torch and torchvision, UCUDNN_LIBRARY, and a processor for each rank. Prints the minimum and
the median of both times, and of the time that exchanges take on the rank that waits least. Also prints how many
exchanges of each kind a step has. With --assert the exit code is 1 if the minimum of the ranks is more than 1.5 times
that of the one process."""
import argparse
import collections
import contextlib
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALLOWED = 1.5  # the largest ratio of the minimum time on the ranks to the minimum time of one process
IMAGES = 2


def counted(ranks):
    """Counts the exchanges of `ranks` from now on. Returns a counter by kind, and a list whose only element is the seconds
    that these exchanges took."""
    counts, waited = collections.Counter(), [0.0]
    for kind in ("all_reduce", "all_gather", "swap", "begin_sum"):
        if not hasattr(ranks, kind):
            continue

        def run(*args, _call=getattr(ranks, kind), _kind=kind):
            counts[_kind] += 1
            begin = time.perf_counter()
            try:
                return _call(*args)
            finally:
                waited[0] += time.perf_counter() - begin
        setattr(ranks, kind, run)
    return counts, waited


def worker(options):
    """Runs one process of a Job: takes a step for each line of stdin, and prints its time as JSON."""
    import torch
    import torchvision
    import torch.distributed as dist
    from torch.nn import functional
    sys.path.insert(0, str(ROOT / "python"))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # messages that gloo prints on stdout go to stderr
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model, images = getattr(torchvision.models, options.network)(), torch.randn(IMAGES, 3, options.size, options.size)
    labels, counts, waited = torch.zeros(IMAGES, dtype=torch.int64), {}, [0.0]
    if "RANK" in os.environ:
        dist.init_process_group("gloo", init_method=os.environ["RENDEZVOUS"], rank=int(os.environ["RANK"]),
                                world_size=int(os.environ["WORLD_SIZE"]))
        from ucudnn import spatial
        model, images = spatial.convert(model), spatial.shard(images, multiple=32)
        counts, waited = counted(spatial.ranks())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 0
    print("{}", file=answers, flush=True)
    for _ in sys.stdin:
        counts.clear()
        waited[0] = 0.0
        profile = torch.profiler.profile() if options.profile and steps == 2 else None
        if profile:
            profile.__enter__()
        begin = time.perf_counter()
        optimiser.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimiser.step()
        seconds = time.perf_counter() - begin
        if profile:
            profile.__exit__(None, None, None)
            name = f"{options.profile}/{os.environ.get('RANK', 'one')}"
            pathlib.Path(name).write_text(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=40))
        steps += 1
        print(json.dumps({"ms": seconds * 1e3, "waited": waited[0] * 1e3, "counts": counts}), file=answers, flush=True)


class Job:
    """A group of processes that take training steps together."""

    def __init__(self, arguments, ranks, threads, variables):
        self.processes = []
        for rank in range(ranks):
            named = {"RANK": str(rank), "WORLD_SIZE": str(ranks), **variables} if variables else {}
            self.processes.append(subprocess.Popen(
                [sys.executable, __file__, *arguments, "--threads", str(threads)], text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": str(threads)} | named))

    def answers(self):
        return [json.loads(process.stdout.readline()) for process in self.processes]

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def step(self):
        for process in self.processes:
            process.stdin.write("\n")
            process.stdin.flush()
        return self.answers()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", default="h2", help="how many parts images are cut into (h2)")
    parser.add_argument("--size", type=int, default=512, help="height and width of the images (512)")
    parser.add_argument("--rounds", type=int, default=10, help="steps of each, by turns (10)")
    parser.add_argument("--network", default="resnet18", help="of torchvision (resnet18)")
    parser.add_argument("--profile", help="a folder for torch's profile of the third step of each process")
    parser.add_argument("--assert", action="store_true", dest="asserts", help="fail where the ratio is above what is allowed")
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.threads:
        return worker(options)
    if missing := [name for name in ("torch", "torchvision") if not importlib.util.find_spec(name)]:
        print(f"torch_step_bench: this Python has no {missing[0]}", file=sys.stderr)
        return 77
    sys.path.insert(0, str(ROOT / "python"))
    from ucudnn.spatial.grid import Grid
    ranks = Grid(options.grid).ranks
    found, counts = collections.defaultdict(list), {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as jobs:
        split = Job(sys.argv[1:], ranks, 1, {"UCUDNN_SPATIAL": options.grid, "RENDEZVOUS": f"file://{folder}/met"})
        jobs.callback(split.end)
        alone = Job(sys.argv[1:], 1, ranks, {})
        jobs.callback(alone.end)
        for job in (split, alone):
            job.answers()  # waits until all processes are ready
        for step in range(options.rounds + 2):  # the first two steps do not count, since they choose algorithms
            for name, job in (("split", split), ("alone", alone)):
                answers = job.step()
                if step > 1:
                    found[name].append(max(answer["ms"] for answer in answers))
                    found[f"{name} waited"].append(min(answer["waited"] for answer in answers))
                counts = answers[0]["counts"] or counts
    times = {name: (min(found[name]), statistics.median(found[name])) for name in ("alone", "split")}
    print(f"{options.network}, {IMAGES} images of {options.size}x{options.size}, CPU times of {options.rounds} rounds")
    print(f"one process of {ranks} threads: {times['alone'][0]:.1f} ms, median {times['alone'][1]:.1f}")
    waits = found["split waited"]
    print(f"{options.grid}, one thread a rank: {times['split'][0]:.1f} ms, median {times['split'][1]:.1f}; the rank that waits "
          f"least waits {min(waits):.1f} ms, median {statistics.median(waits):.1f}")
    print("a step exchanges " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    ratio = times["split"][0] / times["alone"][0]
    print(f"ratio of the minima {ratio:.3f} (allowed on two ranks: {ALLOWED})")
    return int(options.asserts and ratio > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
