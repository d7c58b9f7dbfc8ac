"""What tools/gpu-check measures and records beside the tests. Every function takes the seconds it may take and returns
figures for the JSON; files go into `scratch` or `results`. Failures are machine.Failed."""

import json
import pathlib
import shutil
import sys
import tempfile
import time

import machine
import trace_calls

MIB = 1 << 20
NETWORKS = ("alexnet", "resnet18", "alexnet-caffe", "vgg16")
BATCHES = (256, 64)
LIMITS_MIB = (8, 64, 512)
TRACED = {"graph": {}, "legacy": {"TORCH_CUDNN_V8_API_DISABLED": "1"}}
TRACED_LINES = 4000  # the whole of a benchmark run is long and says nothing new


class Skipped(Exception):
    pass


def device_profile(path, seconds):
    code, output, errors = machine.call([machine.BUILD / "tests/gpu/bin/device_profile"], machine.environment(), seconds)
    if code == machine.SKIPPED:
        raise Skipped(machine.NO_GPU)
    if code != 0:
        raise machine.Failed(errors.strip())
    path.write_text(json.dumps(json.loads(output), indent=2) + "\n")
    return {"file": path.name}


def bench(options, store, seconds, policy="powerOfTwo"):
    host = ["--host"] if machine.HOST else []
    words = [machine.UCUDNN, "bench", *options, "--policy", policy, "--db", store, "--json", *host]
    return json.loads(machine.run(words, machine.environment(), seconds))


def summary(report):
    """Sums over the kernels for which both ways fit the limit."""
    kernels = report["kernels"]
    both = [kernel for kernel in kernels if kernel["undivided"] and kernel["divided"]]
    return {"kernels": len(kernels), "compared": len(both),
            "divided": sum(len(k["divided"]["plan"]) > 1 or k["divided"]["plan"][0]["count"] > 1 for k in both),
            "undivided_ms": sum(kernel["undivided"]["time_ms"] for kernel in both),
            "divided_ms": sum(kernel["divided"]["time_ms"] for kernel in both)}


def network(name, batch, store, seconds):
    """Every engine of every convolution at powers of two, into the store; and what division brings at some limits."""
    deadline = time.monotonic() + seconds
    options = ["--net", name, "--batch", str(batch)]
    if machine.HOST:
        options += ["--ops", "forward"]
    unlimited = bench(options, store, seconds)
    figures = {"measured": unlimited["measured"], "no limit": summary(unlimited)}
    for mib in LIMITS_MIB:
        left = max(deadline - time.monotonic(), 1)
        figures[f"{mib} MiB"] = summary(bench([*options, "--workspace-limit", f"{mib}MiB"], store, left))
    return figures


def l2(path, scratch, seconds):
    """Whether micro-batches whose workspace fits the L2 cache beat the undivided kernel without any limit: what all sizes
    show, and what policy auto finds of it. Each policy measures into a store of its own."""
    deadline, figures = time.monotonic() + seconds, {}
    options = ["--layers", path] + (["--batch", "2", "--ops", "forward"] if machine.HOST else [])
    if machine.HOST:
        short = pathlib.Path(scratch, "l2.csv")
        short.write_text("".join(path.open().readlines()[0:9:7]))
        options[1] = short
    for policy in ("auto", "all"):
        report = bench(options, scratch / f"l2-{policy}.db", max(deadline - time.monotonic(), 1), policy)
        figures[policy] = {"measured": report["measured"], **summary(report), "layers": {
            f"{kernel['name']} {kernel['op']}": {
                "undivided_ms": kernel["undivided"]["time_ms"], "workspace_bytes": kernel["undivided"]["workspace_bytes"],
                "divided_ms": kernel["divided"]["time_ms"], "divided_workspace_bytes": kernel["divided"]["workspace_bytes"],
                "micro_batches": [[run["micro_batch"], run["count"]] for run in kernel["divided"]["plan"]]}
            for kernel in report["kernels"] if kernel["undivided"] and kernel["divided"]}}
    return figures


def cliff(store, seconds):
    """AlexNet's kernels in their best engine's workspace, and in one byte less."""
    options = ["--net", "alexnet", "--batch", "1" if machine.HOST else "256", "--cliff"]
    if machine.HOST:
        options += ["--ops", "forward"]
    report = bench(options, store, seconds, "auto")
    return {"total": report["total"], "kernels": len(report["kernels"])}


def table(path, seconds):
    """Every micro-batch size of AlexNet, for tests/bench/auto_policy_figures and the tables of tests/unit/planning."""
    batch = "2" if machine.HOST else "256"
    words = [machine.ROOT / "tests/bench/record-table", machine.UCUDNN, "alexnet", batch, path]
    machine.run(words + ([] if machine.HOST else ["--gpu"]), machine.environment(), seconds)
    return {"file": path.name, "rows": sum(1 for _ in path.open()) - 1}


def sanitizer(seconds):
    """compute-sanitizer's memcheck and initcheck over the differential program, divided. Where the genuine run has errors
    of its own (cuDNN's), only more of them count."""
    tool = shutil.which("compute-sanitizer") or next(iter(sorted(pathlib.Path("/usr/local").glob(
        "cuda*/bin/compute-sanitizer"))), None)
    if machine.HOST or not tool:
        raise Skipped("the stand-in's memory is the host's" if machine.HOST else "no compute-sanitizer")
    deadline, figures = time.monotonic() + seconds, {}
    program = [machine.BUILD / "tests/gpu/bin/convolution_cases", "8", "2"]
    for check in ("memcheck", "initcheck"):
        errors = {}
        for name, options in {"genuine": ["--off"], "divided": ["--db", "none", "--workspace-limit", "64KiB"]}.items():
            code, output, told = machine.call(
                [machine.UCUDNN, "run", *options, "--", tool, "--tool", check, *program],
                machine.environment(), max(deadline - time.monotonic(), 1))
            text = output + told
            if "ERROR SUMMARY: " not in text:
                raise machine.Failed(f"{check}, {name}: exit code {code}: {text[-500:]}", figures)
            errors[name] = int(text.rsplit("ERROR SUMMARY: ", 1)[1].split()[0])
        figures[check] = errors
        if errors["divided"] > errors["genuine"]:
            raise machine.Failed(f"{check}: {errors['divided']} errors, {errors['genuine']} without ucudnn", figures)
    return figures


def export(path, store):
    """The store's rows as CSV, beside the results."""
    if not pathlib.Path(store).exists():
        raise Skipped("nothing was measured")
    machine.run([machine.UCUDNN, "cache", "export", path, "--db", store], machine.environment(), 60)
    return {"file": path.name, "rows": sum(1 for _ in path.open()) - 1}


def benches(seconds):
    """Google Benchmark programs, by program and benchmark: the counters they print."""
    deadline = time.monotonic() + seconds
    folder, binaries = machine.BUILD / "tests/bench", machine.BUILD / "tests/gpu/bin"
    built_in = (binaries / "build-folder").read_text().strip()
    environment = machine.environment()
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [environment["LD_LIBRARY_PATH"], str(binaries)]))
    figures, failures = {}, []
    for name in ("forward_bench", "planned_bench", "wr_bench"):
        if name != "wr_bench" and built_in != str(machine.BUILD.resolve()):
            figures[name] = "not run: built in another folder, whose path it holds"
            continue
        left = max(deadline - time.monotonic(), 1)
        try:
            output = machine.run([folder / name, "--benchmark_format=json"], environment, left)
            rows = json.loads(output[output.index("{"):])["benchmarks"]
            figures[name] = {row["name"]: {key: value for key, value in row.items() if isinstance(value, float)}
                             for row in rows}
        except (machine.Failed, OSError, ValueError) as failure:
            failures.append(f"{name}: {failure}")
    if failures:
        raise machine.Failed("; ".join(failures), figures)
    return figures


def torch_trace(path, seconds):
    """The cuDNN calls of tests/gpu/torch_steps.py on both of PyTorch's paths, loops written once."""
    import torch_test
    if torch_test.MISSING:
        raise Skipped(torch_test.MISSING)
    deadline, figures = time.monotonic() + seconds, {}
    with tempfile.TemporaryDirectory() as folder, path.open("w") as file:
        for name, variables in TRACED.items():
            trace = pathlib.Path(folder, name)
            environment = machine.python_environment(
                LD_PRELOAD=str(machine.BUILD / "tests/gpu/trace/libcudnn.so.9"), UCUDNN_TRACE=str(trace), **variables)
            machine.run([sys.executable, "-B", machine.FOLDER / "torch_steps.py"], environment,
                        max(deadline - time.monotonic(), 1))
            calls = trace.read_text().split() if trace.exists() else []
            lines = trace_calls.text(calls[:100000]).splitlines()
            file.write(f"# {name} path: {len(calls)} calls\n" + "\n".join(lines[:TRACED_LINES]) + "\n")
            figures[name] = {"calls": len(calls), "functions": {f: calls.count(f) for f in sorted(set(calls))}}
    return figures | {"file": path.name}


def versions():
    """What the figures depend on."""
    gpu = machine.gpu()
    probes = {"cudnn": "import ctypes; print(ctypes.CDLL('libcudnn.so.9').cudnnGetVersion())",
              "cuda_runtime": "import ctypes; n=ctypes.c_int(); ctypes.CDLL('libcudart.so.13').cudaRuntimeGetVersion("
                              "ctypes.byref(n)); print(n.value)",
              "torch": "import torch; print(torch.__version__)", "jax": "import jax; print(jax.__version__)"}
    found = {}
    for name, program in probes.items():
        code, output, _ = machine.call([sys.executable, "-c", program], machine.environment(), 120)
        found[name] = output.strip() if code == 0 else None
    commit = None
    if shutil.which("git"):
        code, output, _ = machine.call(["git", "-C", machine.ROOT, "describe", "--always", "--dirty"],
                                       machine.python_environment(), 30)
        commit = output.strip() if code == 0 else None
    return {"gpu": gpu.name if gpu else None, "gpus": gpu.count if gpu else 0, "driver": gpu.driver if gpu else None,
            "python": sys.version.split()[0], "ucudnn": commit, **found}
