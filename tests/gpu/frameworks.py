"""Runs programs of machine-learning frameworks with and without ucudnn. A program knows nothing of ucudnn, accepts `--device
cpu`, and prints JSON on its last line. With machine.HOST, programs run on the CPU at small sizes. They always run without
ucudnn there, because the stand-in cannot run the frameworks' own kernels; so only the programs and the comparisons are
tested."""

import json
import pathlib
import re
import sys
import tempfile

import machine
from versions import VARIABLES, missing  # noqa: F401: tests use frameworks.missing

# ucudnn may measure for half a second for each kernel and for 60 s in a process. Later kernels run undivided, and the report's
# `fallbacks` say so. The time-outs of tools/gpu-check allow for these 60 s.
TUNE = {"UCUDNN_TUNE_SECONDS": "0.5:60"}
# These causes in `fallbacks` are no faults. Any other cause is a fault, such as a wrong plan or a piece that fails.
EXPECTED_FALLBACKS = ("cannot be brought under the workspace limit", "cannot be measured", "left alone",
                      "not measured, so it cannot be brought under the workspace limit")


def start(framework, program, words=(), options=None, **variables):
    """Runs `program` of this folder, under ucudnn unless `options` is None. Returns the JSON that the program printed, and
    ucudnn's report. The report is None without ucudnn, with machine.HOST, and if ucudnn saw no cuDNN convolution."""
    # ONNX Runtime needs LD_LIBRARY_PATH, since releases without preload_dlls() do not find the libraries in NVIDIA's wheels.
    # The other frameworks find them.
    environment = (machine.environment if framework == "onnxruntime" else machine.python_environment)(
        **VARIABLES[framework] | TUNE | variables)
    timeout = machine.seconds_left()
    words = [sys.executable, "-B", machine.FOLDER / program, *words, *(["--device", "cpu"] if machine.HOST else [])]
    report = None
    if options is None:
        output = machine.reference(words, environment, timeout)
    elif machine.HOST:
        output = machine.run(words, environment, timeout)
    else:
        output, report = machine.under_ucudnn(options, words, environment, timeout)
    return json.loads(output.splitlines()[-1]), report


def both(framework, program, words=(), options=(), **variables):
    """Runs a program without ucudnn, then under ucudnn with a new store. Returns both results and the report."""
    plain, _ = start(framework, program, words, None, **variables)
    with tempfile.TemporaryDirectory() as folder:
        options = ["--db", pathlib.Path(folder, "measurements.db"), *options]
        divided, report = start(framework, program, words, options, **variables)
    return plain, divided, report


def new_failures(plain, divided):
    """Returns the outcomes, by name, of samples that are "ok" in `plain` and not in `divided`."""
    return {name: divided.get(name, "did not run") for name, outcome in plain.items()
            if outcome == "ok" and divided.get(name) != "ok"}


FAILED = "failed: "  # program.outcome() returns failures with this beginning


def assert_equal_case(test, plain, divided):
    """Expects that a case's results are equal, and that they are checksums of whole numbers (16 hexadecimal digits). Skips a
    case that fails without ucudnn. If such a case fails under ucudnn, too, the messages must agree except for numbers.
    REQUIRES: the caller is in a subtest."""
    if plain.startswith(FAILED):
        alike = lambda text: re.sub(r"0x[0-9a-f]+|[0-9]+", "N", text)
        if divided.startswith(FAILED):
            test.assertEqual(alike(plain), alike(divided))
        test.skipTest(f"without ucudnn, too: {plain}" if divided.startswith(FAILED) else f"without ucudnn: {plain}")
    test.assertEqual(plain, divided)
    test.assertRegex(plain, "^[0-9a-f]{16}$")


def assert_equal_cases(test, plain, divided):
    """Compares all cases by assert_equal_case, each in a subtest. Expects that fewer than half of them failed without
    ucudnn."""
    test.assertEqual(plain.keys(), divided.keys())
    failed = [result for result in plain.values() if result.startswith(FAILED)]
    test.assertLess(2 * len(failed), len(plain), failed)
    for name, result in plain.items():
        with test.subTest(name=name):
            assert_equal_case(test, result, divided[name])


def divided(report):
    """Returns the kernels with a call that ran in pieces: the plan has several pieces, and not all calls are
    `undivided_calls`."""
    return [kernel for kernel in report["kernels"]
            if machine.pieces(kernel) > 1 and kernel["calls"] > kernel.get("undivided_calls", 0)]


def summary(report):
    """Returns the values of a report that are written to the results."""
    if report is None:
        return None
    return {"kernels": len(report["kernels"]), "divided": len(divided(report)), "measured": report["measured"],
            "apis": sorted({kernel["api"] for kernel in report["kernels"]}),
            "largest_workspace_bytes": max((total_bytes(kernel) for kernel in report["kernels"]), default=0),
            "fallbacks": report["fallbacks"]}


def total_bytes(kernel):
    """Returns a kernel's workspace: the program's and ucudnn's together."""
    return kernel["workspace_bytes"] + kernel["owned_workspace_bytes"]


def assert_divided_within(test, report, limit, api):
    """Expects that a kernel of `api` ran in pieces, and that `fallbacks` has no fault. Kernels in pieces must keep to the
    limit. Other kernels must keep to it unless the report says why they do not."""
    if machine.HOST:
        test.skipTest("the dry run has no cuDNN")
    test.assertIsNotNone(report, "no cuDNN convolution was seen")
    kernels = [kernel for kernel in report["kernels"] if kernel["api"] == api]
    test.assertGreater(len(kernels), 0)
    test.assertGreater(len([kernel for kernel in divided(report) if kernel["api"] == api]), 0)
    unexpected = [told for told in report["fallbacks"] if not told["cause"].startswith(EXPECTED_FALLBACKS)]
    test.assertEqual([], unexpected)
    for kernel in divided(report):
        test.assertEqual(kernel["problem"]["n"], sum(run["micro_batch"] * run["count"] for run in kernel["plan"]))
        test.assertLessEqual(total_bytes(kernel), limit, kernel)
    over = [kernel for kernel in report["kernels"] if total_bytes(kernel) > limit]
    if over:
        test.assertTrue([told for told in report["fallbacks"] if "workspace limit" in told["cause"]], over)
