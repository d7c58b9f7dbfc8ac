#!/usr/bin/env python3
"""Computes the tables of docs/evidence.md. They show what `ucudnn workspace` predicts from GPU measurements that MIOpen
publishes (tests/unit/planning/tables/miopen). Nothing is measured here.

    predicted_gains.py build/release/bin/ucudnn [DOCUMENT.md]

Prints the tables. With a document, replaces the text between its two marks by the tables. Takes some seconds."""

import concurrent.futures
import csv
import gzip
import itertools
import json
import os
import statistics
import sys
import tempfile

from paper_figures import replace_between, row, run, table

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unit", "planning", "tables", "miopen")
DEVICES = {"gfx90a-104cu": "MI200 series", "gfx908-120cu": "MI100", "gfx906-60cu": "MI50, Radeon VII"}
# JUDGE is the same chip as JUDGED with more compute units. Divisions found with the measurements of one device are timed with
# the measurements of the other.
JUDGED, JUDGE = "gfx90a-104cu", "gfx90a-110cu"
NETWORKS = ("alexnet", "vgg16", "resnet18", "resnet50", "inception-v3")
LIMITS = {"caller": "no limit", "64MiB": "64 MiB", "8MiB": "8 MiB"}
TOTAL = "512MiB"
BATCH = 256
BEGIN, END = "<!-- predicted_gains.py begins -->\n", "<!-- predicted_gains.py ends -->\n"
# These columns identify the kernel of a row.
KERNEL = ("c", "h", "w", "k", "r", "s", "pad_h", "pad_w", "stride_h", "stride_w", "op")


def read_published():
    rows = []
    for name in ("gpu-tables.csv.gz", f"{JUDGE}.csv.gz"):
        with gzip.open(os.path.join(FOLDER, name), "rt", encoding="utf-8", newline="") as file:
            rows += csv.DictReader(file)
    return rows


def known_whole(rows):
    """Returns the rows of each (device, engine, kernel) that was also measured on the whole mini-batch."""
    def solver(row):
        return row["device"], row["engine"], kernel_of(row)
    whole = {solver(row) for row in rows if row["micro_batch"] == str(BATCH)}
    return [row for row in rows if solver(row) in whole]


def kernel_of(fields):
    return tuple(str(fields[column]) for column in KERNEL)


class Command:
    """Runs `ucudnn` with stores of published measurements. `ucudnn` uses all rows of a store, so each of DEVICES has two
    stores: one has all rows of the device, the other only the rows that known_whole() returns. JUDGE has only the first."""

    def __init__(self, ucudnn, folder):
        self.ucudnn, self.folder = ucudnn, folder

    def store(self, device, solvers):
        return os.path.join(self.folder, f"{device}-{solvers}.db")

    def measure(self, rows, device, solvers):
        path = os.path.join(self.folder, f"{device}-{solvers}.csv")
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(row for row in rows if row["device"] == device)
        run(self.ucudnn, "cache", "import", path, "--db", self.store(device, solvers))

    def plan(self, device, network, *words, solvers="all"):
        return json.loads(run(self.ucudnn, "workspace", "--net", network, "--batch", str(BATCH), "--db",
                              self.store(device, solvers), "--device", device, "--policy", "all", "--json", *words))


def whole_ms(plan):
    """Returns the sum of the times of the kernels' fastest undivided engines within the plan's limit, or None if a kernel has
    no such engine."""
    engines = [kernel["undivided"] for kernel in plan["kernels"]]
    return None if None in engines else sum(engine["time_ms"] for engine in engines)


def gain(whole, divided):
    return f"{whole:.1f} / {divided:.1f} ms, {whole / divided:.2f}x"


def network_table(plans, device):
    yield from table("network", "solvers", *LIMITS.values())
    for network in NETWORKS:
        for solvers, name in (("all", "all"), ("whole", "those known at 256")):
            cells = []
            for limit in LIMITS:
                whole = whole_ms(plans[device, network, limit, "all"])
                cells.append(gain(whole, plans[device, network, limit, solvers]["total_time_ms"]))
            yield row(network if solvers == "all" else "", name, *cells)


def distinct_kernels(plans, device, limit):
    kernels = {}
    for network in NETWORKS:
        for kernel in plans[device, network, limit, "all"]["kernels"]:
            kernels[kernel_of(kernel["problem"] | {"op": kernel["op"]})] = kernel
    return kernels


def kernel_table(plans):
    yield from table("GPU", "limit", "kernels", "median gain", "more than 1.05x", "more than 1.5x", "largest")
    for device in DEVICES:
        for limit, name in LIMITS.items():
            gains = [kernel["undivided"]["time_ms"] / kernel["chosen"]["time_ms"]
                     for kernel in distinct_kernels(plans, device, limit).values()]
            above = [sum(one > least for one in gains) for least in (1.05, 1.5)]
            yield row(device, name, len(gains), f"{statistics.median(gains):.2f}x", *above, f"{max(gains):.2f}x")


def judged_table(plans, rows):
    """Yields the table of divisions that were found with the measurements of one device and are timed with the measurements of
    the other. It covers the kernels for which the other device has rows of the undivided engine and of each piece."""
    yield from table("divisions found with", "limit", "kernels", "by the same measurements", "geometric mean",
                     "by the other GPU's", "geometric mean")
    for device, judge in ((JUDGED, JUDGE), (JUDGE, JUDGED)):
        times = {(kernel_of(row), row["engine"], int(row["micro_batch"])): float(row["time_ms"])
                 for row in rows if row["device"] == judge}
        for limit, name in LIMITS.items():
            here, there = [], []
            for key, kernel in distinct_kernels(plans, device, limit).items():
                pieces = [(key, piece["engine"], piece["micro_batch"]) for piece in kernel["chosen"]["plan"]]
                whole = (key, kernel["undivided"]["engine"], BATCH) if kernel["undivided"] else None
                if whole in times and all(piece in times for piece in pieces):
                    here.append((kernel["undivided"]["time_ms"], kernel["chosen"]["time_ms"]))
                    there.append((times[whole], sum(times[piece] * run["count"]
                                                    for piece, run in zip(pieces, kernel["chosen"]["plan"]))))
            cells = [f"{gain(*map(sum, zip(*times_ms)))} | {statistics.geometric_mean(w / d for w, d in times_ms):.2f}x"
                     for times_ms in (here, there)]
            yield row(device, name, len(here), *cells)


def total_table(totals):
    yield from table("GPU", "network", "share of each kernel", "whole", "divided (WR)", "one budget (WD)")
    for (device, network), (one_budget, equal_shares) in totals.items():
        whole = whole_ms(one_budget)
        yield row(device, network, f"{one_budget['undivided_limit_bytes'] / 2**20:.1f} MiB",
                  "unknown" if whole is None else f"{whole:.1f} ms",
                  *(f"{plan['total_time_ms']:.1f} ms" for plan in (equal_shares, one_budget)))


def tables(ucudnn):
    rows = read_published()
    with tempfile.TemporaryDirectory(prefix="ucudnn-predicted-") as folder:
        command = Command(os.path.abspath(ucudnn), folder)
        for device in (*DEVICES, JUDGE):
            command.measure(rows, device, "all")
        for device in DEVICES:
            command.measure(known_whole(rows), device, "whole")

        def in_shares(device, network):
            one_budget = command.plan(device, network, "--total-workspace", TOTAL, "--division", "disjoint")
            share = str(one_budget["undivided_limit_bytes"])
            return one_budget, command.plan(device, network, "--workspace-limit", share)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            asked = [*itertools.product((*DEVICES, JUDGE), NETWORKS, LIMITS, ["all"]),
                     *itertools.product(DEVICES, NETWORKS, LIMITS, ["whole"])]
            plans = {(device, network, limit, solvers):
                     pool.submit(command.plan, device, network, "--workspace-limit", limit, solvers=solvers)
                     for device, network, limit, solvers in asked}
            totals = {(device, network): pool.submit(in_shares, device, network)
                      for device in DEVICES for network in NETWORKS}
            plans = {key: plan.result() for key, plan in plans.items()}
            totals = {key: both.result() for key, both in totals.items()}
    for device, name in DEVICES.items():
        yield from (f"### {device} ({name})", "", *network_table(plans, device), "")
    yield from ("### Kernels of all five networks", "", *kernel_table(plans), "")
    yield from ("### Judged by a second GPU", "", *judged_table(plans, rows), "")
    yield from ("### 512 MiB for all kernels of a network", "", *total_table(totals))


def replace_tables(path, text):
    replace_between(path, BEGIN, END, text)


def main(words):
    if len(words) not in (1, 2):
        sys.exit("usage: predicted_gains.py UCUDNN [DOCUMENT.md]")
    text = "\n".join(tables(words[0])) + "\n"
    if len(words) == 1:
        print(text, end="")
    else:
        replace_tables(words[1], text)


if __name__ == "__main__":
    main(sys.argv[1:])
