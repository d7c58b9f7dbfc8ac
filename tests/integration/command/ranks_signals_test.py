"""`ucudnn run --ranks`: signals, terminals, and that nothing is left behind if the command itself is killed."""

import os
import pty
import select
import signal
import sys
import time
import unittest

from ranks import RanksTest, alive, children, name, state, wait_for

# A rank that says that it is there, and which signals it gets. Arguments: signals, seconds until it ends, exit code.
HEEDS = r"""
import os, signal, sys, time
def told(number, frame):
    print(os.environ["RANK"], signal.Signals(number).name, flush=True)
for number in map(int, sys.argv[1].split(",")):
    signal.signal(number, told)
print(os.environ["RANK"], "ready", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    time.sleep(0.02)
sys.exit(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
"""


class Signals(RanksTest):
    def ready(self, started, count):
        """Waits until so many ranks have said that they are there; returns their lines."""
        return [started.stdout.readline() for _ in range(count)]

    def pids(self, started, count):
        """Returns the process ids of ranks that print theirs first, and of what they started."""
        return [int(word) for line in self.ready(started, count) for word in line.split()]

    def test_a_killed_launcher_leaves_nothing_behind(self):
        # One process is in the background, and one in a process group of its own.
        started = self.start(3, "bash", "-c", "trap '' TERM HUP INT; sleep 60 & first=$!; set -m; sleep 60 & echo $$ $first $!; wait")
        pids = self.pids(started, 3)
        self.assertEqual(9, len(pids))
        guards = set(children(started.pid)) - set(pids)
        self.assertEqual(1, len(guards))
        started.kill()
        started.wait()
        wait_for(lambda: not any(map(alive, [*pids, *guards])))

    def test_a_rank_outlives_its_killed_guard_but_not_its_launcher(self):
        started = self.start(2, "sleep", "60")
        wait_for(lambda: sorted(map(name, children(started.pid))) == ["sleep", "sleep", "ucudnn"])
        [guard] = [pid for pid in children(started.pid) if name(pid) == "ucudnn"]
        ranks = set(children(started.pid)) - {guard}
        os.kill(guard, signal.SIGKILL)
        time.sleep(0.2)
        self.assertTrue(all(map(alive, ranks)))
        started.kill()
        wait_for(lambda: not any(map(alive, ranks)))

    def test_signals_that_end_are_passed_on_once(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            with self.subTest(signal=number.name):
                started = self.start(2, sys.executable, "-c", HEEDS, "1,2,3,10,12,15", "0.3")
                self.ready(started, 2)
                started.send_signal(number)
                output, errors = started.communicate(timeout=10)
                self.assertEqual((0, [f"0 {number.name}", f"1 {number.name}"], ""),
                                 (started.returncode, sorted(output.splitlines()), errors))

    def test_ranks_that_end_by_an_interrupt_end_the_command_by_it(self):
        started = self.start(2, "bash", "-c", "echo ready; exec sleep 60")
        self.ready(started, 2)
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=10)
        self.assertEqual((-signal.SIGINT, ""), (started.returncode, errors))

    def test_ranks_that_end_by_another_signal_are_an_exit_code(self):
        started = self.start(2, "bash", "-c", "echo ready; exec sleep 60")
        self.ready(started, 2)
        started.send_signal(signal.SIGTERM)
        _, errors = started.communicate(timeout=10)
        self.assertEqual((128 + signal.SIGTERM, ""), (started.returncode, errors))

    def test_a_program_may_end_in_its_own_way(self):
        started = self.start(2, "bash", "-c", "trap 'sleep 1; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
        self.ready(started, 2)
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=10)
        self.assertEqual(0, started.returncode)

    def test_stopping_stops_the_ranks_and_going_on_lets_them_go_on(self):
        started = self.start(2, "bash", "-c", "echo $$; while :; do sleep 0.05; done")
        pids = self.pids(started, 2)
        started.send_signal(signal.SIGTSTP)
        wait_for(lambda: [state(pid) for pid in [started.pid, *pids]] == ["T"] * 3)
        started.send_signal(signal.SIGCONT)
        wait_for(lambda: "T" not in [state(pid) for pid in [started.pid, *pids]])
        started.terminate()
        started.communicate(timeout=10)
        self.assertEqual(143, started.returncode)

    def test_what_was_ignored_stays_ignored(self):
        started = self.start(1, "bash", "-c", "echo ready; sleep 0.6; echo went on",
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.ready(started, 1)
        started.send_signal(signal.SIGHUP)
        output, _ = started.communicate(timeout=10)
        self.assertEqual((0, "went on\n"), (started.returncode, output))


class Terminal(RanksTest):
    """Starts jobs as a shell does at a terminal."""

    def at_terminal(self, ranks, *program):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(self.command, [self.command, "run", "--ranks", str(ranks), "--", *program], self.environment(TERM="dumb"))
        self.addCleanup(lambda: self.terminal is None or os.close(self.terminal))
        self.pid, self.terminal, self.shown = pid, terminal, b""

    def see(self, *texts):
        end = time.monotonic() + 10
        while not all(text in self.shown for text in texts):
            self.assertLess(time.monotonic(), end, self.shown)
            if select.select([self.terminal], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.terminal, 4096)
                except OSError:  # Linux reports so that nobody has the other side any more
                    break
        for text in texts:
            self.assertIn(text, self.shown)

    def end(self):
        end = time.monotonic() + 15
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if self.terminal is None:
                time.sleep(0.02)
            elif select.select([self.terminal], [], [], 0.02)[0]:
                try:
                    self.shown += os.read(self.terminal, 4096)
                except OSError:
                    pass
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("it does not end")

    def test_ctrl_c_reaches_each_rank_once(self):
        self.at_terminal(2, sys.executable, "-c", HEEDS, "2", "1.0", "5")
        self.see(b"0 ready", b"1 ready")
        os.write(self.terminal, b"\x03")
        self.see(b"0 SIGINT", b"1 SIGINT")
        self.assertEqual(5, self.end())
        self.assertEqual(2, self.shown.count(b"SIGINT"))

    def test_ctrl_c_ends_ranks_that_do_not_heed_it(self):
        self.at_terminal(2, "bash", "-c", "echo $RANK ready; exec sleep 60")
        self.see(b"0 ready", b"1 ready")
        os.write(self.terminal, b"\x03")
        self.assertEqual(-signal.SIGINT, self.end())

    def test_a_question_is_seen_before_it_is_answered(self):
        self.at_terminal(2, sys.executable, "-c", "import os\nif os.environ['RANK'] == '0': print('answer:', input('well? '))")
        self.see(b"well? ")
        os.write(self.terminal, b"yes\n")
        self.see(b"answer: yes")
        self.assertEqual(0, self.end())

    def test_the_end_of_what_is_typed(self):
        self.at_terminal(2, "bash", "-c", 'echo "$RANK got $(cat)"')
        self.see(b"1 got")
        os.write(self.terminal, b"typed\n\x04")
        self.see(b"0 got typed")
        self.assertEqual(0, self.end())

    def test_a_closed_terminal_ends_the_ranks(self):
        self.at_terminal(2, "bash", "-c", "echo pid $$; exec sleep 60")
        end = time.monotonic() + 10
        while self.shown.count(b"\n") < 2 and time.monotonic() < end:
            self.shown += os.read(self.terminal, 4096)
        pids = [int(line.split()[1]) for line in self.shown.splitlines()]
        self.assertEqual(2, len(pids))
        os.close(self.terminal)
        self.terminal = None
        self.assertEqual(129, self.end())
        self.assertFalse(any(map(alive, pids)))


if __name__ == "__main__":
    unittest.main()
