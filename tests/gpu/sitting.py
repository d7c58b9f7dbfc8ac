"""Runs stages within a number of seconds, each in a process of its own (stage.py). Stages run at the same time where their
lanes allow it. The result file on disk is complete at any moment. A stage that hangs or crashes takes no more time from other
stages than its own limit."""

import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import machine
from stages import ALONE, BESIDE, FREE, GATE, MEASURES

POLL_SECONDS = 0.05
# A stage must end within its limit and report what it has. If it exceeds its limit by SLACK_SECONDS, it is killed with all
# processes that it started.
SLACK_SECONDS = 5
REASON_CHARACTERS = 4000


def own_limit(stage):
    """Returns the stage's limit in seconds. It is five times as long on the CPU stand-in, whose processors may have other
    work."""
    return 5 * stage.limit if machine.HOST else stage.limit


def without_times(figures):
    """Returns the figures without the times in them. Times of a stage that ran together with other stages are not valid
    measurements."""
    if isinstance(figures, list):
        return [without_times(each) for each in figures]
    if not isinstance(figures, dict):
        return figures
    is_time = lambda name: name in ("seconds", "ms", "us") or name.endswith(("_ms", "_us", "_s", "_seconds"))
    return {name: without_times(each) for name, each in figures.items() if not is_time(name)}


class Results:
    """Keeps the result of each stage, and writes the file after each change. `earlier` is the document of an earlier sitting.
    Its stages stay in the file until they run again."""

    def __init__(self, path, environment, earlier=None):
        self.path, self.environment, self.stages = path, environment, {}
        self.earlier = {stage["name"]: stage for stage in (earlier or {}).get("stages", [])}

    def passed_before(self, name):
        """Returns whether the stage passed in an earlier sitting with the same ucudnn, card and driver."""
        stage = self.earlier.get(name, {})
        same = all(stage.get(key) == self.environment.get(key) for key in ("commit", "gpu", "driver"))
        return same and stage.get("outcome") == "passed"

    def failed_before(self):
        return [name for name, stage in self.earlier.items() if stage["outcome"] in ("failed", "cut", "running")]

    def put(self, stage):
        """Adds a stage, or replaces it. `stage` is its entry in the file."""
        self.stages[stage["name"]] = stage | {key: self.environment.get(key) for key in ("commit", "gpu", "driver")}
        self.write()

    def keep(self, name):
        self.stages[name] = self.earlier[name]

    def write(self):
        waiting = [stage for name, stage in self.earlier.items() if name not in self.stages]
        document = {"format": "ucudnn-gpu-check", "version": 2, "host": machine.HOST, "environment": self.environment,
                    "stages": list(self.stages.values()) + waiting}
        machine.write_whole(self.path, (without_places(json.dumps(document, indent=1)) + "\n").encode())

    def that(self, outcome):
        return [name for name, stage in self.stages.items() if stage["outcome"] == outcome]


def without_places(text):
    """Removes the paths of this machine from `text`, since results are committed."""
    for place in (str(machine.ROOT) + "/", sys.prefix + "/", os.path.expanduser("~") + "/"):
        if place.strip("/"):
            text = text.replace(place, "")
    return text


class Run:
    """A stage that is running."""

    def __init__(self, stage, seconds, folder, context):
        self.stage, self.seconds, self.begin = stage, seconds, time.monotonic()
        self.result, self.errors = folder / "result.json", folder / "errors"
        given = folder / "context.json"
        given.write_text(json.dumps(context | {"work": stage.work, "seconds": seconds, "result": str(self.result)}))
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-B", str(machine.FOLDER / "stage.py"), str(given)], stdin=subprocess.DEVNULL,
                stdout=errors, stderr=errors, start_new_session=True, preexec_fn=machine.die_with_parent)

    def is_late(self):
        return time.monotonic() > self.begin + self.seconds + SLACK_SECONDS

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def outcome(self):
        """Returns a dictionary with outcome, reason and figures. REQUIRES: the process has ended, or end() has ended it."""
        if self.result.exists():
            return json.loads(self.result.read_text())
        code = self.process.returncode
        ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return {"outcome": "failed", "reason": f"the stage's process {ended}: {self.errors.read_text()[-1500:]}".strip()}


class Sitting:
    """Runs stages until `seconds` have passed. `at_once` is the number of stages of the lane FREE that may run at the
    same time, or None if the device allows only one process at a time. `clocks` is a clocks.Log, or None."""

    def __init__(self, results, context, seconds, at_once, clocks=None):
        self.results, self.context, self.clocks = results, context, clocks
        self.begin = time.monotonic()
        self.deadline = self.begin + seconds
        self.room = at_once and {FREE: at_once, MEASURES: 1}
        self.running = []
        self.folder = tempfile.TemporaryDirectory()

    def run(self, stages, last=()):
        """Runs the stages in order, as far as lanes and time allow. The stages `last` run even if no time is left, since they
        save results that would be lost otherwise."""
        self.results.write()
        try:
            self.run_all(list(stages))
            self.deadline = max(self.deadline, time.monotonic() + sum(own_limit(stage) for stage in last) + SLACK_SECONDS)
            self.run_all(list(last))
        finally:
            for run in self.running:
                run.end()
            self.folder.cleanup()

    def run_all(self, pending):
        while pending or self.running:
            for run in [run for run in self.running if run.process.poll() is not None or run.is_late()]:
                self.finish(run)
                if run.stage.name == GATE and self.results.stages[GATE]["outcome"] != "passed":
                    pending = self.give_up(pending)
            for stage in self.ready(pending):
                pending.remove(stage)
                self.start(stage)
            time.sleep(POLL_SECONDS)

    def give_up(self, pending):
        """Ends all stages because the gate failed, and records the pending ones as not run."""
        for run in [*self.running]:
            run.end()
            self.finish(run)
        for stage in pending:
            self.leave_out(stage, "the gate failed")
        return []

    def ready(self, pending):
        """Returns the stages of `pending` that may start now. A stage of the lane ALONE holds back all
        stages after it in `pending`."""
        lanes = [run.stage.lane for run in self.running]
        under_way = {run.stage.name for run in self.running} | {stage.name for stage in pending}
        beginning = []
        for stage in pending:
            if under_way.isdisjoint(stage.needs) and self.has_room(stage.lane, lanes):
                lanes.append(stage.lane)
                beginning.append(stage)
            if stage.lane == ALONE:
                break
        return beginning

    def has_room(self, lane, lanes):
        """Returns whether a stage of `lane` may run at the same time as stages of `lanes`."""
        if lane == BESIDE:
            return True
        if lane == ALONE or self.room is None:
            return not any(other != BESIDE for other in lanes)
        return ALONE not in lanes and lanes.count(lane) < self.room[lane]

    def leave_out(self, stage, reason):
        self.tell({"name": stage.name, "lane": stage.lane, "outcome": "not run", "reason": reason})

    def start(self, stage):
        if self.results.passed_before(stage.name) and not stage.every_time:
            self.results.keep(stage.name)
            return
        left = self.deadline - time.monotonic()
        if left < (5 if machine.HOST else stage.seconds):
            self.leave_out(stage, "no time left")
            return
        folder = pathlib.Path(self.folder.name, machine.slug(stage.name))
        folder.mkdir(exist_ok=True)
        run = Run(stage, min(own_limit(stage), left), folder, self.context)
        run.clocks = self.clocks.now() if self.clocks else None
        self.running.append(run)
        self.results.put(self.entry(run) | {"outcome": "running"})

    def entry(self, run):
        return {"name": run.stage.name, "lane": run.stage.lane, "date": datetime.date.today().isoformat(),
                "begin_s": round(run.begin - self.begin, 1)}

    def finish(self, run):
        late = run.process.poll() is None
        run.end()
        self.running.remove(run)
        told = run.outcome()
        if late and not run.result.exists():
            told = {"outcome": "cut", "reason": f"not done after {run.seconds:.0f} s"}
        entry = self.entry(run) | told | {"seconds": round(time.monotonic() - run.begin, 1)}
        self.judge(entry, run)
        if run.stage.lane != ALONE and "figures" in entry:
            entry["figures"] = without_times(entry["figures"])
        if run.clocks:
            entry["clocks"] = [run.clocks, self.clocks.now()]
        if run.stage.name == "versions":
            self.results.environment |= entry.get("figures", {})
        self.tell(entry)

    def judge(self, entry, run):
        """Sets the outcome of a stage that was cut off or left out work. If the sitting's end shortened the stage's time, the
        outcome is "not run". Otherwise the outcome is "failed" for a test that was cut off, and for a stage that passed but
        left out a part of its work."""
        shortened = run.seconds < own_limit(run.stage)
        left_out = entry.get("figures", {}).get("not run")
        if shortened and (entry["outcome"] == "cut" or left_out):
            entry |= {"outcome": "not run", "reason": f"no time left after {entry['seconds']:.0f} s"}
        elif entry["outcome"] == "cut" and run.stage.is_test:
            entry["outcome"] = "failed"
        elif entry["outcome"] == "passed" and left_out:
            entry |= {"outcome": "failed", "reason": f"not run: {', '.join(map(str, left_out))}"}

    def tell(self, entry):
        if "reason" in entry:
            entry["reason"] = without_places(entry["reason"])[:REASON_CHARACTERS]
        self.results.put(entry)
        lines = entry.get("reason", "").strip().splitlines() or [""]
        print(f"{entry['name']:<36} {entry['outcome']:<8} {entry.get('seconds', 0):6.1f} s  {lines[0][:200]}", flush=True)
