"""Helpers for tests of `ucudnn run --ranks`: they start jobs and look at their processes."""

import os
import subprocess
import time

from command import CommandTest, clean_environment


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


def name(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
        return file.read().strip()


def children(parent):
    """Returns the processes that `parent` has started and not reaped."""
    def is_child(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return int(file.read().rpartition(")")[2].split()[1]) == parent
        except (FileNotFoundError, ProcessLookupError):
            return False
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_child(pid)]


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.01)


class RanksTest(CommandTest):
    def environment(self, **variables):
        return clean_environment() | {"LD_LIBRARY_PATH": self.driver} | variables

    def run_ranks(self, ranks, *program, options=(), text=True, **more):
        process = more.pop("process", {})
        return subprocess.run([self.command, "run", "--ranks", str(ranks), *options, "--", *program], cwd=self.folder,
                              env=self.environment(**more), capture_output=True, text=text, timeout=60, **process)

    def shell(self, ranks, script, **more):
        return self.run_ranks(ranks, "bash", "-c", script, **more)

    def start(self, ranks, *program, **process):
        """Starts a job in a process group of its own, as a shell does."""
        started = subprocess.Popen([self.command, "run", "--ranks", str(ranks), "--", *program], cwd=self.folder,
                                   env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, process_group=0, **process)
        self.addCleanup(self.stop, started)
        return started

    @staticmethod
    def stop(started):
        started.kill()
        started.communicate()

    def assert_result(self, code, output, errors, result):
        self.assertEqual((code, output, errors), (result.returncode, result.stdout, result.stderr))
