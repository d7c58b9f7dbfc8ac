"""Compares a network with random weights on stripes with the same network on the whole image. The argument names a
function of this file; models_test.py runs it."""
import sys

import torch
from torch import nn

import architectures
import gloo
from comparison import Different, striped_like_whole
from ucudnn import spatial

DEEP = 1e-7  # tolerance for fp64 through about a hundred layers, whose norms divide by small variances


def autoencoder():
    from diffusers import AutoencoderKL
    torch.manual_seed(5)
    return AutoencoderKL(in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(8, 16, 16), norm_num_groups=4,
                         down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3)


def picture(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def vae_decoder():
    model = autoencoder()
    model.encoder = model.quant_conv = None
    striped_like_whole(Decoding(model), picture(1, 4, 8, 8), trust=["Decoding"], tolerance=DEEP)


class Decoding(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model.decode(x).sample


class Encoding(Decoding):
    def forward(self, x):
        return self.model.encode(x).latent_dist.mode()


def vae_encoder():
    model = autoencoder()
    model.decoder = model.post_quant_conv = None
    striped_like_whole(Encoding(model), picture(1, 3, 32, 32), trust=["Encoding"], tolerance=DEEP)


def resnet():
    from torchvision.models import resnet50
    torch.manual_seed(5)
    striped_like_whole(resnet50(num_classes=10, width_per_group=16), picture(1, 3, 256, 256), tolerance=DEEP)


def resnet_at_224():
    """ResNet on 224 rows in two equal stripes is refused. The message names the next size that works."""
    from torchvision.models import resnet50
    torch.manual_seed(5)
    try:
        spatial.convert(resnet50(width_per_group=16))(spatial.shard(picture(1, 3, 224, 224)))
    except spatial.NotSupported as refusal:
        for text in ("extent 7", "layer", "equal stripes is 256"):
            if text not in str(refusal):
                raise
        return
    raise AssertionError("not refused")


def resnet_at_224_in_multiples():
    """multiple=32 makes stripes that all strides divide: 64, 64, 64 and 32 rows on four ranks."""
    from torchvision.models import resnet50
    torch.manual_seed(5)
    striped_like_whole(resnet50(num_classes=10, width_per_group=16), picture(1, 3, 224, 224), multiple=32, tolerance=DEEP)


def frozen_norms_of_one_row():
    """FrozenBatchNorm2d computes its factors from buffers. If stripes have one row, these factors must not be taken for
    rows."""
    from torchvision.ops import FrozenBatchNorm2d
    torch.manual_seed(5)
    norm = FrozenBatchNorm2d(4)
    for buffer in norm.buffers():
        buffer.add_(torch.rand(4))
    striped_like_whole(nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), norm), picture(2, 3, *spatial.ranks().grid.parts[1:]))


def segmenter(name, **options):
    from torchvision.models import segmentation
    torch.manual_seed(5)
    return getattr(segmentation, name)(weights=None, weights_backbone=None, num_classes=3, **options)


def segmentation(name, **options):
    """Compares all outputs of a segmentation model in training, without dropout, including auxiliary outputs."""
    model = segmenter(name, **options)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    striped_like_whole(model, picture(2, 3, 64, 64), call=lambda model, x: torch.cat(list(model(x).values()), 1),
                       tolerance=DEEP)


def segmentation_refused():
    """Dropout in training is refused. Stripes that a stride does not divide are refused as well, and the message names
    the next size that works."""
    for make, rows, texts in ((lambda: segmenter("fcn_resnet50"), 64, ("Dropout", "not equal to one process")),
                              (lambda: segmenter("lraspp_mobilenet_v3_large"), 40, ("extent 5", "equal stripes is 48"))):
        try:
            spatial.convert(make())(spatial.shard(picture(1, 3, rows, 32)))
        except spatial.NotSupported as refusal:
            for text in texts:
                if text not in str(refusal):
                    raise
            continue
        raise AssertionError(f"not refused: {texts}")


def deformable_is_refused():
    from torchvision.ops import deform_conv2d
    x = spatial.shard(picture(1, 4, 16, 16))
    try:
        deform_conv2d(x, spatial.shard(torch.zeros(1, 18, 16, 16)), picture(3, 4, 3, 3), padding=1)
    except spatial.NotSupported as refusal:
        assert "deform_conv2d" in str(refusal) and "spatial.gather" in str(refusal), refusal
        return
    raise AssertionError("not refused")


class Block(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(nn.Conv3d(inputs, outputs, 3, padding=1), nn.BatchNorm3d(outputs), nn.ReLU(inplace=True),
                         nn.Conv3d(outputs, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.LeakyReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.top, self.middle, self.bottom = Block(1, 4), Block(4, 8), Block(8, 8)
        self.pool, self.resize = nn.MaxPool3d(2), nn.Upsample(scale_factor=2, mode="trilinear")
        self.up, self.joined, self.last = nn.ConvTranspose3d(8, 4, 2, 2), Block(16, 8), Block(8, 4)
        self.classes = nn.Conv3d(4, 2, 1)

    def forward(self, x):
        top = self.top(x)
        middle = self.middle(self.pool(top))
        bottom = self.resize(self.bottom(self.pool(middle)))
        y = self.joined(torch.cat([bottom, middle], 1))
        return self.classes(self.last(torch.cat([self.up(y), top], 1)))


def unet():
    torch.manual_seed(5)
    striped_like_whole(UNet(), picture(1, 1, 16, 16, 16), trust=["UNet", "Block"], tolerance=DEEP)


LISTED = {
    "timm": """lcnet_050 mobilenetv3_small_100 ghostnet_100 regnety_002 seresnet18 ecaresnet26t convnext_atto repghostnet_050
               mobilenetv2_035 tinynet_e skresnet18 hardcorenas_a""",
    "torchvision": "shufflenet_v2_x0_5 mnasnet0_5 squeezenet1_1 regnet_x_400mf mobilenet_v2"}


def made(package, name):
    torch.manual_seed(5)
    if package == "timm":
        import timm
        model = timm.create_model(name, pretrained=False, num_classes=10, drop_rate=0.0)
    elif package == "torchvision":
        import torchvision
        model = torchvision.models.get_model(name, weights=None, num_classes=10)
    else:
        model = architectures.MADE[name]()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model.double()


def trained(package):
    """Compares each model of a list in training: on four ranks in equal stripes, and on two ranks in stripes of 64 and 32
    rows."""
    failed = {}
    for name in LISTED[package].split() if package in LISTED else architectures.MADE:
        model = made(package, name)
        try:
            striped_like_whole(model, picture(2, 3, 128 if spatial.ranks().grid.ranks == 4 else 96, 64), multiple=32,
                               trust={type(module) for module in model.modules()}, tolerance=DEEP)
        except (Different, spatial.NotSupported) as error:
            failed[name] = f"{type(error).__name__}: {error}"
    assert not failed, "\n".join(f"{name}: {why}" for name, why in failed.items())


def unknown():
    """A model with classes that are not in ucudnn.spatial.vouched is refused, and the message lists all of them."""
    try:
        spatial.convert(nn.Sequential(UNet(), nn.LSTM(2, 2)))
    except spatial.NotSupported as refusal:
        for name in ("UNet", "Block", "LSTM"):
            if name not in str(refusal):
                raise
        return
    raise AssertionError("not refused")


if __name__ == "__main__":
    gloo.join()
    functions = {f.__name__: f for f in (vae_decoder, vae_encoder, resnet, resnet_at_224, resnet_at_224_in_multiples,
                                         frozen_norms_of_one_row, segmentation_refused, deformable_is_refused, unet, unknown)}
    functions |= {name: lambda name=name: segmentation(name) for name in (
        "deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")}
    functions |= {f"trained_{package}": lambda package=package: trained(package) for package in (*LISTED, "architectures")}
    functions["fcn_resnet50"] = lambda: segmentation("fcn_resnet50", aux_loss=True)
    functions[sys.argv[1]]()
