"""The stage `gate`, which decides whether most other stages make sense on this machine, and the stage `page cache`. The gate
checks the driver, the findings of `ucudnn doctor`, the device's profile, and that the drop-in does not change the outputs of
an ordinary cuDNN program."""

import concurrent.futures
import importlib.util
import json
import os
import pathlib
import shutil
import time

import figures
import machine

PROGRAM = machine.BUILD / "tests/gpu/bin/convolution_cases"
WORKSPACE_MIB, SHAPES = "64", "1"
DIAGNOSTIC_CHARACTERS = 4000


def gate(sitting, seconds):
    found, failures = {}, []
    checks = {"doctor": doctor, "device profile": lambda limit: figures.device_profile(sitting, limit),
              "real": lambda limit: cases(limit, "--off"),
              "drop-in": lambda limit: cases(limit, "--db", "none")}
    if not machine.HOST:
        checks["driver"] = driver
    with concurrent.futures.ThreadPoolExecutor(len(checks)) as threads:
        running = {name: threads.submit(check, 0.6 * seconds) for name, check in checks.items()}
        for name, run in running.items():
            try:
                found[name] = run.result()
            except figures.Skipped as reason:
                found[name] = f"skipped: {reason}"
            except (machine.Failed, OSError) as failure:  # a missing program gives OSError
                failures.append(f"{name}: {failure.args[0] if isinstance(failure, machine.Failed) else failure}")
    if not failures:
        failures = compared(found["real"], found["drop-in"])
    if failures:
        raise machine.Failed("; ".join(failures), {"found": found, "diagnostics": diagnostics()})
    return {name: told for name, told in found.items() if name not in ("real", "drop-in")} | {
        "cases": len(found["real"]["lines"]), "kernels seen": found["drop-in"]["kernels"]}


def cases(seconds, *options):
    """Runs convolution_cases. Returns the first two words of its lines (the case and its checksum), and the number of kernels
    in ucudnn's report. Without a report, the number is None."""
    environment = machine.environment(UCUDNN_TUNE="off")
    output, report = machine.under_ucudnn([*options], [PROGRAM, WORKSPACE_MIB, SHAPES], environment, seconds)
    return {"lines": [line.split()[:2] for line in output.strip().splitlines()],
            "kernels": len(report["kernels"]) if report else None}


def compared(real, dropped_in):
    """Returns the faults that the runs with and without the drop-in show, or an empty list."""
    if not any(len(line) > 1 and line[1] != "unsupported" for line in real["lines"]):
        return ["cuDNN runs no convolution here, without ucudnn"]
    if not dropped_in["kernels"]:
        return ["ucudnn saw no convolution: the program's calls do not reach the drop-in"]
    differ = [f"{one[0]}: {one[1]} without ucudnn, {other[1]} with it"
              for one, other in zip(real["lines"], dropped_in["lines"], strict=True) if one != other]
    return [f"outputs differ under the drop-in: {'; '.join(differ[:3])}"] if differ else []


def driver(seconds):
    gpu = machine.gpu()
    if gpu is None:
        raise machine.Failed(machine.NO_GPU)
    return {"name": gpu.name, "count": gpu.count, "driver": gpu.driver, "compute mode": machine.compute_mode()}


def doctor(seconds):
    """Returns what `ucudnn doctor` says about a program that it starts. Raises Failed if ucudnn does not work with it."""
    words = [machine.UCUDNN, "doctor", "--json", *(["--host"] if machine.HOST else []), "--", PROGRAM, "1", "1"]
    code, output, errors = machine.call(words, machine.environment(UCUDNN_TUNE="off"), seconds)
    try:
        told = json.loads(output)
    except ValueError:
        raise machine.Failed(f"ucudnn doctor: exit code {code}: {(errors or output)[-500:]}") from None
    if not told["works"]:
        faults = [finding["what"] for finding in told["findings"] if finding["severity"] == "fault"]
        raise machine.Failed(f"ucudnn doctor: {'; '.join(faults) or told['verdict']}", told)
    return {"verdict": told["verdict"], "facts": {fact["name"]: fact["text"] for fact in told["facts"] if fact["name"]},
            "findings": [f"{finding['severity']}: {finding['what']}" for finding in told["findings"]]}


def diagnostics():
    """Returns the outputs of commands that help to find a fault later, by their names."""
    commands = {
        "nvidia-smi": ["nvidia-smi"], "doctor": [machine.UCUDNN, "doctor"], "ldd": ["ldd", PROGRAM],
        "cuDNN's bindings": ["env", "LD_DEBUG=libs", PROGRAM, "1", "1"],
        "library folders": ["ls", *machine.library_folders()] if machine.library_folders() else ["true"],
        "disk and memory": ["sh", "-c", "df -h . /tmp; free -m; nproc; uname -a"],
        "driver's version": ["cat", "/proc/driver/nvidia/version"]}
    with concurrent.futures.ThreadPoolExecutor(len(commands)) as threads:
        found = dict(zip(commands, threads.map(told_by, commands.values())))
    return found | {"LD_LIBRARY_PATH": machine.environment().get("LD_LIBRARY_PATH", ""), "PATH": os.environ.get("PATH", "")}


def told_by(words):
    """Returns a command's output. A long output is shortened to its beginning and its end."""
    if not shutil.which(str(words[0])):
        return "not found"
    try:
        code, output, errors = machine.call(words, machine.environment(), 8)
        text = f"exit code {code}\n{output}\n{errors}"
    except (machine.Failed, OSError) as failure:
        text = str(failure)
    half = DIAGNOSTIC_CHARACTERS // 2
    return text if len(text) <= 2 * half else f"{text[:half]}\n…\n{text[-half:]}"


READING_SECONDS = 20  # page_cache() reads no longer than this, even from a slow disk, since stages wait for it


def page_cache(sitting, seconds):
    """Reads the libraries that the programs load, so that the first program does not wait for the disk."""
    deadline = time.monotonic() + min(READING_SECONDS, seconds)
    folders = [pathlib.Path(folder) for folder in machine.library_folders()]
    torch, nvidia = importlib.util.find_spec("torch"), importlib.util.find_spec("nvidia")
    folders += [pathlib.Path(folder, "lib") for folder in (torch.submodule_search_locations if torch else [])]
    folders += [path for root in (nvidia.submodule_search_locations if nvidia else []) for path in pathlib.Path(root).glob("*/lib")]
    # Libraries that almost every stage loads come first. Libraries of a CUDA toolkit come last, because NVIDIA's wheels contain
    # most of them as well.
    first = ("cudnn", "torch", "cublas", "cudart", "nvrtc", "c10", "nccl")
    files = sorted({path.resolve() for folder in folders for path in folder.glob("*.so*") if path.is_file()}, key=lambda path: (
        nvidia is not None and path.is_relative_to("/usr/local"), not path.name.startswith(tuple(f"lib{name}" for name in first)),
        path.name))

    def read(path):
        size = 0
        with path.open("rb", buffering=0) as file:
            while time.monotonic() < deadline and (chunk := file.read(1 << 24)):
                size += len(chunk)
        return size

    with concurrent.futures.ThreadPoolExecutor(2 if machine.HOST else 8) as threads:
        sizes = list(threads.map(read, files[:4] if machine.HOST else files))
    return {"files": sum(size > 0 for size in sizes), "of": len(files), "bytes": sum(sizes)}
