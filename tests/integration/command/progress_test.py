"""Tests what a user sees while a program waits for measurements under `ucudnn run`. On a terminal, one line is
rewritten while measuring and replaced by a last line at the end. In a pipe, nothing is shown."""

import re
import unittest

from alexnet_step import ALEXNET_STEP
from command import FolderTest

# A process has 4 seconds: 3 for measuring, and 1 for comparing. The line appears after 1 second. Measuring takes longer
# than 1 second on any CPU, because it runs AlexNet's kernels thousands of times, at all micro-batch sizes up to 16.
LONG = {"UCUDNN_TUNE": "first", "UCUDNN_TUNE_SECONDS": "600:4"}
POLICY = ("--policy", "all", "--engines", "legacy")
# "get" asks cuDNN's heuristics for algorithms; "find" would measure them, which takes long.
STEP = (ALEXNET_STEP, "16", "1", "64", "get")
LOGGED = "ucudnn["
LAST = re.compile(r"ucudnn: measured (\d+) kernels? in (\d+\.\d) s, (stored in \S+|not stored)")
# Matches the lines that alexnet_step prints for each layer and step.
LAYER = re.compile(r"conv\d ")


def screen(written):
    """Returns the lines that a terminal finally shows, after carriage returns, line feeds and ESC [ K (erase to the end
    of the line)."""
    lines, at = [""], 0
    for part in re.findall(r"\r|\n|\x1b\[K|[^\r\n\x1b]+", written):
        if part == "\r":
            at = 0
        elif part == "\n":
            lines.append("")
            at = 0
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:at]
        else:
            lines[-1] = lines[-1][:at].ljust(at) + part + lines[-1][at + len(part):]
            at += len(part)
    return lines


class Progress(FolderTest):
    def in_pipe(self, *words, **variables):
        return self.ended(0, *words, TERM="xterm", **variables)

    def test_terminal_sees_the_line_and_in_the_end_the_last_one_alone(self):
        written = self.on_terminal("run", "--host", *POLICY, "--db", self.store, "--", *STEP, **LONG)
        rewritten = re.findall(r"\r\x1b\[Kucudnn: measuring, (\d+\.\d) s: micro-batch (\d+), engine (\d+) of (\d+) of (\w+) 16x", written)
        self.assertGreater(len(rewritten), 1, written)
        for waited, size, engine, engines, _ in rewritten:
            self.assertGreaterEqual(float(waited), 1)
            self.assertIn(int(size), range(1, 17))
            self.assertIn(int(engine), range(1, int(engines) + 1))
        # Lines that begin with LOGGED are warnings about kernels for which the time was too short.
        *program, last, after = [line for line in screen(written) if not line.startswith(LOGGED)]
        self.assertEqual("", after)
        self.assertTrue(LAST.fullmatch(last), last)
        kernels, waited, place = LAST.fullmatch(last).groups()
        self.assertGreater(int(kernels), 0)
        self.assertGreaterEqual(float(waited), 1)
        self.assertEqual(f"stored in {self.store}", place)
        # The terminal shows all lines that the program prints without ucudnn.
        quiet = self.in_pipe("run", "--host", "--off", "--", *STEP).stdout.splitlines()
        self.assertEqual([line for line in quiet if LAYER.match(line)], [line for line in program if LAYER.match(line)])
        self.assertEqual(len(quiet), len(program), screen(written))

    def test_dumb_terminal_sees_the_last_line(self):
        written = self.on_terminal("run", "--host", *POLICY, "--db", "none", "--", *STEP, **LONG, TERM="dumb")
        self.assertNotIn("\x1b", written)
        self.assertTrue(written.splitlines()[-1].endswith(" s, not stored"), written)

    def test_pipe_sees_nothing(self):
        written = self.in_pipe("run", "--host", *POLICY, "--db", "none", "--report", f"{self.folder}/report.json", "--", *STEP, **LONG)
        self.assertEqual([], [line for line in written.stderr.splitlines() if not line.startswith(LOGGED)])
        self.assertNotIn("\x1b", written.stderr + written.stdout)
        self.assertGreater(self.load("report.json")["measured"], 0)

    def test_log_has_the_last_line_in_a_pipe(self):
        small = ("run", "--host", "--policy", "undivided", "--engines", "legacy", "--db", self.store, "--", ALEXNET_STEP, "1", "1")
        logged = self.in_pipe(*small, UCUDNN_LOG="info").stderr
        self.assertNotIn("\x1b", logged)
        self.assertRegex(logged.splitlines()[-1], rf"^ucudnn\[\d+\] info: measured \d+ kernels in \d+\.\d s, stored in {self.store}$")

    def test_warm_store_shows_nothing(self):
        options = ("--host", "--policy", "undivided", "--engines", "legacy", "--db", self.store)
        self.in_pipe("bench", "--net", "alexnet", "--batch", "1", *options)
        shown = screen(self.on_terminal("run", *options, "--", ALEXNET_STEP, "1", "1", UCUDNN_TUNE="first"))
        self.assertEqual([], [line for line in shown if "ucudnn" in line])
        self.assertGreater(len([line for line in shown if LAYER.match(line)]), 0)


if __name__ == "__main__":
    unittest.main()
