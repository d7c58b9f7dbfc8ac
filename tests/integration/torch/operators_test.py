"""Tests a converted model on a single rank. It calls the same operators of torch as the plain model, equally often,
forward and backward."""
import importlib.util
import os
import sys
import unittest

import gloo

sys.path.insert(0, str(gloo.ROOT / "python"))


def setUpModule():
    gloo.need("torch")


class Operators(unittest.TestCase):
    """Compares how often each operator is called: by the plain model, and by shard, the converted model and gather
    together, each with the backward pass."""

    def setUp(self):
        self.grid = os.environ.pop("UCUDNN_SPATIAL", None)

    def tearDown(self):
        os.environ.pop("UCUDNN_SPATIAL", None)
        if self.grid is not None:
            os.environ["UCUDNN_SPATIAL"] = self.grid

    def calls(self, model, x, call):
        import torch
        from counting import Calls
        torch.manual_seed(0)
        with Calls() as calls:
            call(model, x).sum().backward()
        return calls.counts

    def alike(self, make, x, call=lambda model, x: model(x), trust=()):
        from ucudnn import spatial
        expected = self.calls(make(), x, call)
        self.assertGreater(sum(expected.values()), 30)
        self.assertTrue(any("convolution_backward" in name for name in expected))
        converted = lambda model, x: spatial.gather(call(spatial.convert(model, trust=trust), spatial.shard(x, 2)))
        for grid in (None, "h1", "n1h1w1"):
            if grid is not None:
                os.environ["UCUDNN_SPATIAL"] = grid
            self.assertEqual(expected, self.calls(make(), x, converted), grid)

    def test_resnet(self):
        if not importlib.util.find_spec("torchvision"):
            self.skipTest("there is no torchvision")
        import torch
        from torchvision.models import resnet18
        self.alike(lambda: resnet18(num_classes=10), torch.randn(2, 3, 32, 32))

    def test_volumetric_u_net(self):
        import torch
        from models import UNet
        self.alike(UNet, torch.randn(1, 1, 8, 8, 8), trust=["UNet", "Block"])

    def test_vae_decoder(self):
        if not importlib.util.find_spec("diffusers"):
            self.skipTest("there is no diffusers")
        import torch
        from models import autoencoder
        self.alike(autoencoder, torch.randn(1, 4, 8, 8), lambda model, x: model.decode(x).sample)


if __name__ == "__main__":
    unittest.main()
