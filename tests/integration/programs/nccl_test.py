"""Tests a program that opens NCCL. Under `ucudnn run --host` it gets the stand-in."""

import os
import subprocess
import tempfile
import unittest

import program

CC = os.environ["UCUDNN_TEST_CC"]

# The program makes a communicator of two devices and prints the library's file and the number of ranks.
PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW);
  if (!library) return puts(dlerror()), 1;
  int (*make)(void**, int, const int*) = dlsym(library, "ncclCommInitAll");
  int (*count)(void*, int*) = dlsym(library, "ncclCommCount");
  int (*destroy)(void*) = dlsym(library, "ncclCommDestroy");
  void* comms[2] = {0};
  int ranks = 0;
  Dl_info info;
  if (make(comms, 2, 0) != 0 || count(comms[1], &ranks) != 0 || !dladdr(make, &info)) return 2;
  printf("%s %d\n", info.dli_fname, ranks);
  return destroy(comms[0]) + destroy(comms[1]);
}
"""


class Nccl(unittest.TestCase):
    def test_host_brings_the_stand_in(self):
        with tempfile.TemporaryDirectory(prefix="ucudnn-nccl-") as folder:
            subprocess.run([CC, "-xc", "-", "-o", f"{folder}/program", "-ldl"], input=PROGRAM, text=True, check=True)
            result = program.run([f"{folder}/program"], ["--devices", "2"])
        host = os.path.realpath(f"{os.path.dirname(program.COMMAND)}/../lib/ucudnn/host")
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        path, ranks = result.stdout.split()
        self.assertEqual((f"{host}/libnccl.so.2", "2"), (os.path.realpath(os.path.dirname(path)) + "/libnccl.so.2", ranks))


if __name__ == "__main__":
    unittest.main()
