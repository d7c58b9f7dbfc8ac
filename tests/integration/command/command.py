"""A ucudnn installation of the test's own: the real command beside libraries that do nothing, so that what it sets and refuses
is tested independently of what those libraries do."""

import json
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


def clean_environment(**variables):
    """Returns the environment without variables of ucudnn or its stand-ins, but with these."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("UCUDNN_", "HOSTGPU_", "LD_"))} | variables


class FolderTest(unittest.TestCase):
    """Has a folder of its own, in which the command runs that was built with the stand-ins beside it."""
    command = COMMAND

    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.realpath(tempfile.mkdtemp(prefix="ucudnn-command-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    @classmethod
    def write(cls, name, content, mode=None):
        """Writes a file of the folder, replacing one that is there: bytes, text, or anything else as JSON. Returns its path."""
        path = os.path.join(cls.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            os.remove(path)
        if not isinstance(content, (bytes, bytearray, str)):
            content = json.dumps(content)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            os.chmod(path, mode)
        return path

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def load(self, name):
        return json.loads(self.read(name))

    def run_command(self, *words, process=None, **variables):
        """`process`: further arguments of subprocess.run."""
        # Locks are the test's own, so that another program that measures on this machine is not waited for.
        environment = clean_environment(XDG_RUNTIME_DIR=self.folder) | variables
        return subprocess.run([self.command, *words], env=environment, cwd=self.folder, capture_output=True, text=True,
                              **({"timeout": 240} | (process or {})))  # for sanitizers on a busy machine

    def output(self, *words, **variables):
        """Returns the output of a command that succeeds and writes nothing to stderr."""
        result = self.run_command(*words, **variables)
        self.assertEqual((0, ""), (result.returncode, result.stderr), words)
        return result.stdout

    def printed_json(self, *words, **variables):
        return json.loads(self.output(*words, **variables))


class CommandTest(FolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
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
        # If this machine has no driver, `run` finds this one, and has nothing to say.
        cls.driver = f"{cls.folder}/driver"
        os.mkdir(cls.driver)
        shutil.copy(f"{cls.host}/libcuda.so.1", cls.driver)

    @classmethod
    def build(cls, source, path, *options):
        subprocess.run([CC, "-x", "c", "-fPIC", "-", "-x", "none", "-o", path, *options], input=source.encode(),
                       check=True)
        return path

    def environment_of(self, *words, **variables):
        """Returns what the started program saw, by variable name."""
        paths = [path for path in (variables.pop("LD_LIBRARY_PATH", ""), self.driver) if path]
        output = self.output(*words, LD_LIBRARY_PATH=":".join(paths), **variables)
        return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)

    def assert_refused(self, words, *expected, code=2, **variables):
        """Expects this exit code, nothing on stdout, and one line on stderr that contains all of `expected`."""
        result = self.run_command(*words, **variables)
        self.assertEqual(code, result.returncode, result.stdout + result.stderr)
        self.assertEqual("", result.stdout)
        self.assertEqual(1, result.stderr.count("\n"), result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)
