"""Tests the wheel of tools/wheel as a user gets it. The wheel's files fit its platform tag, and pip installs it into
a clean virtual environment. The command there starts a program with that environment's drop-in in front of cuDNN."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = os.environ["UCUDNN_TEST_BUILD"]
OPENER = os.environ["UCUDNN_TEST_OPENER"]
REAL = os.environ["UCUDNN_TEST_REAL"]
POLICY = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def run(*words, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("UCUDNN_", "HOSTGPU_", "LD_", "PYTHON", "PIP_"))}
    return subprocess.run([str(word) for word in words], env=environment | variables, capture_output=True, text=True,
                          timeout=250)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(os.path.realpath(tempfile.mkdtemp(prefix="ucudnn-wheel-")))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.wheel = cls.make("first")
        cls.environment = cls.folder / "environment"
        # This interpreter's pip installs the wheel. Installing a pip into the environment would take minutes on a
        # busy machine.
        for words in ([sys.executable, "-m", "venv", "--without-pip", cls.environment],
                      [sys.executable, "-m", "pip", "--python", cls.environment / "bin/python", "install", "--no-index",
                       "--no-deps", cls.wheel]):
            result = run(*words)
            if result.returncode != 0:
                raise AssertionError(result.stdout + result.stderr)
        cls.command = cls.environment / "bin/ucudnn"
        cls.installed = next(cls.environment.glob("lib/python3*/site-packages/ucudnn"))

    @classmethod
    def make(cls, name):
        result = run(ROOT / "tools/wheel", "--build", BUILD, "--output", cls.folder / name)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        return pathlib.Path(result.stdout.strip())

    def elf_files(self):
        files = [path for path in self.installed.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
        self.assertGreaterEqual(len(files), 4)
        return files

    def test_tag_is_what_readelf_says(self):
        nodes = set()
        ours = {path.name for path in self.elf_files()}
        for path in self.elf_files():
            nodes |= set(re.findall(r"\bGLIBC_([0-9.]+)\b", run("readelf", "-VW", path).stdout))
            needed = set(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-dW", path).stdout))
            self.assertEqual(set(), needed - POLICY - ours, path.name)
        self.assertIn("2.14", nodes)
        newest = max(tuple(map(int, node.split("."))) for node in nodes)
        self.assertLessEqual(newest, (2, 28))
        self.assertRegex(self.wheel.name, rf"-py3-none-manylinux_2_{newest[1]}_x86_64\.whl$")

    def test_same_build_gives_the_same_bytes(self):
        self.assertEqual(self.wheel.read_bytes(), self.make("second").read_bytes())

    @unittest.skipIf(os.environ["UCUDNN_TEST_CONFIG"] != "Release", "clang's asserts name the folders of lambdas; users get release builds")
    def test_wheel_names_no_folder_of_this_machine(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            for name in wheel.namelist():
                # assertNotIn would print the whole file.
                self.assertFalse(str(ROOT).encode() in wheel.read(name), name)

    def test_headers_lie_beside_one_libucudnn(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
        self.assertEqual(["ucudnn/lib/libucudnn.so.1"], [name for name in names if "libucudnn.so" in name])
        self.assertIn("ucudnn/lib/libucudnn_layer_parallel.so.1", names)
        for header in ("ucudnn.h", "handle.h", "layer_parallel.h"):
            self.assertEqual((ROOT / "include/ucudnn" / header).read_bytes(),
                             (self.installed / "include/ucudnn" / header).read_bytes())

    def test_command_finds_its_own_libraries(self):
        result = run(self.command, "doctor", UCUDNN_DATABASE="none")
        self.assertRegex(result.stdout, rf"drop-in +{re.escape(str(self.installed))}/lib/ucudnn/libcudnn.so.9\n")
        self.assertRegex(result.stdout, r"stand-ins +no: .* is missing")
        same = run(self.environment / "bin/python", "-m", "ucudnn", "doctor", UCUDNN_DATABASE="none")
        self.assertEqual(result.stdout, same.stdout)

    def test_program_runs_with_the_drop_in_of_the_environment(self):
        result = run(self.command, "run", "--db", "none", "--", OPENER, "soname", UCUDNN_LOG="debug",
                     UCUDNN_REAL_CUDNN=REAL)
        self.assertIn("cudnnCreate intercepted", result.stderr)
        self.assertRegex(result.stdout, r"version=9\d{4}\n")

    def test_program_that_opens_cudnn_by_its_path_is_reached(self):
        result = run(self.command, "run", "--db", "none", "--dlsym", "on", "--", OPENER, "path", REAL, UCUDNN_LOG="debug")
        self.assertIn("cudnnCreate intercepted", result.stderr)

    def test_python_of_the_environment_is_unharmed(self):
        result = run(self.command, "run", "--db", "none", "--", self.environment / "bin/python", "-c",
                     "import ucudnn, os; print(os.environ['LD_PRELOAD'] == str(ucudnn.DROP_IN))")
        self.assertEqual(("True\n", 0), (result.stdout, result.returncode), result.stderr)
        self.assertRegex(result.stderr, r"\A(ucudnn run: there is no CUDA driver .*\n)?\Z")

    def python(self, program):
        return run(self.environment / "bin/python", "-c", program)

    def test_spatial_module_comes_along_whole(self):
        files = {path.relative_to(ROOT / "python").as_posix() for path in (ROOT / "python/ucudnn").rglob("*.py")}
        self.assertIn("ucudnn/spatial/conversion.py", files)
        with zipfile.ZipFile(self.wheel) as wheel:
            self.assertEqual(files, {name for name in wheel.namelist() if name.endswith(".py")})
            metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()
        self.assertIn("Requires-Dist: torch; extra == 'spatial'\n", metadata)

    def test_spatial_module_finds_its_library_without_torch(self):
        result = self.python("import ucudnn.spatial.geometry as g; print(g._path() == g.pathlib.Path(g.__file__).parents[1] / "
                             "'lib/libucudnn.so.1')")
        self.assertEqual(("True\n", 0), (result.stdout, result.returncode), result.stderr)

    def test_package_needs_no_torch_and_names_what_does(self):
        result = self.python("import sys, ucudnn, ucudnn.spatial as s; print(s.NotSupported.__name__, 'torch' in sys.modules)")
        self.assertEqual(("NotSupported False\n", 0), (result.stdout, result.returncode), result.stderr)
        for name in ("shard", "gather", "convert", "init"):
            result = self.python(f"from ucudnn.spatial import {name}")
            self.assertIn(f"ImportError: ucudnn.spatial.{name} needs torch, and this Python", result.stderr)
            self.assertEqual(1, result.returncode)

    def test_bad_usage_keeps_its_exit_code(self):
        self.assertEqual(2, run(self.command, "no-such-command").returncode)


if __name__ == "__main__":
    unittest.main()
