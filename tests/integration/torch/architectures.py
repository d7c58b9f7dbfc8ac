"""Small models of published architectures, most of which are in no installed package. models.py compares them on
stripes with the whole image."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm


class DenseBlock(nn.Module):
    """ESRGAN's residual dense block (Wang et al., 2018)."""

    def __init__(self, channels=8, growth=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(channels + i * growth, growth if i < 4 else channels, 3, 1, 1) for i in range(5))

    def forward(self, x):
        found = [x]
        for layer in self.layers[:-1]:
            found.append(F.leaky_relu(layer(torch.cat(found, 1)), 0.2))
        return x + 0.2 * self.layers[-1](torch.cat(found, 1))


def rrdb():
    """Returns ESRGAN's generator, which enlarges pictures by pixel shuffles."""
    grow = [nn.Conv2d(8, 32, 3, 1, 1), nn.PixelShuffle(2), nn.LeakyReLU(0.2)]
    return nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), DenseBlock(), DenseBlock(), *grow, nn.Conv2d(8, 3, 3, 1, 1))


class Residual(nn.Module):
    """CycleGAN's residual block (Zhu et al., 2017)."""

    def __init__(self, channels):
        super().__init__()
        layer = lambda: (nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3), nn.InstanceNorm2d(channels))
        self.body = nn.Sequential(*layer(), nn.ReLU(), *layer())

    def forward(self, x):
        return x + self.body(x)


def cycle_gan():
    down = [nn.Conv2d(4, 8, 3, 2, 1), nn.InstanceNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.InstanceNorm2d(16), nn.ReLU()]
    up = [nn.ConvTranspose2d(16, 8, 3, 2, 1, 1), nn.InstanceNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 4, 3, 2, 1, 1), nn.ReLU()]
    return nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(3, 4, 7), nn.ReLU(), *down, Residual(16), Residual(16), *up,
                         nn.ReflectionPad2d(3), nn.Conv2d(4, 3, 7), nn.Tanh())


def patch_gan():
    """Returns pix2pix's PatchGAN discriminator (Isola et al., 2017), with spectral norms."""
    layer = lambda a, b, stride: (spectral_norm(nn.Conv2d(a, b, 4, stride, 1)), nn.LeakyReLU(0.2))
    return nn.Sequential(*layer(3, 8, 2), *layer(8, 16, 2), *layer(16, 16, 2), *layer(16, 16, 1), nn.Conv2d(16, 1, 4, 1, 1))


class Skip(nn.Module):
    """A level of pix2pix's U-Net: 4 x 4 convolutions with stride 2, down and up, around the inner level `body`."""

    def __init__(self, outer, inner, body=None):
        super().__init__()
        down = [nn.LeakyReLU(0.2), nn.Conv2d(outer, inner, 4, 2, 1), nn.BatchNorm2d(inner)]
        up = [nn.ReLU(), nn.ConvTranspose2d(inner * (2 if body else 1), outer, 4, 2, 1), nn.BatchNorm2d(outer)]
        self.body = nn.Sequential(*down, *([body] if body else []), *up)

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def pix2pix():
    return nn.Sequential(nn.Conv2d(3, 4, 4, 2, 1), Skip(4, 8, Skip(8, 8, Skip(8, 8))), nn.ReLU(),
                         nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NafBlock(nn.Module):
    """NAFNet's block (Chen et al., 2022): gates instead of activations, and attention over channels."""

    def __init__(self, c):
        super().__init__()
        self.first, self.second = ChannelNorm(c), ChannelNorm(c)
        self.wide, self.deep, self.out = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(2 * c, 2 * c, 3, 1, 1, groups=2 * c), nn.Conv2d(c, c, 1)
        self.attention = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c, 1))
        self.grow, self.shrink = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(c, c, 1)
        self.beta, self.gamma = (nn.Parameter(torch.rand(1, c, 1, 1)) for _ in range(2))

    def forward(self, x):
        a, b = self.deep(self.wide(self.first(x))).chunk(2, 1)
        gated = a * b
        y = x + self.out(gated * self.attention(gated)) * self.beta
        a, b = self.grow(self.second(y)).chunk(2, 1)
        return y + self.shrink(a * b) * self.gamma


class NafNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.intro, self.ending = nn.Conv2d(3, 4, 3, 1, 1), nn.Conv2d(4, 3, 3, 1, 1)
        self.outer, self.inner, self.last = NafBlock(4), NafBlock(8), NafBlock(4)
        self.down, self.up = nn.Conv2d(4, 8, 2, 2), nn.Sequential(nn.Conv2d(8, 16, 1, bias=False), nn.PixelShuffle(2))

    def forward(self, x):
        top = self.outer(self.intro(x))
        return x + self.ending(self.last(top + self.up(self.inner(self.down(top)))))


class BlurPool(nn.Module):
    """Anti-aliased downsampling (Zhang, 2019)."""

    def __init__(self, channels):
        super().__init__()
        row = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8
        self.register_buffer("kernel", (row[:, None] * row).expand(channels, 1, 4, 4).clone())

    def forward(self, x):
        return F.conv2d(F.pad(x, (1, 2, 1, 2), mode="reflect"), self.kernel, stride=2, groups=x.shape[1])


def blurred():
    return nn.Sequential(nn.Conv2d(3, 6, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2, 1), BlurPool(6), nn.Conv2d(6, 6, 3, 1, 1), BlurPool(6))


class CroppedUNet(nn.Module):
    """A U-Net without padding (Ronneberger et al., 2015): skip connections are cropped to the size of the tensors that
    they join."""

    def __init__(self):
        super().__init__()
        twice = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3), nn.ReLU(), nn.Conv2d(b, b, 3), nn.ReLU())
        self.top, self.bottom, self.joined = twice(3, 4), twice(4, 8), twice(8, 4)
        self.pool, self.up, self.classes = nn.MaxPool2d(2), nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        top = self.top(x)
        y = self.up(self.bottom(self.pool(top)))
        rows, columns = ((a - b) // 2 for a, b in zip(top.shape[2:], y.shape[2:]))
        return self.classes(self.joined(torch.cat([top[:, :, rows:-rows, columns:-columns], y], 1)))


def adaptive_head():
    return nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d((3, 5)), nn.Flatten(), nn.Linear(90, 7))


def vgg11_bn():
    """Returns torchvision's VGG-11 with batch norms and a single linear layer as classifier."""
    from torchvision.models import vgg
    model = vgg.VGG(vgg.make_layers(vgg.cfgs["A"], batch_norm=True), num_classes=10)
    model.classifier = nn.Linear(512 * 49, 10)
    return model


MADE = {make.__name__: make for make in (rrdb, cycle_gan, patch_gan, pix2pix, NafNet, blurred, CroppedUNet, adaptive_head, vgg11_bn)}
