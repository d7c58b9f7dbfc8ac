"""Tests published models by random plans. They give the results of the plain modules, and every moved element was
predicted."""
import pathlib
import unittest

import gloo

gloo.need("torch")
gloo.need("torchvision")
gloo.need("timm")


class Models(gloo.RanksTest):
    script = str(pathlib.Path(__file__).with_name("parallel_models.py"))

    def compare(self, *models):
        self.on(3, "", "10", *models)

    def test_AlexNet(self):
        self.compare("alexnet")

    def test_VggAndResNet(self):
        self.compare("vgg11", "resnet18")

    def test_DenseNetAndMobileNet(self):
        self.compare("densenet121", "mobilenet_v3_small")

    def test_Inception(self):
        self.compare("inception_v3 without")

    def test_InceptionWithItsSecondHead(self):
        self.compare("inception_v3")

    def test_EfficientNetAndConvNeXt(self):
        self.compare("efficientnet_b0", "convnext")

    def test_ThoseOfTimm(self):
        self.compare("timm convnext", "timm regnet")


if __name__ == "__main__":
    unittest.main()
