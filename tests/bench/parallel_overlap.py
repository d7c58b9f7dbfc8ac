#!/usr/bin/env python3
"""Measures how much of the time for summing gradients is hidden behind the backward pass of a step. The executor of
ucudnn.parallel runs on gloo, with layers and links that sleep. `ucudnn plan --simulate` predicts the times of such a
step, with layers as slow as they were measured without sums.

    parallel_overlap.py build/release/bin/ucudnn [--ranks 2] [--layer-ms 60] [--rounds 5] [--assert]

Every rank has all layers. A layer's forward pass takes a third of --layer-ms and its backward pass the rest. The first
layer's backward pass takes only a third, since the input needs no gradient. A link takes half as long for a layer's sum
as the layer's backward pass takes. In the plan, layers have 25 MiB of parameters, with one sum for each layer. In the
run, they have about a thousandth of that, and the links are a thousand times slower. The program fails if the links
sleep less than planned in a step with sums, however long the step takes. It needs a Python that has torch, and a
processor for each rank. The other work of the ranks adds to the times."""
import argparse
import importlib.util
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS = 8
WIDE, NARROW = 864, 27  # the channels in the plan and in the run; 9 * 864 * 864 numbers are 25.6 MiB
# These limits hold with --assert. EXPOSED: the largest fraction of the links' time that the backward pass may leave
# unhidden. SLOWER: the smallest ratio of the time of a step without overlap to the time of a step with overlap. APART:
# the largest relative error of a simulated time.
EXPOSED, SLOWER, APART = 0.15, 1.10, 0.05
MODES = ("no sums", "overlap", "overlap=False")


def network(channels):
    """Returns the text of a ucudnn-net file: a row of convolutions and a small classifier."""
    nodes = [{"name": "data", "op": "input", "channels": channels, "extents": [2, 2]}]
    for layer in range(LAYERS):
        nodes.append({"name": f"conv{layer}", "op": "convolution", "inputs": [nodes[-1]["name"]], "filters": channels,
                      "window": [3, 3], "pad": [1, 1], "bias": False})
    nodes += [{"name": "pool", "op": "global_pooling", "inputs": [nodes[-1]["name"]], "kind": "average"},
              {"name": "fc", "op": "fully_connected", "inputs": ["pool"], "outputs": 2, "bias": False}]
    return json.dumps({"format": "ucudnn-net", "version": 1, "name": f"chain{channels}", "nodes": nodes})


def link_ms(options):
    """Returns the ms of one layer's sum, which is half of the time of its backward pass."""
    return options.layer_ms * 2 / 3 / 2


def sent_bytes(channels, ranks):
    """Returns the number of bytes that each rank sends for one layer's sum: parts of its gradient to the ranks that sum them,
    and its own part of the sum to all others."""
    return 4 * 9 * channels * channels * 2 * (ranks - 1) / ranks


def plan(options, folder, channels, layer_ms):
    """Writes net.json and plan.json to `folder`. Returns the simulated ms of a step with overlap and without."""
    rate = sent_bytes(WIDE, options.ranks) / link_ms(options) / 1e6
    device = {"name": "sleeper", "memory_bytes": 1 << 34, "tflops": 1, "memory_gb_per_s": 100}
    (folder / "net.json").write_text(network(channels))
    (folder / "machine.json").write_text(json.dumps({
        "format": "ucudnn-machine", "version": 1, "name": "links", "device": device,
        "levels": [{"name": "link", "count": options.ranks, "gb_per_s": rate, "latency_us": 0}]}))
    # The first layer computes no gradient of its input, so it takes two thirds of --layer-ms. Half of that is its forward
    # pass.
    rows = [f"conv{layer},{options.ranks},{layer_ms * (2 / 3 if layer == 0 else 1)}" for layer in range(LAYERS)]
    rows += [f"{name},{options.ranks},0" for name in ("pool", "fc")]
    (folder / "costs.csv").write_text("\n".join(["layer,n,time_ms", *rows]) + "\n")
    words = [options.ucudnn, "plan", folder / "net.json", "--machine", folder / "machine.json", "--batch",
             str(4 * options.ranks), "--strategy", "image", "--cost", folder / "costs.csv"]
    told = subprocess.run([*words, "--simulate"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    subprocess.run([*words, "--schedule", "-o", folder / "plan.json"], check=True)
    return [float(number) for number in re.findall(r"([0-9.]+) ms", told)][:2]


def split_sums(path):
    """Rewrites the plan so that each layer has its own sum, as in the network with WIDE channels."""
    schedule = json.loads(path.read_text())
    (bundle, ), elements = schedule["sums"], {}
    for node in schedule["nodes"]:
        for parameter in node.get("parameters", []):
            shape = parameter["shape"]
            elements[node["name"], parameter["name"]] = shape[0] * shape[1] * (9 if len(shape) > 2 else 1)
    schedule["sums"] = [{"id": at, "parameters": [name], "devices": bundle["devices"], "elements": elements[tuple(name)]}
                        for at, name in enumerate(bundle["parameters"])]
    path.write_text(json.dumps(schedule))


class Link:
    """The port of a rank, which transfers one message at a time. `awaited_ms`: the sum of the times of awaited messages."""

    def __init__(self, bytes_per_s):
        self.rate, self.free, self.awaited_ms, self.lock = bytes_per_s, 0.0, 0.0, threading.Lock()

    def post(self, sent, received):
        """Returns (when the transfer ends, its seconds)."""
        with self.lock:
            seconds = max(sent, received) / self.rate
            self.free = max(time.monotonic(), self.free) + seconds
            return self.free, seconds

    def wait(self, ready, seconds):
        time.sleep(max(ready - time.monotonic(), 0))
        with self.lock:
            self.awaited_ms += 1e3 * seconds


def sleepy(options):
    """Replaces functions of ucudnn.parallel in this process, so that layers and links sleep. Returns the rank's Link."""
    import torch
    from ucudnn.parallel import run, transport

    class Slept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, ms):
            ctx.ms = ms
            return y.view_as(y)

        @staticmethod
        def backward(ctx, dy):
            time.sleep(ctx.ms / 1e3)
            return dy, None

    def compute(call, _compute=run.compute):
        y = _compute(call)
        if call.node.op != "convolution":
            return y
        third = options.layer_ms / 3
        time.sleep(third / 1e3)
        return Slept.apply(y, third if call.node.name == "conv0" else 2 * third)
    run.compute = compute
    link = Link(sent_bytes(NARROW, options.ranks) / link_ms(options) * 1e3)

    def post(self, what, kind, sends, receives, device, _post=transport.Transport.post):
        flight = _post(self, what, kind, sends, receives, device)
        if kind == "update":
            flight.transfer = link.post(4 * sum(tensor.numel() for tensor in sends.values()), 4 * flight.received)
        return flight

    def arrived(self, _arrived=transport.Flight.arrived):
        found = _arrived(self)
        if hasattr(self, "transfer"):
            link.wait(*self.transfer)
        return found
    transport.Transport.post, transport.Flight.arrived = post, arrived
    return link


def worker(options):
    """Runs the process of one rank. Rank 0 prints the times of the steps by mode as JSON."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    from ucudnn import parallel
    dist.init_process_group("gloo", init_method=f"file://{options.folder}/rendezvous", rank=int(os.environ["RANK"]),
                            world_size=options.ranks)
    link = sleepy(options)
    found, images = {mode: [] for mode in MODES}, torch.randn(4, NARROW, 2, 2)
    labels = torch.zeros(4, dtype=torch.int64)
    models = {mode: parallel.apply(parallel.module(f"{options.folder}/net.json"), f"{options.folder}/plan.json",
                                   loss=torch.nn.functional.cross_entropy, overlap=mode == "overlap") for mode in MODES[1:]}
    models["no sums"] = models["overlap"]
    for at in range(options.rounds + 1):
        for mode in MODES:
            model = models[mode]
            model.zero_grad()
            dist.barrier()
            link.awaited_ms = 0.0
            began = time.monotonic()
            if mode == "no sums":
                with model.no_sync():
                    model(images, labels).backward()
            else:
                model(images, labels).backward()
            planned = 0 if mode == "no sums" else LAYERS * link_ms(options)
            if link.awaited_ms < planned * (1 - 1e-9):
                sys.exit(f"parallel_overlap.py: {mode}: sums waited {link.awaited_ms:.1f} ms for sleeping links; expected at least "
                         f"{planned:.1f} ms")
            if at:  # the first step only warms up
                found[mode].append(1e3 * (time.monotonic() - began))
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ucudnn", type=os.path.abspath)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--layer-ms", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--assert", action="store_true", dest="asserts", help="fail where a figure is not what is allowed")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        return worker(options)
    if not importlib.util.find_spec("torch"):
        print("parallel_overlap.py: this Python has no torch", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory(prefix="ucudnn-overlap-") as name:
        folder = pathlib.Path(name)
        plan(options, folder, NARROW, options.layer_ms)
        split_sums(folder / "plan.json")
        ranks = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--folder", name], text=True,
                                  stdout=None if rank else subprocess.PIPE,
                                  env=os.environ | {"RANK": str(rank), "OMP_NUM_THREADS": "1",
                                                    "PYTHONPATH": str(ROOT / "python")}) for rank in range(options.ranks)]
        told = ranks[0].communicate()[0]
        if any([rank.wait() for rank in ranks]):
            sys.exit("parallel_overlap.py: a rank failed")
        found = json.loads(told.splitlines()[-1])
        measured = min(found["no sums"]) / (LAYERS - 1 / 3)  # the first layer takes two thirds as long as the others
        return show(options, found, dict(zip(MODES[1:], plan(options, folder, WIDE, measured))))


def show(options, found, simulated):
    middle = {mode: statistics.median(times) for mode, times in found.items()}
    least = {mode: min(times) for mode, times in found.items()}
    for mode in MODES:
        beside = f"   simulated {simulated[mode]:7.1f} ms" if mode in simulated else ""
        print(f"{mode:<14} least {least[mode]:7.1f} ms   median {middle[mode]:7.1f} ms{beside}")
    links, last = LAYERS * link_ms(options), link_ms(options)
    exposed = (least["overlap"] - least["no sums"] - last) / links
    slower = least["overlap=False"] / least["overlap"]
    apart = {mode: least[mode] / simulated[mode] - 1 for mode in simulated}
    print(f"links {links:.1f} ms; exposed beyond the last sum {100 * exposed:.1f} % of them; overlap=False is {slower:.2f} "
          "times as long; of the simulated times " + ", ".join(f"{mode} {100 * one:+.1f} %" for mode, one in apart.items()))
    if options.asserts and (exposed > EXPOSED or slower < SLOWER or max(map(abs, apart.values())) > APART):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
