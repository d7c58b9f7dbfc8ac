"""Tests `ucudnn run --ranks`: each rank's environment, input and output, exit codes, how ranks end and what they report
to their launcher, signals and terminals. No process may remain if the command itself is killed."""

import concurrent.futures
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import unittest

from command import CommandTest, clean_environment

# This program writes to stdout and stderr as fast as it can: lines with random bytes, in pieces that are not whole
# lines.
WRITERS = r"""
import os, random
rank = int(os.environ["RANK"])
randomly = random.Random(rank)
for stream in (1, 2):
    text = b"".join(b"%d %d %d " % (rank, stream, i) + randomly.randbytes(randomly.choice((0, 7, 70, 9000))).replace(b"\n", b"\0")
                    + b" end\n" for i in range(400))
    while text:
        cut = randomly.choice((1, 10, 1000, 30000))
        os.write(stream, text[:cut])
        text = text[cut:]
"""

# A program that begins with these lines ignores SIGTERM.
STAYS = "import signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"

# This program prints its rank and "ready", then the name of each signal that it gets. Its arguments are the signals'
# numbers, the seconds until it ends, and its exit code.
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


def stat(pid):
    """Returns the name, state and parent of a process. The state is "X" (dead) if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            head, _, rest = file.read().rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return "", "X", 0
    return head.partition("(")[2], rest.split()[0], int(rest.split()[1])


def name(pid):
    return stat(pid)[0]


def state(pid):
    return stat(pid)[1]


def alive(pid):
    return state(pid) not in "ZX"


def children(parent):
    """Returns the ids of the processes whose parent is `parent`, zombies included."""
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and stat(pid)[2] == parent]


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
        process = {"text": text, "timeout": 60} | more.pop("process", {})
        return self.run_command("run", "--ranks", str(ranks), *options, "--", *program, process=process,
                                LD_LIBRARY_PATH=self.driver, **more)

    def shell(self, ranks, script, **more):
        return self.run_ranks(ranks, "bash", "-c", script, **more)

    def start(self, ranks, *program, **process):
        """Starts a job in its own process group, as a shell does. Kills it at the end of the test."""
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


class Environment(RanksTest):
    def variables(self, ranks, **more):
        """Runs ranks that print their environment. Returns the variables of each rank, sorted by rank."""
        result = self.run_ranks(ranks, sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))", **more)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        found = [json.loads(line) for line in result.stdout.splitlines()]
        return sorted(found, key=lambda variables: int(variables["RANK"]))

    def test_each_rank_has_what_torchrun_sets(self):
        found = self.variables(3, RANK="9", OMPI_COMM_WORLD_RANK="7")
        self.assertEqual(3, len(found))
        for rank, seen in enumerate(found):
            self.assertEqual([str(rank), "3", str(rank), "3", "0", "127.0.0.1"], [seen[name] for name in (
                "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")])
            self.assertEqual(self.drop_in, seen["LD_PRELOAD"])

    def test_ranks_of_a_job_meet_where_no_other_job_does(self):
        first, second = self.variables(2), self.variables(2)
        for name in ("MASTER_PORT", "UCUDNN_RENDEZVOUS", "UCUDNN_RENDEZVOUS_TOKEN", "UCUDNN_LAUNCHER"):
            self.assertEqual(1, len({seen[name] for seen in first}), name)
        for name in ("UCUDNN_RENDEZVOUS_TOKEN", "UCUDNN_LAUNCHER"):
            self.assertNotEqual(first[0][name], second[0][name])
        self.assertRegex(first[0]["UCUDNN_RENDEZVOUS_TOKEN"], r"\A[0-9a-f]{32}\Z")
        self.assertRegex(first[0]["UCUDNN_RENDEZVOUS"], r"\Atcp://127\.0\.0\.1:\d+\Z")
        self.assertNotEqual(first[0]["MASTER_PORT"], first[0]["UCUDNN_RENDEZVOUS"].rpartition(":")[2])

    def test_the_users_own_rendezvous_and_token_count(self):
        [seen] = self.variables(1, UCUDNN_RENDEZVOUS="file:/tmp/meet", UCUDNN_RENDEZVOUS_TOKEN="secret")
        self.assertEqual(("file:/tmp/meet", "secret"), (seen["UCUDNN_RENDEZVOUS"], seen["UCUDNN_RENDEZVOUS_TOKEN"]))

    def test_a_job_within_a_rank_has_its_own(self):
        [outer] = self.variables(1)
        [seen] = self.variables(1, **{name: outer[name] for name in (
            "UCUDNN_RENDEZVOUS", "UCUDNN_RENDEZVOUS_TOKEN", "UCUDNN_LAUNCHER")})
        for name in ("UCUDNN_RENDEZVOUS_TOKEN", "UCUDNN_LAUNCHER"):
            self.assertNotEqual(outer[name], seen[name])

    def test_the_stand_in_has_a_device_for_each_rank(self):
        for devices, options, more in (("3", [], {}), ("2", ["--devices", "2"], {}), ("8", [], {"HOSTGPU_DEVICES": "8"})):
            self.assertEqual(devices, self.variables(3, options=["--host", *options], **more)[0]["HOSTGPU_DEVICES"])
        self.assertNotIn("HOSTGPU_DEVICES", self.variables(3)[0])

    def test_the_grid_becomes_a_variable(self):
        self.assertEqual({"h2w2"}, {seen["UCUDNN_SPATIAL"] for seen in self.variables(4, options=["--spatial", "h2w2"])})
        self.assertEqual("h2", self.variables(2, UCUDNN_SPATIAL="h2")[0]["UCUDNN_SPATIAL"])
        seen = self.environment_of("run", "--spatial", "h4", "--", "env", self.program)
        self.assertEqual("h4", seen["UCUDNN_SPATIAL"])
        self.assertNotIn("RANK", seen)

    def test_descriptors_and_sessions_are_not_shared(self):
        """Each rank has 4 descriptors (stdin, stdout, stderr and the descriptor that listdir opens), and leads its own
        session and process group."""
        script = ('import os; print(len(os.listdir("/proc/self/fd")), os.getsid(0) == os.getpid(), '
                  'os.getpgid(0) == os.getpid())')
        self.assert_result(0, "4 True True\n" * 3, "", self.run_ranks(3, sys.executable, "-c", script))


class Output(RanksTest):
    def test_lines_of_four_fast_writers_are_whole_and_in_order(self):
        result = self.run_ranks(4, sys.executable, "-c", WRITERS, text=False)
        self.assertEqual(0, result.returncode)
        for stream, text in ((1, result.stdout), (2, result.stderr)):
            next_line = dict.fromkeys(range(4), 0)
            for line in text.split(b"\n")[:-1]:
                rank, of, number = map(int, line.split(b" ", 3)[:3])
                self.assertTrue(line.endswith(b" end"), line[:100])
                self.assertEqual((stream, next_line[rank]), (of, number))
                next_line[rank] += 1
            self.assertEqual(dict.fromkeys(range(4), 400), next_line)

    def test_a_last_line_without_its_end_is_kept(self):
        self.assert_result(0, "no end", "", self.shell(1, "printf 'no end'"))
        result = self.shell(3, "printf $RANK")
        self.assertEqual(["0", "1", "2"], sorted(result.stdout.split("\n")))

    def test_bytes_are_left_as_they_are(self):
        result = self.run_ranks(1, sys.executable, "-c", "import os; os.write(1, bytes(range(256)) * 100)", text=False)
        self.assertEqual((0, bytes(range(256)) * 100), (result.returncode, result.stdout))

    def test_a_line_longer_than_any_memory_for_it(self):
        script = "import os; os.environ['RANK'] == '1' and print('x' * 3_000_000)"
        result = self.run_ranks(2, sys.executable, "-c", script)
        self.assertTrue(result.stdout == "x" * 3_000_000 + "\n", len(result.stdout))

    def test_output_and_errors_of_one_file_are_whole_lines_of_it(self):
        with open(f"{self.folder}/both", "w+b") as file:
            subprocess.run([self.command, "run", "--ranks", "3", "--", sys.executable, "-c", WRITERS], stdout=file, stderr=file,
                           env=self.environment(), timeout=60, check=True)
            file.seek(0)
            lines = file.read().split(b"\n")[:-1]
        self.assertEqual(2 * 3 * 400, len(lines))
        self.assertTrue(all(line.endswith(b" end") for line in lines))

    def test_a_slow_reader_loses_nothing(self):
        started = self.start(2, sys.executable, "-c", "for i in range(40000): print(i, 'some words to fill the line with')")
        time.sleep(0.5)  # gives the ranks time to fill every pipe
        output, errors = started.communicate(timeout=30)
        self.assertEqual((0, ""), (started.returncode, errors))
        self.assertEqual(80000, len(output.splitlines()))

    def test_a_reader_that_goes_away_ends_the_ranks(self):
        read_end, write_end = os.pipe()
        started = subprocess.Popen([self.command, "run", "--ranks", "2", "--", "yes"], stdout=write_end, stderr=subprocess.PIPE,
                                   env=self.environment())
        os.close(write_end)
        os.read(read_end, 10)
        os.close(read_end)
        _, errors = started.communicate(timeout=10)
        self.assertEqual((128 + signal.SIGPIPE, b""), (started.returncode, errors))

    def test_output_that_is_lost_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([self.command, "run", "--ranks", "2", "--", "echo", "a"], stdout=full, stderr=subprocess.PIPE,
                                    env=self.environment(), text=True, timeout=30)
        self.assertEqual((1, "ucudnn run: output is lost: No space left on device\n"), (result.returncode, result.stderr))

    def test_rank_0_has_the_input_and_the_others_none(self):
        result = self.shell(3, 'echo "$RANK:$(cat)"', process={"input": "given\nwords"})
        self.assertEqual((0, ["0:given", "1:", "2:", "words"]), (result.returncode, sorted(result.stdout.splitlines())))

    def test_closed_streams_are_no_trouble(self):
        result = subprocess.run(["bash", "-c", f"exec {self.command} run --ranks 2 -- bash -c 'cat; echo $RANK; exit 4' <&- >&-"],
                                env=self.environment(), stderr=subprocess.PIPE, text=True, timeout=30)
        self.assertEqual(4, result.returncode, result.stderr)


def telling(notes, then):
    """Returns a program in which rank 1 first sends `notes` to the launcher as datagrams; then all ranks run the code
    `then`."""
    return ("import os, socket, sys, time\n"
            "if os.environ['RANK'] == '1':\n"
            "    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
            f"    for note in {notes!r}:\n"
            "        sender.sendto(note, '\\0' + os.environ['UCUDNN_LAUNCHER'])\n"
            f"{then}\n")


class Ends(RanksTest):
    def test_all_that_end_well_are_a_success(self):
        self.assert_result(0, "", "", self.run_ranks(4, "true"))

    def test_the_first_exit_code_that_is_not_0(self):
        result = self.shell(3, "sleep $((2 - RANK))0; exit $((5 + RANK))")
        self.assert_result(7, "", "ucudnn run: rank 2 ended with exit code 7; the other ranks are ended\n", result)

    def test_a_rank_that_ends_well_ends_no_other(self):
        self.assert_result(0, "late\n", "", self.shell(2, "[ $RANK = 0 ] || { sleep 0.5; echo late; }"))

    def test_a_rank_that_is_killed_ends_the_others(self):
        begin = time.monotonic()
        result = self.shell(3, "if [ $RANK = 1 ]; then until [ -e heeds0 -a -e heeds2 ]; do sleep 0.01; done; kill -9 $$; fi; "
                               "trap 'echo asked; exit 0' TERM; touch heeds$RANK; while :; do sleep 0.05; done")
        self.assertEqual((137, "asked\nasked\n"), (result.returncode, result.stdout))
        self.assertIn("ucudnn run: rank 1 was ended by signal 9 (Killed); the other ranks are ended\n", result.stderr)
        self.assertLess(time.monotonic() - begin, 3)

    def test_a_single_rank_ends_without_a_word(self):
        self.assert_result(3, "", "", self.shell(1, "exit 3"))
        self.assert_result(139, "", "", self.run_ranks(1, sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"))

    def test_a_daemon_that_holds_the_output_is_not_waited_for(self):
        begin = time.monotonic()
        result = self.shell(1, "setsid sleep 20 & echo $!")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertLess(time.monotonic() - begin, 5)
        os.kill(int(result.stdout), signal.SIGKILL)


class Late(RanksTest):
    """Tests jobs that take seconds to end; setUpClass runs all of them at the same time."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            jobs = {
                "stays": pool.submit(cls.timed, sys.executable, "-c",
                                     STAYS + "import os\nif os.environ['RANK'] == '1':\n    open('stays', 'w')\n    time.sleep(60)\n"
                                             "while not os.path.exists('stays'):\n    time.sleep(0.01)\nsys.exit(3)\n"),
                "failed": pool.submit(cls.timed, sys.executable, "-c", telling([b"F\x01rank 0 is gone"], "time.sleep(60)")),
                "left": pool.submit(cls.timed, "bash", "-c", "sleep 60 & echo $!; set -m; sleep 60 & echo $!"),
                "left by a failure": pool.submit(
                    cls.timed, "bash", "-c", "trap '' TERM; sleep 60 & echo $!; touch left$RANK; until [ -e left0 ]; do sleep 0.01; "
                                             "done; exit $((3 * RANK))"),
            }
            cls.results = {name: job.result() for name, job in jobs.items()}

    @classmethod
    def timed(cls, *program):
        begin = time.monotonic()
        return cls.run_ranks(cls(), 2, *program), time.monotonic() - begin

    def assert_none_left(self, count, result):
        pids = [int(pid) for pid in result.stdout.split()]
        self.assertEqual((count, []), (len(pids), [pid for pid in pids if alive(pid)]))

    def test_who_does_not_end_is_killed_after_five_seconds(self):
        result, seconds = self.results["stays"]
        self.assertEqual(3, result.returncode, result.stderr)
        self.assertTrue(5 <= seconds < 12, seconds)

    def test_a_failure_ends_ranks_that_do_not_end_by_themselves(self):
        result, seconds = self.results["failed"]
        self.assert_result(1, "", "ucudnn run: rank 1 says: rank 0 is gone\n", result)
        self.assertTrue(4.5 < seconds < 12, seconds)

    def test_what_ranks_leave_behind_ends_with_the_job(self):
        result, seconds = self.results["left"]
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertLess(seconds, 5)
        self.assert_none_left(4, result)

    def test_what_a_failing_rank_started_ends_with_it(self):
        result, _ = self.results["left by a failure"]
        self.assertEqual(3, result.returncode, result.stderr)
        self.assert_none_left(2, result)


class Notes(RanksTest):
    """Tests the notes that ranks send to their launcher (src/options/launcher_note.h)."""

    def told(self, *notes, then=""):
        return self.run_ranks(2, sys.executable, "-c", telling(notes, then))

    def test_unequal_numbers_are_a_failure_after_all_ended(self):
        self.assert_result(1, "end\nend\n", "ucudnn run: rank 1 says: rank 0 made 3 calls more\n",
                           self.told(b"U\x01rank 0 made 3 calls more", b"U\x00rank 0 made 3 calls more",
                                     then="time.sleep(0.3); print('end')"))

    def test_after_a_failure_an_exit_code_counts(self):
        result = self.told(b"F\x01rank 0 is gone", then="time.sleep(0.2); sys.exit(9)")
        self.assertEqual(9, result.returncode)

    def test_anything_else_is_not_listened_to(self):
        self.assert_result(0, "", "", self.told(b"", b"F", b"X\x01words", b"F\x01" + b"x" * 2000, bytes(range(256))))

    def test_a_line_is_one_line(self):
        self.assert_result(1, "", "ucudnn run: a rank says: two  lines [31m\n", self.told(b"U\xfftwo\n\nlines\x1b[31m"))

    @unittest.skipUnless(os.getuid() == 0, "only root can be somebody else")
    def test_another_user_is_not_listened_to(self):
        self.assert_result(0, "", "", self.run_ranks(1, sys.executable, "-c",
                           "import os, socket\nos.setuid(65534)\n"
                           "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'F\\0no', '\\0' + os.environ['UCUDNN_LAUNCHER'])\n"))


class Signals(RanksTest):
    def ready(self, started, count):
        """Waits until `count` ranks have printed their first line. Returns these lines."""
        return [started.stdout.readline() for _ in range(count)]

    def pids(self, started, count):
        """Returns the process ids in the first lines of `count` ranks."""
        return [int(word) for line in self.ready(started, count) for word in line.split()]

    def test_a_killed_launcher_leaves_nothing_behind(self):
        # Each rank starts two processes: one in its own process group and, after `set -m`, one in another group.
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

    def sent(self, number, ranks, *program, **process):
        """Starts ranks and sends a signal to the command when all are ready. Returns (exit code, sorted lines of
        stdout, stderr)."""
        started = self.start(ranks, *program, **process)
        self.ready(started, ranks)
        started.send_signal(number)
        output, errors = started.communicate(timeout=10)
        return started.returncode, sorted(output.splitlines()), errors

    def test_signals_that_end_are_passed_on_once(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            with self.subTest(signal=number.name):
                self.assertEqual((0, [f"0 {number.name}", f"1 {number.name}"], ""),
                                 self.sent(number, 2, sys.executable, "-c", HEEDS, "1,2,3,10,12,15", "0.3"))

    def test_ranks_that_end_by_an_interrupt_end_the_command_by_it_and_other_signals_are_an_exit_code(self):
        for number, code in ((signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 128 + signal.SIGTERM)):
            self.assertEqual((code, [], ""), self.sent(number, 2, "bash", "-c", "echo ready; exec sleep 60"))

    def test_a_program_may_end_in_its_own_way(self):
        code, _, _ = self.sent(signal.SIGTERM, 2, "bash", "-c", "trap 'sleep 1; exit 0' TERM; echo ready; "
                                                                "while :; do sleep 0.05; done")
        self.assertEqual(0, code)

    def test_stopping_stops_the_ranks_and_going_on_lets_them_go_on(self):
        started = self.start(2, "bash", "-c", "echo $$; while :; do sleep 0.05; done")
        pids = self.pids(started, 2)
        started.send_signal(signal.SIGTSTP)
        wait_for(lambda: [state(pid) for pid in [started.pid, *pids]] == ["T"] * 3)
        started.send_signal(signal.SIGCONT)
        wait_for(lambda: not {*"TX"} & {state(pid) for pid in [started.pid, *pids]})
        started.terminate()
        started.communicate(timeout=10)
        self.assertEqual(143, started.returncode)

    def test_what_was_ignored_stays_ignored(self):
        code, output, _ = self.sent(signal.SIGHUP, 1, "bash", "-c", "echo ready; sleep 0.6; echo went on",
                                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual((0, ["went on"]), (code, output))


class Terminal(RanksTest):
    """Tests jobs that have a controlling terminal."""

    def at_terminal(self, ranks, *program):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(self.command, [self.command, "run", "--ranks", str(ranks), "--", *program], self.environment(TERM="dumb"))
        self.addCleanup(lambda: self.terminal is None or os.close(self.terminal))
        self.pid, self.terminal, self.shown = pid, terminal, b""

    def read(self):
        """Adds what the terminal shows within 0.02 s to `shown`. Returns False at the end of the terminal's output."""
        if self.terminal is None:
            time.sleep(0.02)
        elif select.select([self.terminal], [], [], 0.02)[0]:
            try:
                self.shown += os.read(self.terminal, 4096)
            except OSError:  # Linux returns EIO when no process has the other side open
                return False
        return True

    def see(self, *texts):
        wait_for(lambda: all(text in self.shown for text in texts) or not self.read())
        for text in texts:
            self.assertIn(text, self.shown)

    def end(self):
        end = time.monotonic() + 15
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            self.read()
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
        wait_for(lambda: self.shown.count(b"\n") == 2 or not self.read())
        pids = [int(line.split()[1]) for line in self.shown.splitlines()]
        self.assertEqual([True] * 2, [alive(pid) for pid in pids])
        os.close(self.terminal)
        self.terminal = None
        self.assertEqual(129, self.end())
        self.assertFalse(any(map(alive, pids)))


if __name__ == "__main__":
    unittest.main()
