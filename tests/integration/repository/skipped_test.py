"""Tests what tools/skipped prints about CTest's results: skipped cases of gtest and unittest, and skipped tests."""

import pathlib
import subprocess
import tempfile
import unittest
import xml.sax.saxutils

TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools/skipped"
GTEST = """[ RUN      ] {case}
tests/unit/host/cudnn/exports_test.cpp:39: Skipped
{reason}
[  SKIPPED ] {case} (0 ms)
"""


class Skipped(unittest.TestCase):
    def told(self, *tests):
        """Runs tools/skipped on the results `tests`, each (name, status, output). Returns (exit code, printed
        lines)."""
        cases = "".join(f'<testcase name="{name}" status="{status}"><system-out>{xml.sax.saxutils.escape(output)}</system-out></testcase>'
                        for name, status, output in tests)
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(f'<?xml version="1.0" encoding="UTF-8"?><testsuite>{cases}</testsuite>')
            file.flush()
            result = subprocess.run([TOOL, file.name], capture_output=True, text=True, check=False)
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
            with self.subTest(status=status):
                self.assertEqual(1, self.told(("command_run_test", status, output))[0])
        self.assertEqual(0, self.told(("programs_strangers_test", "notrun", "OK (skipped=2)\n"))[0])


if __name__ == "__main__":
    unittest.main()
