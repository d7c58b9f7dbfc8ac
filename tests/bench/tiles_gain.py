#!/usr/bin/env python3
"""Measures what tiles of single images gain under a limit. The default is `vae-decoder` for a picture of 128x128 within 8 MiB
on the CPU stand-in.

tiles_gain.py [--assert] UCUDNN [BENCH WORD...]

Runs `ucudnn bench --cliff`, which times two things by turns in processor time: the fastest undivided engine of any API
within the limit, and what ucudnn runs within the limit. Considers only kernels whose fastest engine exceeds the limit.
Prints a line for each different kernel, with the ratio of its times (undivided over ucudnn). Then prints the geometric
mean of all ratios, and of the ratios in tiles. With --assert the exit code is 1 if the mean in tiles is below 1.3, one
ratio in tiles is below 0.97, or no kernel runs in tiles."""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

WORDS = ["--net", "vae-decoder", "--size", "16", "--ops", "forward,backward_data", "--workspace-limit", "8MiB"]
WANTED, LEAST = 1.3, 0.97


def main(words):
    demands = words[:1] == ["--assert"]
    command, *more = words[demands:]
    # One thread and processor time make the choice of engines and the ratios independent of other programs on the machine.
    environment = os.environ | {"HOSTGPU_CLOCK": "processor", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([command, "bench", "--cliff", "--host", "--json", "--engines", "both", "--db", f"{folder}/db",
                                 *(more or WORDS)], stdout=subprocess.PIPE, check=True, text=True,
                                env=environment)
    kernels = {}  # lists of equal kernels
    for kernel in json.loads(result.stdout)["kernels"]:
        if kernel["real"] and kernel["ucudnn"]:
            kernels.setdefault((kernel["op"], *kernel["problem"].values()), []).append(kernel)
    ratios = {"all": [], "in tiles": []}
    for equals in kernels.values():
        first, plan = equals[0], equals[0]["ucudnn"]["plan"]
        ratio = statistics.median(one["real"]["run_ms"] / one["ucudnn"]["run_ms"] for one in equals)
        ratios["all"].append(ratio)
        if "tile" in plan[0]:
            ratios["in tiles"].append(ratio)
        problem = first["problem"]
        shape = f"{problem['c']}x{problem['h']}x{problem['w']} -> {problem['k']}, {problem['r']}x{problem['s']}"
        print(f"{shape:26} {first['op']:14} {first['real']['run_ms']:9.2f} ms by {first['real']['plan'][0]['engine']:9} "
              f"{first['ucudnn']['run_ms']:9.2f} ms {ratio:6.2f}x  {sum(run['count'] for run in plan):3} parts")
    means = {which: math.exp(sum(map(math.log, of)) / len(of)) if of else 1 for which, of in ratios.items()}
    for which, of in ratios.items():
        print(f"{which}: {len(of)} kernels, geometric mean {means[which]:.2f}x, least {min(of, default=1):.2f}x")
    print(f"wanted in tiles: {WANTED}x, least {LEAST}x")
    return int(demands and (means["in tiles"] < WANTED or min(ratios["in tiles"], default=0) < LEAST))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
