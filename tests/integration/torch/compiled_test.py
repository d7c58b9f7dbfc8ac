"""Tests compiled code: it never computes on a stripe. Any part of a program may be compiled, before or after
convert."""
import sys
import unittest
from unittest import mock

import gloo

sys.path.insert(0, str(gloo.ROOT / "python"))


def setUpModule():
    gloo.need("torch")


def net():
    from torch import nn
    return nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.ReLU(), nn.GroupNorm(2, 4))


class Compiled(unittest.TestCase):
    """The tests run on rank 0 of two; FakeRanks replaces the other rank."""

    def setUp(self):
        import torch
        from fake_ranks import FakeRanks
        from ucudnn.spatial import cells
        torch._dynamo.reset()
        patch = mock.patch.object(cells, "_current", FakeRanks("h2", 0))
        patch.start()
        self.addCleanup(patch.stop)

    def stripe(self):
        import torch
        from ucudnn import spatial
        return spatial.shard(torch.randn(1, 4, 16, 16), 2)

    def refused(self, run):
        # Both backends are refused: "eager", and the default backend, which would generate Triton or C++ kernels. torch
        # turns errors during compilation into RuntimeError.
        for options in ({"backend": "eager"}, {}):
            with self.subTest(options), self.assertRaisesRegex(RuntimeError, "torch.compile, whose own kernels"):
                run(options)

    def test_a_converted_model_is_not_compiled(self):
        import torch
        from ucudnn import spatial
        self.refused(lambda options: torch.compile(spatial.convert(net()), **options)(self.stripe()))

    def test_a_compiled_model_is_not_converted(self):
        import torch
        from ucudnn import spatial
        self.refused(lambda options: spatial.convert(torch.compile(net(), **options)))

    def test_nor_is_a_model_with_a_compiled_layer(self):
        from ucudnn import spatial

        def run(options):
            model = net()
            model[0].compile(**options)
            spatial.convert(model)
        self.refused(run)

    def test_a_layer_that_is_compiled_later_meets_no_stripe(self):
        from ucudnn import spatial

        def run(options):
            model = spatial.convert(net())
            model[0].compile(**options)
            model(self.stripe())
        self.refused(run)

    def test_whoever_is_trusted_is_refused_when_it_runs(self):
        import torch
        from ucudnn import spatial
        self.refused(lambda options: spatial.convert(torch.compile(net(), **options), trust=["OptimizedModule"])(self.stripe()))

    def test_a_compiled_function_meets_no_stripe(self):
        import torch
        weight = torch.randn(4, 4, 3, 3)
        self.refused(lambda options: torch.compile(lambda x: torch.nn.functional.conv2d(x, weight, padding=1),
                                                   **options)(self.stripe()))

    def test_errors_that_torch_swallows_are_raised_when_it_runs(self):
        import torch
        from ucudnn import spatial
        with mock.patch.object(torch._dynamo.config, "suppress_errors", True):
            self.refused(lambda options: torch.compile(spatial.convert(net()), **options)(self.stripe()))

    def test_what_is_gathered_may_be_compiled(self):
        import torch
        from ucudnn import spatial
        whole = spatial.gather(spatial.convert(net())(self.stripe()))
        self.assertEqual((1, 4, 16, 16), torch.compile(torch.relu, backend="eager")(whole).shape)


if __name__ == "__main__":
    unittest.main()
