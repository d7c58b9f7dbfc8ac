"""Tests FSDP's fully_shard after convert, on one spatial group of four ranks and on two groups of
two ranks."""
import pathlib
import unittest

import gloo

PARAMETERS = pathlib.Path(__file__).resolve().parent / "parameters.py"


def setUpModule():
    gloo.need("torch")


class Parameters(gloo.RanksTest):
    script = PARAMETERS

    def test_one_group(self):
        self.on(4, "h4")

    def test_two_groups(self):
        self.on(4, "n2h2")


if __name__ == "__main__":
    unittest.main()
