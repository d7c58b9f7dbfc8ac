"""Published models by random plans are the plain modules, and every element that moves was predicted."""
import pathlib
import unittest

import gloo

gloo.need("torch")
gloo.need("torchvision")


class Models(gloo.RanksTest):
    script = str(pathlib.Path(__file__).with_name("parallel_models.py"))

    def test_TorchvisionAndTimm_OnThreeRanks(self):
        self.on(3, "", "10")


if __name__ == "__main__":
    unittest.main()
