"""`ucudnn run --ranks`: the environment of each rank, complete lines of output, and input."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

from ranks import RanksTest

# Ranks write as fast as they can, in pieces that are not lines, to both outputs, with bytes that are not text.
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


class Environment(RanksTest):
    def variables(self, ranks, **more):
        """Returns the variables of each rank, in order."""
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
        self.assertEqual("3", self.variables(3, options=["--host"])[0]["HOSTGPU_DEVICES"])
        self.assertEqual("2", self.variables(3, options=["--host", "--devices", "2"])[0]["HOSTGPU_DEVICES"])
        self.assertEqual("8", self.variables(3, options=["--host"], HOSTGPU_DEVICES="8")[0]["HOSTGPU_DEVICES"])
        self.assertNotIn("HOSTGPU_DEVICES", self.variables(3)[0])

    def test_the_grid_becomes_a_variable(self):
        self.assertEqual({"h2w2"}, {seen["UCUDNN_SPATIAL"] for seen in self.variables(4, options=["--spatial", "h2w2"])})
        self.assertEqual("h2", self.variables(2, UCUDNN_SPATIAL="h2")[0]["UCUDNN_SPATIAL"])
        seen = self.environment_of("run", "--spatial", "h4", "--", "env", self.program)
        self.assertEqual("h4", seen["UCUDNN_SPATIAL"])
        self.assertNotIn("RANK", seen)

    def test_descriptors_and_sessions_are_not_shared(self):
        """No rank holds another's pipes; each has a session and a process group of its own."""
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
        time.sleep(0.5)  # by now every pipe is full
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


if __name__ == "__main__":
    unittest.main()
