#!/usr/bin/env python3
"""Computes the tables of docs/experiments.md for figures of DeePa (Jia et al., 2018) and One weird trick (Krizhevsky, 2014).

    paper_figures.py build/release/bin/ucudnn [FIGURE...] [--document docs/experiments.md]

Prints the tables of the figures that are named, or of all figures. With a document, replaces the tables in it. Figures that are
*counted* come from the executor of ucudnn.parallel, which runs on meta tensors on every rank of the plan and needs torch.
Figures that are *modelled* come from the output of `ucudnn plan`. Nothing is timed."""

import argparse
import collections
import json
import math
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "python"))
MIB, GIB = 2**20, 2**30
K80 = {"name": "Tesla K80", "memory_bytes": 12 * GIB, "tflops": 4.37, "memory_gb_per_s": 240, "filling_threads": 22464,
       "concurrent_kernels": 32}
P100 = {"name": "Tesla P100-SXM2-16GB", "memory_bytes": 16 * GIB, "tflops": 10.6, "memory_gb_per_s": 732,
        "filling_threads": 21504}
K20 = {"name": "Tesla K20", "memory_bytes": 5 * GIB, "tflops": 2, "memory_gb_per_s": 208, "filling_threads": 22464,
       "concurrent_kernels": 32}
NETS = ("alexnet", "vgg16", "inception-v3")
PAPER = ("--cost", "deepa-paper")  # selects the costs of DeePa's Tables 2 and 3


def run(ucudnn, *words):
    """Returns what `ucudnn WORDS` prints without the user's variables UCUDNN_…, which could change the output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UCUDNN_")}
    return subprocess.run([ucudnn, *words], check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


class Planner:
    """Runs `ucudnn plan`, `ucudnn net` and count(), and keeps their results, since figures share plans."""

    def __init__(self, ucudnn, folder):
        self.ucudnn, self.folder, self.kept = os.path.abspath(ucudnn), folder, {}

    def run(self, *words):
        if words not in self.kept:
            self.kept[words] = run(self.ucudnn, *words)
        return self.kept[words]

    def machine(self, name, device, *levels):
        """Writes the file of a machine and returns its path. Each of `levels` is (name, count, GB/s, latency in us)."""
        path = os.path.join(self.folder, name + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": "ucudnn-machine", "version": 1, "name": name, "device": device,
                       "levels": [dict(zip(("name", "count", "gb_per_s", "latency_us"), level)) for level in levels]}, file)
        return path

    def layout(self, net, machine, batch, *words):
        return json.loads(self.run("plan", net, "--machine", machine, "--batch", str(batch), "--json", *words))

    def strategy(self, name, *asked):
        return next(one for one in self.layout(*asked)["strategies"] if one["name"] == name)

    def step_ms(self, net, machine, batch, *words):
        """Returns the ms of the simulated step with and without overlap, and the sum of DeePa's equation 1."""
        line = self.run("plan", net, "--machine", machine, "--batch", str(batch), "--simulate", *words).splitlines()[-1]
        return tuple(float(number) for number in re.findall(r"([0-9.e+]+) ms", line))

    def counted(self, net, machine, batch, *words):
        """Returns the Count of one step. Raises an error unless the numbers of every rank equal the plan's predictions."""
        text = self.run("plan", net, "--machine", machine, "--batch", str(batch), "--schedule", *words)
        key = "counted", text
        if key not in self.kept:
            self.kept[key] = count(self, net, text)
        return self.kept[key]


class Count:
    """Counts the elements that arrive at all ranks. `kinds`: the elements by kind. `consumers`: {layer: elements of its
    inputs and of their gradients}. `sums`: {number of a sum: its elements}. `posts` holds for each rank its exchanges
    in order, as (what, kind, elements sent, elements received)."""

    def __init__(self, schedule, ranks):
        self.kinds, self.consumers, self.sums = collections.Counter(), collections.Counter(), collections.Counter()
        self.schedule, self.posts = schedule, [[] for _ in range(ranks)]

    def add_up(self):
        for what, kind, _, received in (post for posts in self.posts for post in posts):
            self.kinds[kind] += received
            if kind == "transfer":
                self.consumers[what.rpartition(" for ")[2].rstrip(")")] += received
            elif kind == "update":
                self.sums[int(re.match(r"sum (\d+),", what).group(1))] += received

    def bytes(self, *kinds):
        return 4 * sum(self.kinds[kind] for kind in kinds or ("transfer", "update"))

    def update_of(self, layers):
        """Returns the number of elements that are received to sum the gradients of these layers' parameters. Each parameter
        gets a part of its sum's count that is in proportion to its elements, since every element moves equally often."""
        nodes, total = {node["name"]: node for node in self.schedule["nodes"]}, 0
        for one in self.schedule["sums"]:
            for layer, name in one["parameters"]:
                if layer in layers:
                    parameter = next(found for found in nodes[layer]["parameters"] if found["name"] == name)
                    ranges = next(part["ranges"] for part in parameter["parts"] if part["device"] == one["devices"][0])
                    own = math.prod(end - begin for begin, end in ranges) * math.prod(parameter["shape"][len(ranges):])
                    total += self.sums[one["id"]] * own // one["elements"]
        return total

    def port(self, layer):
        """Returns the largest number of elements that a rank sends or receives in one exchange for this layer's input or its
        gradient."""
        return max(max(sent, received) for posts in self.posts for what, kind, sent, received in posts
                   if kind == "transfer" and what.endswith(f" for {layer})"))

    def sent(self, kind):
        """Returns the numbers of elements that the ranks send in exchanges of this kind."""
        return [sum(sent for _, found, sent, _ in posts if found == kind) for posts in self.posts]


def count(planner, net, text):
    import torch
    from ucudnn import parallel
    from ucudnn.parallel import counting, schedule, transport

    class Noting(transport.MetaTransport):
        def post(self, what, kind, sends, receives, device):
            flight = super().post(what, kind, sends, receives, device)
            found.posts[self.rank].append((what, kind, sum(tensor.numel() for tensor in sends.values()), flight.received))
            return flight

    counting.MetaTransport = Noting
    paths = [os.path.join(planner.folder, name) for name in ("net.json", "plan.json")]
    for path, written in zip(paths, (planner.run("net", net), text)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(written)
    with torch.device("meta"):
        model = parallel.module(paths[0])
    plan = schedule.read(paths[1])
    found = Count(json.loads(text), plan.devices)
    for report in parallel.count(model, plan, range(plan.devices)):
        if report.difference():
            sys.exit(f"paper_figures.py: {net}: what is counted differs from the plan:\n{report}")
    found.add_up()
    return found


def table(*head):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def times(ratio):
    return f"{ratio:.2f}x" if ratio < 9.95 else f"{ratio:.1f}x"


def gib(count):
    return f"{count / GIB:.2f}"


def listed(values):
    return ", ".join(f"{value:.4g}" for value in values)


def degrees(text):
    """Returns the number of parts along each axis: {"n": 8, "c": 1, "h": 1, "w": 1} for the text "n8"."""
    return {axis: int(found.group(1)) if (found := re.search(axis + r"(\d+)", text)) else 1 for axis in "nchw"}


# These functions compute the figures of DeePa.


def deepa_table_1(planner):
    from ucudnn.parallel.reading import network_in
    told = (("C1", "vgg16", (128, 128, 112, "3x3"), "Conv4"), ("C2", "vgg16", (512, 512, 28, "3x3"), "Conv8, Conv9, Conv10"),
            ("C3", "inception-v3", (192, 64, 35, "1x1"), "in a module"),
            ("C4", "inception-v3", (48, 64, 35, "5x5"), "in a module"),
            ("C5", "alexnet", (64, 192, 27, "5x5"), "Conv2"), ("C6", "alexnet", (256, 256, 13, "3x3"), "Conv5"),
            ("C7", "inception-v3", (32, 64, 147, "3x3"), "Conv3"), ("C8", "inception-v3", (448, 384, 8, "3x3"), "in a module"))
    yield from table("layer", "network", "input channels, output channels, height and width, kernel", "the paper's description",
                     "convolutions of these extents here (which of the network's)")
    for name, net, extents, description in told:
        network, found, number = network_in(planner.run("net", net)), [], 0
        for node in network.nodes:
            if node.op == "convolution":
                number += 1
                window = "x".join(map(str, node.members["window"]))
                if extents == (network.by_name[node.inputs[0]].shape[0], node.shape[0], node.shape[-1], window):
                    found.append(f"{node.name} ({number})")
        yield row(name, net, ", ".join(map(str, extents)), description, ", ".join(found))


def deepa_table_2(planner):
    told = (("n16", "0, 1.28, 1075, 1076"), ("c16", "134.4, 1.28, 0, 135.7"), ("c4", "33.6, 5.1, 0, 38.7"),
            ("c2", "16.8, 10.2, 0, 27.0"), ("n1", "8.4, 20.4, 0, 28.8"))
    layers = planner.layout("alexnet", "k80x16", 512, *PAPER, "--strategy", "image")["layers"]
    fc6 = next(layer for layer in layers if layer["name"] == "fc6")
    yield from table("fc6", "transfer, compute, update, total ms: the paper's", "modelled",
                     "MiB of its input and gradient, counted", "MiB of its update, counted")
    for text, paper in told:
        one = next(what for what in fc6["what_if"] if all(what[axis] == value for axis, value in degrees(text).items()))
        parts = [one[f"{what}_ms"] for what in ("transfer", "compute", "update")]
        found = planner.counted("alexnet", "k80x16", 512, *PAPER, "--pin", "pool5=n16", "--pin", f"fc6={text}")
        yield row(text, paper, listed((*parts, sum(parts))), f"{found.consumers['fc6'] * 4 / MIB:.1f}",
                  f"{found.update_of(('fc6', )) * 4 / MIB:.1f}")


def deepa_table_3(planner):
    told = (("n16", "0, 15.9, 134.4, 150.3"), ("n8", "39.2, 31.8, 67.2, 138.2"), ("n4", "39.2, 63.7, 33.6, 136.5"),
            ("h2w2", "39.2, 54.7, 33.6, 127.5"), ("n2", "39.2, 127.4, 16.8, 183.4"))
    names = ("conv5_1", "conv5_2", "conv5_3")
    yield from table("conv5_1 to conv5_3", "transfer, compute, update, total ms: the paper's", "modelled",
                     "MiB of their inputs and gradients, counted", "MiB of their update, counted")
    for text, paper in told:
        pins = ["--pin", "pool4=n16", *(word for name in names for word in ("--pin", f"{name}={text}"))]
        parts = [0.0, 0.0, 0.0]
        for layer in planner.layout("vgg16", "k80x16", 512, *PAPER, *pins)["layers"]:
            if layer["name"] in names:
                one = next(what for what in layer["what_if"]
                           if all(what[axis] == layer["config"][axis] for axis in "nchw"))
                parts = [sum(pair) for pair in zip(parts, (one[f"{what}_ms"] for what in ("transfer", "compute", "update")))]
        found = planner.counted("vgg16", "k80x16", 512, *PAPER, *pins)
        yield row(text, paper, listed((*parts, sum(parts))), f"{sum(found.consumers[name] for name in names) * 4 / MIB:.1f}",
                  f"{found.update_of(names) * 4 / MIB:.1f}")


def deepa_figure_3(planner):
    machine = planner.machine("k80x2", K80, ("PCI Express", 2, 12, 10))
    yield from table("images", "by images: MiB of fc6's update, counted", "by channels: MiB of its input and gradient, counted",
                     "ratio", "the paper's")
    for batch in (256, 342, 512):
        image = planner.counted("vgg16", machine, batch, "--strategy", "image").update_of(("fc6", )) * 4 / MIB
        pins = ("--pin", "pool5=n2", "--pin", "fc6=c2")
        channel = planner.counted("vgg16", machine, batch, *pins).consumers["fc6"] * 4 / MIB
        yield row(batch, f"{image:.1f}", f"{channel:.1f}", times(image / channel), "12x")


def machines_of_figure_7(planner):
    return (("12 GB/s", "k80x16"), ("4.49 GB/s", planner.machine("k80x16-table-2", K80, ("PCI Express", 16, 4.49, 10))))


def deepa_figure_7(planner):
    told = {("alexnet", "owt"): "1.4x", ("vgg16", "owt"): "1.2x", ("inception-v3", "owt"): "1.07x",
            ("alexnet", "deepa"): "6.5x (of the best framework)", ("vgg16", "deepa"): "1.9x (of the best framework)",
            ("inception-v3", "deepa"): "1.5x (of the best framework)"}
    yield from table("network", "ports", "strategy", "images/s with overlap", "without (grey)", "what overlap gains",
                     "with overlap, of image", "of image by equation 1, Table 2's costs", "the paper's")
    for net in NETS:
        paper = {name: planner.strategy(name, net, "k80x16", 512, *PAPER)["total_ms"] for name in ("image", "owt", "deepa")}
        for ports, machine in machines_of_figure_7(planner):
            base = 0
            for strategy in ("image", "owt", "deepa"):
                beside, after, _ = planner.step_ms(net, machine, 512, "--strategy", strategy)
                base = base or beside
                yield row(net, ports, strategy, f"{512e3 / beside:.0f}", f"{512e3 / after:.0f}",
                          f"{100 * (after / beside - 1):.0f} %", times(base / beside), times(paper["image"] / paper[strategy]),
                          told.get((net, strategy), ""))


def deepa_figure_8(planner):
    yield from table("network", "image, OWT, DeePa: GiB counted", "image/OWT", "OWT/DeePa", "image/DeePa",
                     "as the paper counts: GiB", "image/OWT", "OWT/DeePa", "image/DeePa")
    for net in NETS:
        names = "image", "owt", "deepa"
        counted = [planner.counted(net, "k80x16", 512, *PAPER, "--strategy", name).bytes() for name in names]
        told = [planner.strategy(name, net, "k80x16", 512, *PAPER) for name in names]
        told = [one["transfer_bytes"] + one["update_bytes"] for one in told]
        cells = [net]
        for one in (counted, told):
            cells += [", ".join(map(gib, one)), times(one[0] / one[1]), times(one[1] / one[2]), times(one[0] / one[2])]
        yield row(*cells)


def deepa_figure_13(planner):
    yield from table("network", "images", "DeePa, image: images/s", "DeePa of image", "the paper's, of the best framework",
                     "GiB of a device, DeePa and image")
    told = {"alexnet": "4.6x to 6.5x", "vgg16": "1.6x to 1.9x", "inception-v3": "1.2x to 1.5x"}
    _, machine = machines_of_figure_7(planner)[1]
    for net in NETS:
        for batch in (256, 512, 1024, 2048):
            asked, names = (net, machine, batch), ("deepa", "image")
            both = [planner.step_ms(*asked, "--strategy", name)[0] for name in names]
            memory = [planner.strategy(name, *asked, "--update", "owner")["memory_bytes"] for name in names]
            yield row(net, batch, ", ".join(f"{batch * 1e3 / ms:.0f}" for ms in both), times(both[1] / both[0]), told[net],
                      ", ".join(map(gib, memory)))


def deepa_figure_14(planner):
    told = {("alexnet", 4): "3.1x", ("vgg16", 4): "1.6x", ("inception-v3", 4): "1.3x", ("alexnet", 16): "8.1x",
            ("vgg16", 16): "3.2x", ("inception-v3", 16): "1.8x"}
    yield from table("network", "GPUs", "DeePa, image: images/s", "of one GPU", "DeePa of image",
                     "the paper's, of the best framework")
    for net in NETS:
        for count in (4, 8, 16):
            machine = planner.machine(f"p100x{count}", P100, ("NVLink", 4, 80, 5),
                                      *[("InfiniBand EDR", count // 4, 12.5, 10)][:count > 4])
            both = [planner.step_ms(net, machine, 32 * count, "--strategy", name)[0] for name in ("deepa", "image")]
            alone = planner.strategy("image", net, machine, 32 * count)["compute_ms"]
            yield row(net, count, ", ".join(f"{32e3 * count / ms:.0f}" for ms in both),
                      ", ".join(times(count * alone / ms) for ms in both), times(both[1] / both[0]), told.get((net, count), ""))


def deepa_figure_15(planner):
    machine = planner.machine("p100x4", P100, ("NVLink", 4, 80, 5))
    told = {"image": ("4 GB", "340"), "fully connected layers on two GPUs": ("490 MB", "240")}
    yield from table("VGG-16 on 4 P100, 128 images", "GB counted", "GB as the paper counts", "the paper's",
                     "ms of a step, modelled", "of it computing", "the paper's ms")
    rows = {"image": ("--strategy", "image"),
            "fully connected layers on two GPUs": [
                word for layer in planner.layout("vgg16", machine, 128)["layers"]
                for word in ("--pin", f"{layer['name']}={'c2' if layer['name'].startswith('fc') else 'n4'}")],
            "DeePa's optimum here": ()}
    for name, words in rows.items():
        found = planner.counted("vgg16", machine, 128, *words)
        plan = planner.layout("vgg16", machine, 128, *words)
        one = next(one for one in plan["strategies"] if one["name"] == plan["strategy"])
        beside = planner.step_ms("vgg16", machine, 128, *words)[0]
        moved, took = told.get(name, ("", ""))
        yield row(name, f"{found.bytes() / 1e9:.2f}", f"{(one['transfer_bytes'] + one['update_bytes']) / 1e9:.2f}", moved,
                  f"{beside:.0f}", f"{100 * one['compute_ms'] / beside:.0f} %", took)


def deepa_figure_16(planner):
    yield from table("network", "strategy", "GiB counted: 1,000 and 21,841 classes", "more", "as the paper counts: GiB", "more",
                     "the paper's more", "images/s, modelled", "change", "the paper's")
    _, machine = machines_of_figure_7(planner)[1]
    for net in NETS:
        for strategy, more, slower in (("image", "5 to 10 GB", "-20 % to -45 % (the frameworks)"), ("deepa", "40 MB", "-3 %")):
            words = ("--strategy", strategy, *["--uneven"][:strategy == "deepa"])  # the number of classes, 21,841, is odd
            counted, told, rate = [], [], []
            for one in (net, f"{net}-22k"):
                counted.append(planner.counted(one, "k80x16", 512, *PAPER, *words).bytes())
                paper = planner.strategy(strategy, one, "k80x16", 512, *PAPER, *words)
                told.append(paper["transfer_bytes"] + paper["update_bytes"])
                rate.append(512e3 / planner.step_ms(one, machine, 512, *words)[0])
            yield row(net, strategy, ", ".join(map(gib, counted)), f"{(counted[1] - counted[0]) / MIB:.0f} MiB",
                      ", ".join(map(gib, told)), f"{(told[1] - told[0]) / MIB:.0f} MiB", more,
                      ", ".join(f"{one:.0f}" for one in rate), f"{100 * (rate[1] / rate[0] - 1):+.0f} %", slower)


def deepa_appendix_2(planner):
    yield from table("network", "by images, on k80x16: ms computing", "all sums, ms", "a step with overlap",
                     "of the sums hidden")
    for net in NETS:
        beside, after, _ = planner.step_ms(net, "k80x16", 512, "--strategy", "image")
        compute = planner.strategy("image", net, "k80x16", 512)["compute_ms"]
        sums = after - compute
        yield row(net, f"{compute:.1f}", f"{sums:.1f}", f"{beside:.1f}", f"{100 * (after - beside) / sums:.0f} %")


# These functions compute the figures of One weird trick.


def k20(planner, count):
    return planner.machine(f"k20x{count}", K20, ("PCI Express", min(count, 4), 6, 10),
                           *[("host memory", 2, 12, 20)][:count > 4])


def owt_schemes(planner):
    yield from table("workers", "scheme", "B: numbers of one worker's images", "all transfers into fc6, of 2 (K - 1) K B",
                     "busiest port in a pass, counted", "the paper's", "MiB of inputs at one time, as planned")
    for count in (2, 4, 8):
        for scheme in "abc":
            asked = "alexnet-footnote", k20(planner, count), 128 * count
            found = planner.counted(*asked, "--strategy", "owt", "--scheme", scheme)
            own = 128 * 9216
            told = {"a": f"(K - 1) B = {(count - 1) * own}", "b": f"(K - 1) B = {(count - 1) * own}",
                    "c": f"(K - 1) B / K = {(count - 1) * own // count}"}
            kept = max(one["memory"]["copies"] for one in found.schedule["elements"]["by_device"])
            yield row(count, f"({scheme})", own, f"{found.consumers['fc6'] / (2 * (count - 1) * count * own):.3g}",
                      found.port("fc6"), told[scheme], f"{kept * 4 / MIB:.1f}")


def owt_synchronization(planner):
    yield from table("workers", "gradients of convolutions, elements", "sent by each worker, counted", "2 (K - 1) / K of them")
    for count in (2, 4, 8):
        found = planner.counted("alexnet-footnote", k20(planner, count), 128 * count, "--strategy", "owt", "--scheme", "b")
        whole = sum(one["elements"] for one in found.schedule["sums"])
        sent = found.sent("update")
        yield row(count, whole, f"{min(sent)} to {max(sent)}", f"{2 * (count - 1) / count * whole:.0f}")


def owt_table_1(planner):
    told = {2: ("1.95x", "1.93x"), 4: ("3.74x", "3.66x"), 8: ("6.25x", "6.16x")}
    yield from table("GPUs", "(a)", "(b)", "the paper's (b)", "(c)", "all by images", "(b) without overlap")
    for count in (2, 4, 8):
        machine = k20(planner, count)
        asked = "alexnet-footnote", machine, 128 * count
        alone = planner.strategy("image", *asked)["compute_ms"]
        found = {scheme: planner.step_ms(*asked, "--strategy", "owt", "--scheme", scheme) for scheme in "abc"}
        image = planner.step_ms(*asked, "--strategy", "image")[0]
        speed = {scheme: times(count * alone / ms[0]) for scheme, ms in found.items()}
        yield row(count, speed["a"], speed["b"], told[count][0], speed["c"], times(count * alone / image),
                  times(count * alone / found["b"][1]))


FIGURES = {"deepa-table-1": deepa_table_1, "deepa-table-2": deepa_table_2, "deepa-table-3": deepa_table_3,
           "deepa-figure-3": deepa_figure_3, "deepa-figure-7": deepa_figure_7, "deepa-figure-8": deepa_figure_8,
           "deepa-figure-13": deepa_figure_13, "deepa-figure-14": deepa_figure_14, "deepa-figure-15": deepa_figure_15,
           "deepa-figure-16": deepa_figure_16, "deepa-a2": deepa_appendix_2, "owt-schemes": owt_schemes,
           "owt-synchronization": owt_synchronization, "owt-table-1": owt_table_1}
# These figures need no torch.
MODELLED = ("deepa-table-1", "deepa-figure-7", "deepa-figure-13", "deepa-figure-14", "deepa-a2", "owt-table-1")


def figures_of(ucudnn, names):
    """Yields for each figure its name and the lines of its table."""
    with tempfile.TemporaryDirectory(prefix="ucudnn-figures-") as folder:
        planner = Planner(ucudnn, folder)
        for name in names:
            yield name, list(FIGURES[name](planner))


def marks(name):
    return f"<!-- {name} -->\n", f"<!-- {name} ends -->\n"


def replace_between(path, begin, end, text):
    with open(path, encoding="utf-8") as file:
        before, found, rest = file.read().partition(begin)
    _, also, after = rest.partition(end)
    if not found or not also:
        program = os.path.basename(sys.argv[0])
        sys.exit(f"{program}: {path}: expected the lines {begin.strip()} and {end.strip()}, to write between them")
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + begin + text + end + after)


def replace(path, name, lines):
    replace_between(path, *marks(name), "\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ucudnn")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--document")
    words = parser.parse_args()
    for name in words.figures:
        if name not in FIGURES:
            parser.error(f"{name!r} is no figure; expected one of {', '.join(FIGURES)}")
    for name, lines in figures_of(words.ucudnn, words.figures or FIGURES):
        if words.document:
            replace(words.document, name, lines)
        else:
            print(f"{name}\n", *lines, "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
