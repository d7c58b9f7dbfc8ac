"""The frameworks of this machine, and their programs with and without ucudnn. A program knows nothing of ucudnn, takes
`--device cpu` and prints JSON on its last line. In the dry run (machine.HOST) it runs on the CPU at small sizes, both times
without ucudnn, since frameworks have kernels of their own that the stand-in cannot run: that tries out the programs and
what compares them."""

import json
import pathlib
import re
import sys
import tempfile

import machine
from versions import VARIABLES, missing  # noqa: F401, which tests take from here

# For measuring, by ucudnn: a kernel, the process. Kernels beyond it run undivided, which is told in `fallbacks`. A test has
# many kernels, of which most shall be divided; what it may take (tools/gpu-check) allows for the whole of it.
TUNE = {"UCUDNN_TUNE_SECONDS": "0.5:60"}
# What may keep a kernel undivided. Anything else in `fallbacks` is a fault: plans that are wrong, pieces that fail.
EXPECTED_FALLBACKS = ("cannot be brought under the workspace limit", "cannot be measured", "left alone",
                      "not measured, so it cannot be brought under the workspace limit")


def start(framework, program, words=(), options=None, **variables):
    """What `program` of this folder printed, and ucudnn's report: None without ucudnn (`options` None), in the dry run, and
    where ucudnn saw no cuDNN convolution."""
    # ONNX Runtime alone does not find the libraries of NVIDIA's wheels by itself, in releases without preload_dlls().
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
    """The program without ucudnn, then under it with a store of its own: two results and the report."""
    plain, _ = start(framework, program, words, None, **variables)
    with tempfile.TemporaryDirectory() as folder:
        options = ["--db", pathlib.Path(folder, "measurements.db"), *options]
        divided, report = start(framework, program, words, options, **variables)
    return plain, divided, report


def new_failures(plain, divided):
    """Of samples: those that passed and do not any more, their outcomes by name."""
    return {name: divided.get(name, "did not run") for name, outcome in plain.items()
            if outcome == "ok" and divided.get(name) != "ok"}


FAILED = "failed: "  # as program.outcome() says it


def assert_equal_case(test, plain, divided):
    """Checksums of a case, or why there is none: equal, and such as whole numbers give. What fails in the same way without
    ucudnn is skipped; call it in a subtest."""
    if plain.startswith(FAILED):
        alike = lambda text: re.sub(r"0x[0-9a-f]+|[0-9]+", "N", text)
        if divided.startswith(FAILED):
            test.assertEqual(alike(plain), alike(divided))
        test.skipTest(f"without ucudnn, too: {plain}" if divided.startswith(FAILED) else f"without ucudnn: {plain}")
    test.assertEqual(plain, divided)
    test.assertRegex(plain, "^[0-9a-f]{16}$")


def assert_equal_cases(test, plain, divided):
    """All cases, most of which must have a result, each in a subtest."""
    test.assertEqual(plain.keys(), divided.keys())
    failed = [result for result in plain.values() if result.startswith(FAILED)]
    test.assertLess(2 * len(failed), len(plain), failed)
    for name, result in plain.items():
        with test.subTest(name=name):
            assert_equal_case(test, result, divided[name])


def divided(report):
    """The kernels that ran in pieces: calls that ran whole all the same count by themselves."""
    return [kernel for kernel in report["kernels"]
            if machine.pieces(kernel) > 1 and kernel["calls"] > kernel.get("undivided_calls", 0)]


def summary(report):
    """Of a report, for the results."""
    if report is None:
        return None
    return {"kernels": len(report["kernels"]), "divided": len(divided(report)), "measured": report["measured"],
            "apis": sorted({kernel["api"] for kernel in report["kernels"]}),
            "largest_workspace_bytes": max((total_bytes(kernel) for kernel in report["kernels"]), default=0),
            "fallbacks": report["fallbacks"]}


def total_bytes(kernel):
    """Workspace of a kernel, the program's and the library's."""
    return kernel["workspace_bytes"] + kernel["owned_workspace_bytes"]


def assert_divided_within(test, report, limit, api):
    """Some kernel of `api` ran in pieces; those in pieces keep to the limit, and so does every other but where the report
    says why not; nothing went wrong inside."""
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
