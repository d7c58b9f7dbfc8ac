"""Tests what programs do with models besides training them: saving, loading their own rows, meshes, wrappers and mistakes."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import gloo

HABITS = pathlib.Path(__file__).resolve().parent / "habits.py"
IN_ONE_PROCESS = """
import sys, torch
torch.set_default_dtype(torch.float64)
model = torch.load(sys.argv[1] + ".model", weights_only=False)
picture, expected = torch.load(sys.argv[1] + ".expected")
found = model(picture)
assert type(found) is torch.Tensor and (found - expected).abs().max() < 1e-12, (found, expected)
"""


def setUpModule():
    gloo.need("torch")


class Habits(gloo.RanksTest):
    script = HABITS

    def saved_on(self, count, grid):
        with tempfile.TemporaryDirectory() as folder:
            self.on(count, grid, folder)
            variables = {name: value for name, value in os.environ.items() if name != "UCUDNN_SPATIAL"}
            subprocess.run([sys.executable, "-B", "-c", IN_ONE_PROCESS, f"{folder}/0"], check=True,
                           env=variables | {"PYTHONPATH": str(gloo.ROOT / "python")})

    def test_two_ranks(self):
        self.saved_on(2, "h2")

    def test_four_ranks(self):
        self.saved_on(4, "h2w2")


if __name__ == "__main__":
    unittest.main()
