"""Starts ranks for tests on this machine. Each rank is a process that runs a script and communicates over gloo."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SECONDS = 900


def need(package):
    if not importlib.util.find_spec(package):
        raise unittest.SkipTest(f"this Python has no {package}")


def start(script, count, grid, *arguments, patience=5):
    """Runs `script` on `count` ranks. Returns a list of (exit code, output). When a rank has failed, the others are
    killed after `patience` seconds at most."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(count):
            variables = os.environ | {
                "RANK": str(rank), "WORLD_SIZE": str(count), "UCUDNN_SPATIAL": grid, "OMP_NUM_THREADS": "1",
                # Excludes oneDNN's bf16 kernels for AMX, which are wrong on few columns (pytorch#163347).
                "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
                "UCUDNN_TEST_RENDEZVOUS": f"file://{folder}/rendezvous", "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests/integration/torch'}"}
            with open(f"{folder}/{rank}", "w") as output:
                processes.append(subprocess.Popen([sys.executable, "-B", script, *arguments], env=variables, stdout=output,
                                                  stderr=subprocess.STDOUT))
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends and any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):  # a rank has failed, and others may wait for it forever
                ends = min(ends, time.monotonic() + patience)
                patience = SECONDS  # so that `ends` does not change again
            time.sleep(0.05)
        for process in processes:
            process.kill()
            process.wait()
        return [(process.returncode, pathlib.Path(folder, str(rank)).read_text())
                for rank, process in enumerate(processes)]


def expect_ended(told, what):
    """`told` is the result of start(). If ranks have failed, raises an error with the output of all failed ranks. The
    output of one rank is not enough, because that rank may have failed only because it lost another rank."""
    failed = [f"rank {rank} of {what}:\n{output}" for rank, (code, output) in enumerate(told) if code]
    if failed:
        raise AssertionError("\n".join(failed))


class RanksTest(unittest.TestCase):
    """Base class of tests that run `script` on the ranks of a grid; no rank may fail."""
    script = None

    def on(self, count, grid, *arguments):
        expect_ended(start(self.script, count, grid, *arguments), " ".join((grid, *arguments)))


def join(seconds=20):
    """For the script of a rank: initializes torch.distributed, with a time-out of `seconds`, and then ucudnn.spatial.
    If UCUDNN_TEST_LIBRARY names libucudnn, its geometry is used."""
    import datetime

    import torch
    import torch.distributed as dist
    from plain_geometry import tested_geometry
    from ucudnn import spatial
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    dist.init_process_group("gloo", init_method=os.environ["UCUDNN_TEST_RENDEZVOUS"], rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]), timeout=datetime.timedelta(seconds=seconds))
    return spatial.init(geometry=tested_geometry())
