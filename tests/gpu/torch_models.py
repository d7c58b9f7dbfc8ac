"""Defines in plain torch.nn the networks that the programs of this folder train, and one network that they only run forward.
ResNets are taken from torchvision if it is installed. Otherwise this file's ResNets are used, which have equal layers and
parameters."""

import torch
from torch import nn

BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}


def normalised(inputs, outputs, window, stride=1, dimensions=2):
    """Returns a convolution and its batch normalisation. The convolution has no bias: before a normalisation, a bias has a
    gradient of 0 but for rounding."""
    convolution, normalisation = ((nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))[dimensions - 2]
    return [convolution(inputs, outputs, window, stride, window // 2, bias=False), normalisation(outputs)]


class ResidualBlock(nn.Module):
    def __init__(self, inputs, filters, stride, bottleneck):
        super().__init__()
        outputs = 4 * filters if bottleneck else filters
        if bottleneck:
            layers = [*normalised(inputs, filters, 1), nn.ReLU(), *normalised(filters, filters, 3, stride), nn.ReLU(),
                      *normalised(filters, outputs, 1)]
        else:
            layers = [*normalised(inputs, filters, 3, stride), nn.ReLU(), *normalised(filters, filters, 3)]
        self.layers = nn.Sequential(*layers)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Sequential(*normalised(inputs, outputs, 1, stride))

    def forward(self, x):
        return torch.relu(self.layers(x) + self.shortcut(x))


class ResNet(nn.Sequential):
    def __init__(self, depth, classes=1000):
        bottleneck, channels = depth >= 50, 64
        layers = [*normalised(3, channels, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        for stage, count in enumerate(BLOCKS[depth]):
            filters = 64 << stage
            for block in range(count):
                layers.append(ResidualBlock(channels, filters, 2 if stage > 0 and block == 0 else 1, bottleneck))
                channels = 4 * filters if bottleneck else filters
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def resnet(depth):
    try:
        import torchvision
    except (ImportError, RuntimeError):  # RuntimeError if torchvision was built for another PyTorch
        return ResNet(depth)
    return getattr(torchvision.models, f"resnet{depth}")()


class AlexNet(nn.Sequential):
    """The variant of AlexNet with one tower (Krizhevsky 2014)."""

    def __init__(self, size=224):
        pooled = ((size + 4 - 11) // 4 + 1 - 3) // 2 + 1
        pooled = ((pooled - 3) // 2 + 1 - 3) // 2 + 1
        super().__init__(
            nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(),
            nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU(), nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(), nn.Dropout(),
            nn.Linear(256 * pooled * pooled, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(),
            nn.Linear(4096, 1000))


class DenseLayer(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.layers = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, growth, 3, 1, 1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.layers(x)], 1)


class DenseNet40(nn.Sequential):
    """A DenseNet for 32 x 32 images with three blocks of twelve layers (Huang et al., 2017). Its growth rate is 40 by
    default."""

    def __init__(self, growth=40):
        channels, layers = 16, [nn.Conv2d(3, 16, 3, 1, 1, bias=False)]
        for block in range(3):
            if block > 0:
                layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 1, bias=False), nn.AvgPool2d(2)]
            for _ in range(12):
                layers.append(DenseLayer(channels, growth))
                channels += growth
        super().__init__(*layers, nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(channels, 10))


class UNet(nn.Module):
    """A U-Net of two or three dimensions. Its sides are halved by strided convolutions and not by pooling, since in three
    dimensions PyTorch adds up the gradient of pooling in a random order."""

    def __init__(self, dimensions, filters, levels, inputs=1, classes=2):
        super().__init__()
        convolution, transposed = ((nn.Conv2d, nn.ConvTranspose2d), (nn.Conv3d, nn.ConvTranspose3d))[dimensions - 2]
        wide = [filters << level for level in range(levels + 1)]

        def twice(inputs, outputs, stride=1):
            return nn.Sequential(*normalised(inputs, outputs, 3, stride, dimensions), nn.ReLU(),
                                 *normalised(outputs, outputs, 3, 1, dimensions), nn.ReLU())

        self.top = twice(inputs, filters)
        self.down = nn.ModuleList(twice(wide[i], wide[i + 1], 2) for i in range(levels))
        self.up = nn.ModuleList(transposed(wide[i + 1], wide[i], 2, 2) for i in reversed(range(levels)))
        self.joined = nn.ModuleList(twice(2 * wide[i], wide[i]) for i in reversed(range(levels)))
        self.classes = convolution(filters, classes, 1)

    def forward(self, x):
        skips = [self.top(x)]
        for down in self.down:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for up, joined in zip(self.up, self.joined):
            x = joined(torch.cat([up(x), skips.pop()], 1))
        return self.classes(x)


class PlainBlock(nn.Module):
    """A residual block of decoders, with group normalisation before each convolution."""

    def __init__(self, inputs, outputs, groups):
        super().__init__()
        self.body = nn.Sequential(nn.GroupNorm(groups, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1),
                                  nn.GroupNorm(groups, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


def decoder(widths, groups):
    """Returns the decoder of AutoencoderKL without its attention. It turns latents of 4 channels into an image. For each width
    after the first, the image's sides grow by a factor of 2."""
    layers, inputs = [nn.Conv2d(4, widths[0], 3, padding=1), PlainBlock(widths[0], widths[0], groups),
                      PlainBlock(widths[0], widths[0], groups)], widths[0]
    for level, outputs in enumerate(widths):
        if level:
            layers += [nn.Upsample(scale_factor=2), nn.Conv2d(inputs, inputs, 3, padding=1)]
        layers += [PlainBlock(inputs if at == 0 else outputs, outputs, groups) for at in range(3)]
        inputs = outputs
    return nn.Sequential(*layers, nn.GroupNorm(groups, inputs), nn.SiLU(), nn.Conv2d(inputs, 3, 3, padding=1))


class Network:
    """Makes a network, and the images and targets on which it trains. Without `trains` it runs forward only."""

    def __init__(self, make, image, classes=None, dimensions=2, trains=True):
        self.make, self.image, self.classes, self.dimensions, self.trains = make, image, classes, dimensions, trains

    def batch(self, n):
        """Returns images and labels. If there are no classes, returns a mask in place of the labels. All tensors are made on
        the CPU, so that all devices get equal ones."""
        generator = torch.Generator().manual_seed(n)
        images = torch.randn((n, *self.image), generator=generator)
        if self.classes:
            return images, torch.randint(0, self.classes, (n,), generator=generator)
        return images, (torch.rand((n, 2, *self.image[1:]), generator=generator) < 0.5).float()

    def loss(self, outputs, targets):
        outputs = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        if self.classes:
            return nn.functional.cross_entropy(outputs, targets)
        return nn.functional.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype))

    def layout(self, last):
        """Returns the memory format: channels last if `last`, otherwise PyTorch's default."""
        return ((torch.channels_last, torch.channels_last_3d)[self.dimensions - 2] if last else torch.contiguous_format)


def networks(small):
    """Returns the networks by name. With `small` they have sizes that a CPU can run."""
    side = 32 if small else 224
    return {
        "alexnet": Network(lambda: AlexNet(64 if small else 224), (3, 64, 64) if small else (3, 224, 224), 1000),
        "resnet18": Network(lambda: resnet(18), (3, side, side), 1000),
        "resnet50": Network(lambda: resnet(50), (3, side, side), 1000),
        "densenet40": Network(lambda: DenseNet40(4 if small else 40), (3, 8, 8) if small else (3, 32, 32), 10),
        "unet": Network(lambda: UNet(2, 4, 2, 3) if small else UNet(2, 64, 4, 3), (3, 16, 16) if small else (3, 256, 256)),
        "unet3d": Network(lambda: UNet(3, 4, 2) if small else UNet(3, 32, 3), (1, 8, 8, 8) if small else (1, 48, 48, 48),
                          dimensions=3),
        # The latent of 128 x 128 becomes an image of 1024 x 1024.
        "vae": Network(lambda: decoder((8, 8, 8, 4), 2) if small else decoder((512, 512, 256, 128), 32),
                       (4, 4, 4) if small else (4, 128, 128), trains=False),
    }
