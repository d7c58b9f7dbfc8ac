"""Stages of tools/gpu-check that measure and record figures. The function of a stage takes the sitting, the seconds that the
stage may last, and in some stages further arguments. It returns figures for the JSON. It raises machine.Failed if the stage
fails, and Skipped if the machine lacks what the stage needs. Files are written to the sitting's `scratch` or `output`."""

import gzip
import json
import pathlib
import shutil
import sys
import tempfile
import time

import facts
import machine
import torch_iterations
import trace_calls
import versions

LIMITS_MIB = (8, 64, 512)
TRACED = {"graph": {}, "legacy": {"TORCH_CUDNN_V8_API_DISABLED": "1"}}
TRACED_LINES = 4000  # later lines of a trace only repeat earlier ones


class Skipped(Exception):
    pass


def need(framework):
    if reason := versions.missing(framework):
        raise Skipped(reason)


def device_profile(sitting, seconds):
    path = sitting.output / f"{sitting.slug}-profile.json"
    code, output, errors = machine.call([machine.BUILD / "tests/gpu/bin/device_profile"], machine.environment(), seconds)
    if code == machine.SKIPPED:
        raise Skipped(machine.NO_GPU)
    if code != 0:
        raise machine.Failed(errors.strip())
    machine.write_whole(path, (json.dumps(json.loads(output), indent=2) + "\n").encode())
    return {"file": path.name}


def bench(options, store, seconds, policy="powerOfTwo"):
    facts.warm_up()
    host = ["--host"] if machine.HOST else []
    words = [machine.UCUDNN, "bench", *options, "--policy", policy, "--db", store, "--json", *host]
    return json.loads(machine.run(words, machine.environment(), seconds))


def summary(report):
    """Returns sums over the kernels that fit the limit both undivided and divided."""
    kernels = report["kernels"]
    both = [kernel for kernel in kernels if kernel["undivided"] and kernel["divided"]]
    return {"kernels": len(kernels), "compared": len(both),
            "divided": sum(len(k["divided"]["plan"]) > 1 or k["divided"]["plan"][0]["count"] > 1 for k in both),
            "undivided_ms": sum(kernel["undivided"]["time_ms"] for kernel in both),
            "best_undivided_ms": sum(kernel["best_undivided"]["time_ms"] for kernel in both),
            "divided_ms": sum(kernel["divided"]["time_ms"] for kernel in both)}


def network_options(name, batch):
    return ["--net", name, "--batch", str(batch), *(["--ops", "forward"] if machine.HOST else [])]


def planned(options, store, policy, *within):
    """Returns the time and workspace that `ucudnn workspace` plans from the store; nothing is measured."""
    words = [machine.UCUDNN, "workspace", *options, "--policy", policy, "--db", store, "--json", *within]
    code, output, errors = machine.call(words, machine.environment(), 60)
    if code != 0:
        return {"refused": errors.strip()}  # the message says what does not fit
    plan = json.loads(output)
    return {"total_ms": plan["total_time_ms"], "total_workspace_bytes": plan["total_workspace_bytes"]}


def divisions(options, store, policy, mib, kernels):
    """Plans one budget (Workspace Division) of `mib` MiB times the number `kernels`: with disjoint segments, as in the
    paper, and with one shared segment."""
    budget = ["--total-workspace", f"{mib * kernels}MiB"]
    return {division: planned(options, store, policy, *budget, "--division", division) for division in ("disjoint", "shared")}


def network(sitting, seconds, name, batch):
    """Measures every engine of every convolution of a network into the store, at powers of two and at the sizes of policy auto.
    Returns summaries for some limits. In a summary, `undivided_ms` is the time without division."""
    deadline, store = time.monotonic() + seconds, sitting.store
    left = lambda: max(deadline - time.monotonic(), 1)
    options = network_options(name, batch)
    unlimited = bench(options, store, left())
    figures = {"measured": unlimited["measured"], "no limit": summary(unlimited)}
    for mib in LIMITS_MIB:
        limit = ["--workspace-limit", f"{mib}MiB"]
        reports = {policy: bench([*options, *limit], store, left(), policy) for policy in ("powerOfTwo", "auto")}
        figures[f"{mib} MiB"] = {policy: summary(report) for policy, report in reports.items()} | {
            "WD": divisions(options, store, "powerOfTwo", mib, len(unlimited["kernels"]))}
    return figures


def l2(sitting, seconds):
    """Measures, without any limit, whether micro-batches whose workspace fits the L2 cache are faster than the undivided
    kernel. Policies all and auto measure into separate stores, which shows how much of the gain auto finds."""
    deadline, figures, path = time.monotonic() + seconds, {}, machine.FOLDER / "l2-layers.csv"
    options = ["--layers", path] + (["--batch", "2", "--ops", "forward"] if machine.HOST else [])
    if machine.HOST:
        short = sitting.scratch / "l2.csv"
        short.write_text("".join(path.open().readlines()[0:9:7]))
        options[1] = short
    for policy in ("auto", "all"):
        report = bench(options, sitting.scratch / f"l2-{policy}.db", max(deadline - time.monotonic(), 1), policy)
        figures[policy] = {"measured": report["measured"], **summary(report), "layers": {
            f"{kernel['name']} {kernel['op']}": {
                "undivided_ms": kernel["undivided"]["time_ms"], "workspace_bytes": kernel["undivided"]["workspace_bytes"],
                "best_undivided_ms": kernel["best_undivided"]["time_ms"],
                "divided_ms": kernel["divided"]["time_ms"], "divided_workspace_bytes": kernel["divided"]["workspace_bytes"],
                "micro_batches": [[run["micro_batch"], run["count"]] for run in kernel["divided"]["plan"]]}
            for kernel in report["kernels"] if kernel["undivided"] and kernel["divided"]}}
    return figures


def engines_of_layers(sitting, seconds):
    """Measures every engine of twenty layers at powers of two into the store, which export() writes to a file later."""
    path = sitting.scratch / "layers.csv"
    rows = (machine.FOLDER / "l2-layers.csv").read_text().splitlines(keepends=True)
    path.write_text("".join(rows[:2] if machine.HOST else rows[:21]))
    report = bench(["--layers", path, *(["--batch", "2", "--ops", "forward"] if machine.HOST else [])], sitting.store, seconds)
    return {"measured": report["measured"], **summary(report)}


def cliff(sitting, seconds):
    """Compares AlexNet's kernels within their best engine's workspace and within one byte less."""
    options = ["--net", "alexnet", "--batch", "1" if machine.HOST else "256", "--cliff"]
    if machine.HOST:
        options += ["--ops", "forward"]
    report = bench(options, sitting.store, seconds, "auto")
    return {"total": report["total"], "kernels": len(report["kernels"])}


def table(sitting, seconds):
    """Measures every micro-batch size of AlexNet, for tests/bench/auto_policy_figures and the tables of tests/unit/planning.
    Returns the times that policy all plans with these measurements."""
    batch, store = "2" if machine.HOST else "256", sitting.scratch / "all.db"
    path, rows = sitting.output / f"{sitting.slug}-alexnet.csv", sitting.scratch / "alexnet.csv"
    words = [machine.ROOT / "tests/bench/record-table", *([] if machine.HOST else ["--gpu"]), "--db", store, machine.UCUDNN]
    machine.run([*words, "alexnet", batch, rows], machine.environment(), seconds)
    machine.write_whole(path, rows.read_bytes())
    options = ["--net", "alexnet", "--batch", batch]
    figures = {"file": path.name, "rows": sum(1 for _ in path.open()) - 1}
    for mib in LIMITS_MIB:
        figures[f"{mib} MiB"] = {
            **{policy: planned(options, store, policy, "--workspace-limit", f"{mib}MiB")
               for policy in ("undivided", "powerOfTwo", "all")},
            "WD": divisions(options, store, "all", mib, 15)}
    return figures


def sanitizer(sitting, seconds):
    """Runs compute-sanitizer's memcheck and initcheck on convolution_cases with divided kernels. Errors that cuDNN has without
    ucudnn do not count."""
    tool = shutil.which("compute-sanitizer") or next(iter(sorted(pathlib.Path("/usr/local").glob(
        "cuda*/bin/compute-sanitizer"))), None)
    if machine.HOST or not tool:
        raise Skipped("the stand-in's memory is the host's" if machine.HOST else "no compute-sanitizer")
    deadline, figures = time.monotonic() + seconds, {}
    program = [machine.BUILD / "tests/gpu/bin/convolution_cases", "8", "2"]
    for check in ("memcheck", "initcheck"):
        errors = {}
        for name, options in {"real": ["--off"], "divided": ["--db", "none", "--workspace-limit", "64KiB"]}.items():
            code, output, told = machine.call(
                [machine.UCUDNN, "run", *options, "--", tool, "--tool", check, *program],
                machine.environment(), max(deadline - time.monotonic(), 1))
            text = output + told
            if "ERROR SUMMARY: " not in text:
                raise machine.Failed(f"{check}, {name}: exit code {code}: {text[-500:]}", figures)
            errors[name] = int(text.rsplit("ERROR SUMMARY: ", 1)[1].split()[0])
        figures[check] = errors
        if errors["divided"] > errors["real"]:
            raise machine.Failed(f"{check}: {errors['divided']} errors, {errors['real']} without ucudnn", figures)
    return figures


def measurements_of(sitting):
    return sitting.output / f"{sitting.slug}-measurements.csv.gz"


def export(sitting, seconds):
    """Writes the rows of the sitting's store to the sitting's `output`, as compressed CSV. The rows were measured while no
    other stage used the GPU."""
    path, store = measurements_of(sitting), sitting.store
    if not pathlib.Path(store).exists():
        raise Skipped("nothing was measured")
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder, "measurements.csv")
        machine.run([machine.UCUDNN, "cache", "export", plain, "--db", store], machine.environment(), seconds)
        rows = plain.read_bytes()
    machine.write_whole(path, gzip.compress(rows, mtime=0))  # without a time, equal rows make equal files
    return {"file": path.name, "rows": rows.count(b"\n") - 1}


def take_in(sitting, seconds):
    """Fills the sitting's store with the rows of the file that export() writes."""
    path, store = measurements_of(sitting), sitting.store
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder, "measurements.csv")
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        return {"imported": machine.run([machine.UCUDNN, "cache", "import", plain, "--db", store], machine.environment(),
                                        seconds).strip()}


def benches(sitting, seconds):
    """Runs Google Benchmark programs. Returns the numbers that they print, by program and benchmark."""
    deadline = time.monotonic() + seconds
    figures, failures = {}, []
    for name in ("forward_bench", "planned_bench", "graph_bench", "wr_bench"):
        left = max(deadline - time.monotonic(), 1)
        try:
            output = machine.run([machine.BUILD / "tests/bench" / name, "--benchmark_format=json"], machine.environment(), left)
            rows = json.loads(output[output.index("{"):])["benchmarks"]
            figures[name] = {row["name"]: {key: value for key, value in row.items() if isinstance(value, float)}
                             for row in rows}
        except machine.TimedOut as failure:
            raise machine.TimedOut(str(failure), figures) from None
        except (machine.Failed, OSError, ValueError) as failure:
            failures.append(f"{name}: {failure}")
    if failures:
        raise machine.Failed("; ".join(failures), figures)
    return figures


def torch_trace(sitting, seconds):
    """Writes the cuDNN calls that torch_steps.py makes by each of PyTorch's cuDNN APIs; repeated calls are written once."""
    need("torch")
    if machine.HOST:
        raise Skipped("a CPU's PyTorch calls no cuDNN")
    deadline, figures, text = time.monotonic() + seconds, {}, ""
    path = sitting.output / f"{sitting.slug}-torch-calls.txt"
    with tempfile.TemporaryDirectory() as folder:
        for name, variables in TRACED.items():
            trace = pathlib.Path(folder, name)
            environment = machine.python_environment(
                LD_PRELOAD=str(machine.BUILD / "tests/gpu/trace/libcudnn.so.9"), UCUDNN_TRACE=str(trace), **variables)
            machine.run([sys.executable, "-B", machine.FOLDER / "torch_steps.py"], environment,
                        max(deadline - time.monotonic(), 1))
            calls = trace.read_text().split() if trace.exists() else []
            lines = trace_calls.text(calls[:100000]).splitlines()
            text += f"# {name} path: {len(calls)} calls\n" + "\n".join(lines[:TRACED_LINES]) + "\n"
            figures[name] = {"calls": len(calls), "functions": {f: calls.count(f) for f in sorted(set(calls))}}
    machine.write_whole(path, text.encode())
    return figures | {"file": path.name}


def torch_layouts(sitting, seconds, network, batch, last):
    need("torch")
    return torch_iterations.layouts(network, batch, last, sitting.store, seconds)


def torch_whole_iterations(sitting, seconds, network, batch, mib, policies):
    need("torch")
    return torch_iterations.iterations(network, batch, mib, policies, sitting.store, seconds)
