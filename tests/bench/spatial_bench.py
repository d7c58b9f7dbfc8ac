#!/usr/bin/env python3
"""Measures what splitting convolutions over ranks costs. It runs spatial_step under `ucudnn run --ranks`. README.md explains
each figure and what is allowed.

    spatial_bench.py [--brief | --gpu] [--assert] [--extent 256] BUILD [PART...]

BUILD is a build folder, such as build/release. The parts are counts, host_time, exchange, delay and tables. If none is named,
all of them run, or with --gpu counts and tables. They run on the CPU stand-in, or with --gpu on this machine's GPUs, which
exchange over NCCL; then tables has N = 32. --brief uses so few calls that the times mean nothing. The exit code is 1 if a run
fails or a count is not what it must be, and with --assert also if a time or a ratio of times is larger than allowed."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

PARTS = ("counts", "host_time", "exchange", "delay", "tables")
OPERATIONS = ("forward", "backward_data", "backward_filter")
CHANNELS, FILTER, ELEMENT = 64, 3, 4
ALLOWED_US, ALLOWED_OVER, ALLOWED_EXPOSED = 5, 1.05, 0.1
# Tables 1 and 2 of Spatially Parallel Convolutions, measured on V100s, as {(dilation, extent): {ranks: (speedup
# forward, speedup backward, part of the memory that each rank needs)}}. The paper calls dilation D and extent H.
PAPER = {(1, 128): {2: (1.7, 1.9, 0.52), 4: (2.1, 2.8, 0.27)}, (1, 256): {2: (1.9, 2.3, 0.51), 4: (3.2, 3.9, 0.26)},
         (1, 512): {2: (2.2, 2.1, 0.50), 4: (4.2, 4.7, 0.25)}, (3, 128): {2: (1.5, 1.7, 0.57), 4: (1.6, 2.0, 0.31)},
         (3, 256): {2: (1.8, 1.9, 0.54), 4: (2.9, 3.5, 0.28)}, (3, 512): {2: (1.9, 2.0, 0.52), 4: (3.5, 4.1, 0.26)}}


def own_rows(extent, ranks, rank):
    """Returns the rows of a rank as spatial_step cuts an image. If the stripes cannot be equal, the first ones have a row
    more."""
    begin = rank * (extent // ranks) + min(rank, extent % ranks)
    return set(range(begin, begin + extent // ranks + (rank < extent % ranks)))


def foreign_rows(extent, ranks, rank, dilation):
    """Returns the rows of other ranks that the filter reads for the outputs of the rank's own rows."""
    own = own_rows(extent, ranks, rank)
    reached = {row + dilation * tap for row in own for tap in range(-(FILTER // 2), FILTER // 2 + 1)}
    return reached & set(range(extent)) - own


class Minimum:
    """Computes the smallest numbers of bytes and messages with which a rank can send and receive what a call needs. The
    numbers are equal for all three operations, since there are as many input as output channels, and padding keeps the
    size."""

    def __init__(self, images, channels, extent, ranks, dilation, rank):
        row = images * channels * extent * ELEMENT
        foreign = [foreign_rows(extent, ranks, other, dilation) for other in range(ranks)]
        mine = own_rows(extent, ranks, rank)
        self.received = len(foreign[rank]) * row
        self.sent = sum(len(rows & mine) for rows in foreign) * row
        self.receives = sum(bool(foreign[rank] & own_rows(extent, ranks, other)) for other in range(ranks))
        self.sends = sum(bool(rows & mine) for rows in foreign)
        self.bytes = self.received + self.sent


class Bench:
    def __init__(self, build, gpu, brief, asserts):
        self.build, self.gpu, self.brief, self.asserts = os.path.abspath(build), gpu, brief, asserts
        self.missed = []
        if gpu:
            listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
            self.processors = len(listed.splitlines())
        else:
            self.processors = len(os.sched_getaffinity(0))

    def run(self, operation, images, extent, dilation, ranks, *, channels=CHANNELS, counted=0, samples=0, calls=1,
            transport="nccl", null=False, no_device=False, **variables):
        """Returns what the ranks printed, in the order of ranks. The entry "spatial" is what a rank's report says about
        splitting; with one rank there is no such entry."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("UCUDNN_", "HOSTGPU_"))}
        environment |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "UCUDNN_DATABASE": "none", "UCUDNN_TUNE": "off"}
        words = [f"{self.build}/bin/ucudnn", "run"]
        if not self.gpu:
            words += ["--host", "--device-memory", "16GiB"]
        words += ["--ranks", str(ranks)]
        if ranks > 1:
            words += ["--spatial", f"h{ranks}"]
            environment["UCUDNN_SPATIAL_TRANSPORT"] = transport
        words.append("--")
        if null:  # runs on a cuDNN whose convolutions return at once
            words += ["env", f"UCUDNN_REAL_CUDNN={self.build}/tests/bench/null_cudnn/libcudnn.so.9"]
        words.append(f"{self.build}/tests/bench/spatial_step")
        words += map(str, (operation, images, channels, extent, dilation, counted, samples, calls))
        if no_device:
            words.append("no-device")
        with tempfile.TemporaryDirectory() as folder:
            environment["UCUDNN_REPORT"] = f"{folder}/%p.json"
            done = subprocess.run(words, capture_output=True, text=True, env=environment | variables)
            if done.returncode != 0:
                sys.exit(f"spatial_bench: {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
            results = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda result: result["rank"])
            for name in os.listdir(folder):
                with open(f"{folder}/{name}", encoding="utf-8") as file:
                    report = json.load(file).get("spatial")
                if report:
                    results[report["rank"]]["spatial"] = report
        return results

    def expect(self, what, expected, found):
        if expected != found:
            self.missed.append(f"{what}: {found} in place of {expected}")

    def bound(self, what, allowed, found):
        if self.asserts and found > allowed:
            self.missed.append(f"{what}: {found:.3f}, allowed are {allowed}")

    def check(self, results, name, operation, images, channels, extent, dilation, transport):
        """Compares the counts of a run with Minimum's. REQUIRES: the run took no samples."""
        ranks = len(results)
        weights = channels * channels * FILTER ** 2 * ELEMENT
        gradient = operation == "backward_filter"
        sums_sent = 0
        for result in results:
            rank = f"{name}, rank {result['rank']}"
            least = Minimum(images, channels, extent, ranks, dilation, result["rank"])
            self.check_bytes(f"{rank}: bytes that the report tells of a call", result, least)
            self.expect(f"{rank}: allocations in {result['counted']} calls, by the thread that makes them", 0,
                        result["calling_allocations"])
            if transport == "loopback" and gradient:
                sums_sent += result["sent_bytes"] / result["counted"] - least.sent
                continue
            for count in ("sends", "receives"):
                self.expect(f"{rank}: {count} of a call", getattr(least, count), result[count] / result["counted"])
            for count in ("sent", "received"):
                found = result[f"{count}_bytes"] / result["counted"]
                self.expect(f"{rank}: bytes {count} in a call", getattr(least, count), found)
            # A message is packed by one copy before it is sent. A received message needs three copies. The first copies
            # the part of the filter (or, for a gradient, of the image) that is applied to the message. The other two
            # fetch and store the part of the output to which the result is added. A filter's gradient is copied out of
            # the memory in which it was summed.
            self.expect(f"{rank}: copies of a call", least.sends + 3 * least.receives + int(gradient),
                        result["copies"] / result["counted"])
            # One reduction of NCCL sums the gradient of all weights.
            self.expect(f"{rank}: reductions of a call", int(gradient), result["reductions"] / result["counted"])
            self.expect(f"{rank}: bytes reduced in a call", weights * gradient, result["reduced_bytes"] / result["counted"])
        # Over loopback each rank sends parts of its gradient to the ranks that sum them, and its own sum to all others.
        if transport == "loopback" and gradient:
            self.expect(f"{name}: bytes sent for sums, by all ranks", 2 * (ranks - 1) * weights, sums_sent)

    def counts(self):
        images, channels, extent = 2, 8, 24 if self.brief else 48
        print("counts: of a steady call, on the rank that exchanges most; messages: sent + received\n"
              f"{'':32}{'bytes':>8} {'minimum':>8} {'messages':>8} {'summed':>8} {'copies':>6} {'fills':>5} {'events':>6} "
              f"{'waits':>5} {'host fn':>7} {'allocations':>11}")
        cases = [(operation, dilation, ranks, extent, "nccl") for operation in OPERATIONS for dilation in (1, 3)
                 for ranks in ((3,) if self.brief else (2, 3, 4))]
        cases += [(operation, 3, 4, 10, "nccl") for operation in OPERATIONS]  # the halo is larger than some stripes
        if not self.gpu:
            cases += [(operation, 1, 2, extent, "loopback") for operation in OPERATIONS]
        for operation, dilation, ranks, height, transport in cases:
            if self.gpu and ranks > self.processors:
                continue
            name = f"{operation} D={dilation} {ranks} ranks"
            name += " loopback" if transport == "loopback" else f" H={height}" if height != extent else ""
            results = self.run(operation, images, height, dilation, ranks, channels=channels, counted=100,
                               transport=transport)
            self.check(results, name, operation, images, channels, height, dilation, transport)
            most = max(results, key=lambda result: result["bytes"])
            each = {key: most[key] / most["counted"]
                    for key in ("sends", "receives", "reduced_bytes", "copies", "fills", "events", "waits", "host_functions")}
            allocations = max(result["allocations"] / result["counted"] for result in results)
            print(f"{name:32}{most['bytes']:8.0f} {most['minimum']:8} {each['sends']:>4g} +{each['receives']:2g} "
                  f"{each['reduced_bytes']:8g} {each['copies']:6g} {each['fills']:5g} {each['events']:6g} {each['waits']:5g} "
                  f"{each['host_functions']:7g} {allocations:11g}", flush=True)

    def host_time(self):
        print(f"\nhost_time: us that a steady call takes until it returns, above one of the same program with the exchange "
              f"switched off (allowed: {ALLOWED_US} own)\n{'':16}{'own min':>10} {'median':>8} {'with driver, NCCL: min':>24} "
              f"{'median':>8}")
        for operation in OPERATIONS:
            figures = []
            for own in (True, False):
                samples, calls = (20, 50) if self.brief else (400, 200) if own else (400, 20)
                results = self.run(operation, 2, 48, 1, 2, channels=8, samples=samples, calls=calls, null=True,
                                   no_device=own)
                split = [time for result in results for time in result["split_issue_ms"]]
                alone = [time for result in results for time in result["alone_issue_ms"]]
                over = [one - other for one, other in zip(split, alone)]
                figures += [(min(split) - min(alone)) / calls * 1e3, statistics.median(over) / calls * 1e3]
            print(f"{operation:16}{figures[0]:10.2f} {figures[1]:8.2f} {figures[2]:24.2f} {figures[3]:8.2f}", flush=True)
            self.bound(f"host_time of {operation}: us of its own", ALLOWED_US, figures[0])

    def pairs(self, results):
        """Returns two lists: the ms of one call with the exchange in each sample, and its ms without the exchange. Each time
        is the time of the slowest rank."""
        calls = results[0]["calls"]
        split = [max(times) / calls for times in zip(*(result["split_ms"] for result in results))]
        alone = [max(times) / calls for times in zip(*(result["alone_ms"] for result in results))]
        return split, alone

    def may_time(self, ranks):
        if ranks <= self.processors:
            return True
        print(f"{ranks} ranks are not timed: there are {self.processors} processors")
        return False

    def exchange(self, extent):
        pairs, calls = (1, 1) if self.brief else (9, 5)
        print(f"\nexchange: two ranks, N=2 C={CHANNELS} H=W={extent} D=1, ms of a call, split over alone, {pairs} pairs "
              f"(allowed: {ALLOWED_OVER} in the median pair)\n"
              f"{'':26}{'alone min':>10} {'split min':>10} {'of min':>7} {'of med':>7} {'of CPU time':>12}")
        if not self.may_time(2):
            return
        for transport in ("nccl", "loopback"):
            for operation in OPERATIONS:
                results = self.run(operation, 2, extent, 1, 2, samples=pairs, calls=calls, transport=transport)
                split, alone = self.pairs(results)
                used = [sum(values) for values in zip(*(result["split_cpu_ms"] for result in results))]
                used_alone = [sum(values) for values in zip(*(result["alone_cpu_ms"] for result in results))]
                of_median = statistics.median(one / other for one, other in zip(split, alone))
                of_processor = statistics.median(one / other for one, other in zip(used, used_alone))
                print(f"{operation + ' ' + transport:26}{min(alone):10.2f} {min(split):10.2f} {min(split) / min(alone):7.3f} "
                      f"{of_median:7.3f} {of_processor:12.3f}", flush=True)
                self.bound(f"exchange of {operation} by {transport}: split over alone", ALLOWED_OVER, of_median)

    def delay(self, extent):
        pairs, calls = (1, 1) if self.brief else (9, 5)
        print(f"\ndelay: the same over NCCL, with links whose messages take half of what a call takes alone; exposed: split "
              f"minus alone, over that delay (allowed: {ALLOWED_EXPOSED})\n{'':26}{'delay ms':>10} {'of min':>7} {'of med':>7}")
        if not self.may_time(2):
            return
        for operation in (*OPERATIONS, "backward"):
            alone = self.pairs(self.run(operation, 2, extent, 1, 2, samples=max(1, pairs // 3), calls=calls))[1]
            of_call_ms = statistics.median(alone) / (2 if operation == "backward" else 1)
            delay_us = round(of_call_ms / 2 * 1e3)
            results = self.run(operation, 2, extent, 1, 2, samples=pairs, calls=calls,
                               HOSTGPU_NCCL_DELAY_US=str(delay_us))
            split, alone = self.pairs(results)
            exposed = statistics.median(one - other for one, other in zip(split, alone)) * 1e3 / delay_us
            name = operation + (", deferred" if operation == "backward" else "")
            of_minima = (min(split) - min(alone)) * 1e3 / delay_us
            print(f"{name:26}{delay_us / 1e3:10.2f} {of_minima:7.3f} {exposed:7.3f}", flush=True)
            self.bound(f"delay of {name}: exposed", ALLOWED_EXPOSED, exposed)

    def tables(self, extents):
        images = 32 if self.gpu else 2
        device = "GPUs" if self.gpu else "CPU stand-in, one thread a rank: times are no GPU's"
        trials = 1 if self.brief else 100 if self.gpu else 3
        for table, dilation in ((1, 1), (2, 3)):
            print(f"\ntables: {table}: N={images} C={CHANNELS} K={FILTER} D={dilation}, fp32 ({device}); speedups and "
                  f"memory in brackets are the paper's\n"
                  f"{'':10}{'ranks':>6} {'forward ms':>11} {'speedup':>12} {'backward ms':>12} "
                  f"{'speedup':>12} {'MiB each':>9} {'of one':>13} {'bytes':>9} {'minimum':>9}")
            for extent in extents:
                self.table_rows(images, extent, dilation, trials)

    def table_rows(self, images, extent, dilation, trials):
        one = {}
        for ranks in (1, 2, 4):
            if self.gpu and ranks > self.processors:
                continue
            timed = ranks <= self.processors
            ms, memory, exchanged, least = {}, 0, 0, 0
            for operation in OPERATIONS:
                # These runs give times and memory, which depend on the cuDNN that computes. The bytes of messages do
                # not depend on the cuDNN, so on the stand-in they are counted below with a cuDNN that computes nothing.
                if timed:
                    results = self.run(operation, images, extent, dilation, ranks, samples=trials)
                    ms[operation] = statistics.median(self.pairs(results)[0])
                elif operation == "forward":
                    results = self.run(operation, images, extent, dilation, ranks)
                if ranks > 1:
                    counts = self.run(operation, images, extent, dilation, ranks, null=not self.gpu)
                    for result in counts:
                        least_of = Minimum(images, CHANNELS, extent, ranks, dilation, result["rank"])
                        self.check_bytes(f"{operation} H=W={extent} D={dilation}, {ranks} ranks, rank {result['rank']}: bytes of a "
                                         "call", result, least_of)
                    most = max(counts, key=lambda result: result["bytes"])
                    exchanged, least = max(exchanged, most["bytes"]), max(least, most["minimum"])
                if operation == "forward":
                    memory = max(result["tensor_bytes"] + result.get("spatial", {}).get("owned_workspace_bytes", 0)
                                 for result in results) / 2 ** 20
            backward = ms.get("backward_data", 0) + ms.get("backward_filter", 0)
            one = one or {"forward": ms.get("forward"), "backward": backward, "memory": memory}
            paper = PAPER.get((dilation, extent), {}).get(ranks)
            told = [f"({number})" if paper else "" for number in (paper or ("", "", ""))]
            line = f"{f'H=W={extent}':10}{ranks:6} "
            if timed:
                line += (f"{ms['forward']:11.2f} {one['forward'] / ms['forward']:5.2f} {told[0]:>6} {backward:12.2f} "
                         f"{one['backward'] / backward:5.2f} {told[1]:>6} ")
            else:
                line += f"{'not timed':>11} {told[0]:>12} {'not timed':>12} {told[1]:>12} "
            print(line + f"{memory:9.2f} {memory / one['memory']:6.3f} {told[2]:>6} {exchanged:9.0f} {least:9}", flush=True)

    def check_bytes(self, what, result, least):
        result["minimum"] = least.bytes
        result["bytes"] = result["spatial"]["exchanged_bytes"] / result["spatial"]["calls"]
        self.expect(what, least.bytes, result["bytes"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brief", action="store_true", help="that it works, not how fast")
    parser.add_argument("--gpu", action="store_true", help="this machine's GPUs in place of the CPU stand-in")
    parser.add_argument("--assert", dest="asserts", action="store_true", help="a time above what is allowed is an error")
    parser.add_argument("--extent", type=int, help="height and width of the images of exchange and delay (256)")
    parser.add_argument("build", metavar="BUILD")
    parser.add_argument("parts", metavar="PART", nargs="*", help=", ".join(PARTS))
    options = parser.parse_args()
    parts = options.parts or (("counts", "tables") if options.gpu else PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(sorted(unknown))}: {', '.join(PARTS)}")
    bench = Bench(options.build, options.gpu, options.brief, options.asserts)
    extent = options.extent or (32 if options.brief else 256)
    for part in parts:
        if part in ("exchange", "delay"):
            getattr(bench, part)(extent)
        elif part == "tables":
            bench.tables((32,) if options.brief else (128, 256, 512))
        else:
            getattr(bench, part)()
    for line in bench.missed:
        print(f"spatial_bench: {line}", file=sys.stderr)
    return 1 if bench.missed else 0


if __name__ == "__main__":
    sys.exit(main())
