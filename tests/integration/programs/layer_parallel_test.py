"""Tests that attention_chain, a C program, solves transformer blocks through libucudnn_layer_parallel: as built here,
and as a user builds it with the installed files."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["UCUDNN_TEST_ATTENTION_CHAIN"]
BUILD = os.environ["UCUDNN_TEST_BUILD"]
CC = os.environ["UCUDNN_TEST_CC"]
CMAKE = os.environ["UCUDNN_TEST_CMAKE"]
SOURCE = pathlib.Path(__file__).parent / "attention_chain.c"


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=250)


class LayerParallel(unittest.TestCase):
    def printed(self, program, *arguments):
        result = run(program, *arguments)
        self.assertEqual((0, ""), (result.returncode, result.stderr), result.stdout)
        return result.stdout

    def test_attention_blocks_are_solved_in_a_few_cycles(self):
        for blocks in (64, 256):
            with self.subTest(blocks=blocks):
                lines = self.printed(PROGRAM, blocks).splitlines()
                self.assertEqual(f"{blocks} attention blocks, 8 tokens of 16 features", lines[0])
                cycles = [line.split() for line in lines if re.match(r" +\d", line)]
                self.assertLessEqual(len(cycles), 5)
                for i in (1, 2):
                    residuals = [float(row[i]) for row in cycles if len(row) > i]
                    self.assertEqual(residuals, sorted(residuals, reverse=True))
                    self.assertLess(residuals[-1], 1e-11)
                for what in ("states", "adjoints"):
                    self.assertRegex("\n".join(lines), rf"\n{what} +converged +\S+\n")

    def test_lanes_change_nothing(self):
        self.assertEqual(self.printed(PROGRAM, 61, 1), self.printed(PROGRAM, 61, 3))

    def test_what_the_library_refuses_is_told(self):
        result = run(PROGRAM, 61, 2000)
        self.assertEqual((1, "ucudnnLayerParallelCreate: lanes is 2000; 1 to 1024 are expected, or 0 for one\n"),
                         (result.returncode, result.stderr))

    def test_usage_tells_the_librarys_version(self):
        result = run(PROGRAM, 0)
        self.assertEqual(2, result.returncode)
        self.assertRegex(result.stderr, r"^usage: .*; libucudnn_layer_parallel is \d+\.\d+\.\d+\n$")

    def test_builds_and_runs_from_what_is_installed(self):
        with tempfile.TemporaryDirectory(prefix="ucudnn-layer-parallel-") as folder:
            root = pathlib.Path(folder)
            installed = run(CMAKE, "--install", BUILD, "--component", "layer_parallel", "--prefix", root / "prefix")
            self.assertEqual(0, installed.returncode, installed.stderr)
            files = sorted(path.relative_to(root / "prefix").as_posix() for path in (root / "prefix").rglob("*") if not path.is_dir())
            self.assertEqual(["include/ucudnn/layer_parallel.h", "lib/libucudnn_layer_parallel.so", "lib/libucudnn_layer_parallel.so.1"],
                             files)
            built = run(CC, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", SOURCE, f"-I{root}/prefix/include",
                        f"-L{root}/prefix/lib", f"-Wl,-rpath,{root}/prefix/lib", "-lucudnn_layer_parallel", "-lm", "-o",
                        root / "program")
            self.assertEqual((0, ""), (built.returncode, built.stderr))
            lines = self.printed(root / "program", 64).splitlines()
            self.assertRegex(lines[-1], r"slope +\S+")


if __name__ == "__main__":
    unittest.main()
