"""Functions shared by tests of programs: running a program on the stand-in under `ucudnn run`, reading reports, and
making stores with chosen times."""

import csv
import json
import os
import pathlib
import subprocess
import tempfile

COMMAND = os.environ["UCUDNN_TEST_COMMAND"]
# Enough time to measure everything, even on slow machines.
PATIENT = {"OMP_WAIT_POLICY": "passive", "UCUDNN_TUNE_SECONDS": "600:6000"}


def without_settings(*more):
    """Returns os.environ without variables that begin with UCUDNN_, HOSTGPU_ or one of `more`."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("UCUDNN_", "HOSTGPU_", *more))}


def of_ranks(**variables):
    """Returns an environment for a program with several ranks: each computes with one thread and has no store."""
    return without_settings() | {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1", "UCUDNN_DATABASE": "none"} | variables


def run(words, options=(), environment=None, timeout=None):
    """Runs a program on the stand-in under `ucudnn run`. Returns the completed process."""
    return subprocess.run([COMMAND, "run", "--host", *options, "--", *map(str, words)], capture_output=True, text=True,
                          timeout=timeout, env=environment)


def printed(words, options=(), **variables):
    """Runs a program that must succeed. Returns the printed lines."""
    result = run(words, options, os.environ | PATIENT | variables)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


def command(*words):
    """Runs a command of ucudnn that must succeed. Returns its stdout."""
    result = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def read(path):
    return json.loads(pathlib.Path(path).read_text())


def reports(folder):
    """Returns all reports in a folder, one for each process."""
    return [read(path) for path in pathlib.Path(folder).iterdir()]


def sizes(kernel):
    """Returns the mini-batch of each piece of a kernel's plan."""
    return [part["micro_batch"] for part in kernel["plan"] for _ in range(part["count"])]


def rows_of(store):
    """Returns the measurements of a store as dictionaries by column. Leaves out promises, whose micro_batch is
    empty."""
    with tempfile.TemporaryDirectory() as folder:
        command("cache", "export", f"{folder}/rows.csv", "--db", store)
        with open(f"{folder}/rows.csv", newline="") as file:
            return [row for row in csv.DictReader(file) if row["micro_batch"]]


def add_rows(store, rows):
    """Adds measurements to a store, and creates it if necessary. Returns its path."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/rows.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        command("cache", "import", f"{folder}/rows.csv", "--db", store)
    return store
