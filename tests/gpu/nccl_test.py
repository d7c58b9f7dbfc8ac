"""Tests that NCCL can be found and called as ucudnn does it. There is one rank, since one GPU allows no more. NCCL's version
is accepted, and both communicators are made. Sums are right, and so are messages of the rank to itself. Communicators can be
destroyed and aborted."""

import functools
import importlib.util
import os
import pathlib
import unittest

import machine

PROGRAM = machine.BUILD / "tests/gpu/bin/nccl_smoke"
STEPS = ["device", "channel", "sum of fp32", "sum of fp64", "channel closed",
         *[step for end in ("destroyed", "aborted") for step in ("communicators", "messages", "sum", end)]]


def wheels():
    """Returns the folders of NVIDIA's wheels that have cuDNN and NCCL. On the stand-in there are none, since these libraries
    need a GPU."""
    if machine.HOST:
        return []
    spec = importlib.util.find_spec("nvidia")
    roots = [pathlib.Path(root) for root in (spec.submodule_search_locations if spec else [])]
    roots.append(machine.ROOT / "build/deps/nvidia")
    return [root for root in roots if (root / "cudnn/lib/libcudnn.so.9").exists() and (root / "nccl/lib/libnccl.so.2").exists()]


def without_nccl(environment):
    """Returns the environment without the folders in LD_LIBRARY_PATH that have NCCL, so that the loader does not find it."""
    folders = [f for f in environment["LD_LIBRARY_PATH"].split(":") if not os.path.exists(f"{f}/libnccl.so.2")]
    return environment | {"LD_LIBRARY_PATH": ":".join(folders)}


@functools.cache
def smoke(*words, hidden=False):
    """Runs nccl_smoke. Returns its exit code, its lines and its stderr."""
    environment = without_nccl(machine.environment()) if hidden else machine.environment()
    host = ["--host"] if machine.HOST else []
    code, output, errors = machine.call([machine.UCUDNN, "run", *host, "--off", "--", PROGRAM, *words], environment,
                                        min(60, machine.seconds_left()))
    return code, output.splitlines(), errors


class Nccl(unittest.TestCase):
    def works(self, *words, hidden=False):
        """Expects that nccl_smoke succeeds. Returns the version and file of the NCCL that was found, and the milliseconds for
        opening."""
        code, lines, errors = smoke(*words, hidden=hidden)
        if code == machine.SKIPPED:
            self.skipTest(errors.strip())
        self.assertEqual(0, code, "\n".join([*lines, errors]))
        self.assertEqual(STEPS, [line.removesuffix(": ok") for line in lines if line.endswith(": ok")])
        name, version, file = lines[0].split(" ", 2)
        self.assertEqual("NCCL", name)
        opened = next(float(line.split()[2]) for line in lines if line.startswith("opened in "))
        return version, file, opened

    def test_the_loaders_own_works(self):
        version, _, opened = self.works()
        machine.record("NCCL of the loader", {"version": version, "opened_ms": opened})

    def test_that_of_the_wheels_beside_cudnn_works(self):
        if not wheels():
            self.skipTest("no wheels with cuDNN and NCCL")
        for root in wheels():
            with self.subTest(root=root):
                version, file, opened = self.works(root / "cudnn/lib/libcudnn.so.9", hidden=True)
                self.assertTrue(os.path.samefile(root / "nccl/lib/libnccl.so.2", file), file)
                machine.record("NCCL of the wheels", {"version": version, "opened_ms": opened})

    def test_one_that_the_program_has_loaded_goes_first(self):
        _, file, _ = self.works(wheels()[0] / "cudnn/lib/libcudnn.so.9") if wheels() else self.works()
        self.assertTrue(os.path.samefile(file, self.works("--own", file, hidden=True)[1]))


if __name__ == "__main__":
    machine.main()
