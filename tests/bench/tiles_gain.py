#!/usr/bin/env python3
"""What tiles of single images gain under a limit: `vae-decoder` for a picture of 128x128 within 8 MiB on the CPU stand-in.

tiles_gain.py [--assert] UCUDNN [BENCH WORD...]

Runs `ucudnn bench --cliff`, in which the fastest undivided engine of any API within the limit and what ucudnn runs there take
turns, in processor time. Prints each kernel whose fastest engine exceeds the limit, with its ratio (undivided over ucudnn), and their
geometric mean. With --assert a mean below 1.3, or a kernel below 0.97, is exit code 1."""

import json
import math
import os
import subprocess
import sys
import tempfile

WORDS = ["--net", "vae-decoder", "--size", "16", "--ops", "forward,backward_data", "--workspace-limit", "8MiB"]
WANTED, LEAST = 1.3, 0.97


def main(words):
    demands = words[:1] == ["--assert"]
    command, *more = words[demands:]
    # One thread, in processor time: what else the machine does changes neither the choice nor the ratios.
    environment = os.environ | {"HOSTGPU_CLOCK": "processor", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([command, "bench", "--cliff", "--host", "--json", "--engines", "both", "--db", f"{folder}/db",
                                 *(more or WORDS)], stdout=subprocess.PIPE, check=True, text=True,
                                env=environment)
    ratios = []
    for kernel in json.loads(result.stdout)["kernels"]:
        if not kernel["real"] or not kernel["ucudnn"]:
            continue
        undivided, tiled = kernel["real"]["run_ms"], kernel["ucudnn"]["run_ms"]
        ratios.append(undivided / tiled)
        tiles = sum(run["count"] for run in kernel["ucudnn"]["plan"])
        print(f"{kernel['name'][:24]:24} {kernel['op']:14} {undivided:9.3f} ms {tiled:9.3f} ms {ratios[-1]:6.2f}x "
              f"{tiles:4} parts by {', '.join(sorted({run['engine'] for run in kernel['ucudnn']['plan']}))}")
    if not ratios:
        sys.exit("tiles_gain: the fastest engine of every kernel fits")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{len(ratios)} kernels: geometric mean {mean:.2f}x (wanted {WANTED}x), least {min(ratios):.2f}x (wanted {LEAST}x)")
    return int(demands and (mean < WANTED or min(ratios) < LEAST))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
