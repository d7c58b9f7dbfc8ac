"""`ucudnn run --ranks`: exit codes, what ends ranks, what they tell their launcher, and that nothing is left behind."""

import concurrent.futures
import os
import signal
import sys
import time
import unittest

from ranks import RanksTest, alive


# A program that begins so does not end when it is asked to.
STAYS = "import signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def telling(notes, then):
    """Returns a program whose rank 1 sends these datagrams; then all ranks do `then`."""
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
        result = self.shell(3, "if [ $RANK = 1 ]; then sleep 0.3; kill -9 $$; fi; trap 'echo asked; exit 0' TERM; "
                               "while :; do sleep 0.05; done")
        self.assertEqual((137, "asked\nasked\n"), (result.returncode, result.stdout))
        self.assertIn("ucudnn run: rank 1 was ended by signal 9 (Killed); the other ranks are ended\n", result.stderr)
        self.assertLess(time.monotonic() - begin, 3)

    def test_a_single_rank_ends_without_a_word(self):
        self.assert_result(3, "", "", self.shell(1, "exit 3"))
        self.assert_result(139, "", "", self.run_ranks(1, sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"))

    def test_a_program_that_cannot_be_started(self):
        self.write("broken", "#!/no/such/interpreter\n")
        os.chmod(f"{self.folder}/broken", 0o755)
        self.assert_result(126, "", "ucudnn run: './broken' cannot be started: its first line names '/no/such/interpreter', "
                                    "which is not there\n", self.run_ranks(3, "./broken", options=["--off"]))

    def test_a_daemon_that_holds_the_output_is_not_waited_for(self):
        begin = time.monotonic()
        result = self.shell(1, "setsid sleep 20 & echo $!")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertLess(time.monotonic() - begin, 5)
        os.kill(int(result.stdout), signal.SIGKILL)


class Late(RanksTest):
    """Tests ends that take time; all jobs run at once."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            jobs = {
                "stays": pool.submit(cls.timed, sys.executable, "-c",
                                     STAYS + "import os\ntime.sleep(1 if os.environ['RANK'] == '0' else 60)\nsys.exit(3)\n"),
                "failed": pool.submit(cls.timed, sys.executable, "-c", telling([b"F\x01rank 0 is gone"], "time.sleep(60)")),
                "left": pool.submit(cls.timed, "bash", "-c", "sleep 60 & echo $!; set -m; sleep 60 & echo $!"),
                "left by a failure": pool.submit(
                    cls.timed, "bash", "-c", "(trap '' TERM; exec sleep 60) & echo $!; sleep 0.2; exit $((3 * RANK))"),
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
        self.assertTrue(5.5 < seconds < 12, seconds)

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
    """Tests what ranks tell their launcher (src/options/launcher_note.h)."""

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


if __name__ == "__main__":
    unittest.main()
