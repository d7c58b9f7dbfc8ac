"""Measures how much faster ucudnn makes calls and iterations. Each figure comes with its baseline. layer_calls.cpp executes
convolutions, and torch_worker.py executes iterations, in one process for each configuration. Both programs know
nothing of ucudnn. The processes take turns in rounds, so that changes of the machine affect all of them. Each stage
takes the sitting and the seconds that the stage may last, and returns figures for the JSON. Among them `sentences` has
each headline in one sentence. In stages with predictions, `findings` has the predictions that execution does not
confirm."""

import csv
import json
import pathlib
import statistics
import tempfile
import time

import figures
import machine
import torch_iterations
from workers import MIB, Worker, close, in_turn, measured_at_once, within

PROGRAM = machine.BUILD / "tests/gpu/bin/layer_calls"
OPERATIONS = ("forward", "backward_data", "backward_filter")
COLUMNS = ("n", "c", "h", "w", "k", "r", "s", "pad_h", "pad_w", "stride_h", "stride_w")
# Consecutive calls use different operands. Together these exceed twice the size of a cache, by default the device's L2
# cache. The stand-in has little memory, so a smaller size is given there.
CACHE = {"cache_bytes": 1 << 18} if machine.HOST else {}
THREADS = {"OMP_NUM_THREADS": "1"} if machine.HOST else {}  # on the stand-in, other programs use the CPU, too
ROUNDS, WARM_UP_S, WARM_UP_PASSES, ROUND_MS, MOST_PASSES = (5, 0.1, 4, 20, 3) if machine.HOST else (5, 0.5, 4, 250, 50)
# A stage stops measuring ENDING_SECONDS before its time is over, because its programs need time to end.
ENDING_SECONDS = 6
# A predicted time that differs from the executed time by more than the fraction APART is a finding. At most MOST_FINDINGS are
# given in words.
APART, MOST_FINDINGS = 0.05, 20

# Each case is (network, mini-batch, type). The most important cases come first, since time may not suffice for all.
CASES = ((("alexnet", 8, "fp32"),) if machine.HOST else
         (("alexnet", 256, "fp32"), ("resnet50", 128, "bf16"), ("resnet50", 128, "fp32"), ("alexnet", 256, "bf16")))
TITLES = {"alexnet": "AlexNet", "resnet50": "ResNet-50"}
LIMIT_MIB, LIMIT = (0.25, "256 KiB") if machine.HOST else (64, "64 MiB")
PLAIN, UNDIVIDED, DIVIDED, BUDGET = "plain", f"{LIMIT} undivided", LIMIT, "one budget"
# UCUDNN_TUNE_SECONDS, as "seconds for each kernel:seconds in a process". Kernels with the most arithmetic come first,
# and a process uses what earlier processes measured. Only verified plans run, so a kernel's time must also suffice for
# verifying its plan. Verifying copies the inputs, the divided result and the undivided result to the host, here up to a
# gigabyte.
TUNE = "10:60" if machine.HOST else "1:14"
TUNES = {} if machine.HOST else {DIVIDED: "0.8:18", UNDIVIDED: "0.8:7", BUDGET: "0.8:8"}
LEAST_CASE_SECONDS = 3 if machine.HOST else 20
TURNS_SECONDS = 12  # seconds of a case that remain for the rounds after preparing
L2_ROWS = ("alexnet-conv2-fp32", "alexnet-conv3-fp32", "resnet-3x3-64-fp32", "resnet-1x1-256-64-fp32", "unet-64-512-fp32",
           "resnet-3x3-64-fp16", "resnet-1x1-64-256-fp16", "resnet-3x3-128-fp16", "unet-64-256-fp16", "unet-128-256-fp16")
L2_OPERATIONS = ("forward", "backward_data")


def need_processes():
    """Skips the stage if the GPU's compute mode does not allow several processes at a time."""
    mode = None if machine.HOST else machine.compute_mode()
    if mode not in (None, "Default"):
        raise figures.Skipped(f"compute mode {mode}: the GPU takes one process at a time")


def layers_of(file):
    """Returns the rows of a layers CSV in this folder."""
    with (machine.FOLDER / file).open() as rows:
        return [{name: value if name in ("name", "dtype", "layout") else int(value) for name, value in row.items()}
                for row in csv.DictReader(rows)]


def shrunk(rows, batch):
    """Returns the first two rows with sizes that a CPU can run."""
    small = lambda row: {"n": batch, "h": min(row["h"], 27), "w": min(row["w"], 27), "c": max(row["c"] // 4, 3),
                         "k": max(row["k"] // 4, 8)}
    return [row | small(row) for row in rows[:2]]


def kernels_of(rows, operations, dtype=None, first_is_input=True):
    """Returns each distinct convolution once, with the number of rows that have it (`count`). The convolution whose rows have
    the most arithmetic together comes first. With `first_is_input`, the first row has no backward_data, since no one needs the
    gradient of a network's input."""
    kernels = {}
    for index, row in enumerate(rows):
        for op in operations:
            if first_is_input and index == 0 and op == "backward_data":
                continue
            kernel = {"op": op} | {column: row[column] for column in COLUMNS} | {
                "dtype": dtype or row.get("dtype", "fp32"), "layout": row.get("layout", "nchw")}
            known = kernels.setdefault(tuple(kernel.values()), {"name": f"{row['name']} {op}"} | kernel | {"count": 0})
            known["count"] += 1
    return sorted(kernels.values(), key=lambda kernel: -kernel["count"] * arithmetic(kernel))


def arithmetic(kernel):
    """Returns a number that is proportional to the number of multiplications in one call."""
    outputs = 1
    for extent, taps, pad, stride in (("h", "r", "pad_h", "stride_h"), ("w", "s", "pad_w", "stride_w")):
        outputs *= (kernel[extent] + 2 * kernel[pad] - kernel[taps]) // kernel[stride] + 1
    return kernel["n"] * kernel["c"] * kernel["k"] * kernel["r"] * kernel["s"] * outputs


class Calls:
    """Runs kernels under several configurations. `configurations` has options of `ucudnn run` by name, or None for a run
    without ucudnn. The configurations are prepared in the order given. The first should be the one that measures most, since
    the others find its rows in the store. `tunes` has UCUDNN_TUNE_SECONDS by name."""

    def __init__(self, configurations, kernels, seconds, tunes=None, variables=None):
        self.configurations, self.kernels = configurations, kernels
        self.deadline = time.monotonic() + seconds
        self.tunes, self.variables = tunes or {}, variables or {}
        self.prepared, self.passes, self.rounds = {}, {}, {name: [] for name in configurations}
        self.reports, self.failures = {}, []

    def run(self):
        """Prepares and times all configurations. Adds a text to `failures` for each failure, and keeps the results
        until then."""
        workers = {}
        with tempfile.TemporaryDirectory() as folder:
            try:
                for name, options in self.configurations.items():
                    workers[name] = Worker(name, [PROGRAM], options, self.environment(name), folder, on_host=True)
                for worker in workers.values():
                    worker.answer(self.deadline)
                for index, worker in enumerate(workers.values()):
                    self.prepare(worker, len(workers) - index)
                self.take_turns({name: worker for name, worker in workers.items() if name in self.passes})
            except (machine.Failed, ValueError) as failure:
                self.failures.append(str(failure))
            finally:
                self.failures += [f"{name}: {worker.error}" for name, worker in workers.items() if worker.error]
                self.reports = close(workers)
        self.failures += measured_at_once(self.reports)
        return self

    def environment(self, name):
        return machine.environment(**THREADS, **{"UCUDNN_TUNE_SECONDS": self.tunes.get(name, TUNE)}, **self.variables)

    def prepare(self, worker, waiting):
        """Builds and warms up a worker's kernels. `waiting` is the number of configurations that are not prepared yet, this one
        included."""
        left = max(self.deadline - time.monotonic(), 1)
        left = max(left - TURNS_SECONDS, left / 2)
        words = [{name: value for name, value in kernel.items() if name != "count"} for kernel in self.kernels]
        answer = worker.ask({"prepare": words, "seconds": 2 * left / (waiting + 2), **CACHE}, self.deadline)
        if answer:
            self.prepared[worker.name] = answer
            self.failures += [f"{worker.name}: {name}: {told['error']}" for name, told in answer["kernels"].items()
                              if "error" in told]
            warm = worker.ask({"warm_up": WARM_UP_S, "passes": WARM_UP_PASSES}, self.deadline)
            if warm:
                self.passes[worker.name] = warm

    def take_turns(self, workers):
        slowest_ms = max((warm["pass_ms"] for warm in self.passes.values()), default=1)
        passes = max(1, min(MOST_PASSES, round(ROUND_MS / max(slowest_ms, 0.01))))
        for turn in range(ROUNDS):
            turn_s = 1.5 * passes * len(workers) * slowest_ms / 1000
            if time.monotonic() + turn_s > self.deadline:
                self.failures.append(f"no time for more than {turn} of {ROUNDS} rounds")
                break
            for name in in_turn([*workers], turn):
                answer = workers[name].ask({"time": passes}, self.deadline)
                self.rounds[name].append(answer["ms"] if answer else {})

    def complete(self):
        """Returns the rounds, by name, of configurations that completed all rounds."""
        most = max(map(len, self.rounds.values()))
        return {name: rounds for name, rounds in self.rounds.items() if rounds and len(rounds) == most and all(rounds)}


def planned(report, kernel):
    """Returns the report's entry of a kernel, or None. If there are several entries, returns the one with the most calls."""
    wanted = {column: kernel[column] for column in (*COLUMNS, "dtype", "layout")}
    defaults = {"pad_h": 0, "pad_w": 0, "stride_h": 1, "stride_w": 1, "dtype": "fp32", "layout": "nchw"}
    found = [entry for entry in (report or {"kernels": []})["kernels"] if entry["op"] == kernel["op"]
             and all((defaults | entry["problem"]).get(column) == value for column, value in wanted.items())]
    return max(found, key=lambda entry: entry["calls"], default=None)


def of_kernel(calls, name, kernel):
    """Returns the executed and predicted time, workspace and division of a kernel in one configuration."""
    executed_ms = statistics.median(each[kernel["name"]] for each in calls.rounds[name])
    told = {"ms": round(executed_ms, 4), "workspace_bytes": calls.prepared[name]["kernels"][kernel["name"]]["workspace_bytes"]}
    entry = planned(calls.reports.get(name), kernel)
    if entry:
        told["workspace_bytes"] += entry["owned_workspace_bytes"]
        told["predicted_ms"] = entry["total_ms"] and round(entry["total_ms"], 4)
        told["plan"] = " + ".join(f"{run['count']} x {run['micro_batch']} {run['engine']}" for run in entry["plan"])
        told["pieces"] = machine.pieces(entry)
        if entry.get("undivided_calls"):
            told["undivided_calls"] = entry["undivided_calls"]
    else:
        told["plan"] = calls.prepared[name]["kernels"][kernel["name"]]["engine"]
    return told


def ratios(own, reference):
    """Returns the median, the least and the greatest of reference / own over the rounds. This ratio says how many times
    as fast `own` is as `reference`."""
    each = [other / ms for ms, other in zip(own, reference)]
    return [round(value, 4) for value in (statistics.median(each), min(each), max(each))]


def compared(calls, references):
    """Returns the figures of a case. `references`: {word: name of the configuration with which all others are
    compared}. The word becomes part of the names of figures."""
    complete = calls.complete()
    kernels = [kernel for kernel in calls.kernels if all(kernel["name"] in rounds[0] for rounds in complete.values())]
    by_kernel = {kernel["name"]: {"count": kernel["count"]} | {
        name: of_kernel(calls, name, kernel) for name in complete} for kernel in kernels} if complete else {}
    totals = {name: [sum(kernel["count"] * each[kernel["name"]] for kernel in kernels) for each in rounds]
              for name, rounds in complete.items()}
    configurations = {}
    for name, rounds in totals.items() if by_kernel else ():
        own = [told[name] | {"count": told["count"]} for told in by_kernel.values()]
        predicted = [kernel["count"] * kernel["predicted_ms"] for kernel in own if kernel.get("predicted_ms")]
        configurations[name] = {
            "median_ms": round(statistics.median(rounds), 4), "rounds_ms": [round(ms, 4) for ms in rounds],
            "predicted_ms": round(sum(predicted), 4) if len(predicted) == len(own) else None,
            **{f"times_as_fast_as_{word}": ratios(rounds, totals[other]) for word, other in references.items()
               if other in totals},
            "workspace_bytes": sum(kernel["workspace_bytes"] for kernel in own),
            "largest_workspace_bytes": max(kernel["workspace_bytes"] for kernel in own),
            "divided": sum(kernel.get("pieces", 1) > 1 for kernel in own),
            "prepare_s": round(calls.prepared[name]["seconds"], 2), "warm_up_s": round(calls.passes[name]["seconds"], 2),
            "measured": (calls.reports.get(name) or {}).get("measured"),
            "fallbacks": fallbacks(calls.reports.get(name))}
    return {"kernels_executed": len(by_kernel), "kernels_asked": len(calls.kernels), "configurations": configurations,
            "kernels": by_kernel}


def fallbacks(report):
    """Returns the number of fallbacks with each cause."""
    causes = [told["cause"] for told in (report or {"fallbacks": []})["fallbacks"]]
    return {cause: causes.count(cause) for cause in sorted(set(causes))}


def findings(title, case, undivided, divided):
    """Returns sentences about predictions that execution does not confirm. A prediction says which of two configurations is
    faster, or how long one takes."""
    told, apart = [], []
    for name, kernel in {"all kernels": case["configurations"], **case["kernels"]}.items():
        first, second = kernel.get(undivided), kernel.get(divided)
        if not first or not second or not first.get("predicted_ms") or not second.get("predicted_ms"):
            continue
        expected = first["predicted_ms"] / second["predicted_ms"]
        got = first.get("ms", first.get("median_ms")) / second.get("ms", second.get("median_ms"))
        if (expected > 1 + APART and got < 1) or (expected < 1 and got > 1 + APART):
            told.append(f"{title}, {name}: {divided} is {got:.2f}x as fast as {undivided} in execution, where measuring says "
                        f"{expected:.2f}x")
    for name, kernel in case["kernels"].items():
        for configuration, figure in kernel.items():
            if configuration != "count" and figure.get("predicted_ms"):
                ratio = figure["ms"] / figure["predicted_ms"]
                if abs(ratio - 1) > APART:
                    apart.append((abs(figure["ms"] - figure["predicted_ms"]) * kernel["count"],
                                  f"{title}, {name}, {configuration}: executed {figure['ms']:.3f} ms, predicted "
                                  f"{figure['predicted_ms']:.3f} ms ({ratio:.2f}x)"))
    apart = [text for _, text in sorted(apart, reverse=True)]
    more = len(apart) - MOST_FINDINGS
    return told + apart[:MOST_FINDINGS] + ([f"{title}: {more} more predictions are more than 5 % off"] if more > 0 else [])


def case_configurations(store, kernels):
    """Returns the configurations, beginning with the one that measures most. The total of the budget is one kernel's limit
    times the number of distinct kernels, in disjoint segments: as much as the program may allocate under the limits."""
    of_store, budget_bytes = ["--db", store], int(LIMIT_MIB * MIB) * len(kernels)
    budget = ["--policy", "powerOfTwo", "--total-workspace", str(budget_bytes), "--division", "disjoint"]
    return {DIVIDED: [*of_store, *within(LIMIT_MIB, "auto")], UNDIVIDED: [*of_store, *within(LIMIT_MIB, "undivided")],
            BUDGET: [*of_store, *budget], PLAIN: None}


def case_sentences(title, case):
    """Returns the headline of a case in a list, which is empty if a configuration was not completed."""
    if not {DIVIDED, UNDIVIDED, PLAIN, BUDGET} <= set(case["configurations"]):
        return []
    ms = {name: figure["median_ms"] for name, figure in case["configurations"].items()}
    divided = case["configurations"][DIVIDED]
    text = (f"{title}, {LIMIT}: divided {divided['times_as_fast_as_undivided'][0]:.2f}x as fast as undivided "
            f"({ms[UNDIVIDED]:.3g} / {ms[DIVIDED]:.3g} ms), unlimited {ms[PLAIN]:.3g} ms, one budget {ms[BUDGET]:.3g} ms; "
            f"{divided['divided']} of {case['kernels_executed']} kernels divided")
    text += f" (of {case['kernels_asked']})" if case["kernels_executed"] < case["kernels_asked"] else ""
    beyond = [sum(kernel[name]["workspace_bytes"] > LIMIT_MIB * MIB for kernel in case["kernels"].values())
              for name in (UNDIVIDED, DIVIDED)]
    return [text + (f"; {beyond[0]} undivided and {beyond[1]} divided are beyond the limit" if any(beyond) else "")]


def a_case(store, network, batch, dtype, seconds):
    """Returns the figures, failures, findings and sentences of one network in one type."""
    rows = layers_of(f"{network}-layers.csv")
    rows = shrunk(rows, batch) if machine.HOST else [row | {"n": batch} for row in rows]
    kernels = kernels_of(rows, OPERATIONS, dtype)
    calls = Calls(case_configurations(store, kernels), kernels, seconds, TUNES).run()
    case, title = compared(calls, {"undivided": UNDIVIDED, "plain": PLAIN}), f"{TITLES[network]} n = {batch}, {dtype}"
    if not case["kernels"] and not calls.failures:
        calls.failures.append("no kernel was executed")
    return case, calls.failures, findings(title, case, UNDIVIDED, DIVIDED), case_sentences(title, case)


class CaseFigures:
    """Collects the figures of a stage's cases."""

    def __init__(self):
        self.figures, self.failures = {"cases": {}, "findings": [], "sentences": [], "not run": []}, []

    def add(self, name, case, failures, found, sentences):
        self.figures["cases"][name] = case
        self.figures["findings"] += found
        self.figures["sentences"] += sentences
        self.failures += [f"{name}: {failure}" for failure in failures]

    def end(self):
        """Returns the figures, or raises Failed with them if something failed."""
        if self.failures:
            raise machine.Failed("; ".join(self.failures)[:4000], self.figures)
        return self.figures


def layers(sitting, seconds):
    """Compares the convolutions of networks, forward and backward: without a limit, within 64 MiB undivided and divided, and
    with one budget. A shape that a network repeats is executed once, and its time counts as often as the network has it."""
    need_processes()
    deadline, collected = time.monotonic() + seconds, CaseFigures()
    for index, (network, batch, dtype) in enumerate(CASES):
        left = deadline - time.monotonic() - ENDING_SECONDS
        if left < LEAST_CASE_SECONDS:
            collected.figures["not run"].append(f"{network} {dtype}")
            continue
        share = max(1.5 * left / (len(CASES) - index), LEAST_CASE_SECONDS)
        collected.add(f"{network} {dtype}", *a_case(sitting.store, network, batch, dtype, min(left, share)))
    return collected.end()


def drift(sitting, seconds):
    """Repeats the first of CASES. Returns, for the configurations PLAIN, UNDIVIDED and DIVIDED, the ratio of the time now to
    the time in the committed result."""
    need_processes()
    path = machine.FOLDER / "results" / f"{sitting.slug}.json"
    if not path.exists():
        raise figures.Skipped(f"no committed result {path.name}")
    return drift_from(json.loads(path.read_text()), sitting.store, seconds)


def drift_from(result, store, seconds):
    network, batch, dtype = CASES[0]
    name, collected = f"{network} {dtype}", CaseFigures()
    earlier = next((stage for stage in result["stages"] if stage["name"] == "headline layers"), {})
    old = earlier.get("figures", {}).get("cases", {}).get(name, {}).get("configurations", {})
    if not old:
        raise figures.Skipped(f"the committed result has no headline of {name}")
    collected.add(name, *a_case(store, network, batch, dtype, seconds - ENDING_SECONDS))
    now = collected.figures["cases"][name]["configurations"]
    collected.figures["new_to_old"] = {row: round(now[row]["median_ms"] / old[row]["median_ms"], 4)
                                       for row in (PLAIN, UNDIVIDED, DIVIDED) if row in now and row in old}
    collected.figures["sentences"] = [
        f"{TITLES[network]} n = {batch}, {dtype}, {row}: {ratio:.3f}x the time of {earlier.get('date')}"
        for row, ratio in collected.figures["new_to_old"].items()]
    return collected.end()


def l2_rows(sitting, seconds):
    """Executes ten layers without any limit, to see whether micro-batches whose data fit the L2 cache are faster than
    the undivided call."""
    need_processes()
    rows = [row for row in layers_of("l2-layers.csv") if row["name"] in L2_ROWS]
    if machine.HOST:
        rows = shrunk(rows, 4)
    kernels = kernels_of(rows, L2_OPERATIONS, first_is_input=False)
    of_store = ["--db", sitting.store]
    configurations = {name: [*of_store, "--policy", name] for name in ("auto", "powerOfTwo", "undivided")} | {PLAIN: None}
    calls = Calls(configurations, kernels, seconds - ENDING_SECONDS).run()
    case, collected = compared(calls, {"plain": PLAIN, "undivided": "undivided"}), CaseFigures()
    found, sentences = [], []
    for policy in ("auto", "powerOfTwo") if {"auto", "powerOfTwo", "undivided"} <= set(case["configurations"]) else ():
        found += findings("without a limit", case, "undivided", policy)
        divided = {name: kernel["undivided"]["ms"] / kernel[policy]["ms"] for name, kernel in case["kernels"].items()
                   if kernel[policy].get("pieces", 1) > 1}
        slower = [f"without a limit, {name}: {policy} divides it, {ratio:.2f}x as fast as undivided"
                  for name, ratio in divided.items() if ratio < 1 - APART]
        found += slower
        text = f"no limit, policy {policy}: {len(divided)} of {case['kernels_executed']} kernels of ten layers divided"
        sentences.append(text + (f", {statistics.median(divided.values()):.2f}x as fast as undivided (from "
                                 f"{min(divided.values()):.2f} to {max(divided.values()):.2f})" if divided else ""))
    collected.add("L2 rows", case, calls.failures, found, sentences)
    return collected.end()


def resnet50_iteration(sitting, seconds):
    """Compares training iterations of ResNet-50 in PyTorch without ucudnn, and within 64 MiB undivided and divided: their
    times, memory, and the time until steps run as planned."""
    need_processes()
    figures.need("torch")
    network, batch, precision = ("unet", 2, "fp32") if machine.HOST else ("resnet50", 128, "tf32")
    options = {DIVIDED: within(LIMIT_MIB, "auto"), UNDIVIDED: within(LIMIT_MIB, "undivided")}
    configurations = {PLAIN: (None, {})} | {name: (["--db", sitting.store, *words], {}) for name, words in options.items()}
    case = {"network": network, "batch": batch, "precision": precision, "last": False}
    told = torch_iterations.run(configurations, {precision: case}, seconds - 1, TUNE if machine.HOST else "0.8:25")
    by_name = told["cases"][precision]
    ms = {name: figure["median_ms"] for name, figure in by_name.items()}
    memory = {name: f"{figure['allocated_mib'] / 1024:.2f}" for name, figure in by_name.items()}
    after = {name: f"{figure['planned_after_s']:.1f}" for name, figure in by_name.items()}
    title = f"{TITLES.get(network, network)} iteration in PyTorch, n = {batch}, {precision}"
    told["sentences"] = [
        f"{title}: {ms[PLAIN]:.4g} ms, within {LIMIT} undivided {ms[UNDIVIDED]:.4g}, divided {ms[DIVIDED]:.4g} "
        f"({ms[UNDIVIDED] / ms[DIVIDED]:.2f}x as fast); PyTorch's peak {memory[PLAIN]}, {memory[UNDIVIDED]}, "
        f"{memory[DIVIDED]} GiB",
        f"{title}: as fast as later steps after {after[PLAIN]} s, within {LIMIT} undivided {after[UNDIVIDED]}, divided "
        f"{after[DIVIDED]}"]
    return told


TINY = {"name": "tiny", "op": "forward", "n": 16, "c": 16, "h": 8, "w": 8, "k": 16, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1,
        "stride_h": 1, "stride_w": 1, "dtype": "fp32", "layout": "nchw"}
FORWARDED, PIECES = "forwarded", (4, 16)
COST_CALLS = 20 if machine.HOST else 400  # the calls of a round


def planned_words(report, pieces):
    """Returns a workspace plan that divides the report's legacy kernel into `pieces` pieces of algorithm 1. This is the
    algorithm that the program asks for."""
    kernel = next(kernel for kernel in report["kernels"] if kernel["api"] == "legacy")
    size = TINY["n"] // pieces
    run = {"engine": "legacy:1", "micro_batch": size, "count": pieces, "workspace_bytes": MIB, "piece_ms": 1}
    return {"format": "ucudnn-workspace-plan", "version": 2, "device": report["device"], "cudnn": report["cudnn"],
            "limit_bytes": None, "division": "concurrent",
            "kernels": [{"op": "forward", "problem": kernel["problem"], "api": "legacy", "plan": [run], "segment": None,
                         "order_after": []}]}


def costs(configurations, apis, calls, rounds, deadline, folder):
    """Returns three values: the host's microseconds for a call (medians of rounds) by configuration and API, the reports by
    configuration, and the failures."""
    workers, told = {}, {name: {api: [] for api in apis} for name in configurations}
    try:
        for name, (options, variables) in configurations.items():
            workers[name] = Worker(name, [PROGRAM], options, machine.environment(**THREADS, **variables), folder, on_host=True)
        for worker in workers.values():
            worker.answer(deadline)
        for turn in range(rounds):
            for name in in_turn([*workers], turn):
                for api in apis:
                    answer = workers[name].ask({"cost": TINY, "api": api, "calls": calls}, deadline)
                    if answer:
                        told[name][api].append(answer["median_us"])
    finally:
        reports = close(workers)
    failed = [f"{name}: {worker.error}" for name, worker in workers.items() if worker.error] + measured_at_once(reports)
    medians = {name: {api: round(statistics.median(us), 3) for api, us in by_api.items() if us}
               for name, by_api in told.items()}
    return medians, reports, failed


def call_cost(sitting, seconds):
    """Measures the host's time for a call of a tiny convolution: without ucudnn, with a ucudnn that only forwards the
    call, and with ucudnn dividing it into pieces."""
    need_processes()
    figures.facts.warm_up()
    deadline, told = time.monotonic() + seconds - ENDING_SECONDS, {"not run": []}
    with tempfile.TemporaryDirectory() as folder:
        alone = (["--db", "none"], {"UCUDNN_TUNE": "off"})
        _, reports, failed = costs({FORWARDED: alone}, ("legacy",), 20, 1, deadline, folder)
        if failed or not reports[FORWARDED]:
            raise machine.Failed("; ".join(failed) or "ucudnn wrote no report")
        configurations = {"off": (None, {}), FORWARDED: alone}
        for pieces in PIECES:
            plan = pathlib.Path(folder, f"{pieces}.plan")
            plan.write_text(json.dumps(planned_words(reports[FORWARDED], pieces)))
            configurations[f"{pieces} pieces"] = (["--db", "none", "--workspace-plan", plan], {})
        us, reports, failed = costs(configurations, ("legacy", "graph"), COST_CALLS, 5, deadline, folder)
    told["us"] = us
    ran = {}
    for pieces in PIECES:
        for api in ("legacy", "graph"):
            entry = next((kernel for kernel in (reports[f"{pieces} pieces"] or {"kernels": []})["kernels"]
                          if kernel["api"] == api), None)
            ran[f"{pieces} pieces, {api}"] = machine.pieces(entry) if entry and entry["calls"] > entry.get(
                "undivided_calls", 0) else 1
        if ran[f"{pieces} pieces, legacy"] != pieces:
            failed.append(f"{pieces} pieces: the kernel ran in {ran[f'{pieces} pieces, legacy']}: "
                          f"{(reports[f'{pieces} pieces'] or {}).get('fallbacks')}")
    told["pieces"] = ran
    legacy = {name: by_api.get("legacy") for name, by_api in us.items()}
    if all(legacy.values()):
        few, many = (legacy[f"{pieces} pieces"] for pieces in PIECES)
        told["us_per_piece"] = round((many - few) / (PIECES[1] - PIECES[0]), 3)
        told["sentences"] = [f"a call of a tiny convolution takes the host {legacy['off']:.3g} us without ucudnn, "
                             f"{legacy[FORWARDED]:.3g} left alone, {few:.3g} in {PIECES[0]} pieces, {many:.3g} in "
                             f"{PIECES[1]}: {told['us_per_piece']:.3g} a piece"]
    if failed:
        raise machine.Failed("; ".join(failed), told)
    return told
