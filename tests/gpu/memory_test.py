"""Tests that measuring frees all device memory that it takes, and takes no more than UCUDNN_TUNE_MEMORY allows."""

import tempfile
import unittest

import machine

PROGRAM = machine.BUILD / "tests/gpu/bin/find_memory"
LARGEST = 4 if machine.HOST else 128
# The bytes of a kernel's output with the largest batch. Code that cuDNN loads on demand is far smaller than this. So
# loaded code cannot look like an output that was not freed.
OUTPUT_BYTES = LARGEST * 64 * 55 * 55 * 4
# UCUDNN_TUNE_MEMORY. The two large tensors of the largest kernel, x and y, need half of it.
BOUND_BYTES = 4 * OUTPUT_BYTES


def kept(output):
    """Returns the bytes that each call of cudnnFind...Ex left allocated."""
    lines = [line.split() for line in output.strip().splitlines()]
    return {f"{n} {operation}": int(before) - int(after) for n, operation, before, after, _ in lines}


def taken(output):
    """Returns the largest number of bytes that each call of cudnnFind...Ex was observed to hold."""
    lines = [line.split() for line in output.strip().splitlines()]
    return {f"{n} {operation}": int(before) - int(fewest) for n, operation, before, _, fewest in lines}


class Find(unittest.TestCase):
    """Compares runs of find_memory with and without ucudnn. Nothing else may run on the device meanwhile."""

    batches, tune = "3", {}

    def find(self, *options, **variables):
        environment = machine.environment(**self.tune, **variables)
        return machine.under_ucudnn([*options], [PROGRAM, str(LARGEST), self.batches], environment, machine.seconds_left())

    def assert_nothing_is_left(self, real, measuring):
        real, measuring = kept(real), kept(measuring)
        machine.record("bytes kept by cudnnFind", {"real": real, "measuring": measuring})
        self.assertEqual(real.keys(), measuring.keys())
        for operation in ("forward", "backward_data", "backward_filter"):
            with self.subTest(operation=operation):
                call = f"{LARGEST} {operation}"
                self.assertLess(measuring[call] - max(real[call], 0), OUTPUT_BYTES // 2)
        # A buffer leaked by each call would add up over all calls, whereas cuDNN loads its code only once.
        self.assertLess(sum(measuring.values()) - sum(real.values()), 3 * OUTPUT_BYTES)

    def assert_no_more_is_taken(self, real, measuring):
        # Memory for code that cuDNN loads during a call counts as taken, with and without ucudnn.
        code = max(0, *kept(measuring).values(), *kept(real).values())
        machine.record("most bytes taken by cudnnFind",
                       {"allowed": BOUND_BYTES, "real": taken(real), "measuring": taken(measuring)})
        self.assertGreater(max(taken(measuring).values()), 0)
        self.assertLessEqual(max(taken(measuring).values()), BOUND_BYTES + code)


class Memory(Find):
    def test_measuring_leaves_nothing_allocated(self):
        real, _ = self.find("--off")
        with tempfile.TemporaryDirectory() as folder:
            measuring, report = self.find("--db", f"{folder}/m.db")
        self.assertGreater(report["measured"], 0)
        self.assert_nothing_is_left(real, measuring)

    def test_measuring_takes_no_more_than_it_may(self):
        real, _ = self.find("--off")
        measuring, report = self.find("--db", "none", "--policy", "powerOfTwo", UCUDNN_TUNE_MEMORY=str(BOUND_BYTES))
        self.assertGreater(report["measured"], 0)
        self.assert_no_more_is_taken(real, measuring)


class BriefMemory(Find):
    """Tests with one run of two mini-batches, and with little time for measuring, that measuring frees its memory and
    keeps to UCUDNN_TUNE_MEMORY."""

    batches, tune = "2", {} if machine.HOST else {"UCUDNN_TUNE_SECONDS": "0.5:4"}

    def test_measuring_takes_no_more_than_it_may_and_leaves_nothing(self):
        real, _ = self.find("--off")
        measuring, report = self.find("--db", "none", "--policy", "powerOfTwo", UCUDNN_TUNE_MEMORY=str(BOUND_BYTES))
        self.assertGreater(report["measured"], 0)
        self.assert_nothing_is_left(real, measuring)
        self.assert_no_more_is_taken(real, measuring)


if __name__ == "__main__":
    machine.main()
