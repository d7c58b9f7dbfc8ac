"""Runs the programs of this machine's frameworks with and without ucudnn. A program knows nothing of ucudnn, takes `--device
cpu` and prints JSON on its last line. In the dry run (machine.HOST) it runs on the CPU at small sizes, both times without
ucudnn, since frameworks have kernels of their own that the stand-in cannot run. This tries out the programs and what
compares them."""

import json
import pathlib
import re
import sys
import tempfile

import machine
from versions import VARIABLES, missing  # noqa: F401, which tests take from here

# ucudnn may measure for so long: a kernel, the process. Later kernels run undivided, which `fallbacks` tells. A test has many
# kernels, most of which shall be divided; the time that it may take (tools/gpu-check) allows for the whole of this.
TUNE = {"UCUDNN_TUNE_SECONDS": "0.5:60"}
# These may keep a kernel undivided. Anything else in `fallbacks` is a fault: plans that are wrong, pieces that fail.
EXPECTED_FALLBACKS = ("cannot be brought under the workspace limit", "cannot be measured", "left alone",
                      "not measured, so it cannot be brought under the workspace limit")


def start(framework, program, words=(), options=None, **variables):
    """Returns what `program` of this folder printed, and ucudnn's report: None without ucudnn (`options` None), in the dry run,
    and where ucudnn saw no cuDNN convolution."""
    # In releases without preload_dlls(), ONNX Runtime is the only one that does not find the libraries of NVIDIA's wheels
    # itself.
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
    """Runs the program without ucudnn, then under it with a store of its own. Returns two results and the report."""
    plain, _ = start(framework, program, words, None, **variables)
    with tempfile.TemporaryDirectory() as folder:
        options = ["--db", pathlib.Path(folder, "measurements.db"), *options]
        divided, report = start(framework, program, words, options, **variables)
    return plain, divided, report


def new_failures(plain, divided):
    """Returns the outcomes, by name, of samples that passed before and do not any more."""
    return {name: divided.get(name, "did not run") for name, outcome in plain.items()
            if outcome == "ok" and divided.get(name) != "ok"}


FAILED = "failed: "  # program.outcome() begins failures so


def assert_equal_case(test, plain, divided):
    """Expects that checksums of a case, or why there is none, are equal, and as whole numbers make them. What fails in the same
    way without ucudnn is skipped. Call it in a subtest."""
    if plain.startswith(FAILED):
        alike = lambda text: re.sub(r"0x[0-9a-f]+|[0-9]+", "N", text)
        if divided.startswith(FAILED):
            test.assertEqual(alike(plain), alike(divided))
        test.skipTest(f"without ucudnn, too: {plain}" if divided.startswith(FAILED) else f"without ucudnn: {plain}")
    test.assertEqual(plain, divided)
    test.assertRegex(plain, "^[0-9a-f]{16}$")


def assert_equal_cases(test, plain, divided):
    """Checks all cases, each in a subtest; most of them must have a result."""
    test.assertEqual(plain.keys(), divided.keys())
    failed = [result for result in plain.values() if result.startswith(FAILED)]
    test.assertLess(2 * len(failed), len(plain), failed)
    for name, result in plain.items():
        with test.subTest(name=name):
            assert_equal_case(test, result, divided[name])


def divided(report):
    """Returns the kernels that ran in pieces. Calls that ran undivided anyway are counted by themselves."""
    return [kernel for kernel in report["kernels"]
            if machine.pieces(kernel) > 1 and kernel["calls"] > kernel.get("undivided_calls", 0)]


def summary(report):
    """Summarises a report for the results."""
    if report is None:
        return None
    return {"kernels": len(report["kernels"]), "divided": len(divided(report)), "measured": report["measured"],
            "apis": sorted({kernel["api"] for kernel in report["kernels"]}),
            "largest_workspace_bytes": max((total_bytes(kernel) for kernel in report["kernels"]), default=0),
            "fallbacks": report["fallbacks"]}


def total_bytes(kernel):
    """Returns a kernel's workspace, the program's and the library's together."""
    return kernel["workspace_bytes"] + kernel["owned_workspace_bytes"]


def assert_divided_within(test, report, limit, api):
    """Expects that some kernel of `api` ran in pieces. Those in pieces keep to the limit, and so does every other unless the
    report says why not; nothing went wrong inside."""
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
