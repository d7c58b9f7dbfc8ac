"""Runs alexnet_step four times: once without ucudnn; and three times within the limit, with the legacy API's undivided
engines, with the best undivided engines of any API, and divided. Checks that all outputs are equal. Prints the divisions,
and separately the gain of better engines and the gain of division."""

import json
import os
import subprocess
import sys
import tempfile

LAYERS = {3: "conv1", 64: "conv2", 192: "conv3", 384: "conv4", 256: "conv5"}
STEPS = "5"
# Seconds that measuring may take, per kernel and in all, because a CPU needs more than the default.
SECONDS_ON_CPU = {"UCUDNN_TUNE_SECONDS": "60:600"}


def run(build, folder, name, host, options):
    report = os.path.join(folder, name + ".json")
    command = [os.path.join(build, "bin/ucudnn"), "run", *host, *options]
    if "--off" not in options:
        command += ["--db", os.path.join(folder, "measurements.db"), "--report", report]
    command += ["--", os.path.join(build, "tests/alexnet_step"), sys.argv[2], STEPS]
    seconds = SECONDS_ON_CPU if host else {}
    words = [f"{name}={value}" for name, value in seconds.items()] + command
    print("$ " + " ".join(word.replace(folder + "/", "") for word in words), flush=True)
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | seconds)
    if result.returncode != 0:
        sys.exit(f"demo: {name} failed with exit code {result.returncode}")
    *checksums, summary = result.stdout.strip().splitlines()
    print(summary + "\n", flush=True)
    kernels = json.load(open(report)) if os.path.exists(report) else None
    return checksums, float(summary.split("step ")[1].split()[0]), kernels


def row(name, undivided_ms, best_ms, ms, rest=""):
    """Formats a row. The gain of a better engine is undivided_ms / best_ms; the gain of division is best_ms / ms."""
    return (f"{name:<22} {undivided_ms:7.2f} ms {best_ms:7.2f} ms {ms:7.2f} ms  {undivided_ms / best_ms:5.2f}x  "
            f"{best_ms / ms:7.2f}x{rest}")


def micro_batches(plan):
    return " + ".join(f"{run['count']}x{run['micro_batch']}" for run in plan)


def main():
    build, _, limit, *host = sys.argv[1:]
    bound = ["--workspace-limit", limit]
    undivided = ["--policy", "undivided"]
    with tempfile.TemporaryDirectory() as folder:
        plain, plain_ms, _ = run(build, folder, "off", host, ["--off"])
        own, own_ms, _ = run(build, folder, "undivided", host, [*undivided, "--engines", "legacy", *bound])
        best, best_ms, _ = run(build, folder, "best-undivided", host, [*undivided, *bound])
        divided, divided_ms, report = run(build, folder, "divided", host, bound)
    if not plain == own == best == divided:
        sys.exit("demo: OUTPUTS DIFFER\n" + "\n".join(plain + own + best + divided))

    print(f"Outputs of all four runs are equal. Device: {report['device']}; {sys.argv[2]} images; limit {limit} per kernel.")
    print("undivided: the fastest engine of the program's own API, best: of any API; what runs is in micro-batches.\n")
    print(f"{'kernel':<22} {'undivided':>10} {'best':>10} {'runs':>10}  {'engine':>6}  {'division':>8}  {'workspace':>9}  "
          "micro-batches")
    order = sorted(report["kernels"], key=lambda kernel: (LAYERS[kernel["problem"]["c"]], kernel["op"]))
    totals = [0.0, 0.0, 0.0]
    for kernel in order:
        name = LAYERS[kernel["problem"]["c"]] + " " + kernel["op"]
        if kernel["workspace_bytes"] > kernel["limit_bytes"]:
            sys.exit(f"demo: {name} uses more than the limit")
        parts = (kernel["undivided"], kernel["best_undivided"], kernel)
        if not all(part and part["total_ms"] for part in parts):
            print(f"{name:<22} times not known: {kernel['reason']}")
            continue
        times = [part["total_ms"] for part in parts]
        totals = [total + ms for total, ms in zip(totals, times)]
        mib = kernel["workspace_bytes"] / 2**20
        print(row(name, *times, f"  {mib:5.1f} MiB  {micro_batches(kernel['plan'])}"))
    print(row("all, as measured", *totals) + "\n")
    print(f"one step: without ucudnn and without a limit {plain_ms:.1f} ms; within {limit} {own_ms:.1f} ms undivided, "
          f"{best_ms:.1f} ms in the best undivided engines, {divided_ms:.1f} ms divided: "
          f"{own_ms / best_ms:.2f}x by better engines, {best_ms / divided_ms:.2f}x by division")


main()
