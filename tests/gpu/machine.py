"""Describes the machine on which the tests in this folder run, its GPU and CUDA libraries, and starts programs there.

A test file calls main(), which exits with 77 and the reason if there is no GPU. With UCUDNN_GPU_TEST_HOST=1 programs
run on the CPU stand-in instead, with sizes that a CPU can run, which tests the tests. With UCUDNN_TEST_RESULTS=FILE,
main() writes outcomes and figures to FILE as JSON. Test classes whose names begin with Brief are short forms of other
classes, and run only if they are named. `X_test.py --references [NAME…]` only makes the runs without ucudnn that these
tests compare with; see reference()."""

import contextlib
import ctypes
import fcntl
import functools
import glob
import hashlib
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
# On a CPU that other programs also use, measuring needs more time than ucudnn's default.
HOST_TUNE = {"UCUDNN_TUNE_SECONDS": "60:600"}
# tools/gpu-check or CTest sets UCUDNN_TEST_SECONDS, the time limit of a test file. Programs must end 10 s before that limit, so
# that the test can still report their results.
DEADLINE = time.monotonic() + float(os.environ.get("UCUDNN_TEST_SECONDS", 3600)) - 10

figures = {}  # the values that tests of this process passed to record()


class Gpu:
    def __init__(self, name, count, driver):
        self.name, self.count, self.driver = name, count, driver


@functools.cache
def gpu():
    """Returns the first GPU that the CUDA driver finds, or None. Makes no CUDA context."""
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
def compute_mode():
    """Returns "Default" if all GPUs have this compute mode, otherwise the first other mode, in nvidia-smi's words. Returns
    None if nvidia-smi is missing or fails."""
    if not shutil.which("nvidia-smi"):
        return None
    try:
        code, output, _ = call(["nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader"], dict(os.environ), 20)
    except Failed:
        return None
    modes = [line.strip() for line in output.splitlines() if line.strip()]
    if code != 0 or not modes:
        return None
    return next((mode for mode in modes if mode != "Default"), "Default")


@functools.cache
def library_folders():
    """Returns the folders that programs linked with CUDA need in LD_LIBRARY_PATH. If this Python has NVIDIA's wheels,
    these are the wheels' folders, since this Python's frameworks use the same libraries. Without wheels, returns no
    folder if the loader finds the libraries, and otherwise the folders of the build or of a toolkit."""
    spec = importlib.util.find_spec("nvidia")
    wheels = [f for root in (spec.submodule_search_locations if spec else []) for f in sorted(glob.glob(f"{root}/*/lib"))]
    if not HOST and any(glob.glob(f"{folder}/libcudnn.so.9") for folder in wheels):
        return wheels
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout if shutil.which("ldconfig") else ""
    if "libcudnn.so.9" in known and "libcudart.so.13" in known:
        return []
    folders = wheels + sorted(glob.glob(f"{ROOT}/build/deps/nvidia/*/lib"))
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        folders += [f"{root}/lib64", f"{root}/lib"] if root else []
    return [f for f in folders if os.path.isdir(f)]


def environment(**variables):
    """Returns the environment for programs linked with CUDA. Python frameworks find their libraries themselves, so they get
    python_environment()."""
    result = python_environment(**variables)
    folders = [*library_folders(), result.get("LD_LIBRARY_PATH", "")]
    result["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    return result


def python_environment(**variables):
    """Returns the environment without the user's settings of ucudnn and its stand-ins, plus `variables`."""
    foreign = ("UCUDNN_", "HOSTGPU_")
    return {k: v for k, v in os.environ.items() if not k.startswith(foreign)} | (HOST_TUNE if HOST else {}) | variables


class Failed(AssertionError):
    """Raised if a program fails; the text says how, and has the end of the program's output."""


class TimedOut(Failed):
    pass


C = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """Makes the calling process end when its parent does. A test's programs run in sessions of their own, and would
    otherwise keep using the GPU after the test ends."""
    C.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def seconds_left():
    return max(DEADLINE - time.monotonic(), 1)


def call(words, environment, timeout=300):
    """Runs a program. Returns its exit code, stdout and stderr. After `timeout` seconds, the program is killed with all
    processes of its session, and TimedOut is raised."""
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
    """Runs a program, which must succeed, and returns its stdout."""
    code, output, errors = call(words, environment, timeout)
    if code != 0:
        raise Failed(f"{described(words)}: exit code {code}\n{output[-500:]}\n{errors[-2000:]}")
    return output


def described(words):
    return " ".join(str(word).rsplit("/", 1)[-1] for word in words)


def write_whole(path, data):
    """Replaces the file `path` atomically, so that it is complete at any moment, even if this process is killed."""
    path = pathlib.Path(path)
    file, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(file, "wb") as open_file:
            os.fchmod(file, 0o644)
            open_file.write(data)
            open_file.flush()
            os.fsync(file)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


# These variables differ between processes of a sitting, but do not change a program's output.
INDIFFERENT = {"PWD", "OLDPWD", "SHLVL", "TMPDIR", "_"}


def reference(words, environment, timeout=300):
    """Runs a program without ucudnn, which must succeed, and returns its stdout. With UCUDNN_TEST_REFERENCES=FOLDER the
    output is kept in FOLDER for other tests that run the same words with the same variables. Such a test waits while
    another process runs the program. A sitting begins with an empty FOLDER, because outputs of another machine, GPU or
    commit may differ."""
    folder = os.environ.get("UCUDNN_TEST_REFERENCES")
    if not folder:
        return run(words, environment, timeout)
    deadline = time.monotonic() + timeout
    variables = sorted((name, value) for name, value in environment.items() if name not in INDIFFERENT)
    asked = json.dumps([[str(word) for word in words], variables])
    kept = pathlib.Path(folder, f"{slug(described(words))[:60]}-{hashlib.sha256(asked.encode()).hexdigest()[:16]}")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{kept}.running", "a") as running:
        lock_until(deadline, running, f"{described(words)}: not done after {timeout:.0f} s, by another process")
        if not kept.exists():
            write_whole(kept, run(words, environment, max(deadline - time.monotonic(), 1)).encode())
    return kept.read_text()


def lock_until(deadline, file, told):
    """Locks the open `file`, or raises TimedOut with the message `told` after `deadline`. The system frees the lock if the
    process dies."""
    while True:
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if time.monotonic() > deadline:
            raise TimedOut(told)
        time.sleep(0.05)


MEASURED_BY_OTHERS = "others measure"  # words of a cause in ucudnn's report


def under_ucudnn(options, program, environment, timeout=300):
    """Runs `program` under `ucudnn run`. Returns its stdout and the report; the report is None if ucudnn wrote none. Fails if
    other processes measured on the device meanwhile, because `program` may then divide less than it would alone."""
    host = ["--host"] if HOST else []
    if "--off" in options:
        return reference([UCUDNN, "run", *host, *options, "--", *program], environment, timeout), None
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        output = run([UCUDNN, "run", *host, *options, "--report", report, "--", *program], environment, timeout)
        text = report.read_text() if report.exists() else "null"
    if MEASURED_BY_OTHERS in text:
        raise Failed(f"{described(program)}: its report says \"{MEASURED_BY_OTHERS} on the device\": run it where no other "
                     "process measures (lane `measures` of a sitting)")
    return output, json.loads(text)


def pieces(kernel):
    return sum(run["count"] for run in kernel["plan"])


def slug(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def record(name, value):
    figures[name] = value


class Outcome(unittest.TextTestResult):
    """Counts tests and subtests that passed. `testsRun` cannot be used, because it includes skipped tests only in some versions
    of Python."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def addSubTest(self, test, subtest, error):
        # addSuccess is not called for a test with a skipped subtest, so the subtests that passed are counted.
        super().addSubTest(test, subtest, error)
        self.passed += error is None


class Runner(unittest.TextTestRunner):
    resultclass = Outcome


def is_brief(case):
    return case.__name__.startswith("Brief")


def test_cases(suite):
    """Returns the classes of a suite's tests in order, as keys of a dictionary."""
    if isinstance(suite, unittest.TestCase):
        return {type(suite): None}
    return {case: None for part in suite for case in test_cases(part)}


def run_references(names):
    """Calls references() of the test cases with these names, or of all test cases but the Brief ones. Returns failures by
    test case."""
    loader, module, failed = unittest.TestLoader(), sys.modules["__main__"], {}
    suite = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    for case in test_cases(suite):
        if not hasattr(case, "references") or getattr(case, "__unittest_skip__", False) or (not names and is_brief(case)):
            continue
        try:
            case.references()
        except unittest.SkipTest as reason:
            print(f"{case.__name__}: skipped: {reason}")
        except Exception as error:
            failed[case.__name__] = f"{type(error).__name__}: {error}"
    return failed | ({"names": "\n".join(loader.errors)} if loader.errors else {})


def main():
    """Runs the tests of the calling file, or exits with the reason why it cannot."""
    if not HOST and gpu() is None:
        print(f"skipped: {NO_GPU}")
        sys.exit(SKIPPED)
    if sys.argv[1:2] == ["--references"]:
        sys.exit("\n".join(f"{case}: {told}" for case, told in run_references(sys.argv[2:]).items()) or None)
    cases = test_cases(unittest.TestLoader().loadTestsFromModule(sys.modules["__main__"]))
    program = unittest.main(exit=False, verbosity=2, testRunner=Runner,
                            defaultTest=[case.__name__ for case in cases if not is_brief(case)])
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
