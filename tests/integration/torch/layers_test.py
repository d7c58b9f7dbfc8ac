"""Every layer on stripes against the whole image, forward and backward, on two and four ranks."""
import pathlib
import unittest

import gloo

LAYERS = pathlib.Path(__file__).resolve().parent / "layers.py"


def setUpModule():
    gloo.need("torch")


class Layers(unittest.TestCase):
    def on(self, count, grid):
        for rank, (code, output) in enumerate(gloo.start(LAYERS, count, grid)):
            self.assertEqual(0, code, f"rank {rank} of {grid}:\n{output}")

    def test_two_stripes(self):
        self.on(2, "h2")

    def test_stripes_along_w(self):
        self.on(2, "w2")

    def test_a_grid_of_two_by_two(self):
        self.on(4, "h2w2")

    def test_four_stripes(self):
        self.on(4, "h4")

    def test_volumes(self):
        self.on(4, "d2h2")

    def test_two_groups(self):
        self.on(4, "n2h2")


if __name__ == "__main__":
    unittest.main()
