"""Tests what tools/skipped prints about CTest's results: skipped cases of gtest and unittest, and skipped tests."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.sax.saxutils

TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools/skipped"
GTEST = """[ RUN      ] {case}
tests/unit/host/cudnn/exports_test.cpp:39: Skipped
{reason}
[  SKIPPED ] {case} (0 ms)
"""
UNITTEST = """test_a (__main__.A.test_a) ... ok
test_b (__main__.A.test_b) ... skipped {reason!r}
test_c (__main__.A.test_c)
The first line of a docstring. ... skipped {reason!r}

----------------------------------------------------------------------
Ran 3 tests in 0.1s

OK (skipped=2)
"""


class Skipped(unittest.TestCase):
    def told(self, *tests, build="release", path=os.environ["PATH"]):
        """Runs tools/skipped on the results `tests` of a build, each (name, status, output), with programs in `path`.
        Returns (exit code, printed lines)."""
        cases = "".join(f'<testcase name="{name}" status="{status}"><system-out>{xml.sax.saxutils.escape(output)}</system-out></testcase>'
                        for name, status, output in tests)
        with tempfile.NamedTemporaryFile("w", suffix=f"-{build}-test.xml") as file:
            file.write(f'<?xml version="1.0" encoding="UTF-8"?><testsuite>{cases}</testsuite>')
            file.flush()
            result = subprocess.run([sys.executable, TOOL, file.name], env=os.environ | {"PATH": path}, capture_output=True, text=True,
                                    check=False)
        self.assertEqual("", result.stderr)
        return result.returncode, result.stdout.splitlines()

    def test_cases_that_nothing_here_could_run_are_listed_by_reason(self):
        text = "".join(GTEST.format(case=case, reason="the sanitizer's allocator cannot be made to fail") for case in ("A.b", "A.c"))
        self.assertEqual((0, ["skipped: no NVIDIA GPU: gpu_memory_test",
                              "skipped: the sanitizer's allocator cannot be made to fail: A.b, A.c"]),
                         self.told(("faults_test", "run", text), ("gpu_memory_test", "notrun", "skipped: no NVIDIA GPU"),
                                   ("base_test", "run", "[  PASSED  ] 12 tests.")))

    def test_a_case_that_this_machine_could_have_run_fails(self):
        for reason in ("no real cuDNN at /usr/lib/libcudnn.so.9", "there is no stand-in for NCCL in build/lib", "a reason of next year"):
            with self.subTest(reason=reason):
                code, lines = self.told(("host_test", "run", GTEST.format(case="Exports.Are", reason=reason)))
                self.assertEqual((1, [f"FAILED, for this machine could have run it: {reason}: Exports.Are"]), (code, lines))

    def test_so_does_a_test_in_python_that_skips_without_a_known_reason(self):
        for status, output in (("run", "Ran 3 tests in 0.1s\n\nOK (skipped=2)\n"), ("notrun", "")):
            for test in ("command_run_test", "programs_strangers_test", "programs_caffe_test"):
                with self.subTest(status=status, test=test):
                    self.assertEqual(1, self.told((test, status, output), build="asan")[0])

    def test_cases_in_python_are_listed_by_reason(self):
        for status, test, reason, more in (
                ("notrun", "programs_strangers_test", "no sources of DeepBench", {}),
                ("notrun", "programs_strangers_test", "no sources of cudnn-frontend and Catch2", {}),
                ("run", "programs_caffe_test", "sanitized", {"build": "asan"}), ("run", "programs_caffe_test", "sanitized", {"build": "tsan"}),
                ("notrun", "programs_nvcc_test", "no nvcc", {"path": "/nowhere"}),
                ("run", "command_pages_test", "there is no Chromium here (Debian: apt-get install chromium)", {"path": "/nowhere"})):
            with self.subTest(test=test, reason=reason):
                self.assertEqual((0, [f"skipped: {reason}: A.test_b, A.test_c"]),
                                 self.told((test, status, UNITTEST.format(reason=reason)), **more))

    def test_a_case_in_python_that_this_machine_could_have_run_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in ("nvcc", "chromium"):
                os.symlink("/bin/true", f"{folder}/{program}")
            for test, reason in (("programs_strangers_test", "no nvcc"), ("programs_strangers_test", "it's of next year"),
                                 ("programs_caffe_test", "sanitized"),
                                 ("command_pages_test", "there is no Chromium here (Debian: apt-get install chromium)")):
                with self.subTest(test=test, reason=reason):
                    self.assertEqual((1, [f"FAILED, for this machine could have run it: {reason}: A.test_b, A.test_c"]),
                                     self.told((test, "notrun", UNITTEST.format(reason=reason)), path=folder))
        hidden = UNITTEST.format(reason="no sources of DeepBench").replace("=2", "=3")
        self.assertEqual((1, ["skipped: no sources of DeepBench: A.test_b, A.test_c",
                              "FAILED, for this machine could have run it: 1 cases, which the test does not name: programs_strangers_test"]),
                         self.told(("programs_strangers_test", "notrun", hidden)))


if __name__ == "__main__":
    unittest.main()
