"""Tests calls of torch that bypass __torch_function__: scripts, transformations, constructors, autograd functions of a
program, and hooks. Each is refused, or gets stripes."""
import pathlib
import unittest

import gloo

DOORS = pathlib.Path(__file__).resolve().parent / "doors.py"


def setUpModule():
    gloo.need("torch")


class Doors(gloo.RanksTest):
    script = DOORS

    def test_on_two_and_four_ranks(self):
        for count, grid in ((2, "h2"), (4, "h2w2")):
            self.on(count, grid)


if __name__ == "__main__":
    unittest.main()
