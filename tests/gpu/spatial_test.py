"""Tests jobs whose images are split over processes or threads that share the GPU. Together the ranks compute what one process
computes with the whole images. A convolution that cannot be split is refused on all ranks. A job whose rank dies ends in time.
No job leaves processes, files or shared memory behind.

Ranks exchange by loopback, since NCCL refuses ranks that share a GPU. nccl_test.py tests NCCL with one rank."""

import collections
import json
import os
import pathlib
import tempfile
import time
import unittest
import uuid

import machine

CNN, API, POOLS, TRAIN, FRONTEND = (machine.BUILD / "tests" / name for name in (
    "striped_cnn", "striped_api", "striped_pools", "train_cnn", "frontend_step"))
CASES = machine.BUILD / "tests/gpu/bin/split_cases"
HEIGHT, STEPS = 32, 4  # arguments of striped_cnn
SHAPES = "1" if machine.HOST else "5"  # the number of shapes that split_cases runs
GRIDS = {"h2": (2, 1), "h2w2": (2, 2)} if machine.HOST else {"h2": (2, 1), "h4": (4, 1), "h2w2": (2, 2)}
# Each entry has type, axes and ranks. Images with three axes have 5 rows, so their stripes are of unequal height.
LAYERS = ((("fp32", "2", 3), ("fp16", "3", 2)) if machine.HOST else
          tuple((kind, axes, 2) for kind in ("fp32", "fp16", "bf16") for axes in ("2", "3")) +
          (("fp32", "2", 4), ("fp16", "2", 3)))
# Measuring is kept short, since other tests cover it. Kernels that were not measured in this time run undivided.
SHORT = {"OMP_NUM_THREADS": "1"} if machine.HOST else {"UCUDNN_TUNE_SECONDS": "1:15"}
# A rank is killed this many seconds after its start. A GPU needs more seconds than the stand-in, because cuDNN has to load.
BEGUN_SECONDS = 2 if machine.HOST else 12
# All ranks fail within 15 seconds after one of them died. Another 10 seconds are left for their messages and their end.
END_SECONDS = 15 + 10

store = None  # shared by all jobs, so that a job finds the measurements of earlier jobs


def setUpModule():
    holder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(holder.cleanup)
    global store
    store = f"{holder.name}/measurements.db"


Job = collections.namedtuple("Job", "code lines errors seconds left reports")


def shared_memory():
    return {name for name in os.listdir("/dev/shm") if "ucudnn" in name}


def processes_with(mark):
    """Returns the command lines of the processes that have `mark` in their environment."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # the process has ended, or belongs to another user
            continue
    return found


def left_behind(mark, folder, shared):
    """Returns the processes, files and shared memory that a job left behind. The job's processes have `mark` in their
    environment and write temporary files to `folder`. `shared` has the names of the shared memory that existed before the
    job."""
    deadline = time.monotonic() + 2
    while (processes := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    files = [str(path.relative_to(folder)) for path in folder.rglob("*ucudnn*")]
    return processes + files + sorted(shared_memory() - shared)


def run_words(words, program):
    """Returns the words that run `program` under `ucudnn run WORDS`, on one device."""
    return [machine.UCUDNN, "run", *(["--host", "--devices", "1"] if machine.HOST else []), *words, "--", *program]


def run_environment(**variables):
    environment = machine.environment(**SHORT | variables)
    environment["LD_LIBRARY_PATH"] = f"{environment['LD_LIBRARY_PATH']}:{machine.BUILD}/lib".strip(":")  # finds libucudnn
    return environment


def under_ucudnn(words, program, **variables):
    return machine.call(run_words(words, program), run_environment(**variables), machine.seconds_left())


def alone(program):
    """Returns the lines that `program` prints in one process with the whole images, without ucudnn."""
    return sorted(machine.reference(run_words(["--off"], program), run_environment(), machine.seconds_left()).splitlines())


def job(grid, ranks, program, *options, **variables):
    """Runs `program` with its images split over `ranks` processes, which all use the first device. If `ranks` is None, the
    images are split over the program's own threads."""
    mark = f"SPLIT_JOB={uuid.uuid4()}"
    shared, begin = shared_memory(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as reports:
        words = ["--spatial", grid, "--db", store, *options, *(["--ranks", str(ranks)] if ranks else [])]
        # Programs use the device with the number LOCAL_RANK, so LOCAL_RANK=0 gives all ranks the first device.
        program = ["env", "LOCAL_RANK=0", *program] if ranks else program
        code, output, errors = under_ucudnn(words, program, TMPDIR=folder, UCUDNN_REPORT=f"{reports}/%p.json", **{
            "UCUDNN_SPATIAL_TRANSPORT": "loopback"} | variables | dict([mark.split("=")]))
        seconds = time.monotonic() - begin
        left = left_behind(mark, pathlib.Path(folder), shared)
        told = [json.loads(path.read_text()) for path in pathlib.Path(reports).glob("*.json")]
    return Job(code, sorted(output.splitlines()), errors, seconds, left, told)


def shell(script):
    return ["bash", "-c", script]


class Split(unittest.TestCase):
    variables = {}  # environment variables of every job

    def job(self, grid, ranks, program, *options, **variables):
        return job(grid, ranks, program, *options, **self.variables | variables)

    def assert_ran(self, result):
        self.assertEqual((0, []), (result.code, result.left), result.errors)

    def assert_failed(self, result, *texts):
        self.assertNotEqual(0, result.code)
        self.assertEqual([], result.left)
        for text in texts:
            self.assertIn(text, result.errors)


# striped_cnn prints sums in fp64, rounded to nine digits. Engines may differ from call to call and from rank to rank, and
# different engines add in different orders. A sum of t terms is then off by at most t * 2^-53 times the sum of their absolute
# values. In one step, 27 + 294 + 72 + 6 terms are added up on the way to an output value, and as many again on the way to a
# gradient of the images. A gradient of a filter adds 3 * 32 * 12 more. A printed number is a sum of at most 3 * 3 * 3 * 6 such
# values. Each of these values is taken to be as large as the largest printed number of its kind.
TERMS = STEPS * (2 * (27 + 294 + 72 + 6) + 3 * HEIGHT * 12)
ROUNDOFF = 2.0 ** -53 * TERMS * 3 * 3 * 3 * 6
LAST_DIGIT = 1e-8  # one unit of the ninth digit, relative to a number that begins with 1


def numbers(lines):
    """Returns the numbers in striped_cnn's lines by name. The name is the text before the number, and says the number's kind
    and place."""
    result = {}
    for line in lines:
        name, number = line.rsplit(": ", 1)
        result[name] = float(number)
    return result


def kind(name):
    return name.split(" row ")[0]


def differences(whole, split):
    """Returns the names of the numbers that differ by more than rounding."""
    largest = collections.defaultdict(float)
    for name, number in whole.items():
        largest[kind(name)] = max(largest[kind(name)], abs(number))
    return [name for name, number in whole.items()
            if not abs(split[name] - number) <= LAST_DIGIT * abs(number) + ROUNDOFF * largest[kind(name)]]


class Networks(Split):
    """Tests programs that train and know nothing of ucudnn."""

    counts = (2, 4)  # the numbers of ranks

    @classmethod
    def setUpClass(cls):
        cls.words = [CNN, str(HEIGHT), str(STEPS)]
        cls.whole = numbers(alone(cls.words))

    def assert_like_the_whole(self, result):
        self.assert_ran(result)
        split = numbers(result.lines)
        self.assertEqual(self.whole.keys(), split.keys())
        self.assertEqual([], differences(self.whole, split))

    def test_a_network_learns_the_same_in_stripes(self):
        for ranks in self.counts:
            with self.subTest(ranks=ranks):
                result = self.job(f"h{ranks}", ranks, self.words)
                self.assert_like_the_whole(result)
                told = [report["spatial"] for report in result.reports]
                self.assertEqual([16 * STEPS] * ranks, [one["calls"] for one in told])
                machine.record(f"striped_cnn h{ranks}", {"exchanged_bytes": [one["exchanged_bytes"] for one in told],
                                                         "seconds": round(result.seconds, 1)})

    def assert_pools_are_those_of(self, whole, words):
        # Each number is a sum in fp64 of at most a few hundred thousand terms. Ranks add the terms in another order, so
        # numbers may differ by 1e-10 of the largest number.
        largest = max(abs(number) for number in whole.values())
        for ranks in self.counts:
            with self.subTest(ranks=ranks):
                result = self.job(f"h{ranks}", ranks, words, UCUDNN_SPATIAL_ONE="replicated")
                self.assert_ran(result)
                split = numbers(result.lines)
                self.assertEqual(whole.keys(), split.keys())
                self.assertEqual([], [name for name, number in whole.items()
                                      if not abs(split[name] - number) <= LAST_DIGIT * abs(number) + 1e-10 * largest])

    def test_pools_and_norms_are_those_of_the_whole(self):
        self.assert_pools_are_those_of(numbers(alone([POOLS])), [POOLS])

    def test_steps_in_a_cuda_graph_are_those_of_the_whole(self):
        self.assert_pools_are_those_of(numbers(alone([POOLS, "4"])), [POOLS, "4", "graph"])

    def test_stripes_without_the_exchange_are_noticed(self):
        code, output, errors = under_ucudnn(["--off", "--ranks", "2"], ["env", "LOCAL_RANK=0", *self.words])
        self.assertEqual(0, code, errors)
        self.assertGreater(len(differences(self.whole, numbers(output.splitlines()))), len(self.whole) / 2)

    def test_ranks_that_share_a_gpu_find_loopback_by_themselves(self):
        result = self.job("h2", 2, self.words, UCUDNN_SPATIAL_TRANSPORT="auto")
        self.assert_like_the_whole(result)
        self.assertIn("ranks 0 and 1 share one GPU, which NCCL refuses: they exchange by loopback", result.errors)

    def test_each_ranks_own_calls_keep_their_limit(self):
        result = self.job("h2", 2, self.words, "--workspace-limit", "192KiB")
        self.assert_like_the_whole(result)
        for report in result.reports:
            for kernel in report["kernels"]:
                self.assertLessEqual(kernel["workspace_bytes"], 64 << 10, kernel)


class Plans(Split):
    """Tests plans of the graph API, and programs that compare their own stripes with expected ones."""

    counts, layers = (2, 4), LAYERS

    def test_plans_of_the_graph_api_give_what_plain_loops_give(self):
        for type_name, axes, ranks in self.layers:
            with self.subTest(type=type_name, axes=axes, ranks=ranks):
                words = [FRONTEND, type_name, axes, "4"]
                self.assertEqual(8, sum(line.endswith(" exact") for line in alone(words)))
                result = self.job(f"h{ranks}", ranks, words, UCUDNN_SPATIAL_REDUCE="all")
                self.assert_ran(result)
                self.assertEqual(8 * ranks, sum(line.endswith(" exact") for line in result.lines), result.lines)
                checksums = {line.split()[2] for line in result.lines if line.startswith("backward_filter")}
                self.assertEqual(1, len(checksums), "every rank has the sum")

    def test_a_program_takes_its_own_calls_out_and_says_what_is_whole(self):
        result = self.job("h2", 2, [API])
        self.assert_ran(result)
        own = ["rank 0: an evaluation is exact"] * 3
        said = ("a stripe again is", "a stripe is", "the geometry is", "rows beside a stripe are", "a whole picture is",
                "a picture that its descriptor calls whole is", "a thread's own picture is",
                "a whole picture pooled and normalised is", "what its descriptor calls whole, pooled and normalised, is")
        every = [f"rank {rank}: {what} exact" for rank in (0, 1) for what in said]
        self.assertEqual(sorted(own + every), result.lines)

    def test_ranks_may_be_threads_with_a_handle_each(self):
        for ranks in self.counts:
            with self.subTest(ranks=ranks):
                result = self.job(f"h{ranks}", None, [API, "handles", str(ranks)])
                self.assert_ran(result)
                self.assertEqual([f"{ranks} ranks on threads exact"], result.lines)
                self.assertIn("a cuDNN handle belongs to no rank: ucudnnSpatialJoin says to which", result.errors)


class Brief:
    """Turns tuning off, since a stage that measures may run at the same time."""

    counts, layers = (2,), (("fp32", "2", 2), ("fp16", "3", 2))
    variables = {"UCUDNN_TUNE": "off"}


class BriefNetworks(Brief, Networks):
    test_each_ranks_own_calls_keep_their_limit = None  # this test would have to measure


class BriefPlans(Brief, Plans):
    pass


def results(lines):
    """Returns what split_cases printed by case and cell: the checksum and the distance from whole numbers, or the error as a
    text."""
    split = (line.split(" ", 1) for line in lines)
    return {name: (told.split()[0], float(told.split()[1])) if told[:1] in "0123456789abcdef" else told for name, told in split}


class Grids(Split):
    """Tests the cases of split_cases, whose data are whole numbers, in stripes and in cells of a grid."""

    def test_cells_together_are_the_whole(self):
        for grid, (rows, columns) in GRIDS.items():
            words = [CASES, str(rows), str(columns), "64", SHAPES]
            whole = results(alone(words))
            result = self.job(grid, rows * columns, words)
            self.assert_ran(result)
            cells = results(result.lines)
            self.assertEqual(whole.keys(), cells.keys())
            ran = {name: told for name, told in whole.items() if isinstance(told, tuple)}
            self.assertGreaterEqual(len(ran), len(whole) // 2)
            machine.record(f"split_cases {grid}", {
                "ran": len(ran), "cells": len(whole), "seconds": round(result.seconds, 1),
                "refused": sorted(f"{name}: {cells[name]}" for name in ran if isinstance(cells[name], str))})
            for name, (checksum, off_whole) in ran.items():
                with self.subTest(grid=grid, case=name):
                    self.assertLess(off_whole, 0.25)
                    self.assertIsInstance(cells[name], tuple, cells[name])
                    self.assertEqual(checksum, cells[name][0])
                    self.assertLess(cells[name][1], 0.25)


class Faults(Split):
    def cnn(self, steps, before="", after="exit $?"):
        """Returns words that run striped_cnn on each rank, between the bash commands `before` and `after`."""
        return shell(f"{before}\n{CNN} {HEIGHT} {steps}\n{after}")

    def test_what_is_not_split_is_refused_by_name_on_all_ranks(self):
        # The program's convolution without padding covers a rank's whole stripe, so it cannot be split. Each rank sleeps after
        # its error, so that the other rank prints its own error before the job ends.
        script = f"{TRAIN} fp32 nchw norm 8 1; code=$?; sleep 8; exit $code"
        result = self.job("h2", 2, shell(script))
        self.assert_failed(result, "CUDNN_STATUS_NOT_SUPPORTED")
        self.assertEqual(1, result.code)
        for rank in (0, 1):
            self.assertRegex(result.errors, rf"ucudnn rank {rank}\[\d+\] error: .* cannot be split: ")
        self.assertEqual([], result.lines)

    def test_nccl_is_refused_where_ranks_share_a_gpu(self):
        result = self.job("h2", 2, self.cnn(1), UCUDNN_SPATIAL_TRANSPORT="nccl")
        self.assert_failed(result, "ranks 0 and 1 share one GPU, which NCCL refuses: loopback serves there, for tests")
        self.assertEqual(1, result.code)

    def test_a_rank_that_dies_before_it_meets_the_others_ends_the_job_in_time(self):
        self.assert_death_ends_the_job("before it meets the others", 1, "[ $RANK = 1 ] && { sleep 1; kill -KILL $$; }")

    def test_a_rank_that_dies_amid_steps_ends_the_job_in_time(self):
        # assert_death_ends_the_job runs the program with more steps than it could finish before rank 1 is killed.
        kill = f"[ $RANK = 1 ] && (sleep {BEGUN_SECONDS}; kill -KILL $$) &"
        self.assert_death_ends_the_job("amid steps", BEGUN_SECONDS, kill)

    def assert_death_ends_the_job(self, when, seconds, before):
        """REQUIRES: `before` kills rank 1 after `seconds`."""
        result = self.job("h2", 2, shell(f"{before}\nexec {CNN} {HEIGHT} 100000000"))
        # The message and the exit code depend on whether the launcher or another rank notices the death first.
        self.assert_failed(result)
        self.assertRegex(result.errors, r"rank 1 (was ended by signal 9|died or ended)")
        self.assertIn(result.code, (1, 128 + 9))
        self.assertEqual([], result.lines)
        self.assertLess(result.seconds, seconds + END_SECONDS)
        machine.record(f"end of a job whose rank dies {when}", {"seconds": round(result.seconds - seconds, 1)})

    def test_a_rank_that_does_not_come_is_waited_for_until_the_timeout(self):
        result = self.job("h2", 2, self.cnn(1, before="[ $RANK = 1 ] && exec sleep 600"), UCUDNN_SPATIAL_TIMEOUT="3")
        self.assert_failed(result, "rank 0 has waited", "for rank 1")
        self.assertEqual([], result.lines)
        self.assertLess(result.seconds, BEGUN_SECONDS + 3 + END_SECONDS)

    def test_a_call_more_on_one_rank_is_an_error_on_all(self):
        result = self.job("h2", 2, self.cnn("$((2 + RANK))"))
        self.assert_failed(result, "rank 0 ended after split call 32, but rank 1 makes call")
        self.assertEqual(1, result.code)


if __name__ == "__main__":
    machine.main()
