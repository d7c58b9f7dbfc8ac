"""Runs programs that are compared with each other (torch_worker.py, layer_calls.cpp). Each configuration has one process,
which is started once; only one of these processes works at a time. A process reads commands from stdin, one line of JSON
each, and answers each with a line of JSON."""

import contextlib
import json
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time

import machine

MIB = 1 << 20
POLICIES = ("auto", "undivided", "powerOfTwo", "all")


def within(mib, policy):
    """Returns options for a limit of `mib` MiB. A promise of workspace holds for all processes with the same limit and store,
    whatever their policies are. So each policy gets a limit that differs by a few bytes, and the promises of one policy do not
    bind another."""
    return ["--policy", policy, "--workspace-limit", str(int(mib * MIB) - POLICIES.index(policy))]


class Worker:
    """A process of the command line `program`. It runs under `ucudnn run` with `options`, or without ucudnn if they are None.
    On the CPU stand-in, only a program with `on_host` runs under `ucudnn run --host`; other programs run on the CPU without
    ucudnn."""

    def __init__(self, name, program, options, environment, folder, on_host=False):
        self.name, self.error = name, None
        self.report_path = pathlib.Path(folder, f"{machine.slug(name)}.json")
        self.errors = self.report_path.with_suffix(".err")
        words = [*program]
        if machine.HOST and on_host:
            options = ["--host", *(["--off"] if options is None else options)]
        elif machine.HOST:
            options = None
        if options is not None:
            reporting = [] if "--off" in options else ["--report", self.report_path]
            words = [machine.UCUDNN, "run", *options, *reporting, "--", *words]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [str(word) for word in words], env=environment, text=True, bufsize=1, start_new_session=True,
                preexec_fn=machine.die_with_parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with self.process.stdout as output:
            for line in output:
                if line.startswith("{"):
                    self.lines.put(line)
        self.lines.put(None)

    def ended(self):
        return f"the worker ended: {self.errors.read_text()[-500:]}"

    def reply(self, deadline):
        try:
            line = self.lines.get(timeout=max(deadline - time.monotonic(), 0.1))
        except queue.Empty:
            raise machine.TimedOut(f"{self.name}: the worker did not answer in time") from None
        if line is None:
            self.lines.put(None)
            raise machine.Failed(self.ended())
        return json.loads(line)

    def ask(self, command, deadline):
        """Sends a command and returns its answer, or None after a failure. The failure is kept in `error`. Raises TimedOut
        after `deadline`."""
        if self.error is not None:
            return None
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
        except BrokenPipeError:
            self.error = self.ended()
            return None
        return self.answer(deadline)

    def answer(self, deadline):
        """Returns the next answer, or None after a failure, which is kept in `error`. Raises TimedOut after `deadline`. The
        first answer says that the program is ready."""
        try:
            answer = self.reply(deadline)
        except machine.TimedOut:
            raise
        except machine.Failed as failure:
            answer = {"error": str(failure)}
        self.error = answer.get("error")
        return None if self.error else answer

    def report(self):
        """Returns ucudnn's report, or None if it has not been written yet."""
        return json.loads(self.report_path.read_text()) if self.report_path.exists() else None

    def end(self, deadline):
        """Waits until the program ends; after `deadline`, kills it with everything that it started. REQUIRES: its input is
        closed."""
        try:
            self.process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


CLOSING_SECONDS = 4


def close(workers):
    """Ends all workers within CLOSING_SECONDS. Returns their last reports by name."""
    deadline = time.monotonic() + CLOSING_SECONDS
    for worker in workers.values():
        with contextlib.suppress(OSError):
            worker.process.stdin.close()
    for worker in workers.values():
        worker.end(deadline)
    return {name: worker.report() for name, worker in workers.items()}


def measured_at_once(reports):
    """Returns a text for each report of a process that could not measure because another process measured."""
    return [f"{name}: its report says \"{machine.MEASURED_BY_OTHERS} on the device\": two processes measured at once"
            for name, report in reports.items() if report and machine.MEASURED_BY_OTHERS in json.dumps(report)]


def in_turn(names, turn):
    """Returns the names, rotated by `turn`, so that each of them comes first in some turn."""
    first = turn % len(names) if names else 0
    return [*names[first:], *names[:first]]
