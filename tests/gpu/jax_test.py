"""JAX, unchanged, with the drop-in preloaded: it calls cuDNN's graph API and is unharmed."""

import json
import subprocess
import sys
import unittest

import machine

PROGRAM = [sys.executable, "-B", machine.FOLDER / "jax_steps.py"]
VARIABLES = {"JAX_PLATFORMS": "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def missing():
    if machine.HOST:
        return "JAX has kernels of its own, which the stand-in cannot run"
    probe = subprocess.run([sys.executable, "-c", "import jax; jax.devices()"],
                           env=machine.python_environment(**VARIABLES), capture_output=True)
    return None if probe.returncode == 0 else "no JAX with CUDA"


MISSING = missing() if machine.HOST or machine.gpu() else machine.NO_GPU


@unittest.skipIf(MISSING, MISSING)
class Jax(unittest.TestCase):
    def test_convolutions_and_gradients_are_equal(self):
        environment = machine.python_environment(**VARIABLES)
        plain = json.loads(machine.run(PROGRAM, environment).splitlines()[-1])
        output, report = machine.under_ucudnn(["--db", "none", "--workspace-limit", "8MiB"], PROGRAM, environment)
        machine.record("jax", {"jax": plain["jax"], "kernels": len(report["kernels"]) if report else 0})
        self.assertEqual(plain, json.loads(output.splitlines()[-1]))
        self.assertNotIn("off by", str(plain["convolutions"]))


if __name__ == "__main__":
    machine.main()
