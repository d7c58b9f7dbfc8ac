"""The machine the tests in this folder run on: its GPU, its CUDA libraries, and how programs start there.

A test file calls main(): it exits 77 with the reason when there is no GPU. With UCUDNN_GPU_TEST_HOST=1 the programs run
on the CPU stand-in instead, at sizes a CPU bears, so that the tests themselves are tested. With UCUDNN_TEST_RESULTS it
writes outcomes and figures there, as JSON."""

import ctypes
import functools
import glob
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
BUILD = pathlib.Path(os.environ.get("UCUDNN_TEST_BUILD", ROOT / "build/release"))
HOST = os.environ.get("UCUDNN_GPU_TEST_HOST") == "1"
UCUDNN = BUILD / "bin/ucudnn"
NO_GPU = "no NVIDIA GPU"
SKIPPED = 77
# What a test file may take, by tools/gpu-check, or by CTest. Its programs end a little before, so that it can tell of it.
DEADLINE = time.monotonic() + float(os.environ.get("UCUDNN_TEST_SECONDS", 3600)) - 10

figures = {}  # what the tests of this process recorded


class Gpu:
    def __init__(self, name, count, driver):
        self.name, self.count, self.driver = name, count, driver


@functools.cache
def gpu():
    """The first GPU as the CUDA driver sees it, or None. Makes no context."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count, driver, device = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return None
    if cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuDeviceGetName(name, 256, device):
        return None
    cuda.cuDriverGetVersion(ctypes.byref(driver))
    return Gpu(name.value.decode(), count.value, driver.value)


@functools.cache
def library_folders():
    """Folders that programs linked with CUDA need on LD_LIBRARY_PATH: none where the loader knows them, else those of
    NVIDIA's wheels or of a toolkit."""
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout if shutil.which("ldconfig") else ""
    if "libcudnn.so.9" in known and "libcudart.so.13" in known:
        return []
    spec = importlib.util.find_spec("nvidia")
    folders = [f for root in (spec.submodule_search_locations if spec else []) for f in sorted(glob.glob(f"{root}/*/lib"))]
    folders += sorted(glob.glob(f"{ROOT}/build/deps/nvidia/*/lib"))
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        folders += [f"{root}/lib64", f"{root}/lib"] if root else []
    return [f for f in folders if os.path.isdir(f)]


def environment(**variables):
    """For programs linked with CUDA; Python frameworks find their own libraries and take python_environment()."""
    result = python_environment(**variables)
    folders = [*library_folders(), result.get("LD_LIBRARY_PATH", "")]
    result["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    return result


def python_environment(**variables):
    """Without what a user may have set for ucudnn: a test says itself what it wants. A CPU that others use, too, needs
    more time for measuring than ucudnn takes by default."""
    foreign = ("UCUDNN_", "HOSTGPU_")
    seconds = {"UCUDNN_TUNE_SECONDS": "60:600"} if HOST else {}
    return {k: v for k, v in os.environ.items() if not k.startswith(foreign)} | seconds | variables


class Failed(AssertionError):
    """A program did not end well; says how and shows the end of what it printed."""


class TimedOut(Failed):
    pass


C = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """For a test's programs, which are in sessions of their own: they must not stay on the GPU when the test is ended."""
    C.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def seconds_left():
    return max(DEADLINE - time.monotonic(), 1)


def call(words, environment, timeout=300):
    """Exit code, stdout and stderr. A program that takes too long is ended with all it started."""
    with subprocess.Popen([str(w) for w in words], env=environment, text=True, start_new_session=True,
                          preexec_fn=die_with_parent, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimedOut(f"{described(words)}: not done after {timeout:.0f} s") from None
            raise
    return process.returncode, output, errors


def run(words, environment, timeout=300):
    """stdout of a program that must succeed."""
    code, output, errors = call(words, environment, timeout)
    if code != 0:
        raise Failed(f"{described(words)}: exit code {code}\n{output[-500:]}\n{errors[-2000:]}")
    return output


def described(words):
    return " ".join(str(word).rsplit("/", 1)[-1] for word in words)


def under_ucudnn(options, program, environment, timeout=300):
    """stdout and the report of `program` under `ucudnn run`; the report is None where ucudnn wrote none."""
    host = ["--host"] if HOST else []
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        reporting = [] if "--off" in options else ["--report", report]
        output = run([UCUDNN, "run", *host, *options, *reporting, "--", *program], environment, timeout)
        return output, json.loads(report.read_text()) if report.exists() else None


def pieces(kernel):
    return sum(run["count"] for run in kernel["plan"])


def slug(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def record(name, value):
    figures[name] = value


class Outcome(unittest.TextTestResult):
    """Which counts what passed: `testsRun` is with or without what was skipped, by version of Python."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def addSubTest(self, test, subtest, error):
        # A test of which one part is skipped is no success, though others of its parts passed.
        super().addSubTest(test, subtest, error)
        self.passed += error is None


class Runner(unittest.TextTestRunner):
    resultclass = Outcome


def main():
    """Runs the test file that calls it, or says why it cannot."""
    if not HOST and gpu() is None:
        print(f"skipped: {NO_GPU}")
        sys.exit(SKIPPED)
    program = unittest.main(exit=False, verbosity=2, testRunner=Runner)
    outcome = program.result
    results = os.environ.get("UCUDNN_TEST_RESULTS")
    if results:
        bad = {str(test): text for test, text in outcome.failures + outcome.errors}
        skipped = {str(test): reason for test, reason in outcome.skipped}
        pathlib.Path(results).write_text(json.dumps(
            {"run": outcome.testsRun, "failed": bad, "skipped": skipped, "figures": figures}))
    if not outcome.wasSuccessful():
        sys.exit(1)
    sys.exit(0 if outcome.passed else SKIPPED)
