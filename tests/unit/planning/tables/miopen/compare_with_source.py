#!/usr/bin/env python3
"""Says whether the tables hold exactly what MIOpen publishes about the convolutions that they name.

    compare_with_source.py CLONE_OF_MIOPEN

The clone must have the commit below; README.md describes the format of its find databases."""

import bz2
import csv
import gzip
import os
import re
import subprocess
import sys

COMMIT = "2d1fd997a6fcf801ac4ca7a63e0656ef1cb9f488"
# The number of compute units in a file's name is decimal or hexadecimal.
FILES = {"gfx906-60cu": "gfx906_60", "gfx908-120cu": "gfx90878", "gfx90a-104cu": "gfx90a68", "gfx90a-110cu": "gfx90a6e"}
TABLES = ("gpu-tables.csv.gz", "gfx90a-110cu.csv.gz")
SHAPE = ("c", "h", "w", "k", "r", "s", "pad_h", "pad_w", "stride_h", "stride_w")
OPERATIONS = {"F": "forward", "B": "backward_data", "W": "backward_filter"}
KEY = re.compile(r"(\d+)-(\d+)-(\d+)-(\d+)x(\d+)-(\d+)-(\d+)-(\d+)-(\d+)-(\d+)x(\d+)-(\d+)x(\d+)-1x1-0-NCHW-FP32-([FBW])")
LARGEST_BATCH = 256


def committed():
    """Maps (device, shape, operation, mini-batch, solver) to (time, workspace), both as texts."""
    rows = {}
    for table in TABLES:
        with gzip.open(os.path.join(os.path.dirname(os.path.abspath(__file__)), table), "rt", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                shape = tuple(int(row[column]) for column in SHAPE)
                key = (row["device"], shape, row["op"], int(row["micro_batch"]), row["engine"])
                rows[key] = (row["time_ms"], row["workspace_bytes"])
    return rows


def problem(key):
    """Returns (shape, operation, mini-batch) from a find database's key, or None if the tables hold no such convolutions."""
    match = KEY.fullmatch(key)
    if not match:
        return None
    c, h, w, r, s, k, y_h, y_w, n, pad_h, pad_w, stride_h, stride_w = map(int, match.groups()[:-1])
    if match[14] != "F":  # a backward key names y first
        c, h, w, k, y_h, y_w = k, y_h, y_w, c, h, w
    fits = (h + 2 * pad_h - r) // stride_h + 1 == y_h and (w + 2 * pad_w - s) // stride_w + 1 == y_w
    return ((c, h, w, k, r, s, pad_h, pad_w, stride_h, stride_w), OPERATIONS[match[14]], n) if fits else None


def solvers(value):
    """Yields (solver, time, workspace) for each record: SOLVER:TIME,BYTES,… or, for gfx906, ALGORITHM:SOLVER,TIME,BYTES,…"""
    for record in value.split(";"):
        name, _, rest = record.partition(":")
        fields = rest.split(",")
        yield tuple(fields[:3]) if name.startswith("miopenConvolution") else (name, fields[0], fields[1])


def published(clone, shapes):
    rows = {}
    for device, file in FILES.items():
        packed = subprocess.run(["git", "-C", clone, "show", f"{COMMIT}:src/kernels/{file}.HIP.fdb.txt.bz2"], check=True,
                                capture_output=True).stdout
        for line in bz2.decompress(packed).decode().splitlines():
            key, _, value = line.partition("=")
            found = problem(key)
            if not found or found[0] not in shapes or found[2] > LARGEST_BATCH:
                continue
            for solver, time_ms, workspace_bytes in solvers(value):
                if float(time_ms) > 0:
                    rows[(device, *found, solver)] = (time_ms, workspace_bytes)
    return rows


def main(words):
    if len(words) != 1:
        sys.exit("usage: compare_with_source.py CLONE_OF_MIOPEN")
    ours = committed()
    theirs = published(words[0], {row[1] for row in ours})
    differing = {row for row in ours.keys() | theirs.keys() if ours.get(row) != theirs.get(row)}
    print(f"{len(ours)} rows here, {len(theirs)} published, {len(differing)} of them differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
