"""Measuring is invisible in device memory: what it took it gives back, and it takes no more than it may."""

import tempfile
import unittest

import machine

PROGRAM = machine.BUILD / "tests/gpu/bin/find_memory"
LARGEST = 4 if machine.HOST else 128
# Output of one measured kernel at the largest batch; cuDNN's own code, loaded on demand, stays far below it.
OUTPUT_BYTES = LARGEST * 64 * 55 * 55 * 4


def kept(output):
    """Bytes that each find left allocated, in the program's order."""
    lines = [line.split() for line in output.strip().splitlines()]
    return {f"{n} {operation}": int(before) - int(after) for n, operation, before, after, _ in lines}


def taken(output):
    """Bytes that each find was seen to hold at its height."""
    lines = [line.split() for line in output.strip().splitlines()]
    return {f"{n} {operation}": int(before) - int(fewest) for n, operation, before, _, fewest in lines}


class Memory(unittest.TestCase):
    def test_measuring_leaves_nothing_allocated(self):
        program = [PROGRAM, str(LARGEST)]
        real = kept(machine.under_ucudnn(["--off"], program, machine.environment())[0])
        with tempfile.TemporaryDirectory() as folder:
            output, report = machine.under_ucudnn(["--db", f"{folder}/m.db"], program, machine.environment())
        self.assertGreater(report["measured"], 0)
        measuring = kept(output)
        machine.record("bytes kept by cudnnFind", {"real": real, "measuring": measuring})
        self.assertEqual(real.keys(), measuring.keys())
        for operation in ("forward", "backward_data", "backward_filter"):
            with self.subTest(operation=operation):
                call = f"{LARGEST} {operation}"
                self.assertLess(measuring[call] - max(real[call], 0), OUTPUT_BYTES // 2)
        # Over all calls a leak of any buffer or workspace adds up; what code takes does not repeat.
        self.assertLess(sum(measuring.values()) - sum(real.values()), 3 * OUTPUT_BYTES)

    def test_measuring_takes_no_more_than_it_may(self):
        # Twice what the largest kernel's tensors take; code that cuDNN loads meanwhile comes on top, as without ucudnn.
        bound = 4 * OUTPUT_BYTES
        program = [PROGRAM, str(LARGEST)]
        real, _ = machine.under_ucudnn(["--off"], program, machine.environment())
        environment = machine.environment(UCUDNN_TUNE_MEMORY=str(bound))
        output, report = machine.under_ucudnn(["--db", "none", "--policy", "powerOfTwo"], program, environment)
        self.assertGreater(report["measured"], 0)
        code = max(0, *kept(output).values(), *kept(real).values())
        machine.record("most bytes taken by cudnnFind", {"allowed": bound, "real": taken(real), "measuring": taken(output)})
        self.assertGreater(max(taken(output).values()), 0)
        self.assertLessEqual(max(taken(output).values()), bound + code)


if __name__ == "__main__":
    machine.main()
