"""Whole training iterations of PyTorch in several configurations side by side, in turn, so that what changes on the machine
meanwhile changes for all: one process each (torch_worker.py), of which one at a time is at work."""

import json
import os
import pathlib
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import frameworks
import machine

MIB = 1 << 20
LIMITS_MIB = (8, 64, 512)
PRECISIONS = ("tf32", "fp16", "bf16", "fp32")  # the first is what PyTorch does with fp32 by default
# Convolutions of a network: a budget for all of it is the limit of one kernel times three for each, but for the first
# layer's backward_data, which nobody computes.
CONVOLUTIONS = {"alexnet": 5, "resnet18": 20, "resnet50": 53, "densenet40": 39}
WARM_UP_STEPS, ROUNDS, ROUND_MS = (2, 1, 1) if machine.HOST else (10, 5, 300)
# For measuring, by each worker: of one network, whose kernels are few and large.
TUNE = {"UCUDNN_TUNE_SECONDS": "1:100"}


class Worker:
    """A process that trains; `options` of `ucudnn run`, or None for PyTorch alone."""

    def __init__(self, options, variables, folder, name):
        self.report_path, self.error = pathlib.Path(folder, f"{name}.json"), None
        words = [sys.executable, "-B", machine.FOLDER / "torch_worker.py", *(["--device", "cpu"] if machine.HOST else [])]
        if options is not None and not machine.HOST:
            words = [machine.UCUDNN, "run", *options, "--report", self.report_path, "--", *words]
        environment = machine.python_environment(**frameworks.VARIABLES["torch"], **TUNE, **variables)
        self.errors = pathlib.Path(folder, f"{name}.err")
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [str(word) for word in words], env=environment, text=True, bufsize=1, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(line)
        self.lines.put(None)

    def reply(self, deadline):
        try:
            line = self.lines.get(timeout=max(deadline - time.monotonic(), 0.1))
        except queue.Empty:
            raise machine.TimedOut("a worker did not answer in time") from None
        if line is None:
            raise machine.Failed(f"a worker ended: {self.errors.read_text()[-500:]}")
        return json.loads(line)

    def ask(self, command, deadline):
        """The answer, or None after a failure, which is kept."""
        if self.error is None:
            try:
                self.process.stdin.write(json.dumps(command) + "\n")
                answer = self.reply(deadline)
            except BrokenPipeError:
                answer = {"error": f"a worker ended: {self.errors.read_text()[-500:]}"}
            except machine.TimedOut:
                raise
            except machine.Failed as failure:
                answer = {"error": str(failure)}
            if "error" not in answer:
                return answer
            self.error = answer["error"]
        return None

    def close(self):
        """ucudnn's report, or None."""
        try:
            self.process.stdin.close()
            self.process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            pass
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        return json.loads(self.report_path.read_text()) if self.report_path.exists() else None


def compare(case, workers, deadline):
    """Times and memory of one case, by configuration; `ratio` is to the first one, of equal rounds."""
    prepared, rounds = {}, {name: [] for name in workers}
    for name, worker in workers.items():
        worker.error = None
        prepared[name] = worker.ask({"prepare": case, "steps": WARM_UP_STEPS}, deadline)
    ready = {name: worker for name, worker in workers.items() if prepared[name]}
    first = {name: worker.ask({"time": 3}, deadline) for name, worker in ready.items()}
    slowest = max((answer["median_ms"] for answer in first.values() if answer), default=1)
    steps = max(3, min(30, round(ROUND_MS / slowest)))
    for turn in range(ROUNDS):
        order = list(ready.items())
        for name, worker in order[turn % len(order):] + order[:turn % len(order)] if order else []:
            answer = worker.ask({"time": steps}, deadline)
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
            "warm_up_s": prepared["warm_up_s"], "loss": prepared["loss"],
            **{key.replace("_bytes", "_mib"): round(value / MIB, 1) for key, value in prepared.items() if "_bytes" in key}}


def run(configurations, cases, seconds):
    """`configurations`: options and variables by name, the first being what others are compared with. Figures by case and
    configuration, what of the cases fitted into `seconds`, and what each report says."""
    deadline = time.monotonic() + seconds
    results, skipped, last = {}, [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        workers = {}
        try:
            for name, (options, variables) in configurations.items():
                workers[name] = Worker(options, variables, folder, machine.slug(name))
            for worker in workers.values():
                worker.reply(deadline)
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
            reports = {name: frameworks.summary(worker.close()) for name, worker in workers.items()}
    failed = [f"{case} {name}: {told['error']}" for case, by_name in results.items() for name, told in by_name.items()
              if "error" in told]
    told = {"cases": results, "reports": {name: report for name, report in reports.items() if report}, "not run": skipped}
    if failed:
        raise machine.Failed("; ".join(failed), told)
    if not results:
        raise machine.TimedOut("no time for any case", told)
    return told


def layouts(network, batch, last, store, seconds):
    """PyTorch as it is, with ucudnn and no limit, and within limits: divided, and undivided, which is cuDNN's own choice
    held to the same workspace. CUDNN_CONV_WSCAP_DBG, with which PyTorch's users cap workspace, beside it."""
    of_store = ["--db", store]
    configurations = {"plain": (None, {}), "no limit": (of_store, {})}
    for mib in () if machine.HOST else LIMITS_MIB:
        within = [*of_store, "--workspace-limit", f"{mib}MiB"]
        configurations[f"{mib} MiB undivided"] = ([*within, "--policy", "undivided"], {})
        configurations[f"{mib} MiB"] = (within, {})
    if not machine.HOST:
        configurations["plain, CUDNN_CONV_WSCAP_DBG=64"] = (None, {"CUDNN_CONV_WSCAP_DBG": "64"})
    cases = {precision: {"network": network, "batch": batch, "precision": precision, "last": last}
             for precision in (PRECISIONS[-1:] if machine.HOST else PRECISIONS)}
    return run(configurations, cases, seconds)


def iterations(network, batch, mib, policies, store, seconds):
    """The paper's Figs. 10 to 13: iterations in fp32 within a limit of each kernel by policy, and within one budget (WD)."""
    budget = f"{mib * (3 * CONVOLUTIONS[network] - 1)}MiB"
    options = {policy: ["--policy", policy, "--workspace-limit", f"{mib}MiB"] for policy in policies if policy != "WD"}
    if "WD" in policies:
        options["WD"] = ["--policy", "powerOfTwo", "--total-workspace", budget]
    configurations = {"plain": (None, {})} | {name: (["--db", store, *words], {}) for name, words in options.items()}
    cases = {"fp32": {"network": network, "batch": batch, "precision": "fp32", "last": False}}
    return run(configurations, cases, seconds) | {"total_workspace": budget}
