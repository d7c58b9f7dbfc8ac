"""Collects facts about a device and its cuDNN for development without a GPU: the output of facts.cpp, and times of
matrix products in PyTorch. Each stage writes its part of one file, SLUG-facts.json.gz, and returns a summary.
make_lists runs on the developer's machine and lists the plans that cuDNN makes there for the device profiles in
PROFILES. The lists come along in the pack. The stage `plans` compares them with the device's plans.

`facts.py gemm SIZE DEVICE` prints JSON: times and TFLOP/s of products of random square matrices."""

import fcntl
import functools
import gzip
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import machine
import versions

PROGRAM = machine.BUILD / "tests/gpu/bin/facts"
PROFILER = machine.BUILD / "tests/gpu/bin/device_profile"
LISTS = machine.BUILD / "tests/gpu/facts"
FORMAT = {"format": "ucudnn-gpu-facts", "version": 1, "host": machine.HOST}
# These are device profiles in cuDNN's JSON.
H200 = {"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
        "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
        "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
        "supportCoopLaunch": 1, "totalGlobalMem": 150000000000, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
        "memoryBusWidth": 6144, "l2CacheSize": 52428800, "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000,
        "deviceName": "NVIDIA H200"}
PROFILES = {"h200": H200, "h100": H200 | {"totalGlobalMem": 85000000000, "memoryBusWidth": 5120,
                                          "deviceName": "NVIDIA H100 80GB HBM3"}}
MOST_BYTES = 5 << 20  # the largest size of the compressed file
MODES = ("A", "B", "fallback")
MOST_RESTARTS = 3
SHOWN = 5  # the largest number of differences and of failures in a summary
LEGACY_SECONDS = 20  # after this, the remaining layers are left out; the most important ones come first
FIRST_NETWORKS = ("alexnet", "resnet50", "vgg16", "unet")
NO_ROOM = ("cudaMalloc of", "its workspace is too large")
GEMM_SIZE, GEMM_SECONDS = (64, 0.05) if machine.HOST else (8192, 0.5)


class PrintedFacts:
    """What facts.cpp printed: `cases` by name, `others` (lines), the cases that were `not_run`, and `crashes` in words."""

    def __init__(self):
        self.cases, self.others, self.not_run, self.crashes, self.late = {}, [], [], [], False

    def take(self, path):
        """Adds the lines of a file. Returns the number of cases that were begun, and the name of the last one if it did not
        end."""
        begun, open_case = 0, None
        for text in path.read_text(errors="replace").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # the program was killed while it wrote the line
            if "begin" in line:
                begun, open_case = begun + 1, line["begin"]
            elif "not run" in line:
                self.not_run.append(line["not run"])
            elif "case" in line:
                self.cases[line["case"]] = {key: value for key, value in line.items() if key != "case"}
                open_case = None
            elif "layer" in line:  # the command `legacy` prints several lines for a layer
                told = {key: value for key, value in line.items() if key not in ("layer", "problem")}
                self.cases.setdefault(line["layer"], {})[line["problem"]] = told
            else:
                self.others.append(line)
        return begun, open_case

    @property
    def failed(self):
        return {name: case["failed"] for name, case in self.cases.items() if "failed" in case}

    def other(self, name):
        return next((line[name] for line in self.others if name in line), None)


def start(words, path, seconds):
    """Runs a program with `path` as its stdout. Returns two values: the exit code, or None if the program was killed after
    `seconds`; and the end of stderr."""
    with path.open("wb") as output, tempfile.TemporaryFile("w+", errors="replace") as errors:
        with subprocess.Popen([str(word) for word in words], env=machine.environment(), stdin=subprocess.DEVNULL,
                              stdout=output, stderr=errors, start_new_session=True,
                              preexec_fn=machine.die_with_parent) as process:
            try:
                code = process.wait(seconds)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                code = None
        errors.seek(0)
        return code, errors.read()[-1000:].strip()


def ask(command, seconds, *words, on_device=True):
    """Returns what facts.cpp prints within `seconds`. A crash is recorded, and another process runs the cases that follow
    the crashed one."""
    told, deadline, first = PrintedFacts(), time.monotonic() + seconds, 0
    stand_in = [machine.UCUDNN, "run", "--host", "--off", "--"] if machine.HOST and on_device else []
    tiny = ["--tiny"] if machine.HOST and on_device else []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(MOST_RESTARTS + 1):
            left = max(deadline - time.monotonic(), 1)
            path = pathlib.Path(folder, "lines")
            begin = ["--seconds", f"{0.8 * left - 1:.1f}", "--first", str(first)]
            code, errors = start([*stand_in, PROGRAM, command, *tiny, *begin, *words], path, left - 0.5)
            begun, open_case = told.take(path)
            if code == 0:
                break
            if code == machine.SKIPPED:
                raise machine.Failed(errors)
            ended = "was not done in time" if code is None else f"ended with {code}"
            told.crashes.append(f"{open_case or 'outside of a case'}: {ended} {errors}".strip())
            told.late = code is None
            if open_case:
                told.cases.setdefault(open_case, {"failed": told.crashes[-1]})
            first += begun
            if told.late or not begun or deadline - time.monotonic() < 3:
                break
    return told


def keep(sitting, part, value):
    """Writes one part of the file of facts, and keeps the other parts. A lock lets stages that run at the same time take
    turns."""
    path = sitting.output / f"{sitting.slug}-facts.json.gz"
    with open(sitting.scratch / "facts.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        document = FORMAT | {"parts": {}}
        if path.exists():
            earlier = json.loads(gzip.decompress(path.read_bytes()))
            if all(earlier.get(key) == value for key, value in FORMAT.items()):
                document = earlier
        document["parts"][part] = value
        text = json.dumps(document, separators=(",", ":")).encode()
        packed = gzip.compress(text, 6, mtime=0)
        if len(packed) > MOST_BYTES:
            raise machine.Failed(f"with {part} the facts take {len(packed)} bytes, more than {MOST_BYTES}")
        machine.write_whole(path, packed)


def finished(sitting, part, told, figures, **more):
    """Writes the stage's part of the file. Returns the figures of the stage. Raises an error with these figures if facts.cpp
    crashed or was late, or if a case failed for another reason than lack of memory."""
    keep(sitting, part, {"cases": told.cases, "others": told.others, "crashes": told.crashes, "not run": told.not_run} | more)
    no_room = {name: text for name, text in told.failed.items() if text.startswith(NO_ROOM)}
    failed = {name: text for name, text in told.failed.items() if name not in no_room}
    figures = {"cases": len(told.cases), **figures}
    figures |= {name: value for name, value in (("did not fit", no_room), ("failed", dict(list(failed.items())[:SHOWN])),
                                                ("not run", told.not_run)) if value}
    if told.late:
        raise machine.TimedOut(told.crashes[-1], figures)
    if failed or told.crashes:
        raise machine.Failed("; ".join(told.crashes or [f"{name}: {text}" for name, text in failed.items()][:SHOWN]), figures)
    if not told.cases and not told.not_run:
        raise machine.Failed(f"the program told of no case of {part}", figures)
    return figures


# ---- Plans, and lists of them.


def make_lists(folder, seconds=120):
    """Writes NAME.json.gz for each of PROFILES: the plans that cuDNN on this machine makes for a device with this profile, in
    at most `seconds` each. Needs no GPU."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, profile in PROFILES.items():
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(profile, file)
            file.flush()
            told = ask("plans", seconds, "--profile", file.name, on_device=False)
        # cuDNN itself crashes on some graphs (9.10 divides by zero for 2^31 elements), so crashes are accepted. The
        # list records such a graph as failed.
        if told.late or told.not_run or not told.cases:
            raise machine.Failed(f"plans for {name}: {'; '.join(told.crashes) or f'not run: {told.not_run}'}")
        text = json.dumps({"profile": profile, "graphs": told.cases}, separators=(",", ":")).encode()
        machine.write_whole(folder / f"{name}.json.gz", gzip.compress(text, mtime=0))


def lists_of(folder):
    """Returns the graphs of each list in a folder, by the list's name."""
    return {path.name.split(".")[0]: json.loads(gzip.decompress(path.read_bytes()))["graphs"]
            for path in sorted(pathlib.Path(folder).glob("*.json.gz"))}


def described(row):
    knobs = ",".join(f"k{number}={value}" for number, value in row["knobs"].items())
    return f"{row['engine']}[{knobs}]"


ASPECTS = {"engines": lambda row: row["engine"], "knobs": lambda row: row["knobs"],
           "notes": lambda row: [row["numerical"], row["behavior"]], "builds": lambda row: "refused" not in row,
           "workspace": lambda row: row.get("workspace_bytes")}


def differences(device, here):
    """Returns, in words, the first difference in each aspect of one graph and mode. Configurations at the same place of both
    lists are compared; if their engines or knobs differ, their other aspects are not compared."""
    if "configurations" not in device or "configurations" not in here:
        same = device.get("failed") == here.get("failed")
        return {} if same else {"engines": f"{device.get('failed', 'a list')} there, {here.get('failed', 'a list')} here"}
    found = {}
    ours = [row["engine"] for row in device["configurations"]], [row["engine"] for row in here["configurations"]]
    if len(ours[0]) != len(ours[1]):
        found["engines"] = f"{len(ours[0])} configurations there, {len(ours[1])} here"
    for place, (one, other) in enumerate(zip(device["configurations"], here["configurations"])):
        for aspect, value in ASPECTS.items():
            if value(one) != value(other):
                text = f"number {place}, engine {described(one)}: {value(one)} there, {value(other)} here"
                found.setdefault(aspect, text)
                if aspect in ("engines", "knobs"):
                    break
    if text := first_difference(plan_json(device), plan_json(here)):
        found["plan JSON"] = text
    return found


def plan_json(mode):
    """Returns the JSON of a mode's first plan without its GPUProfile."""
    try:
        return {name: value for name, value in json.loads(mode["plan"]).items() if name != "GPUProfile"}
    except ValueError:
        return {"text": mode["plan"]}


def first_difference(one, other, place=""):
    """Returns the first difference of two JSON values, with its path, or None."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted(one.keys() | other.keys())
        pairs = [(f"{place}/{name}", one.get(name), other.get(name)) for name in names]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(f"{place}/{i}", *pair) for i, pair in enumerate(zip(one, other))]
    else:
        return None if one == other else f"{place}: {str(one)[:80]} there, {str(other)[:80]} here"
    return next(filter(None, (first_difference(a, b, where) for where, a, b in pairs)), None)


def common(device, here):
    """Returns how many configurations are in both lists, in any order, and how many of these have the same workspace."""
    place = lambda row: json.dumps([row["engine"], row["knobs"]], sort_keys=True)
    theirs = {place(row): row.get("workspace_bytes") for row in here.get("configurations", [])}
    both = [row for row in device.get("configurations", []) if place(row) in theirs]
    return len(both), sum(row.get("workspace_bytes") == theirs[place(row)] for row in both)


def compared(device, here):
    """Compares a list that was made without the device (`here`) with the device's list. A graph still counts as valid
    if nothing but the JSON of its plans differs."""
    result = {"sentence": "", "valid": 0, "graphs": len(here), "differing": {}, "first": {}, "configurations": 0,
              "in both": 0, "in both with the same workspace": 0}
    for name, ours in here.items():
        theirs = device.get(name, {"failed": "not told of"})
        decisive = "failed" in theirs
        for mode in MODES:
            one, other = (graph.get(mode, {"failed": graph.get("failed", "")}) for graph in (theirs, ours))
            result["configurations"] += len(one.get("configurations", []))
            both, same = common(one, other)
            result["in both"] += both
            result["in both with the same workspace"] += same
            for aspect, text in differences(one, other).items():
                decisive = decisive or aspect != "plan JSON"
                result["differing"].setdefault(aspect, []).append(name)
                result["first"].setdefault(aspect, f"{name}, {mode}: {text}")
        result["valid"] += not decisive
    result["differing"] = {aspect: len(set(names)) for aspect, names in result["differing"].items()}
    result["sentence"] = (f"offline work is valid for {result['valid']} of {len(here)} graphs, and the JSON of plans is "
                          f"the same for {len(here) - result['differing'].get('plan JSON', 0)}")
    return result


def plans(sitting, seconds):
    """Compares the device's plans with the packed lists (without them, with lists made here), and with a list for its own
    profile. The stage is in the lane FREE."""
    begin = time.monotonic()
    told = ask("plans", 0.4 * seconds)
    left = lambda: max(seconds - (time.monotonic() - begin) - 2, 2)
    lists, origin = lists_of(LISTS), "came along"
    if not lists:
        origin = "made on this machine"
        try:
            make_lists(sitting.scratch / "lists", 0.3 * left())
            lists = lists_of(sitting.scratch / "lists")
        except machine.Failed as failure:
            told.not_run.append(f"the comparison: no lists came along, and here: {failure}")
    figures = {name: compared(told.cases, graphs) for name, graphs in lists.items()} | {"lists": origin}
    profile, own = own_list(left())
    figures["own profile"] = compared(told.cases, own) if own else profile
    figures["sentences"] = [f"{name}: {each['sentence']}" for name, each in figures.items() if "sentence" in each]
    return finished(sitting, "plans", told, figures, compared=figures, profile=profile)


def own_list(seconds):
    """Returns two values: the device's profile, as cuDNN describes it, and cuDNN's plans for that profile. If the
    profile or the plans cannot be made, returns the reason and None."""
    stand_in = [machine.UCUDNN, "run", "--host", "--off", "--"] if machine.HOST else []
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        code, errors = start([*stand_in, PROFILER], pathlib.Path(file.name), 0.3 * seconds)
        if code != 0:
            return f"no profile: {errors or code}", None
        profile = json.load(file)
        told = ask("plans", 0.7 * seconds, "--profile", file.name)
        if told.crashes or told.not_run:
            return f"no list for the device's own profile: {told.crashes or told.not_run}", None
    return profile, told.cases


# ---- Stages that run at the same time as others and record no times.


def legacy(sitting, seconds):
    """Records the legacy API's answers for the layers of the built-in networks. The stage is in the lane FREE."""
    told = ask("legacy", min(LEGACY_SECONDS, seconds))
    left = told.other("first left out")
    if left and left.split()[0] in FIRST_NETWORKS:
        told.not_run.append(left)
    refused = [line["failed"] for line in told.others if "failed" in line]
    told.crashes += refused[:1]
    figures = {"units": told.other("units"), "asked": sum(map(len, told.cases.values())), "left": told.other("left") or 0,
               "first left out": left}
    return finished(sitting, "legacy", told, figures)


def kernels(sitting, seconds):
    """Records the CUDA kernels of each plan of heuristics mode A. The stage is in the lane FREE."""
    told = ask("kernels", seconds)
    rows = [row for case in told.cases.values() for row in case.get("plans", [])]
    failed = [row["failed"] for row in rows if "failed" in row]
    figures = {"plans": len(rows), "captured": sum("nodes" in row for row in rows),
               "captured after a first run": sum("captured" in row for row in rows),
               "kernels": sum(row.get("nodes", {}).get("kernel", 0) for row in rows),
               "names": len({kernel[0] for row in rows for kernel in row.get("kernels", [])}),
               "lacks": sorted({row["lacks"] for row in rows if "lacks" in row}), "plans that failed": len(failed),
               "first failure": failed[0] if failed else None,
               "too large": [name for name, case in told.cases.items() if "too large" in case]}
    if rows and not figures["captured"]:
        told.crashes.append(f"no plan was captured: {failed[0] if failed else ''}")
    return finished(sitting, "kernels", told, figures)


# ---- Stages that run alone and record times.


def launches(sitting, seconds):
    """Compares the first launches of plans in a new process with later ones."""
    told = ask("launches", seconds)
    cases = [case for case in told.cases.values() if len(case.get("done_ms", [])) > 1]
    middle = lambda values: round(statistics.median(values), 4) if values else None
    figures = {"plans": len(cases), "build_ms": middle([case["build_ms"] for case in cases]),
               "first_done_ms": middle([case["done_ms"][0] for case in cases]),
               "second_done_ms": middle([case["done_ms"][1] for case in cases]),
               "last_done_ms": middle([case["done_ms"][-1] for case in cases]),
               "worst_first_done_ms": max((case["done_ms"][0] for case in cases), default=None)}
    if cases:
        figures["sentences"] = [f"median of {len(cases)} plans: the first launch takes {figures['first_done_ms']:.2f} ms, the tenth "
                                f"{figures['last_done_ms']:.2f} ms"]
    return finished(sitting, "launches", told, figures)


def sweep(sitting, seconds):
    """Times a batch in pieces of m images: the same images in every piece (hot), and different images in each (cold).
    Figures are milliseconds for the whole batch, the least of all rounds."""
    told = ask("sweep", seconds)
    best = lambda times: min(times) if isinstance(times, list) else times
    figures = {"l2_bytes": told.other("l2_bytes")}
    for name, case in told.cases.items():
        if not machine.HOST and case.get("x_bytes", 0) <= 2 * (figures["l2_bytes"] or 0) and "m" in case:
            case["failed"] = "x is not larger than twice the L2 cache: the runs are not cold"
        if "m" in case:
            figures.setdefault(name.rsplit(" in pieces of ", 1)[0], {})[case["m"]] = {
                f"{time}_ms": best(case["first"].get(f"{time}_ms")) for time in ("hot", "cold", "graph")}
    return finished(sitting, "sweep", told, figures)


def tiles(sitting, seconds):
    """Times a convolution of one large image, undivided and in parts along h."""
    told = ask("tiles", seconds)
    figures, wrong = {}, []
    for name, case in told.cases.items():
        middle = lambda key: round(statistics.median(case[key]), 4) if key in case else None
        figures[name] = {"ms": middle("event_ms"), "whole_ms": middle("whole_ms"),
                         "without_copies_ms": middle("without_copies_ms"),
                         **{key: case.get(key) for key in ("first_ms", "estimated_ms", "result")},
                         "engines": sorted({plan["engine"] for plan in case.get("plans", [])})}
        if "DIFFER" in (case.get("result") or ""):
            wrong.append(f"{name}: {case['result']}")
    told.crashes += wrong
    figures["sentences"] = [f"{name}: {case['ms']:.2f} ms" for name, case in figures.items() if case["ms"]]
    return finished(sitting, "tiles", told, figures)


def repeat(sitting, seconds, when):
    """Times one kernel 50 times. `when` names the point of the sitting, so that the results show drift."""
    told = ask("repeat", seconds)
    times = [time for case in told.cases.values() for time in case.get("event_ms", [])]
    figures = {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times)} if times else {}
    return finished(sitting, f"repeat {when}", told, figures)


def ceilings(sitting, seconds):
    """Times copies within the device's memory, and products of matrices in PyTorch."""
    begin = time.monotonic()
    told = ask("copy", 0.4 * seconds)
    figures = {"copy_gb_per_s": told.cases.get("copy", {}).get("gb_per_s")}
    reason = versions.missing("torch")
    if reason:
        figures["gemm"] = reason
    else:
        left = max(seconds - (time.monotonic() - begin) - 1, 1)
        words = [sys.executable, "-B", __file__, "gemm", GEMM_SIZE, "cpu" if machine.HOST else "cuda"]
        try:
            told.cases["gemm"] = json.loads(machine.run(words, machine.python_environment(), left).splitlines()[-1])
            figures |= {f"{name}_tflops": product["tflops"] for name, product in told.cases["gemm"].items()}
        except machine.Failed as failure:
            told.cases["gemm"] = {"failed": str(failure)}
    figures["sentences"] = [", ".join(f"{name} {value:.3g}" for name, value in figures.items() if isinstance(value, float))]
    return finished(sitting, "ceilings", told, figures)


@functools.cache
def warm_up():
    """Runs convolutions for half a second, once in a process, so that the GPU raises its clocks."""
    if not machine.HOST:
        ask("repeat", 10)


def gemm(size, device):
    import torch
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    torch.backends.cuda.matmul.allow_tf32 = True
    result = {}
    for name, dtype in (("bf16", torch.bfloat16), ("tf32", torch.float32)):
        a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
        rounds = []
        for phase_seconds in (GEMM_SECONDS, GEMM_SECONDS):  # the first phase only warms up
            rounds, begin = [], time.monotonic()
            while time.monotonic() - begin < phase_seconds or len(rounds) < 2:
                wait()
                start = time.monotonic()
                for _ in range(4):
                    torch.matmul(a, b)
                wait()
                rounds.append((time.monotonic() - start) / 4)
        result[name] = {"size": size, "median_ms": round(statistics.median(rounds) * 1e3, 4),
                        "min_ms": round(min(rounds) * 1e3, 4), "tflops": round(2 * size ** 3 / min(rounds) * 1e-12, 4)}
    return result


if __name__ == "__main__":
    if sys.argv[1:2] != ["gemm"] or len(sys.argv) != 4:
        sys.exit("usage: facts.py gemm SIZE cpu|cuda")
    print(json.dumps(gemm(int(sys.argv[2]), sys.argv[3])))
