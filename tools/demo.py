"""Runs alexnet_step three times (without ucudnn, undivided under the limit, divided under the limit),
checks that all outputs are equal, and prints what was divided and what it brought."""

import json
import os
import subprocess
import sys
import tempfile

LAYERS = {3: "conv1", 64: "conv2", 192: "conv3", 384: "conv4", 256: "conv5"}
STEPS = "5"
# Seconds that measuring may take, per kernel and in all: a CPU needs more than the default.
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


def plan_text(plan):
    return " + ".join(f"{run['count']}x{run['micro_batch']} {run['engine']}" for run in plan)


def main():
    build, _, limit, *host = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        bound = ["--workspace-limit", limit]
        plain, plain_ms, _ = run(build, folder, "off", host, ["--off"])
        same, undivided_ms, undivided = run(build, folder, "undivided", host,
                                            ["--policy", "undivided", *bound])
        again, divided_ms, report = run(build, folder, "divided", host, bound)
    if not plain == same == again:
        sys.exit("demo: OUTPUTS DIFFER\n" + "\n".join(plain + same + again))

    print(f"Outputs of all three runs are equal. Device: {report['device']}; {sys.argv[2]} images; "
          f"limit {limit} per kernel.\n")
    times = {(k["op"], k["problem"]["c"]): k["plan"][0]["time_ms"] for k in undivided["kernels"]}
    print(f"{'kernel':<22} {'undivided':>10} {'divided':>10} {'ratio':>6}  {'workspace':>10}  plan")
    order = sorted(report["kernels"], key=lambda k: (LAYERS[k["problem"]["c"]], k["op"]))
    before = after = 0.0
    for kernel in order:
        time = sum(r["time_ms"] * r["count"] for r in kernel["plan"])
        undivided_time = times[(kernel["op"], kernel["problem"]["c"])]
        before += undivided_time
        after += time
        name = LAYERS[kernel["problem"]["c"]] + " " + kernel["op"]
        mib = kernel["workspace_bytes"] / 2**20
        print(f"{name:<22} {undivided_time:7.2f} ms {time:7.2f} ms {undivided_time / time:6.2f}  "
              f"{mib:6.1f} MiB  {plan_text(kernel['plan'])}")
        if kernel["workspace_bytes"] > kernel["limit_bytes"]:
            sys.exit(f"demo: {name} uses more than the limit")
    print(f"{'all, as measured':<22} {before:7.2f} ms {after:7.2f} ms {before / after:6.2f}\n")
    print(f"one step: without ucudnn and without a limit {plain_ms:.1f} ms; within {limit} "
          f"{undivided_ms:.1f} ms undivided, {divided_ms:.1f} ms divided: "
          f"{undivided_ms / divided_ms:.2f}x")


main()
