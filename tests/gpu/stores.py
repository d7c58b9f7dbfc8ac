"""Makes measurement stores in which every kernel is fastest in pieces. Which kernels ucudnn divides depends on times,
which differ between machines. So a test lets one run measure, exports the measurements as CSV, rewrites their times,
imports them into a new store, and gives that store to another run."""

import csv
import math
import pathlib
import tempfile

import machine


def rows_of(store):
    """Returns the measurements in `store` as a list of dictionaries by column."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "rows.csv")
        machine.run([machine.UCUDNN, "cache", "export", path, "--db", store], machine.environment(), 60)
        with path.open(newline="") as file:
            return list(csv.DictReader(file))


def prefer_pieces(rows, store, engine=None):
    """Imports these rows into `store` with other times. By these, every kernel is fastest in quarters of the mini-batch, on
    `engine` if it is given."""
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
