"""Compares networks on two and four ranks with the same networks on the whole image, forward and backward. Skips
networks whose package is not installed."""
import importlib.util
import pathlib
import sys
import unittest

import gloo

MODELS = pathlib.Path(__file__).resolve().parent / "models.py"
GRIDS = (2, "h2"), (4, "h4"), (4, "h2w2")


def setUpModule():
    gloo.need("torch")


class Known(unittest.TestCase):
    def test_every_class_of_others_that_is_vouched_for_is_where_it_is_said(self):
        sys.path.insert(0, str(gloo.ROOT / "python"))
        from ucudnn.spatial import vouched
        for home, names in vouched._OTHERS.items():
            if importlib.util.find_spec(home.partition(".")[0]):
                for name in names.split():
                    self.assertEqual(home, getattr(importlib.import_module(home), name).__module__)


class Models(unittest.TestCase):
    def on(self, count, grid, model, package="torch"):
        if not importlib.util.find_spec(package):
            self.skipTest(f"there is no {package}")
        for rank, (code, output) in enumerate(gloo.start(MODELS, count, grid, model)):
            self.assertEqual(0, code, f"rank {rank} of {grid}:\n{output}")

    def test_vae_decoder(self):
        for count, grid in GRIDS:
            self.on(count, grid, "vae_decoder", "diffusers")

    def test_vae_encoder(self):
        for count, grid in GRIDS:
            self.on(count, grid, "vae_encoder", "diffusers")

    def test_resnet_50_at_256(self):
        for count in (2, 4):
            self.on(count, f"h{count}", "resnet", "torchvision")

    def test_resnet_50_at_224_is_refused_and_256_is_named(self):
        for count in (2, 4):
            self.on(count, f"h{count}", "resnet_at_224", "torchvision")

    def test_resnet_50_at_224_in_stripes_of_multiples(self):
        self.on(4, "h4", "resnet_at_224_in_multiples", "torchvision")

    def test_frozen_norms_of_one_row(self):
        for count, grid in GRIDS:
            self.on(count, grid, "frozen_norms_of_one_row", "torchvision")

    def test_deeplab(self):
        for count, grid in GRIDS:
            self.on(count, grid, "deeplabv3_resnet50", "torchvision")

    def test_deeplab_of_mobile_net(self):
        for count in (2, 4):
            self.on(count, f"h{count}", "deeplabv3_mobilenet_v3_large", "torchvision")

    def test_fully_convolutional_network(self):
        for count in (2, 4):
            self.on(count, f"h{count}", "fcn_resnet50", "torchvision")

    def test_lraspp(self):
        for count in (2, 4):
            self.on(count, f"h{count}", "lraspp_mobilenet_v3_large", "torchvision")

    def test_segmentation_is_refused_with_dropout_and_where_a_stride_leaves_a_rest(self):
        self.on(2, "h2", "segmentation_refused", "torchvision")

    def test_listed_models_in_training(self):
        """The models in the table of docs/spatial.md, on 2 x 2 parts and on unequal stripes."""
        for package, needed in (("architectures", "torchvision"), ("torchvision", "torchvision"), ("timm", "timm")):
            for count, grid in ((4, "h2w2"), (2, "h2")):
                with self.subTest(package=package, grid=grid):
                    self.on(count, grid, f"trained_{package}", needed)

    def test_deformable_convolution_is_refused(self):
        self.on(2, "h2", "deformable_is_refused", "torchvision")

    def test_volumetric_u_net(self):
        for count, grid in ((2, "d2"), (4, "h4"), (4, "d2h2")):
            self.on(count, grid, "unet")

    def test_model_with_unknown_modules_is_refused(self):
        self.on(2, "h2", "unknown")


if __name__ == "__main__":
    unittest.main()
