"""Tests on the CPU stand-in how GPU tests on one device affect each other. If another process measures on the device, a
test that expects divided kernels waits. If that process does not end in time, the test fails. If several tests compare
with the same run without ucudnn, the run is made only once. Also tests other functions of machine.py."""

import concurrent.futures
import contextlib
import fcntl
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

os.environ["UCUDNN_GPU_TEST_HOST"] = "1"

import capture_test  # noqa: E402: it reads the variable above
import differential_test  # noqa: E402
import machine  # noqa: E402
import memory_test  # noqa: E402

UUID = b"hostgpu-standin\0".hex()  # the UUID of the stand-in's first device
# Seconds for measuring. They include the wait for a turn to measure, and are few, so that the tests do not wait long.
IMPATIENT = {"UCUDNN_TUNE_SECONDS": "0.2:0.6"}
SHOULD_DIVIDE = (capture_test.Capture, differential_test.Measured, memory_test.BriefMemory)


@contextlib.contextmanager
def measuring(folder):
    """Locks the device as src/tuning/device_lock.cpp does, so that other processes wait before they measure on it."""
    with open(f"{folder}/ucudnn-{os.geteuid()}-{UUID}.lock", "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield file


def outcome(case):
    return unittest.defaultTestLoader.loadTestsFromTestCase(case).run(unittest.TestResult())


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))


class Turns(Folder):
    def setUp(self):
        super().setUp()
        # Locks of this test lie in its own folder. So the test does not wait for processes of other tests that measure
        # on the stand-in.
        self.enterContext(mock.patch.dict(os.environ, XDG_RUNTIME_DIR=str(self.folder)))

    def test_one_that_should_divide_fails_while_another_process_measures(self):
        with measuring(self.folder), mock.patch.object(machine, "HOST_TUNE", IMPATIENT):
            for case in SHOULD_DIVIDE:
                with self.subTest(case=case.__name__):
                    result = outcome(case)
                    told = [text for _, text in result.failures + result.errors]
                    self.assertEqual(1, len(told), "it passed" if not told else told)
                    self.assertIn('its report says "others measure on the device"', told[0])

    def test_by_itself_it_passes(self):
        result = outcome(differential_test.Measured)
        self.assertEqual((2, []), (result.testsRun, result.failures + result.errors))
        self.assertEqual([f"ucudnn-{os.geteuid()}-{UUID}.lock"], os.listdir(self.folder), "it locks another file")

    def test_it_takes_its_turn_behind_one_that_ends_in_time(self):
        with measuring(self.folder) as file, concurrent.futures.ThreadPoolExecutor(1) as threads:
            begin = time.monotonic()
            result = threads.submit(outcome, capture_test.Capture)
            time.sleep(2)
            self.assertFalse(result.done())
            fcntl.lockf(file, fcntl.LOCK_UN)
            self.assertEqual([], result.result().failures + result.result().errors)
            self.assertGreater(time.monotonic() - begin, 2)


class References(Folder):
    """Uses a program that appends a line to a file each time it runs, and prints the number of lines."""

    PROGRAM = """
import sys, time
with open(sys.argv[1], "a") as file:
    file.write("ran\\n")
time.sleep(float(sys.argv[2]))
print(open(sys.argv[1]).read().count("ran"))
"""

    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.dict(os.environ, UCUDNN_TEST_REFERENCES=str(self.folder / "references")))

    def words(self, seconds):
        return [sys.executable, "-c", self.PROGRAM, self.folder / "runs", seconds]

    def runs(self):
        path = self.folder / "runs"
        return path.read_text().count("ran") if path.exists() else 0

    def test_it_is_run_once_for_two_users(self):
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            told = list(threads.map(lambda _: machine.reference(self.words(0.5), dict(os.environ), 30), range(2)))
        self.assertEqual(["1\n", "1\n"], told)
        self.assertEqual("1\n", machine.reference(self.words(0.5), os.environ | {"PWD": "elsewhere"}, 30))

    def test_other_variables_and_words_are_another_one(self):
        self.assertEqual("1\n", machine.reference(self.words(0), dict(os.environ), 30))
        self.assertEqual("2\n", machine.reference(self.words(0), os.environ | {"TORCH_CUDNN_V8_API_DISABLED": "1"}, 30))
        self.assertEqual("3\n", machine.reference(self.words(0.0), dict(os.environ), 30))

    def test_a_dead_writers_is_run_anew(self):
        program = f"import machine, os; machine.reference({[str(word) for word in self.words(60)]!r}, dict(os.environ), 90)"
        writer = subprocess.Popen([sys.executable, "-B", "-c", program], cwd=machine.FOLDER)
        while not self.runs():
            time.sleep(0.05)
        with self.assertRaisesRegex(machine.TimedOut, "by another process"):
            machine.reference(self.words(60), dict(os.environ), 0.3)
        writer.kill()
        writer.wait()
        with self.assertRaisesRegex(machine.TimedOut, "not done after"):
            machine.reference(self.words(60), dict(os.environ), 1)
        self.assertEqual(2, self.runs())

    def test_one_that_fails_is_left_for_nobody(self):
        words = [sys.executable, "-c", "import sys; sys.exit('no device')"]
        for _ in range(2):
            with self.assertRaisesRegex(machine.Failed, "no device"):
                machine.reference(words, dict(os.environ), 30)

    def test_a_test_file_leaves_its_own(self):
        def start(*words):
            return subprocess.run([sys.executable, "-B", machine.FOLDER / "capture_test.py", *words], capture_output=True,
                                  text=True, timeout=60)

        known = start("--references", "Capture")
        self.assertEqual((0, ""), (known.returncode, known.stderr))
        left = [path.name for path in (self.folder / "references").iterdir() if path.suffix != ".running"]
        self.assertEqual(1, len(left), left)
        unknown = start("--references", "Nobody")
        self.assertEqual(1, unknown.returncode)
        self.assertIn("Nobody", unknown.stderr)


class Machine(Folder):
    def test_a_file_is_replaced_whole(self):
        path = self.folder / "results.json"
        for data in (b"{}", b"[1, 2]"):
            machine.write_whole(path, data)
            self.assertEqual(data, path.read_bytes())
        with self.assertRaises(TypeError):
            machine.write_whole(path, "text")
        self.assertEqual(["results.json"], os.listdir(self.folder))
        self.assertEqual(b"[1, 2]", path.read_bytes())

    def test_the_compute_mode_is_nvidia_smis(self):
        tool = self.folder / "nvidia-smi"
        with mock.patch.dict(os.environ, PATH=str(self.folder)):
            self.assertIsNone(machine.compute_mode.__wrapped__())
            for script, mode in (("echo Default; echo Default", "Default"), ("echo Default; echo Exclusive_Process",
                                 "Exclusive_Process"), ("echo no devices; exit 6", None), ("exit 0", None)):
                tool.write_text(f"#!/bin/sh\n{script}\n")
                tool.chmod(0o755)
                self.assertEqual(mode, machine.compute_mode.__wrapped__(), script)


if __name__ == "__main__":
    unittest.main()
