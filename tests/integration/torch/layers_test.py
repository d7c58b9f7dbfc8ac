"""Compares every layer on stripes with the same layer on the whole image, forward and backward, on two and four
ranks."""
import pathlib
import sys
import unittest

import gloo

LAYERS = pathlib.Path(__file__).resolve().parent / "layers.py"


def setUpModule():
    gloo.need("torch")


class Lists(unittest.TestCase):
    def setUp(self):
        sys.path.insert(0, str(gloo.ROOT / "python"))
        import layer_cases
        lists = layer_cases.cases, layer_cases.lines, layer_cases.volumes
        self.made = [make() for each in lists for _, make in each()]

    def test_every_class_that_looks_around_is_tried_alone(self):
        from ucudnn.spatial import vouched
        self.assertEqual(set(), set(vouched._POSITIONS) - {type(module).__name__ for module in self.made})

    def test_every_class_of_torch_that_is_vouched_for_is_tried(self):
        from ucudnn.spatial import vouched
        tried = {type(module).__name__ for model in self.made for module in model.modules()}
        self.assertEqual(set(), {*vouched._POINTWISE, *vouched._LOSSES, *vouched.DRAWING} - tried)


class Layers(gloo.RanksTest):
    script = LAYERS

    def test_two_stripes(self):
        self.on(2, "h2")

    def test_stripes_along_w(self):
        self.on(2, "w2")

    def test_four_stripes_along_w(self):
        self.on(4, "w4")

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
