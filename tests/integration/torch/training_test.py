"""Tests gradients of training on stripes: accumulated, with checkpoints, with frozen layers, and averaged between groups."""
import pathlib
import unittest

import gloo

TRAINING = pathlib.Path(__file__).resolve().parent / "training.py"


def setUpModule():
    gloo.need("torch")


class Training(gloo.RanksTest):
    script = TRAINING

    def test_two_ranks(self):
        self.on(2, "h2")

    def test_four_ranks(self):
        self.on(4, "h4")

    def test_data_parallel_around_two_groups(self):
        self.on(4, "n2h2")

    def test_data_parallel_around_two_groups_of_four(self):
        self.on(8, "n2h4")


if __name__ == "__main__":
    unittest.main()
