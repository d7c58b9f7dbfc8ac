"""A ucudnn installation of the test's own: the real command beside libraries that do nothing, so that what it sets
and refuses is tested apart from what those libraries do."""

import os
import shutil
import subprocess
import tempfile
import unittest

COMMAND = os.environ["UCUDNN_TEST_COMMAND"]
CC = os.environ["UCUDNN_TEST_CC"]
STAND_INS = ("libcuda.so.1", "libcudart.so.13", "libcudnn.so.9", "libnccl.so.2", "libcurand.so.10")

PRINT_ENVIRONMENT = r"""
#include <stdio.h>
extern char** environ;
int main(int argc, char** argv) {
  for (int i = 0; i < argc; ++i) printf("argument=%s\n", argv[i]);
  for (char** entry = environ; *entry; ++entry) printf("%s\n", *entry);
  return argc == 2 ? 7 : 0;
}
"""


class CommandTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.realpath(tempfile.mkdtemp(prefix="ucudnn-command-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        os.makedirs(f"{cls.folder}/installed/bin")
        cls.command = f"{cls.folder}/installed/bin/ucudnn"
        shutil.copy(COMMAND, cls.command)
        libraries = f"{cls.folder}/installed/lib/ucudnn"
        cls.drop_in = f"{libraries}/libcudnn.so.9"
        cls.host = f"{libraries}/host"
        os.makedirs(cls.host)
        ours = cls.build("int ucudnn_test_library;", f"{cls.folder}/installed/lib/libucudnn.so.1", "-shared",
                         "-Wl,-soname,libucudnn.so.1")
        cls.build("int ucudnn_test_drop_in;", cls.drop_in, "-shared", "-Wl,-soname,libcudnn.so.9", "-Wl,--no-as-needed",
                  ours, "-Wl,-rpath,$ORIGIN/..")
        cls.dlsym_hook = cls.build("int ucudnn_test_hook;", f"{libraries}/libucudnn_dlsym.so", "-shared")
        for name in STAND_INS:
            cls.build("int stand_in;", f"{cls.host}/{name}", "-shared", f"-Wl,-soname,{name}")
        cls.program = cls.build(PRINT_ENVIRONMENT, f"{cls.folder}/program")
        # Where this machine has no driver, `run` finds this one, and has nothing to say.
        cls.driver = f"{cls.folder}/driver"
        os.mkdir(cls.driver)
        shutil.copy(f"{cls.host}/libcuda.so.1", cls.driver)

    @classmethod
    def build(cls, source, path, *options):
        subprocess.run([CC, "-x", "c", "-fPIC", "-", "-x", "none", "-o", path, *options], input=source.encode(),
                       check=True)
        return path

    def run_command(self, *words, process=None, **variables):
        """`process`: further arguments of subprocess.run."""
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("UCUDNN_", "HOSTGPU_", "LD_"))}
        # Locks of the test's own: another program that measures on this machine is not waited for.
        environment |= {"XDG_RUNTIME_DIR": self.folder} | variables
        return subprocess.run([self.command, *words], env=environment, cwd=self.folder, capture_output=True, text=True,
                              **({"timeout": 240} | (process or {})))  # sanitized, on a busy machine

    def environment_of(self, *words, **variables):
        """What the started program saw, by variable name."""
        paths = [path for path in (variables.pop("LD_LIBRARY_PATH", ""), self.driver) if path]
        result = self.run_command(*words, LD_LIBRARY_PATH=":".join(paths), **variables)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        return dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)

    def assert_refused(self, words, *expected, code=2, **variables):
        """This exit code, nothing on stdout, one line on stderr that holds all of `expected`."""
        result = self.run_command(*words, **variables)
        self.assertEqual(code, result.returncode, result.stdout + result.stderr)
        self.assertEqual("", result.stdout)
        self.assertEqual(1, result.stderr.count("\n"), result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)
