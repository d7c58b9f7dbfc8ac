"""Compares whole training iterations of PyTorch in several configurations, in turn, so that changes of the machine affect all.
Each has a process (torch_worker.py), and one of them at a time is at work."""

import statistics
import sys
import tempfile
import time

import frameworks
import machine
from workers import MIB, Worker, close, in_turn, measured_at_once, within

LIMITS_MIB = (8, 64, 512)
PRECISIONS = ("tf32", "fp16", "bf16", "fp32")  # the first is what PyTorch does with fp32 by default
# Convolutions of a network. The budget for all of it is the limit of one kernel times three for each convolution, less the
# first layer's backward_data, which nobody computes.
CONVOLUTIONS = {"alexnet": 5, "resnet18": 20, "resnet50": 53, "densenet40": 39}
WARM_UP_STEPS, ROUNDS, ROUND_MS = (2, 1, 1) if machine.HOST else (10, 5, 300)
# Each worker may measure for so long; it has one network, whose kernels are few and large.
TUNE = "1:100"


def start(name, options, variables, tune, folder):
    """Starts a process that trains; `options` of `ucudnn run`, or None for PyTorch alone."""
    program = [sys.executable, "-B", machine.FOLDER / "torch_worker.py", *(["--device", "cpu"] if machine.HOST else [])]
    environment = machine.python_environment(**frameworks.VARIABLES["torch"], **{"UCUDNN_TUNE_SECONDS": tune}, **variables)
    return Worker(name, program, options, environment, folder)


def compare(case, workers, deadline):
    """Returns times and memory of one case, by configuration; `ratio` compares equal rounds with the first configuration's."""
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
    """Returns the seconds from the first of these steps to the first that is as fast as later ones, within 10 %: planned, and
    measured before. If the host waits for each step, none may be as fast as later ones; then the fastest one counts."""
    fast_ms = 1.1 * max(steady_ms, min(steps_ms))
    planned = next(index for index, ms in enumerate(steps_ms) if ms <= fast_ms)
    return sum(steps_ms[:planned]) / 1000


def run(configurations, cases, seconds, tune=TUNE):
    """`configurations`: options and variables by name; the others are compared with the first. Returns figures by case and
    configuration, which cases did not fit into `seconds`, and what each report says."""
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
    """Compares PyTorch alone, with ucudnn and no limit, and within limits: divided, and undivided, which is cuDNN's own choice
    held to the same workspace. CUDNN_CONV_WSCAP_DBG, with which PyTorch's users cap workspace, is compared, too."""
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
    """Times the paper's Figs. 10 to 13: iterations in fp32 within a limit of each kernel by policy, and within one budget
    (WD)."""
    budget = f"{mib * (3 * CONVOLUTIONS[network] - 1)}MiB"
    options = {policy: within(mib, policy) for policy in policies if policy != "WD"}
    if "WD" in policies:
        options["WD"] = ["--policy", "powerOfTwo", "--total-workspace", budget]
    configurations = {"plain": (None, {})} | {name: (["--db", store, *words], {}) for name, words in options.items()}
    cases = {"fp32": {"network": network, "batch": batch, "precision": "fp32", "last": False}}
    return run(configurations, cases, seconds) | {"total_workspace": budget}
