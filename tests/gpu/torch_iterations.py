"""Compares whole iterations of PyTorch in several configurations: steps of training or, for `vae`, decoded pictures.
Configurations take turns, so that changes of the machine affect all of them. Each configuration has a process of its own
(torch_worker.py), and one process works at a time."""

import statistics
import sys
import tempfile
import time

import frameworks
import machine
from workers import MIB, Worker, close, in_turn, measured_at_once, within

LIMITS_MIB = (8, 64, 512)
PRECISIONS = ("tf32", "fp16", "bf16", "fp32")  # PyTorch computes convolutions of fp32 tensors in tf32 by default
# The number of convolutions of each network. A network has three kernels for each convolution, except that the first
# layer's backward_data is not computed. The network's budget is the limit of one kernel times the number of kernels.
CONVOLUTIONS = {"alexnet": 5, "resnet18": 20, "resnet50": 53, "densenet40": 39}
WARM_UP_STEPS, ROUNDS, ROUND_MS = (2, 1, 1) if machine.HOST else (10, 5, 300)
# This is UCUDNN_TUNE_SECONDS of each worker, which runs one network with few and large kernels.
TUNE = "1:100"


def start(name, options, variables, tune, folder):
    """Starts a process that trains. `options` are options of `ucudnn run`, or None for PyTorch alone."""
    program = [sys.executable, "-B", machine.FOLDER / "torch_worker.py", *(["--device", "cpu"] if machine.HOST else [])]
    environment = machine.python_environment(**frameworks.VARIABLES["torch"], **{"UCUDNN_TUNE_SECONDS": tune}, **variables)
    return Worker(name, program, options, environment, folder)


def compare(case, workers, deadline):
    """Returns times and memory of one case by configuration. For each round, `ratio` compares a configuration's time with the
    first configuration's time."""
    prepared, rounds = {}, {name: [] for name in workers}
    for name, worker in workers.items():
        worker.error = None
        prepared[name] = worker.ask({"prepare": case, "steps": WARM_UP_STEPS}, deadline)
    ready = {name: worker for name, worker in workers.items() if prepared[name]}
    first = {name: worker.ask({"time": 3}, deadline) for name, worker in ready.items()}
    slowest = max((answer["median_ms"] for answer in first.values() if answer), default=1)
    steps = max(3, min(30, round(ROUND_MS / slowest)))
    for turn in range(ROUNDS):
        for name in in_turn([*ready], turn):
            answer = ready[name].ask({"time": steps}, deadline)
            rounds[name].append(answer["ms"] if answer else None)
    for worker in workers.values():
        worker.ask({"release": True}, deadline)
    return {name: figures(prepared[name], rounds[name], rounds[next(iter(workers))]) if rounds[name] and all(rounds[name])
            else {"error": worker.error} for name, worker in workers.items()}


def figures(prepared, rounds, reference):
    times = [ms for each in rounds for ms in each]
    ratios = [statistics.median(own) / statistics.median(other) for own, other in zip(rounds, reference) if other]
    return {"min_ms": min(times), "median_ms": statistics.median(times), "steps": len(times),
            "ratio": statistics.median(ratios) if ratios else None, "ratios": [min(ratios), max(ratios)] if ratios else None,
            "planned_after_s": planned_after_s(prepared["steps_ms"], statistics.median(times)),
            "warm_up_s": prepared["warm_up_s"], "loss": prepared["loss"],
            **{key.replace("_bytes", "_mib"): round(value / MIB, 1) for key, value in prepared.items() if "_bytes" in key}}


def planned_after_s(steps_ms, steady_ms):
    """Returns the seconds before the first of `steps_ms` that runs as planned, since ucudnn has measured. This is the first
    step that takes at most 1.1 times `steady_ms`, the time of later steps. All of `steps_ms` may take longer, because the
    host waits after each of these steps. Then it is the first step that takes at most 1.1 times as long as the fastest."""
    fast_ms = 1.1 * max(steady_ms, min(steps_ms))
    planned = next(index for index, ms in enumerate(steps_ms) if ms <= fast_ms)
    return sum(steps_ms[:planned]) / 1000


def run(configurations, cases, seconds, tune=TUNE):
    """Compares all configurations with the first one in each case. `configurations` holds options and variables by name.
    Returns figures by case and configuration, a summary of each report, and the cases that did not fit into `seconds`."""
    deadline = time.monotonic() + seconds
    results, skipped, last, workers = {}, [], 0.0, {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, (options, variables) in configurations.items():
                workers[name] = start(name, options, variables, tune, folder)
            for worker in workers.values():
                worker.answer(deadline)
            for name, case in cases.items():
                begin = time.monotonic()
                if deadline - begin < 1.2 * last + 5:
                    skipped.append(name)
                    continue
                results[name] = compare(case, workers, deadline - 5)
                last = time.monotonic() - begin
        except machine.Failed as failure:
            raise type(failure)(str(failure), {"cases": results}) from None
        finally:
            reports = close(workers)
    failed = [f"{case} {name}: {told['error']}" for case, by_name in results.items() for name, told in by_name.items()
              if "error" in told] + measured_at_once(reports)
    told = {"cases": results, "reports": {name: frameworks.summary(report) for name, report in reports.items() if report},
            "not run": skipped}
    if failed:
        raise machine.Failed("; ".join(failed), told)
    if not results:
        raise machine.TimedOut("no time for any case", told)
    return told


def layouts(network, batch, last, store, seconds):
    """Compares PyTorch alone with PyTorch under ucudnn, without a limit and within each of LIMITS_MIB. Within a limit,
    PyTorch runs divided and undivided; the undivided run shows what cuDNN does within the same workspace. In another
    configuration, PyTorch runs without ucudnn under CUDNN_CONV_WSCAP_DBG, by which users of cuDNN limit workspace."""
    of_store = ["--db", store]
    configurations = {"plain": (None, {}), "no limit": (of_store, {})}
    for mib in () if machine.HOST else LIMITS_MIB:
        configurations[f"{mib} MiB undivided"] = ([*of_store, *within(mib, "undivided")], {})
        configurations[f"{mib} MiB"] = ([*of_store, *within(mib, "auto")], {})
    if not machine.HOST:
        configurations["plain, CUDNN_CONV_WSCAP_DBG=64"] = (None, {"CUDNN_CONV_WSCAP_DBG": "64"})
    cases = {precision: {"network": network, "batch": batch, "precision": precision, "last": last}
             for precision in (PRECISIONS[-1:] if machine.HOST else PRECISIONS)}
    return run(configurations, cases, seconds)


def iterations(network, batch, mib, policies, store, seconds):
    """Times iterations in fp32 as in the paper's Figs. 10 to 13. Each policy limits every kernel to `mib` MiB; WD gives
    all kernels one budget."""
    budget = f"{mib * (3 * CONVOLUTIONS[network] - 1)}MiB"
    options = {policy: within(mib, policy) for policy in policies if policy != "WD"}
    if "WD" in policies:
        options["WD"] = ["--policy", "powerOfTwo", "--total-workspace", budget]
    configurations = {"plain": (None, {})} | {name: (["--db", store, *words], {}) for name, words in options.items()}
    cases = {"fp32": {"network": network, "batch": batch, "precision": "fp32", "last": False}}
    return run(configurations, cases, seconds) | {"total_workspace": budget}
