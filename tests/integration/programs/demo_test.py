"""Runs tools/demo.py, the part of tools/demo that follows the build, on the stand-in with four images. The demo
succeeds only if its four runs have equal outputs and keep the limit. It prints the gains of better engines and of
division."""

import os
import subprocess
import sys
import unittest

import program

DEMO = os.environ["UCUDNN_TEST_DEMO"]
BUILD = os.environ["UCUDNN_TEST_BUILD"]


class Demo(unittest.TestCase):
    def test_says_both_gains(self):
        result = subprocess.run([sys.executable, "-B", DEMO, BUILD, "4", "1MiB", "--host"], capture_output=True, text=True,
                                env=program.without_settings() | {"OMP_WAIT_POLICY": "passive"})
        self.assertEqual(0, result.returncode, result.stdout + result.stderr)
        self.assertIn("Outputs of all four runs are equal. Device: Host stand-in", result.stdout)
        self.assertRegex(result.stdout.splitlines()[-1], r"^one step: .* \d+\.\d\dx by better engines, \d+\.\d\dx by division$")


if __name__ == "__main__":
    unittest.main()
