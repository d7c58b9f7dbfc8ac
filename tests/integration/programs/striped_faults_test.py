"""Tests programs whose ranks hold stripes of each image, when something fails during a run or differs between ranks.
Either the ranks together give the results of one process with the whole image, or every rank that still runs prints one
error within bounded time. After an error, no processes, files or shared memory are left behind."""

import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import program

STRIPED_CNN = os.environ["UCUDNN_TEST_STRIPED_CNN"]
STRIPED_API = os.environ["UCUDNN_TEST_STRIPED_API"]
TRANSPORTS = ("loopback", "nccl")
# When a rank dies, all others report an error within BOUND_SECONDS. On a busy machine, tests allow MARGIN_SECONDS more.
BOUND_SECONDS = 15
MARGIN_SECONDS = 5


def lines(output):
    return sorted(output.splitlines())


def run(*options, words, **variables):
    with tempfile.TemporaryDirectory() as folder:
        return program.run(words, options, program.of_ranks(TMPDIR=folder, **variables), timeout=60)


def in_shared_memory():
    return {name for name in os.listdir("/dev/shm") if re.search("ucudnn|hostgpu|nccl", name, re.IGNORECASE)}


def processes_with(text):
    """Returns the ids of the processes whose environment contains `text`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if text.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            pass  # the process has ended or belongs to another user
    return found


def within(seconds, condition):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Ranks:
    """Two ranks of a program. With `by_ranks`, `ucudnn run --ranks` starts both. Otherwise this class starts each rank
    itself, like a launcher that knows nothing of ucudnn. `of_rank` has additional environment variables for each
    rank."""

    def __init__(self, words, by_ranks=False, of_rank=({}, {}), **variables):
        self.folder = tempfile.TemporaryDirectory()
        self.shared_memory = in_shared_memory()
        self.begun = None
        options = ["--host", "--devices", "2", "--spatial", "h2"]
        if by_ranks:
            starts = [(options + ["--ranks", "2"], {})]
        else:
            meeting = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "UCUDNN_RENDEZVOUS": f"file:{self.folder.name}/meeting"}
            starts = [(options, meeting | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | of_rank[rank]) for rank in (0, 1)]
        self.processes = [
            subprocess.Popen([program.COMMAND, "run", *options, "--", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env=program.of_ranks(TMPDIR=self.folder.name, **variables | own))
            for options, own in starts]
        self.announced = {}

    def await_begin(self):
        """Waits until both ranks have made a step."""
        for process in self.processes * (2 // len(self.processes)):
            rank, pid = re.fullmatch(r"rank (\d) is process (\d+)\n", process.stdout.readline()).groups()
            self.announced[int(rank)] = int(pid)
        assert set(self.announced.values()) <= set(processes_with(self.folder.name))
        time.sleep(0.2)

    def signal(self, rank, number):
        self.begun = time.monotonic()
        os.kill(self.announced[rank], number)

    def end(self):
        """Waits until all processes end. Returns a list of (exit code, stdout, stderr, seconds since signal())."""
        def result(process):
            output, errors = process.communicate(timeout=60)
            return process.returncode, output, errors, time.monotonic() - (self.begun or 0)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            results = list(pool.map(result, self.processes))
        self.nothing_left = (within(3, lambda: not processes_with(self.folder.name)) and
                             within(3, lambda: in_shared_memory() <= self.shared_memory) and os.listdir(self.folder.name) == [])
        self.left = (processes_with(self.folder.name), in_shared_memory() - self.shared_memory, os.listdir(self.folder.name))
        self.folder.cleanup()
        return results


def begin(by_ranks, **variables):
    ranks = Ranks((STRIPED_CNN, "32", "100000"), by_ranks, ANNOUNCE="1", **variables)
    try:
        ranks.await_begin()
    except Exception:
        for process in ranks.processes:
            process.kill()
        raise AssertionError(f"no step was made: {ranks.end()}")
    return ranks


def kill_one(by_ranks, transport, victim):
    ranks = begin(by_ranks, UCUDNN_SPATIAL_TRANSPORT=transport)
    ranks.signal(victim, signal.SIGKILL)
    return ranks, ranks.end()


def stop_one(transport, victim):
    ranks = begin(False, UCUDNN_SPATIAL_TRANSPORT=transport, UCUDNN_SPATIAL_TIMEOUT="3")
    ranks.signal(victim, signal.SIGSTOP)
    other = ranks.processes[1 - victim]
    within(BOUND_SECONDS + MARGIN_SECONDS, lambda: other.poll() is not None)
    ranks.processes[victim].kill()
    return ranks, ranks.end()


def sleep_on_one(transport, rank, seconds, timeout):
    ranks = Ranks((STRIPED_CNN, "32", "4"), UCUDNN_SPATIAL_TRANSPORT=transport, UCUDNN_SPATIAL_TIMEOUT=timeout,
                  SLEEP_RANK=str(rank), SLEEP_SECONDS=seconds)
    return ranks, ranks.end()


class InTheMiddle(unittest.TestCase):
    """Tests ranks that fail or wait in the middle of a run. Such jobs mostly wait, so up to six run at the same
    time."""

    @classmethod
    def setUpClass(cls):
        pool = concurrent.futures.ThreadPoolExecutor(6)
        cls.stopped = {(transport, victim): pool.submit(stop_one, transport, victim)
                       for transport, victim in (("loopback", 0), ("nccl", 1))}
        cls.late = {transport: pool.submit(sleep_on_one, transport, rank, "7", "3")
                    for transport, rank in (("loopback", 1), ("nccl", 0))}
        cls.slow = {transport: pool.submit(sleep_on_one, transport, rank, "4", "6")
                    for transport, rank in (("loopback", 0), ("nccl", 1))}
        cls.killed = {(by_ranks, transport, victim): pool.submit(kill_one, by_ranks, transport, victim)
                      for by_ranks in (False, True) for transport in TRANSPORTS for victim in (0, 1)}
        cls.addClassCleanup(pool.shutdown)

    def assert_nothing_left(self, ranks):
        self.assertTrue(ranks.nothing_left, ranks.left)

    def test_a_rank_that_is_killed_is_named_by_the_other_one(self):
        for transport in TRANSPORTS:
            for victim in (0, 1):
                with self.subTest(transport=transport, victim=victim):
                    ranks, results = self.killed[False, transport, victim].result()
                    code, output, errors, seconds = results[1 - victim]
                    self.assertEqual((1, ""), (code, output), errors)
                    self.assertRegex(errors, rf"rank {1 - victim}\[\d+\] error: rank {victim} died or ended")
                    self.assertIn("EXECUTION_FAILED", errors)
                    self.assertLess(seconds, BOUND_SECONDS)
                    self.assertEqual(-signal.SIGKILL, results[victim][0])
                    self.assert_nothing_left(ranks)

    def test_a_rank_that_is_killed_ends_the_job(self):
        for transport in TRANSPORTS:
            for victim in (0, 1):
                with self.subTest(transport=transport, victim=victim):
                    ranks, [(code, output, errors, seconds)] = self.killed[True, transport, victim].result()
                    # `ucudnn run` reports the rank that ends first. The other rank may be the first: it can notice the
                    # closed sockets and end before the killed process is reaped.
                    first = {128 + signal.SIGKILL: f"rank {victim} was ended by signal 9",
                             1: f"rank {1 - victim} says: rank {victim} died or ended"}
                    self.assertIn(code, first, errors)
                    self.assertEqual("", output)
                    self.assertIn(first[code], errors)
                    self.assertLess(seconds, BOUND_SECONDS)
                    self.assert_nothing_left(ranks)

    def test_a_rank_that_is_stopped_is_an_error_on_the_other_one(self):
        for (transport, victim), job in self.stopped.items():
            with self.subTest(transport=transport, victim=victim):
                ranks, results = job.result()
                code, output, errors, seconds = results[1 - victim]
                self.assertEqual((1, ""), (code, output), errors)
                # A rank can be stopped after it announced its next call. The other rank notices that the stopped rank
                # is silent, or that its own device waits for data of the stopped rank.
                self.assertRegex(errors, rf"error: (rank {victim} .*(has not come to split call|was silent for)|"
                                         rf"rank {1 - victim}, whose device lags behind)")
                self.assertLess(seconds, BOUND_SECONDS + MARGIN_SECONDS)
                self.assert_nothing_left(ranks)

    def test_a_rank_that_does_not_come_within_the_timeout_is_an_error_on_all(self):
        for (transport, job), late in zip(self.late.items(), (1, 0)):
            with self.subTest(transport=transport):
                ranks, results = job.result()
                for code, output, errors, _ in results:
                    self.assertEqual((1, ""), (code, output), errors)
                    # Both ranks have made two steps of 16 calls, so the next call is number 33.
                    self.assertRegex(errors, rf"error: rank {late} .*has not come to split call 33 for \d s")
                self.assertRegex(results[1 - late][2], rf"warning: rank {1 - late} waits: rank {late} .*split call 33")
                self.assert_nothing_left(ranks)

    def test_a_rank_that_comes_late_is_waited_for_with_a_warning(self):
        whole = run(words=(STRIPED_CNN, "32", "4"))
        for (transport, job), late in zip(self.slow.items(), (0, 1)):
            with self.subTest(transport=transport):
                ranks, results = job.result()
                self.assertEqual([0, 0], [code for code, _, _, _ in results], results)
                self.assertEqual(lines(whole.stdout), lines("".join(output for _, output, _, _ in results)))
                self.assertRegex(results[1 - late][2], rf"warning: rank {1 - late} waits: rank {late} .*split call 33 for \d s")
                self.assertEqual("", results[late][2])
                self.assert_nothing_left(ranks)


class Different(unittest.TestCase):
    """Tests ranks with different settings."""

    @staticmethod
    def jobs(settings, words=(STRIPED_CNN, "32", "2")):
        def result(setting):
            own, everywhere = setting
            return Ranks(words, of_rank=({}, own), **everywhere).end()

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return list(pool.map(result, settings))

    def assert_refused_on_both(self, results, pattern):
        for code, output, errors, _ in results:
            self.assertEqual((1, ""), (code, output), errors)
            told = [line for line in errors.splitlines() if re.search(pattern, line)]
            self.assertEqual(1, len(told), errors)

    def test_settings_that_ranks_must_share_are_named_with_both_values(self):
        settings = (("UCUDNN_SPATIAL_REDUCE", "none", "none", "unset"), ("UCUDNN_SPATIAL_ONE", "split", "split", "unset"),
                    ("UCUDNN_SPATIAL_AGREE", "each", "each", "first"), ("UCUDNN_DETERMINISTIC", "1", "1", "0"),
                    ("UCUDNN_SPATIAL_TRANSPORT", "loopback", "loopback", "auto"),
                    ("UCUDNN_WORKSPACE_LIMIT", "1MiB", "1048576 bytes", "unset"))
        for (name, _, own, other), results in zip(settings, self.jobs([({name: value}, {}) for name, value, _, _ in settings])):
            with self.subTest(name=name):
                self.assert_refused_on_both(results, f"ranks differ in {name}: rank 1 has '{own}', rank 0 has '{other}'")

    def test_nccl_that_is_too_old_is_named(self):
        old, nccl = {"HOSTGPU_NCCL_VERSION": "21000"}, {"UCUDNN_SPATIAL_TRANSPORT": "nccl"}
        for results in self.jobs([({}, nccl | old), (old, nccl)]):
            self.assert_refused_on_both(results, r"error: .*NCCL 2\.10\.0 .* is older than")

    def test_how_each_rank_divides_its_own_calls_is_its_own(self):
        whole = run(words=(STRIPED_CNN, "32", "4"))
        policies = ({"UCUDNN_BATCH_SIZE_POLICY": "all"},
                    {"UCUDNN_BATCH_SIZE_POLICY": "undivided", "UCUDNN_WORKSPACE_LIMIT": "192KiB"})
        [results] = self.jobs([policies], (STRIPED_CNN, "32", "4"))
        self.assertEqual([0, 0], [code for code, _, _, _ in results], results)
        self.assertEqual(lines(whole.stdout), lines("".join(output for _, output, _, _ in results)))

    def test_queries_of_one_rank_alone_ask_no_other_one(self):
        [results] = self.jobs([({}, {"UCUDNN_SPATIAL_TRANSPORT": "loopback"})], (STRIPED_API, "queries"))
        for rank, (code, output, errors, _) in enumerate(results):
            self.assertEqual((0, ""), (code, errors))
            self.assertIn(f"rank {rank}: a stripe is exact\n", output)
            self.assertNotIn("WRONG", output)


class Training(unittest.TestCase):
    def assert_like_the_whole(self, ranks, grid, height, steps, **variables):
        words = (STRIPED_CNN, height, steps)
        whole, stripes = run(words=words, **variables), run("--ranks", ranks, "--spatial", grid, words=words, **variables)
        self.assertEqual((0, 0), (whole.returncode, stripes.returncode), stripes.stderr)
        self.assertGreater(len(lines(whole.stdout)), 30)
        self.assertEqual(lines(whole.stdout), lines(stripes.stdout))

    def test_twenty_steps(self):
        self.assert_like_the_whole("2", "h2", "32", "20")

    def test_stripes_along_both_axes(self):
        self.assert_like_the_whole("4", "h2w2", "32", "4", WIDTH_PARTS="2")

    def test_five_ranks(self):
        self.assert_like_the_whole("5", "h5", "20", "4")

    def test_links_that_take_time(self):
        for link in ({"HOSTGPU_NCCL_DELAY_US": "500"}, {"HOSTGPU_NCCL_BANDWIDTH": "10MiB", "HOSTGPU_NCCL_SERIAL": "1"}):
            with self.subTest(link=link):
                self.assert_like_the_whole("2", "h2", "32", "3", UCUDNN_SPATIAL_TRANSPORT="nccl", **link)


class BesideSumsOfTheProgram(unittest.TestCase):
    """Tests two groups of four ranks (n2h4) in a program that itself also sums over ranks r and r + 4. With
    HOSTGPU_NCCL_SERIAL a device runs only one NCCL operation at a time. So if two ranks began operations in different
    orders, they would wait for each other forever."""

    @staticmethod
    def run_groups(kind, **variables):
        words = (STRIPED_CNN, "32", "2")
        return run("--ranks", "8", "--spatial", "n2h4", words=words, UCUDNN_SPATIAL_TRANSPORT="nccl", HOSTGPU_NCCL_SERIAL="1",
                   PAIR_SUM=kind, **variables)

    def test_sums_on_the_stream_of_the_calls_or_ordered_with_it_are_sound(self):
        # The program cuts 32 rows into 8 stripes, one for each rank. The first group has four ranks, so its images have
        # rows 0 to 15.
        whole = run(words=(STRIPED_CNN, "16", "2"))
        self.assertEqual(0, whole.returncode, whole.stderr)
        for kind in ("same", "ordered"):
            with self.subTest(kind=kind):
                result = self.run_groups(kind)
                self.assertEqual(0, result.returncode, result.stderr)
                self.assertLessEqual(set(lines(whole.stdout)), set(lines(result.stdout)))

    def test_sums_on_a_stream_apart_end_with_an_error_in_time(self):
        begin = time.monotonic()
        result = self.run_groups("apart", UCUDNN_SPATIAL_TIMEOUT="3")
        self.assertNotEqual(0, result.returncode)
        self.assertIn("error: rank", result.stderr)
        # A failed split call fills its output with NaN, so a rank that continues prints no number that looks like a
        # result.
        for line in result.stdout.splitlines():
            self.assertIn("nan", line)
        self.assertLess(time.monotonic() - begin, BOUND_SECONDS + MARGIN_SECONDS)


class Absent(unittest.TestCase):
    def test_nccl_that_is_not_there_is_named_on_every_rank(self):
        host = os.path.realpath(f"{os.path.dirname(program.COMMAND)}/../lib/ucudnn/host")
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(host):
                # An empty file cannot be loaded, and prevents the loader from finding an installed NCCL.
                if "nccl" in name:
                    open(f"{folder}/{name}", "w").close()
                else:
                    shutil.copy(f"{host}/{name}", folder)
            here = {"UCUDNN_SPATIAL_TRANSPORT": "nccl"}
            words = ("env", f"LD_LIBRARY_PATH={folder}", f"UCUDNN_REAL_CUDNN={folder}/libcudnn.so.9", STRIPED_CNN, "32", "1")
            begin = time.monotonic()
            [results] = Different.jobs([({}, here)], words)
            self.assertLess(time.monotonic() - begin, BOUND_SECONDS)
        for code, output, errors, _ in results:
            self.assertEqual((1, ""), (code, output), errors)
            self.assertEqual(1, len(re.findall("error: .*NCCL cannot be loaded", errors)), errors)

    def test_a_stripe_without_rows_is_an_error_of_its_rank_that_the_others_wait_for(self):
        # cuDNN refuses a descriptor with zero rows, so rank 1's program ends before it meets rank 0.
        [results] = Different.jobs([({}, {"EMPTY": "1", "UCUDNN_SPATIAL_TIMEOUT": "2"})], (STRIPED_CNN, "2", "1"))
        for (code, output, errors, _), pattern in zip(results, ("rank 0 has waited .* for rank 1", "BAD_PARAM")):
            self.assertEqual((1, ""), (code, output), errors)
            self.assertRegex(errors, pattern)
        result = run("--ranks", "2", "--spatial", "h2", words=("env", "EMPTY=1", STRIPED_CNN, "2", "1"))
        self.assertEqual((1, ""), (result.returncode, result.stdout), result.stderr)


if __name__ == "__main__":
    unittest.main()
