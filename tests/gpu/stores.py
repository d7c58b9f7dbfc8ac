"""Makes measurement stores in which pieces are the fastest way. What is divided depends on times, which differ between
machines, so a test lets a run measure, rewrites the times (CSV out and in), and gives the new store to another run."""

import csv
import math
import pathlib
import tempfile

import machine


def rows_of(store):
    """Returns the measurements as dictionaries by column."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "rows.csv")
        machine.run([machine.UCUDNN, "cache", "export", path, "--db", store], machine.environment(), 60)
        with path.open(newline="") as file:
            return list(csv.DictReader(file))


def prefer_pieces(rows, store, engine=None):
    """Makes a store of these rows in which a quarter of the mini-batch, on `engine` if it is given, is the fastest way for
    every kernel."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "rows.csv")
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            for row in rows:
                size, whole = int(row["micro_batch"]), int(row["n"])
                time = size * (1 + abs(math.log2(4 * size / whole))) * (1 if engine in (None, row["engine"]) else 1000)
                writer.writerow(row | {"time_ms": time if size < whole else time * 1000})
        machine.run([machine.UCUDNN, "cache", "import", path, "--db", store], machine.environment(), 60)
